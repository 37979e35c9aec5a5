//! Why a run gave no answer.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::run::{Run, ToolRun};
use crate::error::GenerateError;

/// Why a run gave no answer.
///
/// The conversation is as it was before. What the run had come to is in the error ([`RunError::run`]), with a
/// result for every call of a tool, so that a host that wants to keep it can append its messages to the
/// conversation and go on with [`RunRequest::resume`](crate::RunRequest::resume).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The model gave no answer. It was asked once: there are no retries.
    #[error("{error}")]
    Model {
        /// Why.
        #[source]
        error: Box<GenerateError>,
        /// What the run had come to.
        run: Box<Run>,
    },
    /// The model still called tools in its last turn. Those calls were not run.
    #[error("the model still calls tools after {limit} turns")]
    MaxTurns {
        /// The limit that ran out.
        limit: u32,
        /// What the run had come to.
        run: Box<Run>,
    },
    /// The run's token was cancelled before the run had ended.
    #[error("the run was cancelled")]
    Cancelled {
        /// Text that had arrived of the answer that was being given.
        partial: String,
        /// What the run had come to.
        run: Box<Run>,
    },
    /// A tool failed, and the host wants that to end a run
    /// ([`abort_on_tool_error`](crate::InProcessClient::abort_on_tool_error)).
    #[error("the tool `{}` failed: {}", tool.call.name, tool.result.content)]
    ToolFailed {
        /// The first call that failed, in the order of the answer.
        tool: Box<ToolRun>,
        /// What the run had come to.
        run: Box<Run>,
    },
    /// The store did not give or did not take the conversation.
    #[error("the conversation store failed: {error}")]
    StoreFailed {
        /// Why.
        #[source]
        error: Arc<dyn std::error::Error + Send + Sync>,
        /// What the run had come to. If it has turns it is complete, and only its messages are not kept.
        run: Box<Run>,
    },
    /// Another run of this client goes on in the conversation.
    #[error("another run goes on in the conversation `{conversation}`")]
    Busy {
        /// The conversation.
        conversation: String,
    },
}

impl RunError {
    /// A short name, one for each thing a caller can do about it. For [`RunError::Model`] it is
    /// [that of its error](GenerateError::kind); beside those there are `max_turns`, `cancelled`,
    /// `tool_failed`, `store_failed` and `busy`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Model { error, .. } => error.kind(),
            Self::MaxTurns { .. } => "max_turns",
            Self::Cancelled { .. } => "cancelled",
            Self::ToolFailed { .. } => "tool_failed",
            Self::StoreFailed { .. } => "store_failed",
            Self::Busy { .. } => "busy",
        }
    }

    /// What the run had come to; nothing if it was refused before it began.
    pub fn run(&self) -> Option<&Run> {
        match self {
            Self::Model { run, .. }
            | Self::MaxTurns { run, .. }
            | Self::Cancelled { run, .. }
            | Self::ToolFailed { run, .. }
            | Self::StoreFailed { run, .. } => Some(run),
            Self::Busy { .. } => None,
        }
    }

    /// The text that had arrived of the answer that was being given; empty if there was none.
    pub fn partial(&self) -> &str {
        match self {
            Self::Model { error, .. } => error.partial(),
            Self::Cancelled { partial, .. } => partial,
            Self::MaxTurns { .. }
            | Self::ToolFailed { .. }
            | Self::StoreFailed { .. }
            | Self::Busy { .. } => "",
        }
    }
}

/// As a JSON object like those of [`GenerateError`]: `kind`, `message`, `partial` where there is any, and for
/// a model's error its other fields.
impl Serialize for RunError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Model { error, .. } = self {
            return error.serialize(serializer);
        }
        let mut report = Map::new();
        report.insert("kind".to_owned(), self.kind().into());
        report.insert("message".to_owned(), self.to_string().into());
        if !self.partial().is_empty() {
            report.insert("partial".to_owned(), self.partial().into());
        }
        Value::Object(report).serialize(serializer)
    }
}

/// What ends a run without an answer, before it is known what the run had come to.
pub(super) enum Stop {
    Model(GenerateError),
    MaxTurns(u32),
    Cancelled(String),
    ToolFailed(ToolRun),
    StoreFailed(Arc<dyn std::error::Error + Send + Sync>),
}

impl Stop {
    pub(super) fn with(self, run: Run) -> RunError {
        let run = Box::new(run);
        match self {
            Self::Model(error) => RunError::Model {
                error: Box::new(error),
                run,
            },
            Self::MaxTurns(limit) => RunError::MaxTurns { limit, run },
            Self::Cancelled(partial) => RunError::Cancelled { partial, run },
            Self::ToolFailed(tool) => RunError::ToolFailed {
                tool: Box::new(tool),
                run,
            },
            Self::StoreFailed(error) => RunError::StoreFailed { error, run },
        }
    }
}
