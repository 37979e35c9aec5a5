//! The agent's process: started in a group of its own, read by threads, ended for certain.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Map, Value, json};

use crate::Event;
use crate::mutant::{Mutant, broken};

/// How long the agent has to leave after the end of its input, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// How long an agent that closed its output has to exit, so that its status can be told.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// How much of the end of standard error is kept, in bytes.
const STDERR_TAIL: usize = 16 * 1024;

/// What is started, and how it is read.
#[derive(Clone, Default)]
pub struct Program {
    pub command: Vec<String>,
    /// Added to our own environment.
    pub env: Map<String, Value>,
    pub cwd: PathBuf,
    /// The longest line that is read, in bytes.
    pub max_line: Option<u64>,
}

pub struct Process {
    child: Child,
    /// Dropping the sender ends the writer, which closes the agent's standard input.
    input: Option<Sender<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `program`. What it writes arrives as events that carry `number`.
    pub fn start(
        program: &Program,
        number: u64,
        events: &Sender<Event>,
    ) -> std::io::Result<Process> {
        let (name, args) = program
            .command
            .split_first()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        let env = program.env.iter();
        let mut child = Command::new(name)
            .args(args)
            .envs(env.filter_map(|(name, value)| Some((name, value.as_str()?))))
            .current_dir(&program.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (input, lines) = mpsc::channel();
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || write_lines(stdin, &lines));
        }
        if let Some(stdout) = child.stdout.take() {
            let lines = Lines {
                number,
                events: events.clone(),
                limit: program
                    .max_line
                    .and_then(|limit| usize::try_from(limit).ok())
                    .unwrap_or(usize::MAX),
                line: Vec::new(),
                is_too_long: false,
            };
            thread::spawn(move || lines.read(stdout));
        }
        let stderr = Arc::default();
        let stderr_reader = child.stderr.take().map(|pipe| {
            let tail = Arc::clone(&stderr);
            thread::spawn(move || read_stderr(pipe, &tail))
        });
        Ok(Process {
            child,
            input: Some(input),
            stderr,
            stderr_reader,
        })
    }

    /// Queues one line. A peer that is gone is seen at the end of its output, not here.
    pub fn send(&self, message: &Value) {
        if let Some(input) = &self.input {
            let _gone = input.send(format!("{message}\n").into_bytes());
        }
    }

    /// Ends the agent and all of its group: end of input, SIGTERM, SIGKILL.
    pub fn stop(&mut self) {
        self.input = None;
        if broken(Mutant::CloseDoesNotWait) {
            return;
        }
        if self.wait(GRACE).is_none() {
            self.signal(Signal::SIGTERM);
        }
        if self.wait(GRACE).is_none() && broken(Mutant::CloseStopsAtTerm) {
            return;
        }
        // Also when the leader has left by itself: what it started may still be there.
        if !broken(Mutant::CloseLeavesGrandchild) {
            self.signal(Signal::SIGKILL);
        }
        let _status = self.wait(GRACE);
    }

    /// Ends the group at once. The end of the agent's output reports it.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// What there is to say about an agent that closed its output, as fields of an error.
    pub fn post_mortem(&mut self) -> Value {
        let status = self.wait(EXIT_GRACE);
        self.input = None;
        if !broken(Mutant::CloseLeavesGrandchild) {
            self.signal(Signal::SIGKILL);
        }
        // Everything that could hold the pipe is gone now, so the reader ends by itself.
        if let Some(reader) = self.stderr_reader.take() {
            let _panicked = reader.join();
        }
        let status = status.or_else(|| self.wait(GRACE));
        let mut fields = json!({"stderr_tail": self.stderr_tail()});
        if let Some(code) = status.and_then(|status| status.code()) {
            fields["exit_code"] = json!(code);
        }
        if let Some(signal) = status.and_then(|status| status.signal()) {
            fields["signal"] = json!(signal);
            if broken(Mutant::SignalAsExitCode) {
                fields["exit_code"] = json!(0);
            }
        }
        if broken(Mutant::ExitCodeDropped) {
            fields["exit_code"] = json!(-1);
        }
        if broken(Mutant::StderrTailDropped) {
            fields["stderr_tail"] = json!("");
        }
        fields
    }

    /// The end of standard error so far.
    pub fn stderr_tail(&self) -> Value {
        let tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).into()
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Polls, since std has no wait with a limit.
    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(2)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            // It fails when the whole group is gone already, which is what is wanted.
            let _gone = killpg(Pid::from_raw(id), signal);
        }
    }
}

fn write_lines(mut stdin: impl Write, lines: &Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        if stdin.write_all(&line).is_err() {
            return;
        }
    }
}

/// Cuts the output of the agent into lines.
struct Lines {
    number: u64,
    events: Sender<Event>,
    limit: usize,
    line: Vec<u8>,
    /// The rest of the line is left out.
    is_too_long: bool,
}

impl Lines {
    fn read(mut self, mut stdout: impl Read) {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = stdout.read(&mut chunk) {
            let mut bytes = chunk[..length].to_vec();
            if broken(Mutant::DecodesEachRead) {
                bytes = String::from_utf8_lossy(&bytes).into_owned().into_bytes();
            }
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                self.add(piece);
                if broken(Mutant::OneLineEachRead) && piece.ends_with(b"\n") {
                    break;
                }
            }
        }
        // What an agent wrote last may lack its line feed.
        if !broken(Mutant::LastLineLost) && !self.line.is_empty() {
            self.tell(Event::Line(self.number, self.line.clone()));
        }
        self.tell(Event::End(self.number));
    }

    fn add(&mut self, piece: &[u8]) {
        self.line.extend_from_slice(piece);
        if self.line.len() > self.limit && broken(Mutant::LongLineCut) {
            self.line.drain(..self.limit);
        } else if self.line.len() > self.limit && !broken(Mutant::LongLineRead) {
            self.is_too_long = true;
        }
        if self.is_too_long || broken(Mutant::LineLimit) && self.line.len() > 64 * 1024 {
            self.line.clear();
        }
        if !piece.ends_with(b"\n") {
            return;
        }
        let line = std::mem::take(&mut self.line);
        let is_too_long = std::mem::take(&mut self.is_too_long);
        self.tell(match is_too_long {
            true if broken(Mutant::LongLineIsFatal) => Event::End(self.number),
            true => Event::LongLine(self.number),
            false => Event::Line(self.number, line),
        });
    }

    fn tell(&self, event: Event) {
        // The receiver is gone when the program ends.
        let _ended = self.events.send(event);
    }
}

fn read_stderr(mut pipe: impl Read, tail: &Mutex<Vec<u8>>) {
    let mut chunk = vec![0; 8 * 1024];
    if broken(Mutant::StderrNotDrained) {
        loop {
            thread::park();
        }
    }
    while let Ok(length @ 1..) = pipe.read(&mut chunk) {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&chunk[..length]);
        let excess = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..excess);
    }
}
