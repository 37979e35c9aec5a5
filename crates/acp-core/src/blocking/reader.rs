//! Reading what the agent says, and keeping the engine's time meanwhile.

use std::io::{self, ErrorKind, Read};
use std::process::{ChildStderr, ChildStdout};
use std::sync::Arc;
use std::time::Instant;

use super::caller::Caller;
use super::pipe::{self, Bell, Stopped, Woken};
use super::seat::Reading;
use super::{Shared, ThreadBody};
use crate::driver::{Driven, EXIT_WAIT, READ_BUFFER, STDERR_BUFFER, STDERR_WAIT};
use crate::sync::{lock, wait_until};

/// Reads in a row that may be needed to empty a pipe, where the agent goes on writing meanwhile.
const MAX_READS: usize = 16;

/// What is read, and what wakes who reads.
#[derive(Debug)]
pub(super) struct Pipes {
    stdout: ChildStdout,
    /// Until it has ended.
    stderr: Option<ChildStderr>,
    bell: Bell,
    buffer: Vec<u8>,
    /// When something was last read, or the wait for it began.
    now: Instant,
}

/// What came of one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Went,
    /// A turn has ended, or it has turned out what becomes of a lane.
    Settled,
    /// Standard output has ended.
    Ended,
    Stopped,
}

impl Pipes {
    /// Reading what is not there does not wait from then on.
    pub(super) fn new(
        stdout: ChildStdout,
        stderr: ChildStderr,
        bell: Bell,
    ) -> io::Result<Box<Self>> {
        Ok(Box::new(Self {
            stdout: pipe::set_nonblocking(stdout)?,
            stderr: Some(stderr),
            bell,
            buffer: vec![0; READ_BUFFER],
            now: Instant::now(),
        }))
    }

    /// Reads what is there of standard output; nothing where there is nothing.
    fn read(&mut self) -> Option<usize> {
        match self.stdout.read(&mut self.buffer) {
            Ok(len @ 1..) => Some(len),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Some(0)
            }
            // An error of read(2) on a pipe is as final as its end.
            Ok(0) | Err(_) => None,
        }
    }
}

impl Shared {
    /// What the reader's thread does.
    pub(super) fn read(self: &Arc<Self>, pipes: Box<Pipes>) {
        let Pipes { stderr, bell, .. } = *self.read_to_end(pipes);
        self.alarm.mute();
        if let Some(stderr) = stderr {
            self.start_stderr(stderr, bell.into());
        }
        self.output_ended();
    }

    /// Reads until the end of standard output. What is left of standard error is to be read then.
    fn read_to_end(self: &Arc<Self>, mut pipes: Box<Pipes>) -> Box<Pipes> {
        loop {
            match self.step(&mut pipes, None) {
                Step::Went => {}
                Step::Settled => {
                    let core = lock(&self.core);
                    if core.connection.is_open() && !core.is_awaited() {
                        pipes = self.seat.rest(pipes, core);
                        pipes.now = Instant::now();
                    }
                }
                Step::Ended => return pipes,
                Step::Stopped => {
                    // Whatever holds the pipe open, what the agent itself has said is there.
                    self.read_rest(&mut pipes);
                    pipes.stderr = None;
                    self.stderr_ended();
                    return pipes;
                }
            }
        }
    }

    /// Waits until there is something to read or to do, and does it. `caller` is who reads, if it is not the thread.
    pub(super) fn step(self: &Arc<Self>, pipes: &mut Pipes, caller: Option<&Caller>) -> Step {
        let left = self.alarm.left(pipes.now);
        let woken = if left.is_some_and(|left| left.is_zero()) {
            None
        } else {
            Some(pipe::wait_readable(
                &pipes.stdout,
                pipes.stderr.as_ref(),
                &pipes.bell,
                left,
            ))
        };
        if let Some(caller) = caller {
            caller.has_read();
        }
        let (output, errors) = match woken {
            None => {
                let mut core = lock(&self.core);
                core.handle_timeout(pipes.now);
                return if self.pump(core) {
                    Step::Settled
                } else {
                    Step::Went
                };
            }
            Some(Ok(Woken::Readable { first, second })) => (first, second),
            Some(Ok(Woken::Bell)) => {
                self.alarm.heard(&pipes.bell);
                (false, false)
            }
            Some(Ok(Woken::Nothing)) => (false, false),
            Some(Ok(Woken::Stopped)) => return Step::Stopped,
            // An error of poll(2) on a pipe is as final as its end.
            Some(Err(_)) => return Step::Ended,
        };
        if errors
            && let Some(stderr) = &mut pipes.stderr
            && !self.read_stderr(stderr, &mut pipes.buffer[..STDERR_BUFFER])
        {
            pipes.stderr = None;
        }
        let read = if output { pipes.read() } else { Some(0) };
        pipes.now = Instant::now();
        match read {
            None => Step::Ended,
            Some(0) => Step::Went,
            Some(len) => self.take(pipes, len),
        }
    }

