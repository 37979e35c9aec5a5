//! What can go wrong, as closed lists of what a caller can do about it.
//!
//! `spec/errors.md` has one row for each kind. The payloads are shared by both lists and boxed, so
//! that the good path stays small.

mod details;
mod report;

use std::sync::Arc;

use serde_json::Value;

pub use details::{
    AgentExited, AuthRequired, ExitInfo, InvalidResponse, MalformedReply, Rejected, RejectedClass,
};

use crate::request::Dropped;
use details::tail;

/// Why an agent could not be loaded, or a lane not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The options cannot work.
    #[error("invalid options: {0}")]
    InvalidOptions(String),
    /// The program could not be started.
    #[error("failed to start `{program}`: {reason}")]
    SpawnFailed {
        /// The program as it was given.
        program: String,
        /// What went wrong and where the program was looked for.
        reason: String,
        /// The system's own error.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The agent did not finish its handshake in time.
    #[error(
        "the agent did not answer `{method}` within {limit:?}{}",
        tail(stderr_tail)
    )]
    StartupTimeout {
        /// The request that was not answered.
        method: &'static str,
        /// The limit that ran out.
        limit: std::time::Duration,
        /// The end of what the agent wrote to standard error, and to standard output if it was no
        /// message.
        stderr_tail: String,
    },
    /// The agent does not speak protocol version 1.
    #[error("the agent does not speak ACP protocol version 1: it answered `{answered}`")]
    ProtocolVersion {
        /// The version it answered, as it came; null if there was none.
        answered: Value,
    },
    /// The agent wants a login first.
    #[error(transparent)]
    AuthRequired(Box<AuthRequired>),
    /// The agent answered a request with an error.
    #[error(transparent)]
    Rejected(Box<Rejected>),
    /// The agent's answer is not a valid response.
    #[error(transparent)]
    InvalidResponse(Box<InvalidResponse>),
    /// The agent's process ended.
    #[error(transparent)]
    AgentExited(Box<AgentExited>),
    /// The model was closed.
    #[error("the model is closed")]
    Closed,
}

/// Why a turn gave no answer.
///
/// Text that had arrived before the error is kept: see [`GenerateError::partial`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The request holds something this agent does not take.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The agent wants a login first.
    #[error("{error}")]
    AuthRequired {
        /// The methods it offers, and its own words.
        error: Box<AuthRequired>,
        /// Text that had arrived.
        partial: String,
    },
    /// The agent answered the prompt with an error.
    #[error("{error}")]
    Rejected {
        /// The agent's own code, message and data.
        error: Box<Rejected>,
        /// Text that had arrived.
        partial: String,
    },
    /// The agent's answer is not a valid response.
    #[error("{error}")]
    InvalidResponse {
        /// What is wrong with it.
        error: Box<InvalidResponse>,
        /// Text that had arrived.
        partial: String,
    },
    /// A new session had to be opened for the turn, and the agent did not answer in time.
    #[error("the agent did not answer `{method}` in time{}", tail(stderr_tail))]
    StartupTimeout {
        /// The request that was not answered.
        method: &'static str,
        /// The end of the agent's standard error.
        stderr_tail: String,
    },
    /// A new process had to be started for the turn ([`LoadOptions::restart`](crate::LoadOptions::restart)),
    /// and was not.
    #[error("{0}")]
    Restart(#[source] Box<LoadError>),
    /// The agent's process ended.
    #[error("{error}")]
    AgentExited {
        /// Status and standard error.
        error: Box<AgentExited>,
        /// Text that had arrived.
        partial: String,
    },
    /// Nothing came from the session for too long. The turn was cancelled; the lane is usable.
    #[error("nothing came from the agent for {limit:?}; the turn was cancelled")]
    IdleTimeout {
        /// The limit that ran out.
        limit: std::time::Duration,
        /// Text that had arrived.
        partial: String,
    },
    /// The turn took longer than its absolute limit. It was cancelled; the lane is usable.
    #[error("the turn did not end within {limit:?} and was cancelled")]
    DeadlineExceeded {
        /// The limit that ran out.
        limit: std::time::Duration,
        /// Text that had arrived.
        partial: String,
    },
    /// The turn was cancelled, by the host or by the agent.
    #[error("the turn was cancelled")]
    Cancelled {
        /// Text that had arrived.
        partial: String,
    },
    /// The agent refused to go on (stop reason `refusal`).
    #[error("the agent refused the request")]
    Refused {
        /// Text that had arrived.
        partial: String,
    },
    /// The turn ended with a stop reason that protocol version 1 does not have.
    #[error("the turn ended with the unknown stop reason {stop_reason}")]
    UnknownStopReason {
        /// As it came, shortened to about 200 characters; null if there was none.
        stop_reason: Value,
        /// Text that had arrived.
        partial: String,
    },
    /// The turn ended well but without any text, which often hides a failed model call.
    #[error(
        "the agent ended the turn without an answer ({dropped}){}",
        tail(stderr_tail)
    )]
    EmptyTurn {
        /// What came instead.
        dropped: Box<Dropped>,
        /// The end of the agent's standard error.
        stderr_tail: String,
    },
    /// The agent's reply is not what was asked for, nor were those to the requests to send it once more
    /// ([`LoadOptions::max_repairs`](crate::LoadOptions::max_repairs)).
    #[error("{error}")]
    MalformedReply {
        /// What is wrong with the last reply.
        error: Box<MalformedReply>,
        /// The last reply.
        partial: String,
    },
    /// The queue of the lane, or of the pool, is full.
    #[error("{queued} turns already wait")]
    Busy {
        /// How many.
        queued: usize,
    },
    /// The model was closed.
    #[error("the model, or this lane of it, is closed")]
    Closed {
        /// Text that had arrived.
        partial: String,
    },
    /// A model that is not an ACP agent failed.
    #[error("the model failed: {0}")]
    Model(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl LoadError {
    /// The kind in `spec/errors.md`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InvalidOptions(_) => "invalid_options",
            Self::SpawnFailed { .. } => "spawn_failed",
            Self::StartupTimeout { .. } => "startup_timeout",
            Self::ProtocolVersion { .. } => "protocol_version",
            Self::AuthRequired(_) => "auth_required",
            Self::Rejected(_) => "rejected",
            Self::InvalidResponse(_) => "invalid_response",
            Self::AgentExited(_) => "agent_exited",
            Self::Closed => "closed",
        }
    }

    /// The end of the agent's standard error, where the error has it.
    pub fn stderr_tail(&self) -> Option<&str> {
        match self {
            Self::StartupTimeout { stderr_tail, .. } => Some(stderr_tail),
            Self::AgentExited(error) => Some(&error.stderr_tail),
            _ => None,
        }
    }

    /// The same failure, as the end of a turn that needed a new session.
    pub(crate) fn into_turn(self, partial: String) -> GenerateError {
        match self {
            Self::AuthRequired(error) => GenerateError::AuthRequired { error, partial },
            Self::Rejected(error) => GenerateError::Rejected { error, partial },
            Self::InvalidResponse(error) => GenerateError::InvalidResponse { error, partial },
            Self::AgentExited(error) => GenerateError::AgentExited { error, partial },
            Self::Closed => GenerateError::Closed { partial },
            Self::StartupTimeout {
                method,
                stderr_tail,
                ..
            } => GenerateError::StartupTimeout {
                method,
                stderr_tail,
            },
            error @ (Self::InvalidOptions(_)
            | Self::SpawnFailed { .. }
            | Self::ProtocolVersion { .. }) => GenerateError::Restart(Box::new(error)),
        }
    }
}

