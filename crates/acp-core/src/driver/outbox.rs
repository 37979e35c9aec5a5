//! The lines to the agent.
//!
//! Whoever has something to say writes it at once, as far as the pipe takes it; in most turns that is all of
//! it, and no other thread or task has to be woken. What the pipe does not take is left for the writer, who
//! alone waits. The order is that of the calls, and a line is never cut by another.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

/// Lines that may wait for the agent to read. What hosts have to say is bounded by what they wait for; this
/// bounds the answers to an agent that asks without reading.
const MAX_LINES: usize = 64 * 1024;

/// An end of a pipe that never waits.
pub(crate) trait TryWrite {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

#[derive(Debug)]
pub(crate) struct Outbox<P> {
    /// The agent's input ends with it.
    pipe: Option<P>,
    lines: VecDeque<Vec<u8>>,
    /// How much of the first line was written.
    written: usize,
    closed: bool,
    broken: bool,
}

/// What became of a line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pushed {
    /// It is on its way, or nobody will read it any more.
    Done,
    /// The writer has something to do.
    Waits,
    /// So much waits as no well-behaved agent lets it become.
    Flood,
}

/// Why writing has stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing is left to write.
    Idle,
    /// The pipe is full.
    Full,
    /// Nothing comes any more, and the agent's input has ended.
    Ended,
    /// The agent reads no more.
    Broken,
}

impl<P: TryWrite> Outbox<P> {
    pub(crate) fn new(pipe: P) -> Self {
        Self {
            pipe: Some(pipe),
            lines: VecDeque::new(),
            written: 0,
            closed: false,
            broken: false,
        }
    }

    /// Writes a whole line, or what of it the pipe takes; after the end it is dropped.
    pub(crate) fn push(&mut self, line: Vec<u8>) -> Pushed {
        if self.closed || self.broken {
            return Pushed::Done;
        }
        let is_first = self.lines.is_empty();
        self.lines.push_back(line);
        if is_first && self.flush() == Flushed::Idle {
            Pushed::Done
        } else if self.lines.len() > MAX_LINES {
            Pushed::Flood
        } else {
            Pushed::Waits
        }
    }

    /// Writes several lines, and tells the worst that became of one.
    pub(crate) fn push_all(&mut self, lines: impl IntoIterator<Item = Vec<u8>>) -> Pushed {
        let pushed = lines.into_iter().map(|line| self.push(line)).max();
        pushed.unwrap_or(Pushed::Done)
    }

    /// Writes what the pipe takes.
    pub(crate) fn flush(&mut self) -> Flushed {
        if self.broken {
            return Flushed::Broken;
        }
        while let (Some(line), Some(pipe)) = (self.lines.front(), &mut self.pipe) {
            let rest = &line[self.written..];
            if rest.is_empty() {
                self.lines.pop_front();
                self.written = 0;
                continue;
            }
            match pipe.try_write(rest) {
                Ok(written @ 1..) => self.written += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Flushed::Full,
                Ok(0) | Err(_) => {
                    self.broken = true;
                    self.drop_all();
                    return Flushed::Broken;
                }
            }
        }
        if self.closed {
            self.pipe = None;
            Flushed::Ended
        } else {
            Flushed::Idle
        }
    }

    /// Ends the queue. Lines in it are still written, as far as the pipe takes them.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.flush();
    }

    /// Ends the agent's input now.
    pub(crate) fn abandon(&mut self) {
        self.closed = true;
        self.drop_all();
    }

    /// The pipe, while the agent has an input.
    pub(crate) fn pipe(&self) -> Option<&P> {
        self.pipe.as_ref()
    }

    fn drop_all(&mut self) {
        self.lines.clear();
        self.written = 0;
        self.pipe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes at a time, and then nothing for one time.
    struct Narrow {
        step: usize,
        full: bool,
        got: Vec<u8>,
    }

    impl TryWrite for Narrow {
        fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.full = !self.full;
            if !self.full {
                return Err(ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(self.step);
            self.got.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }
    }

    fn narrow(step: usize) -> Outbox<Narrow> {
        Outbox::new(Narrow {
            step,
            full: false,
            got: Vec::new(),
        })
    }

    #[test]
    fn what_the_pipe_does_not_take_waits_in_order() {
        let mut outbox = narrow(4);
        assert_eq!(outbox.push(b"one\n".to_vec()), Pushed::Done);
        let rest = vec![b"two\n".to_vec(), b"three\n".to_vec()];
        assert_eq!(outbox.push_all(rest), Pushed::Waits);
        let mut full = 0;
        while outbox.flush() == Flushed::Full {
            full += 1;
        }
        assert!(full > 0);
        assert_eq!(outbox.pipe().unwrap().got, b"one\ntwo\nthree\n");
    }

    #[test]
    fn an_end_lets_out_what_waits() {
        let mut outbox = narrow(2);
        outbox.push(b"one\n".to_vec());
        outbox.close();
        assert_eq!(outbox.push(b"late\n".to_vec()), Pushed::Done);
        while outbox.flush() == Flushed::Full {
            assert!(outbox.pipe().is_some());
        }
        assert!(outbox.pipe().is_none());
        assert_eq!(outbox.flush(), Flushed::Ended);

        let mut outbox = narrow(2);
        outbox.push(b"one\n".to_vec());
        outbox.abandon();
        assert_eq!(outbox.flush(), Flushed::Ended);
    }

    #[test]
    fn an_agent_that_reads_no_more_is_noticed_once_and_for_all() {
        struct Broken;
        impl TryWrite for Broken {
            fn try_write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
        }
        let mut outbox = Outbox::new(Broken);
        assert_eq!(outbox.push(b"one\n".to_vec()), Pushed::Waits);
        assert_eq!(outbox.flush(), Flushed::Broken);
        assert_eq!(outbox.push(b"two\n".to_vec()), Pushed::Done);
    }

    #[test]
    fn a_flood_is_told_from_a_queue() {
        struct Full;
        impl TryWrite for Full {
            fn try_write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::WouldBlock.into())
            }
        }
        let mut outbox = Outbox::new(Full);
        for _ in 0..MAX_LINES {
            assert_eq!(outbox.push(vec![b'\n']), Pushed::Waits);
        }
        assert_eq!(outbox.push(vec![b'\n']), Pushed::Flood);
    }
}
