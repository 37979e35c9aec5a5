//! The interpreter of transcripts: no clock, no thread, no I/O.
//!
//! Tell it what happened with [`Player::handle`], then call [`Player::poll`] and carry out what it
//! returns until it returns [`Action::Wait`], [`Action::Done`] or [`Action::Failed`]. Agent
//! processes are numbered from 1 in the order in which the client starts them, so that a late end of
//! the first cannot be taken for one of the second.
//!
//! ```
//! use std::path::Path;
//! use acp_fake_server::{Action, Fixture, Input, Outcome, Player, Role};
//!
//! let text = r#"{"fixture":"load/refused","format":1,"title":"It is refused","level":"must","covers":["X-1"]}
//! {"call":"load"}
//! {"returns":"load","err":{"kind":"spawn_failed"}}"#;
//! let fixture = Fixture::parse(Path::new("load/refused.jsonl"), text, &mut |_| None)?;
//! let mut player = Player::new(&fixture, Role::Both);
//! loop {
//!     match player.poll() {
//!         // Here the client is called. This one answers at once.
//!         Action::Call { label, .. } => {
//!             let error = serde_json::json!({"kind": "spawn_failed"});
//!             player.handle(Input::Returned { label: &label, outcome: Outcome::Err(error) });
//!         }
//!         // Here the agent's process does what it is told, and the clock is set.
//!         Action::Agent { .. } | Action::Delay(_) => {}
//!         // Here the next event is waited for, and handled.
//!         Action::Wait(waiting) => panic!("{waiting}"),
//!         Action::Done => break,
//!         Action::Failed(mismatch) => return Err(mismatch.into()),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod expect;
mod mismatch;
mod play;
mod send;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use self::expect::Failure;
pub use self::mismatch::{Fault, Mismatch, Waiting};
use self::play::Progress;
use self::state::{Pending, Process, Request, State};
use crate::control::Command;
use crate::fixture::{Fixture, Location, Step};
use crate::message::{Body, Incoming};
use crate::pattern::{Captures, brief, shorten};
use crate::profile::Profile;
use crate::strict::{Gate, Refusal};
use crate::transcript::{LogEntry, LogEvent, since_last_note};

/// Plays one transcript.
#[derive(Debug)]
pub struct Player {
    role: Role,
    profile: Profile,
    state: State,
    steps: VecDeque<Pending>,
    total: usize,
    done: usize,
    /// The step that is being played, or waits.
    location: Location,
    /// How many processes the client may start.
    allowed: u32,
    /// The process that steps are for, counted from 1.
    current: u32,
    processes: Vec<Process>,
    captures: Captures,
    /// Calls that run or whose end no step has taken, by label.
    calls: BTreeMap<String, Option<Outcome>>,
    /// A running delay, and whether its time is over.
    delay: Option<bool>,
    actions: VecDeque<Action>,
    log: Vec<LogEntry>,
}

/// Which sides of the transcript are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The host program and the agent, around a client under test.
    Both,
    /// The agent alone: `call` and `returns` are skipped, and the end of the input is the end.
    AgentOnly,
}

/// Something that happened outside the player.
#[derive(Debug)]
pub enum Input<'a> {
    /// The client started the next agent process.
    Started,
    /// A line from the client to this process, without its newline.
    Line {
        /// The process.
        process: u32,
        /// The bytes.
        line: &'a [u8],
    },
    /// The client closed the standard input of this process.
    Eof {
        /// The process.
        process: u32,
    },
    /// This process was ended by the client, or lost. Not needed after an [`Command::Exit`] or
    /// [`Command::Signal`] that the player itself asked for, and ignored then.
    Gone {
        /// The process.
        process: u32,
    },
    /// A call of the host program ended.
    Returned {
        /// The label of its [`Action::Call`].
        label: &'a str,
        /// How it ended.
        outcome: Outcome,
    },
    /// The time of the last [`Action::Delay`] is over.
    Elapsed,
}

/// How a call of the host program ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The library returned this.
    Ok(Value),
    /// The library reported this error; an object with at least `kind`.
    Err(Value),
    /// The library failed in a way that it should have reported as an error.
    Crash(String),
    /// The library has no such operation.
    Unsupported(String),
}