impl GenerateError {
    /// The kind in `spec/errors.md`; `model` for [`GenerateError::Model`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "invalid_request",
            Self::AuthRequired { .. } => "auth_required",
            Self::Rejected { .. } => "rejected",
            Self::InvalidResponse { .. } => "invalid_response",
            Self::StartupTimeout { .. } => "startup_timeout",
            Self::Restart(error) => error.kind(),
            Self::AgentExited { .. } => "agent_exited",
            Self::IdleTimeout { .. } => "idle_timeout",
            Self::DeadlineExceeded { .. } => "deadline_exceeded",
            Self::Cancelled { .. } => "cancelled",
            Self::Refused { .. } => "refused",
            Self::UnknownStopReason { .. } => "unknown_stop_reason",
            Self::EmptyTurn { .. } => "empty_turn",
            Self::MalformedReply { .. } => "malformed_reply",
            Self::Busy { .. } => "busy",
            Self::Closed { .. } => "closed",
            Self::Model(_) => "model",
        }
    }

    /// The answer text that had arrived before the error; empty if there was none.
    pub fn partial(&self) -> &str {
        match self {
            Self::AuthRequired { partial, .. }
            | Self::Rejected { partial, .. }
            | Self::InvalidResponse { partial, .. }
            | Self::AgentExited { partial, .. }
            | Self::IdleTimeout { partial, .. }
            | Self::DeadlineExceeded { partial, .. }
            | Self::Cancelled { partial }
            | Self::Refused { partial }
            | Self::UnknownStopReason { partial, .. }
            | Self::MalformedReply { partial, .. }
            | Self::Closed { partial } => partial,
            Self::InvalidRequest(_)
            | Self::StartupTimeout { .. }
            | Self::Restart(_)
            | Self::EmptyTurn { .. }
            | Self::Busy { .. }
            | Self::Model(_) => "",
        }
    }

    /// The end of the agent's standard error, where the error has it.
    pub fn stderr_tail(&self) -> Option<&str> {
        match self {
            Self::AgentExited { error, .. } => Some(&error.stderr_tail),
            Self::Restart(error) => error.stderr_tail(),
            Self::StartupTimeout { stderr_tail, .. } | Self::EmptyTurn { stderr_tail, .. } => {
                Some(stderr_tail)
            }
            _ => None,
        }
    }
}
