//! What can go wrong, as closed lists of what a caller can do about it.
//!
//! `spec/errors.md` has one row for each kind. The payloads are shared by both lists and boxed, so
//! that the good path stays small.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::protocol::AuthMethod;
use crate::request::Dropped;

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
        /// The version it answered, as JSON text.
        answered: String,
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
        /// As JSON text, at most 200 characters; `absent` if there was none.
        stop_reason: String,
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
    /// The lane's queue is full.
    #[error("{queued} turns already wait on this lane")]
    Busy {
        /// How many.
        queued: usize,
    },
    /// The model was closed.
    #[error("the model is closed")]
    Closed {
        /// Text that had arrived.
        partial: String,
    },
    /// A model that is not an ACP agent failed.
    #[error("the model failed: {0}")]
    Model(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// The agent wants the user to log in (`-32000`).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuthRequired {
    /// The request that was refused.
    pub method: &'static str,
    /// What the agent offered in `initialize`.
    pub methods: Vec<AuthMethod>,
    /// The agent's own words.
    pub message: String,
}

impl fmt::Display for AuthRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the agent wants a login before `{}`: {}; ",
            self.method, self.message
        )?;
        if self.methods.is_empty() {
            return f.write_str("it names no method, see its own documentation");
        }
        f.write_str("log in by one of its methods: ")?;
        for (i, method) in self.methods.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", method.id)?;
        }
        Ok(())
    }
}

impl std::error::Error for AuthRequired {}

/// The agent answered a request with an error.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rejected {
    /// The request.
    pub method: &'static str,
    /// JSON-RPC error code; agents also use positive ones. 0 if it was no integer.
    pub code: i64,
    /// The agent's own words; empty if there were none.
    pub message: String,
    /// The agent's own data; null if there was none.
    pub data: Value,
}

impl Rejected {
    /// The part of `data` that says what went wrong, as one short line, in the shapes seen in the
    /// field: a string, an object with `details`, `message` or `reason`, or nested errors.
    pub fn detail(&self) -> Option<String> {
        find_line(&self.data, 0)
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the agent rejected `{}`: ", self.method)?;
        if self.message.is_empty() {
            f.write_str("no message")?;
        } else {
            f.write_str(&one_line(&self.message))?;
        }
        match self.detail() {
            Some(detail) if !self.message.contains(&detail) => write!(f, ": {detail}")?,
            _ => {}
        }
        write!(f, " (code {})", self.code)
    }
}

impl std::error::Error for Rejected {}

/// An answer that is not a valid response to its request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InvalidResponse {
    /// The request.
    pub method: &'static str,
    /// What is wrong with the answer.
    pub detail: String,
}

impl fmt::Display for InvalidResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the agent's answer to `{}` is not valid: {}",
            self.method, self.detail
        )
    }
}

impl std::error::Error for InvalidResponse {}

/// How the agent's process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitInfo {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal, if one ended it.
    pub signal: Option<i32>,
}

impl ExitInfo {
    /// A process that exited with this code.
    pub fn code(code: i32) -> Self {
        Self {
            code: Some(code),
            signal: None,
        }
    }

    /// A process that a signal ended.
    pub fn signal(signal: i32) -> Self {
        Self {
            code: None,
            signal: Some(signal),
        }
    }
}

impl fmt::Display for ExitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("closed its output"),
        }
    }
}

/// The agent's process ended, or closed the pipe, before it had answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentExited {
    /// How.
    pub exit: ExitInfo,
    /// The end of what it wrote to standard error, and to standard output if it was no message.
    pub stderr_tail: String,
}

impl fmt::Display for AgentExited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the agent {}{}", self.exit, tail(&self.stderr_tail))
    }
}

