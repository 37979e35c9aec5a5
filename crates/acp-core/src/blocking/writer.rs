//! The agent's input, and the thread that waits for it where nobody else does.

use std::io::{self, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex};

use super::pipe::{self, Stopped};
use crate::driver::{Flushed, Outbox, Pushed, TryWrite};
use crate::sync::{lock, wait};

#[derive(Debug)]
pub(super) struct Writer {
    outbox: Mutex<Outbox<Pipe>>,
    changed: Condvar,
}

/// The end of the pipe, which the thread holds while it waits for it.
#[derive(Debug, Clone)]
struct Pipe(Arc<ChildStdin>);

impl TryWrite for Pipe {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }
}

impl Writer {
    pub(super) fn new(stdin: ChildStdin) -> io::Result<Self> {
        let stdin = pipe::set_nonblocking(stdin)?;
        Ok(Self {
            outbox: Mutex::new(Outbox::new(Pipe(Arc::new(stdin)))),
            changed: Condvar::new(),
        })
    }

    /// Adds whole lines; after the end they are dropped. `order` is given up once they have their place.
    pub(super) fn push(
        &self,
        lines: impl IntoIterator<Item = Vec<u8>>,
        order: impl Sized,
    ) -> Pushed {
        let mut outbox = lock(&self.outbox);
        drop(order);
        let pushed = outbox.push_all(lines);
        drop(outbox);
        if pushed != Pushed::Done {
            self.changed.notify_one();
        }
        pushed
    }

    /// Ends the agent's input when what waits is written.
    pub(super) fn close(&self) {
        lock(&self.outbox).close();
        self.changed.notify_one();
    }

    /// Ends the agent's input now, where nobody runs the writer.
    pub(super) fn abandon(&self) {
        lock(&self.outbox).abandon();
    }

    /// Writes what waits, until the end. False if the agent reads no more.
    pub(super) fn run(&self, stopped: &Stopped) -> bool {
        let mut outbox = lock(&self.outbox);
        loop {
            match outbox.flush() {
                Flushed::Idle => outbox = wait(&self.changed, outbox),
                Flushed::Ended => return true,
                Flushed::Broken => return false,
                Flushed::Full => {
                    let pipe = outbox.pipe().cloned();
                    drop(outbox);
                    let ready = pipe.is_some_and(|pipe| pipe::wait_writable(&*pipe.0, stopped));
                    outbox = lock(&self.outbox);
                    if !ready {
                        outbox.abandon();
                        return true;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests need processes and threads of their own"
)]
mod tests {
    use super::super::pipe::stop_pipe;
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::thread;

    #[test]
    fn a_line_larger_than_the_pipe_arrives_whole() {
        let mut cat = Command::new("cat");
        let cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cat = cat.spawn().unwrap();
        let writer = Writer::new(cat.stdin.take().unwrap()).unwrap();
        let (_stop, stopped) = stop_pipe().unwrap();
        let mut sent: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let mut got = Vec::new();
        thread::scope(|scope| {
            let running = scope.spawn(|| writer.run(&stopped));
            assert_eq!(writer.push(vec![sent.clone()], ()), Pushed::Waits);
            writer.push(vec![b"end\n".to_vec()], ());
            writer.close();
            cat.stdout.take().unwrap().read_to_end(&mut got).unwrap();
            assert!(running.join().unwrap());
        });
        sent.extend_from_slice(b"end\n");
        assert_eq!(got.len(), sent.len());
        assert!(got == sent, "in order");
        cat.wait().unwrap();
    }

    #[test]
    fn a_write_that_nobody_reads_can_be_stopped() {
        let mut sleep = Command::new("sleep");
        let mut sleep = sleep.arg("100").stdin(Stdio::piped()).spawn().unwrap();
        let writer = Writer::new(sleep.stdin.take().unwrap()).unwrap();
        let (stop, stopped) = stop_pipe().unwrap();
        thread::scope(|scope| {
            let running = scope.spawn(|| writer.run(&stopped));
            assert_eq!(writer.push(vec![vec![b'x'; 1 << 20]], ()), Pushed::Waits);
            drop(stop);
            assert!(running.join().unwrap());
        });
        sleep.kill().unwrap();
        sleep.wait().unwrap();
    }

    #[test]
    fn an_agent_that_is_gone_is_noticed() {
        let mut gone = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let writer = Writer::new(gone.stdin.take().unwrap()).unwrap();
        gone.wait().unwrap();
        let (_stop, stopped) = stop_pipe().unwrap();
        assert_eq!(writer.push(vec![b"x".to_vec()], ()), Pushed::Waits);
        assert!(!writer.run(&stopped));
    }
}