    /// Lets the caller read, if nobody does.
    pub(super) fn take_seat(&self) -> Option<Reading<'_, Box<Pipes>>> {
        let mut reading = self.seat.take()?;
        reading.pipes()?.now = Instant::now();
        Some(reading)
    }

    /// Reads what the agent has said before now, which is no part of what is asked of it next. The reader sees to
    /// that itself, unless it rests.
    pub(super) fn catch_up(self: &Arc<Self>) {
        let Some(mut reading) = self.seat.take() else {
            return;
        };
        let goes_on = reading.pipes().is_some_and(|pipes| self.read_rest(pipes));
        drop(reading);
        if !goes_on {
            self.seat.rouse();
        }
    }

    /// Reads what is there. False where it ended.
    fn read_rest(self: &Arc<Self>, pipes: &mut Pipes) -> bool {
        for _ in 0..MAX_READS {
            match pipes.read() {
                None => return false,
                Some(0) => break,
                Some(len) => {
                    pipes.now = Instant::now();
                    self.take(pipes, len);
                }
            }
        }
        true
    }

    /// Brings to the engine what was read.
    fn take(self: &Arc<Self>, pipes: &Pipes, len: usize) -> Step {
        let mut core = lock(&self.core);
        core.connection
            .handle_bytes(&pipes.buffer[..len], pipes.now);
        if self.pump(core) {
            Step::Settled
        } else {
            Step::Went
        }
    }

    /// Reads what is there of standard error. False at its end.
    fn read_stderr(&self, stderr: &mut ChildStderr, buffer: &mut [u8]) -> bool {
        match stderr.read(buffer) {
            Ok(len @ 1..) => lock(&self.core).connection.handle_stderr(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                self.stderr_ended();
                return false;
            }
        }
        true
    }

    fn stderr_ended(&self) {
        lock(&self.core).stderr_ended = true;
        self.changed.notify_all();
    }

    /// Starts the thread that drains what is left of standard error.
    fn start_stderr(self: &Arc<Self>, mut stderr: ChildStderr, stopped: Stopped) {
        let drain: ThreadBody = Box::new(move |shared| {
            let mut buffer = vec![0; STDERR_BUFFER];
            while let Ok(len @ 1..) = pipe::read(&mut stderr, &stopped, &mut buffer) {
                lock(&shared.core).connection.handle_stderr(&buffer[..len]);
            }
            shared.stderr_ended();
        });
        let mut closing = lock(&self.closing);
        match self.on_thread("acp-stderr", drain) {
            Ok(thread) => closing.threads.push(thread),
            Err(_) => {
                drop(closing);
                self.stderr_ended();
            }
        }
    }

    /// The agent will say nothing more: tell every caller how it ended, then end what is left of it.
    fn output_ended(self: &Arc<Self>) {
        lock(&self.core).stdout_ended = true;
        self.changed.notify_all();
        let exit = self.process.wait(EXIT_WAIT);
        if exit.is_some() {
            let deadline = Instant::now() + STDERR_WAIT;
            let _ = wait_until(&self.changed, lock(&self.core), deadline, |core| {
                core.stderr_ended
            });
        }
        let mut core = lock(&self.core);
        let unexpected = core.connection.is_open();
        core.connection
            .handle_eof(exit.unwrap_or_default(), Instant::now());
        self.pump(core);
        if unexpected {
            self.process.end_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Lane;
    use super::*;
    use crate::connection::Settle;
    use crate::driver::Link;
    use crate::options::LoadOptions;
    use crate::request::GenerateRequest;

    /// Goes on after each answer once it may, with something late where it shall.
    const LATE: &str = r#"
text() { echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$1'"}}}}'; }
read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
id=3
while read -r _; do
  text ok; echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}'
  until [ -e on ]; do sleep 0.01; done
  if [ -e late ]; then text late; fi
  rm -f on late; : > said; id=$((id+1))
done"#;

    #[test]
    fn what_was_said_before_a_turn_is_no_part_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let options = LoadOptions::new(["sh", "-c", LATE]).cwd(directory.path());
        // A turn that waits for late text takes it.
        let link = Link::<Shared>::start(options.settle(Settle::Never)).unwrap();
        let lane = Lane::open(&link).unwrap();
        let shared = link.shared();
        let end = Instant::now() + Duration::from_secs(10);
        let file = |name: &str| directory.path().join(name);
        let mut met = 0;
        while met < 5 {
            let answer = lane.generate(&GenerateRequest::user("hi")).unwrap();
            assert_eq!(answer.content, "ok");
            // Nobody reads meanwhile, unless the reader does again.
            let seat = shared.seat.take();
            if seat.is_some() {
                met += 1;
                std::fs::write(file("late"), "").unwrap();
            }
            std::fs::write(file("on"), "").unwrap();
            while std::fs::remove_file(file("said")).is_err() {
                assert!(Instant::now() < end, "the agent is still silent");
            }
            drop(seat);
        }
        link.close().close();
    }
}
