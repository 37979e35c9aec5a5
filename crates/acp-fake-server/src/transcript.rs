//! What went over the wire so far.

use serde_json::Value;

use crate::control::Command;
use crate::fixture::Location;
use crate::player::Outcome;

/// One thing that happened, in the order it happened.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The step that was being played; for what came from outside, the step that was waiting.
    pub location: Option<Location>,
    /// What happened.
    pub event: LogEvent,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum LogEvent {
    /// The transcript's own remark.
    Note(String),
    /// The host program called an operation.
    Called {
        /// The label of the call.
        label: String,
        /// The operation.
        op: String,
        /// Its arguments.
        args: Value,
    },
    /// A call ended.
    Returned {
        /// The label of the call.
        label: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// The client started an agent process; the first is 1.
    Started {
        /// Its number.
        process: u32,
    },
    /// A line from the client, without its newline.
    FromClient {
        /// The process it went to.
        process: u32,
        /// The bytes.
        line: Vec<u8>,
        /// The method of the agent's request it answers, if it answers one.
        answers: Option<String>,
    },
    /// The client closed the agent's standard input.
    Eof {
        /// The process.
        process: u32,
    },
    /// The agent process was ended by the client, or lost.
    Gone {
        /// The process.
        process: u32,
    },
    /// A line to the client, without its newline.
    ToClient {
        /// The process it came from.
        process: u32,
        /// The bytes.
        line: Vec<u8>,
        /// The method of the client's request it answers, if it answers one.
        answers: Option<String>,
        /// Why it breaks the official schema, if the step says that it does.
        invalid: Option<String>,
    },
    /// Bytes of a `raw` step, which no schema covers.
    Raw {
        /// The process they came from.
        process: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Something else that the agent process did.
    Agent {
        /// The process.
        process: u32,
        /// What it did; never [`Command::Stdout`].
        command: Command,
    },
}