/// What is to be done next.
#[derive(Debug, Clone)]
pub enum Action {
    /// Start this operation of the driver protocol and go on. The end is told with
    /// [`Input::Returned`]. The `call` of a `cancel` is the label of the call it is for, the latest
    /// with that label.
    Call {
        /// Names the call.
        label: String,
        /// `load`, `lane`, `generate`, `cancel`, `close` or `is_alive`.
        op: String,
        /// Its arguments, an object.
        args: Value,
    },
    /// Have this agent process do something.
    Agent {
        /// The process, counted from 1.
        process: u32,
        /// What it does.
        command: Command,
    },
    /// Let this much time pass, then tell [`Input::Elapsed`].
    Delay(Duration),
    /// Nothing more until something happens.
    Wait(Waiting),
    /// Everything matched. A line that still comes makes it [`Action::Failed`].
    Done,
    /// Something did not match. Nothing else follows.
    Failed(Mismatch),
}

impl Player {
    /// A player at the first step of `fixture`.
    #[must_use]
    pub fn new(fixture: &Fixture, role: Role) -> Player {
        let pending = |step: &Step| Pending {
            step: step.clone(),
            top_level: true,
        };
        Player {
            role,
            profile: Profile::default(),
            state: State::Playing,
            steps: fixture.steps.iter().map(pending).collect(),
            total: fixture.steps.len(),
            done: 0,
            location: Location::new(&fixture.path, 1),
            allowed: fixture.processes().max(u32::from(role == Role::AgentOnly)),
            current: 1,
            processes: Vec::new(),
            captures: Captures::new(),
            calls: BTreeMap::new(),
            delay: None,
            actions: VecDeque::new(),
            log: Vec::new(),
        }
    }

