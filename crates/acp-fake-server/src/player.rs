//! The interpreter of transcripts: no clock, no thread, no I/O.
//!
//! Tell it what happened with [`Player::handle`], then call [`Player::poll`] and carry out what it
//! returns until it returns [`Action::Wait`], [`Action::Done`] or [`Action::Failed`]. Agent
//! processes are numbered from 1 in the order in which the client starts them, so that a late end of
//! the first cannot be taken for one of the second.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::control::Command;
use crate::fixture::{Fixture, Location};
use crate::transcript::LogEntry;

/// Plays one transcript.
#[derive(Debug)]
pub struct Player {
    log: Vec<LogEntry>,
    total: usize,
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

/// What the player waits for. Displays as `file:line: what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The step that waits.
    pub location: Location,
    /// What it waits for, as a noun phrase.
    pub what: String,
}

/// Why a transcript failed. Displays in full, with what happened since the last `note`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Mismatch {
    /// The step that failed.
    pub location: Location,
    /// Whose fault it is.
    pub fault: Fault,
    /// What is wrong, in one line.
    pub message: String,
    /// Where in the value the first difference is, as a JSON path from `$`.
    pub path: Option<String>,
    /// What the transcript says.
    pub want: Option<String>,
    /// What came.
    pub got: Option<String>,
    /// What happened since the last `note`, one line each.
    pub transcript: String,
}

/// Whose fault a mismatch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The client did something else than the transcript says.
    Client,
    /// The transcript, or whoever drives the player, did something that cannot work.
    Fixture,
}

impl Player {
    /// A player at the first step of `fixture`.
    #[must_use]
    pub fn new(fixture: &Fixture, role: Role) -> Player {
        let _ = role;
        Player {
            log: Vec::new(),
            total: fixture.steps.len(),
        }
    }

    /// Takes in something that happened. Call [`Player::poll`] afterwards.
    pub fn handle(&mut self, input: Input<'_>) {
        let _ = input;
    }

    /// The next thing to do; to be called until it is `Wait`, `Done` or `Failed`.
    pub fn poll(&mut self) -> Action {
        Action::Done
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// How many top-level steps are done.
    #[must_use]
    pub fn steps_done(&self) -> usize {
        0
    }

    /// How many top-level steps there are.
    #[must_use]
    pub fn steps_total(&self) -> usize {
        self.total
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.what)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)?;
        if let Some(path) = &self.path {
            write!(f, "\n  path: {path}")?;
        }
        if let Some(want) = &self.want {
            write!(f, "\n  want: {want}")?;
        }
        if let Some(got) = &self.got {
            write!(f, "\n  got:  {got}")?;
        }
        if !self.transcript.is_empty() {
            write!(f, "\n{}", self.transcript)?;
        }
        Ok(())
    }
}
