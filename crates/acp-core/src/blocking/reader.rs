//! Reading what the agent says, and keeping the engine's time meanwhile.

use std::io::{self, Read};
use std::process::{ChildStderr, ChildStdout};
use std::sync::Arc;
use std::time::Instant;

use super::caller::Caller;
use super::pipe::{self, Bell, Stopped, Woken};
use super::seat::Reading;
use super::{Shared, ThreadBody};
use crate::driver::{Driven, EXIT_WAIT, STDERR_BUFFER, STDERR_WAIT, Taken, is_transient, try_read};
use crate::sync::{lock, wait_until};

/// What is read, and what wakes who reads.
#[derive(Debug)]
pub(super) struct Pipes {
    stdout: Arc<ChildStdout>,
    /// Until it has ended.
    stderr: Option<ChildStderr>,
    bell: Bell,
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

impl Step {
    fn went(settled: bool) -> Self {
        if settled { Self::Settled } else { Self::Went }
    }
}

impl Pipes {
    pub(super) fn new(stdout: Arc<ChildStdout>, stderr: ChildStderr, bell: Bell) -> Self {
        Self {
            stdout,
            stderr: Some(stderr),
            bell,
            now: Instant::now(),
        }
    }
}

impl Shared {
    /// What the reader's thread does.
    pub(super) fn run_reader(self: &Arc<Self>, pipes: Box<Pipes>) {
        let Pipes { stderr, bell, .. } = *self.read_to_end(pipes);
        self.input.end();
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
                    self.catch_up();
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
        let is_due = left.is_some_and(|left| left.is_zero());
        let woken = if is_due {
            Ok(Woken::Nothing)
        } else {
            pipe::wait_readable(&pipes.stdout, pipes.stderr.as_ref(), &pipes.bell, left)
        };
        if let Some(caller) = caller {
            caller.has_read();
        }
        if is_due {
            self.catch_up();
            let mut core = lock(&self.core);
            core.handle_timeout(pipes.now);
            return Step::went(self.pump(core));
        }
        let (output, errors) = match woken {
            Ok(Woken::Readable { first, second }) => (first, second),
            Ok(Woken::Bell) => {
                self.alarm.heard(&pipes.bell);
                (false, false)
            }
            Ok(Woken::Nothing) => (false, false),
            Ok(Woken::Stopped) => return Step::Stopped,
            // An error of poll(2) or read(2) on a pipe is as final as its end.
            Err(_) => return Step::Ended,
        };
        if errors
            && let Some(stderr) = &mut pipes.stderr
            && !self.read_stderr(stderr)
        {
            pipes.stderr = None;
        }
        if !output {
            pipes.now = Instant::now();
            return Step::Went;
        }
        match self.read(try_read) {
            Ok(Taken::Some { settled, at, .. }) => {
                pipes.now = at;
                Step::went(settled)
            }
            Err(error) if is_transient(&error) => {
                pipes.now = Instant::now();
                Step::Went
            }
            Ok(Taken::Ended) | Err(_) => Step::Ended,
        }
    }

    /// Lets the caller read, if nobody does.
    pub(super) fn take_seat(&self) -> Option<Reading<'_, Box<Pipes>>> {
        let mut reading = self.seat.take()?;
        reading.pipes()?.now = Instant::now();
        Some(reading)
    }

    /// Reads what is there of standard error. False at its end.
    fn read_stderr(&self, stderr: &mut ChildStderr) -> bool {
        let mut buffer = [0; STDERR_BUFFER];
        match stderr.read(&mut buffer) {
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
    use std::thread;
    use std::time::Duration;

    use super::super::Lane;
    use super::*;
    use crate::driver::Link;
    use crate::options::LoadOptions;
    use crate::request::GenerateRequest;
    use crate::turn::TurnOptions;

    /// Answers a prompt, and says that it has.
    const ANSWER: &str = r#"
read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
read -r _
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ok"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
: > said; cat > /dev/null"#;

    #[test]
    fn an_answer_that_is_there_is_no_turn_that_took_too_long() {
        while !answers_in_time_while_nobody_reads() {}
    }

    /// False if the thread has not rested, so that nothing was seen.
    fn answers_in_time_while_nobody_reads() -> bool {
        let directory = tempfile::tempdir().unwrap();
        let options = LoadOptions::new(["sh", "-c", ANSWER]).cwd(directory.path());
        let link = Link::<Shared>::start(options).unwrap();
        let lane = Lane::open(&link).unwrap();
        let shared = link.shared();
        let opened = Instant::now();
        let seat = loop {
            match shared.seat.take() {
                Some(seat) => break seat,
                None if opened.elapsed() > Duration::from_millis(50) => {
                    link.close().close();
                    return false;
                }
                None => thread::yield_now(),
            }
        };
        let limit = Duration::from_millis(20);
        let began = Instant::now();
        let options = TurnOptions::default().deadline(limit);
        let turn = lane.start(&GenerateRequest::user("hi"), options).unwrap();
        while !directory.path().join("said").exists() || began.elapsed() <= limit {
            thread::yield_now();
        }
        drop(seat);
        assert_eq!(turn.wait().unwrap().content, "ok");
        link.close().close();
        true
    }
}