impl std::error::Error for AgentExited {}

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
            | Self::ProtocolVersion { .. }) => GenerateError::InvalidRequest(error.to_string()),
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
            Self::AgentExited { .. } => "agent_exited",
            Self::IdleTimeout { .. } => "idle_timeout",
            Self::DeadlineExceeded { .. } => "deadline_exceeded",
            Self::Cancelled { .. } => "cancelled",
            Self::Refused { .. } => "refused",
            Self::UnknownStopReason { .. } => "unknown_stop_reason",
            Self::EmptyTurn { .. } => "empty_turn",
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
            | Self::Closed { partial } => partial,
            Self::InvalidRequest(_)
            | Self::StartupTimeout { .. }
            | Self::EmptyTurn { .. }
            | Self::Busy { .. }
            | Self::Model(_) => "",
        }
    }

    /// The end of the agent's standard error, where the error has it.
    pub fn stderr_tail(&self) -> Option<&str> {
        match self {
            Self::AgentExited { error, .. } => Some(&error.stderr_tail),
            Self::StartupTimeout { stderr_tail, .. } | Self::EmptyTurn { stderr_tail, .. } => {
                Some(stderr_tail)
            }
            _ => None,
        }
    }
}

/// Longest line drawn out of an agent's words, in characters.
const LINE_LIMIT: usize = 300;

/// The first text that says something, in the shapes agents use.
fn find_line(data: &Value, depth: usize) -> Option<String> {
    // Shapes seen so far are at most four deep.
    if depth > 4 {
        return None;
    }
    match data {
        Value::String(text) => (!text.trim().is_empty()).then(|| one_line(text)),
        Value::Array(items) => items.iter().find_map(|item| find_line(item, depth + 1)),
        Value::Object(members) => ["details", "message", "reason", "error", "_errors"]
            .iter()
            .filter_map(|key| members.get(*key))
            .chain(members.values().filter(|value| !value.is_string()))
            .find_map(|value| find_line(value, depth + 1)),
        _ => None,
    }
}

/// Text as one line of bounded length.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (i, word) in text.split_whitespace().enumerate() {
        if i > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((cut, _)) = line.char_indices().nth(LINE_LIMIT) {
            line.truncate(cut);
            line.push('…');
            break;
        }
    }
    line
}

/// The stderr tail as the end of a message.
fn tail(stderr_tail: &str) -> String {
    match stderr_tail.trim() {
        "" => String::new(),
        text => format!("; the end of its standard error:\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rejected(message: &str, data: Value) -> String {
        Rejected {
            method: "session/prompt",
            code: -32603,
            message: message.into(),
            data,
        }
        .to_string()
    }

    #[test]
    fn the_useful_line_is_found_in_every_shape_of_data() {
        for (data, line) in [
            (json!("No session found"), "No session found"),
            (
                json!({"details": "model is deprecated"}),
                "model is deprecated",
            ),
            (
                json!({"_errors": [], "prompt": {"_errors": ["Required"]}}),
                "Required",
            ),
            (
                json!([{"path": ["x"], "message": "Invalid input"}]),
                "Invalid input",
            ),
            (json!({"error": {"message": "quota"}}), "quota"),
        ] {
            assert_eq!(
                rejected("Internal error", data),
                format!(
                    "the agent rejected `session/prompt`: Internal error: {line} (code -32603)"
                )
            );
        }
        for data in [json!(null), json!(7), json!({}), json!([[[[[["deep"]]]]]])] {
            assert_eq!(
                rejected("Internal error", data),
                "the agent rejected `session/prompt`: Internal error (code -32603)"
            );
        }
    }

    #[test]
    fn lines_are_bounded() {
        let text = rejected(&"word ".repeat(10_000), Value::Null);
        assert!(text.chars().count() < LINE_LIMIT + 80, "{text}");
    }

    #[test]
    fn a_login_error_names_the_methods() {
        let method = |id: &str| AuthMethod {
            id: id.into(),
            name: String::new(),
            description: String::new(),
        };
        let mut error = AuthRequired {
            method: "session/new",
            methods: vec![method("oauth"), method("api-key")],
            message: "Authentication required".into(),
        };
        assert!(error.to_string().ends_with("methods: oauth, api-key"));
        error.methods.clear();
        assert!(error.to_string().contains("names no method"));
    }
}