    /// Refuses what the client writes as this profile says, where the agent's side is played alone.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Player {
        Player { profile, ..self }
    }

    /// Takes in something that happened. Call [`Player::poll`] afterwards.
    pub fn handle(&mut self, input: Input<'_>) {
        if matches!(self.state, State::Failed(_)) {
            return;
        }
        if let Some(step) = self.steps.front() {
            self.location = step.step.location.clone();
        }
        match input {
            Input::Started => self.on_started(),
            Input::Line { process, line } => self.on_line(process, line),
            Input::Eof { process } => self.on_end(process, LogEvent::Eof { process }),
            Input::Gone { process } => self.on_end(process, LogEvent::Gone { process }),
            Input::Returned { label, outcome } => self.on_returned(label, outcome),
            Input::Elapsed => match &mut self.delay {
                Some(over) => *over = true,
                None => self.fail_fixture("no delay is running".to_owned()),
            },
        }
    }

    /// The next thing to do; to be called until it is `Wait`, `Done` or `Failed`.
    pub fn poll(&mut self) -> Action {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return action;
            }
            match &self.state {
                State::Failed(mismatch) => return Action::Failed((**mismatch).clone()),
                State::Done => {
                    self.let_go();
                    if self.actions.is_empty() {
                        return Action::Done;
                    }
                    continue;
                }
                State::Playing => {}
            }
            let Some(mut pending) = self.steps.pop_front() else {
                self.finish();
                continue;
            };
            self.location = pending.step.location.clone();
            match self.play(&mut pending.step) {
                Ok(Progress::Done) => self.done += usize::from(pending.top_level),
                Ok(Progress::End) => self.state = State::Done,
                Ok(Progress::Blocked(what)) => {
                    self.steps.push_front(pending);
                    if self.delay.is_none() {
                        self.let_go();
                    }
                    if self.actions.is_empty() {
                        return Action::Wait(Waiting {
                            location: self.location.clone(),
                            what,
                        });
                    }
                }
                Err(failure) => self.fail(*failure),
            }
        }
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// What happened since the last `note`, one line each, as a mismatch shows it.
    #[must_use]
    pub fn transcript(&self) -> String {
        since_last_note(&self.log)
    }

    /// How many top-level steps are done.
    #[must_use]
    pub fn steps_done(&self) -> usize {
        self.done
    }

    /// How many top-level steps there are, those of preludes included.
    #[must_use]
    pub fn steps_total(&self) -> usize {
        self.total
    }

    fn on_started(&mut self) {
        self.processes.push(Process {
            gate: Gate::new(self.profile.clone()),
            ..Process::default()
        });
        let process = self.started();
        self.note(LogEvent::Started { process });
        if process > self.allowed {
            let message = match self.allowed {
                0 => "the client started an agent, and the transcript has none".to_owned(),
                most => format!("the client started agent process {process}; there are {most}"),
            };
            self.fail(Failure::client(message));
        }
    }

    fn on_line(&mut self, number: u32, line: &[u8]) {
        let Some(process) = self.process_mut(number) else {
            return;
        };
        let admitted = process.gate.admit(line);
        let answers = match admitted.as_ref().map(|incoming| &incoming.body) {
            Ok(Body::Response { id, .. }) => process.asked.get(&id.to_string()).cloned(),
            _ => None,
        };
        let (ended, noisy) = (process.ended, process.noisy);
        self.note(LogEvent::FromClient {
            process: number,
            line: line.to_vec(),
            answers,
        });
        // What a client still wrote to an agent that has ended was never read, and to complain of noise is
        // its right.
        if ended || noisy && admitted.as_ref().is_ok_and(Incoming::is_complaint) {
            return;
        }
        match admitted {
            Ok(incoming) if matches!(self.state, State::Done) => {
                let failure = Failure::client("the client wrote after the end".to_owned());
                self.fail(failure.got(shorten(&incoming.text)));
            }
            Ok(incoming) => {
                if let Some(process) = self.process_mut(number) {
                    process.lines.push_back(incoming);
                }
            }
            Err(Refusal::Answer { line, .. }) if self.role == Role::AgentOnly => {
                self.write_line(number, line, None, None);
            }
            Err(Refusal::Exit(code)) if self.role == Role::AgentOnly => {
                self.command(number, Command::Exit(code));
            }
            Err(Refusal::Ignored) if self.role == Role::AgentOnly => {}
            Err(refusal) => {
                let message = format!("agents refuse what the client wrote: {}", refusal.why());
                let got = shorten(&String::from_utf8_lossy(line));
                self.fail(Failure::client(message).got(got));
            }
        }
    }

    fn on_end(&mut self, number: u32, event: LogEvent) {
        let gone = matches!(event, LogEvent::Gone { .. });
        let Some(process) = self.process_mut(number) else {
            return;
        };
        if process.ended {
            return;
        }
        process.eof = true;
        process.ended |= gone;
        self.note(event);
    }

    fn on_returned(&mut self, label: &str, outcome: Outcome) {
        match self.calls.get_mut(label) {
            Some(running @ None) => *running = Some(outcome.clone()),
            _ => return self.fail_fixture(format!("no call {label:?} is running")),
        }
        self.note(LogEvent::Returned {
            label: label.to_owned(),
            outcome,
        });
    }

    /// The agent exits at the end of its input like any well-behaved one, once the transcript has
    /// had its say about it.
    fn let_go(&mut self) {
        if self.role == Role::AgentOnly {
            return;
        }
        for number in 1..=self.started() {
            let over = self
                .process_mut(number)
                .is_some_and(|p| p.eof && !p.ended && !p.lingers);
            if over {
                self.command(number, Command::Exit(0));
            }
        }
    }

    /// All steps are played.
    fn finish(&mut self) {
        self.state = State::Done;
        let left = self
            .processes
            .iter()
            .find_map(|process| process.lines.front());
        if let Some(text) = left.map(|incoming| shorten(&incoming.text)) {
            let message = "no step takes what the client wrote".to_owned();
            self.fail(Failure::client(message).got(text));
        }
    }

    /// How many processes the client has started.
    fn started(&self) -> u32 {
        u32::try_from(self.processes.len()).unwrap_or(u32::MAX)
    }

    fn process_mut(&mut self, number: u32) -> Option<&mut Process> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        if index >= self.processes.len() {
            self.fail_fixture(format!("process {number} has not started"));
        }
        self.processes.get_mut(index)
    }

    /// Has the agent do something, unless it has ended.
    fn command(&mut self, number: u32, command: Command) {
        let Some(process) = self.process_mut(number) else {
            return;
        };
        if process.ended {
            return;
        }
        match command {
            Command::Exit(_) | Command::Signal(_) => process.ended = true,
            Command::Linger(_) => process.lingers = true,
            _ => {}
        }
        if !matches!(command, Command::Stdout(_)) {
            self.note(LogEvent::Agent {
                process: number,
                command: command.clone(),
            });
        }
        self.actions.push_back(Action::Agent {
            process: number,
            command,
        });
    }

    fn note(&mut self, event: LogEvent) {
        self.log.push(LogEntry {
            location: self.location.clone(),
            event,
        });
    }

    fn fail_fixture(&mut self, message: String) {
        self.fail(Failure {
            fault: Fault::Fixture,
            ..Failure::client(message)
        });
    }

    fn fail(&mut self, failure: Failure) {
        self.actions.clear();
        self.state = State::Failed(Box::new(Mismatch {
            location: self.location.clone(),
            fault: failure.fault,
            message: failure.message,
            path: failure.path,
            want: failure.want,
            got: failure.got,
            transcript: self.transcript(),
        }));
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Ok(value) => write!(f, "ok {}", brief(value)),
            Outcome::Err(error) => write!(f, "err {}", brief(error)),
            Outcome::Crash(text) => write!(f, "crash {:?}", shorten(text)),
            Outcome::Unsupported(text) => write!(f, "unsupported {:?}", shorten(text)),
        }
    }
}

#[cfg(test)]
mod tests;
