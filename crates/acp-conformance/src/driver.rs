//! The harness's end of the driver protocol: one driver process in a process group of its own.

use std::{
    collections::HashSet,
    io::{self, BufReader, Write},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, Sender},
    thread,
    time::Instant,
};

use serde_json::Value;

use crate::{
    lines::{self, Next},
    port::Port,
    protocol::{self, Answer, AnswerError},
    started::Group,
    tail::Tail,
    verdict::Verdict,
};

/// The longest line a driver may write. Answers hold text that transcripts send, which is at most a
/// few MiB; a driver that writes without end must not take the harness with it.
pub(crate) const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// A running driver. It is killed with its process group when this is dropped.
pub struct Driver {
    group: Group,
    requests: Sender<Vec<u8>>,
    last_seq: u64,
    unanswered: HashSet<u64>,
    lines: u64,
    stderr: Tail,
}

/// What a driver did.
#[derive(Debug)]
pub enum DriverEvent {
    /// It wrote a line, here without the newline. [`Driver::settle`] reads it.
    Line(Vec<u8>),
    /// It wrote a line that is longer than any driver's. Nothing follows.
    TooLong,
    /// It closed its standard output, as it does when it ends. Nothing follows.
    Ended,
}

impl Driver {
    /// Starts the port's driver. Everything it does is handed to `on_event`, in order, on a thread
    /// of its own.
    pub fn spawn(
        port: &Port,
        mut on_event: impl FnMut(DriverEvent) + Send + 'static,
    ) -> io::Result<Driver> {
        let (program, args) = port
            .command
            .split_first()
            .ok_or_else(|| io::Error::other("the command is empty"))?;
        let mut command = Command::new(program);
        command
            .args(args)
            .envs(&port.env)
            .current_dir(&port.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = Group::spawn(command)?;

        let no_pipe = || io::Error::other("a standard stream is not piped");
        let child = group.child();
        let mut stdin = child.stdin().take().ok_or_else(no_pipe)?;
        let stdout = child.stdout().take().ok_or_else(no_pipe)?;
        let stderr = child.stderr().take().ok_or_else(no_pipe)?;

        // Requests go through a thread, as a driver that stops reading must not stop the harness's
        // clock. It ends when the driver is dropped, or when the pipe breaks, which the driver's end
        // tells.
        let (requests, queue) = mpsc::channel::<Vec<u8>>();
        named("driver-stdin", move || {
            while let Ok(line) = queue.recv() {
                if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
                    break;
                }
            }
        })?;
        named("driver-stdout", move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                match lines::next(&mut stdout, LONGEST_LINE) {
                    Next::Line(line) => on_event(DriverEvent::Line(line)),
                    Next::TooLong => return on_event(DriverEvent::TooLong),
                    Next::End => return on_event(DriverEvent::Ended),
                }
            }
        })?;
        let tail = Tail::default();
        let kept = tail.clone();
        named("driver-stderr", move || kept.keep(stderr))?;

        Ok(Driver {
            group,
            requests,
            last_seq: 0,
            unanswered: HashSet::new(),
            lines: 0,
            stderr: tail,
        })
    }

    /// Sends a request and returns its `seq`. A driver that is gone tells so with
    /// [`DriverEvent::Ended`].
    pub fn request(&mut self, op: &str, args: &Value) -> u64 {
        self.last_seq += 1;
        self.unanswered.insert(self.last_seq);
        // The queue is closed only once the pipe broke; see above.
        let _ = self
            .requests
            .send(protocol::request_line(self.last_seq, op, args));
        self.last_seq
    }

    /// Reads an answer, which must be the first to a request that was sent. Otherwise the driver is at fault, or the
    /// port that it drives.
    pub fn settle(&mut self, line: &[u8]) -> Result<Answer, Verdict> {
        self.lines += 1;
        let shown = || excerpt(line, 0);
        let answer = Answer::parse(line).map_err(|error| match error {
            AnswerError::NotUtf8(at) => Verdict::Broken(format!(
                "the driver wrote {error}, line {} of its output: {}",
                self.lines,
                excerpt(line, at)
            )),
            AnswerError::HalfCharacter => {
                Verdict::Fail(format!("the client returned {error}: {}", shown()))
            }
            _ => Verdict::Broken(format!("the driver wrote {error}: {}", shown())),
        })?;
        if self.unanswered.remove(&answer.seq) {
            return Ok(answer);
        }
        let what = if answer.seq <= self.last_seq && answer.seq > 0 {
            "twice"
        } else {
            "what was not asked"
        };
        let why = format!("the driver answered {what}: {}", shown());
        Err(Verdict::Broken(why))
    }

    /// The requests that have no answer yet.
    pub fn unanswered(&self) -> impl Iterator<Item = u64> {
        self.unanswered.iter().copied()
    }

    /// Waits for the driver to end, at most until `deadline`.
    pub fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        self.group.wait_until(deadline)
    }

    /// Kills the driver's process group and waits for the driver.
    pub fn kill(&mut self) -> io::Result<()> {
        self.group.kill()
    }

    /// The end of what the driver wrote to standard error so far.
    pub fn stderr_tail(&self) -> String {
        self.stderr.text()
    }
}

/// At most 200 characters of a line, with the byte `at` among them; what is not UTF-8 is shown as U+FFFD.
fn excerpt(line: &[u8], at: usize) -> String {
    let before = String::from_utf8_lossy(&line[..at]);
    let after = String::from_utf8_lossy(&line[at..]);
    let skipped = before.chars().count().saturating_sub(100);
    let text = before.chars().chain(after.chars()).skip(skipped);
    text.take(200).collect()
}

/// Starts a thread with a name.
pub(crate) fn named(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_shows_what_it_is_about() {
        assert_eq!(excerpt(b"half \xc3 of one", 5), "half \u{fffd} of one");
        let mut line = "é".repeat(1000).into_bytes();
        let at = line.len();
        line.extend(b"\xe2\x82");
        assert_eq!(excerpt(&line, at), "é".repeat(100) + "\u{fffd}");
        assert_eq!(excerpt(&line, 0), "é".repeat(200));
    }
}
