//! Errors as JSON objects, for logs and for programs in other languages: `kind`, `message`, and the
//! fields of `spec/errors.md`.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{AgentExited, AuthRequired, GenerateError, InvalidResponse, LoadError, Rejected};

impl Serialize for LoadError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = Report::new(self.kind(), self);
        match self {
            Self::SpawnFailed { program, .. } => report.set("program", program.as_str()),
            Self::StartupTimeout { method, .. } => report.set("method", *method),
            Self::ProtocolVersion { answered } => report.set("answered", answered.clone()),
            Self::AuthRequired(error) => report.auth_required(error),
            Self::Rejected(error) => report.rejected(error),
            Self::InvalidResponse(error) => report.invalid_response(error),
            Self::AgentExited(error) => report.agent_exited(error),
            Self::InvalidOptions(_) | Self::Closed => {}
        }
        report.finish(self.stderr_tail(), "").serialize(serializer)
    }
}

impl Serialize for GenerateError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = Report::new(self.kind(), self);
        match self {
            Self::AuthRequired { error, .. } => report.auth_required(error),
            Self::Rejected { error, .. } => report.rejected(error),
            Self::InvalidResponse { error, .. } => report.invalid_response(error),
            Self::AgentExited { error, .. } => report.agent_exited(error),
            Self::StartupTimeout { method, .. } => report.set("method", *method),
            Self::UnknownStopReason { stop_reason, .. } => {
                report.set("stop_reason", stop_reason.clone());
            }
            Self::EmptyTurn { dropped, .. } => {
                report.set("dropped", dropped.nonzero().collect::<CountMap>().0);
            }
            Self::MalformedReply { error, .. } => {
                report.set("fault", error.fault.as_str());
                report.set("repairs", error.repairs.len());
            }
            _ => {}
        }
        report
            .finish(self.stderr_tail(), self.partial())
            .serialize(serializer)
    }
}

/// The object in the making.
struct Report(Map<String, Value>);

impl Report {
    fn new(kind: &str, error: &dyn std::error::Error) -> Self {
        let mut report = Self(Map::new());
        report.set("kind", kind);
        report.set("message", error.to_string());
        report
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn auth_required(&mut self, error: &AuthRequired) {
        let ids: Vec<&str> = error.methods.iter().map(|method| &*method.id).collect();
        self.set("method", error.method);
        self.set("methods", json!(ids));
    }

    fn rejected(&mut self, error: &Rejected) {
        self.set("method", error.method);
        self.set("code", error.code);
        self.set("data", error.data.clone());
    }

    fn invalid_response(&mut self, error: &InvalidResponse) {
        self.set("method", error.method);
        self.set("detail", error.detail.as_str());
    }

    fn agent_exited(&mut self, error: &AgentExited) {
        if let Some(code) = error.exit.code {
            self.set("exit_code", code);
        }
        if let Some(signal) = error.exit.signal {
            self.set("signal", signal);
        }
    }

    fn finish(mut self, stderr_tail: Option<&str>, partial: &str) -> Value {
        if let Some(tail) = stderr_tail.filter(|tail| !tail.is_empty()) {
            self.set("stderr_tail", tail);
        }
        if !partial.is_empty() {
            self.set("partial", partial);
        }
        Value::Object(self.0)
    }
}

/// Counts by name, as an object.
struct CountMap(Value);

impl FromIterator<(&'static str, u64)> for CountMap {
    fn from_iter<I: IntoIterator<Item = (&'static str, u64)>>(counts: I) -> Self {
        Self(Value::Object(
            counts
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count.into()))
                .collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExitInfo;

    #[test]
    fn errors_carry_their_fields() {
        let error = GenerateError::AgentExited {
            error: Box::new(AgentExited {
                exit: ExitInfo::code(7),
                stderr_tail: "panic: boom".into(),
            }),
            partial: "half".into(),
        };
        assert_eq!(
            serde_json::to_value(&error).unwrap(),
            json!({
                "kind": "agent_exited",
                "message": "the agent exited with status 7; the end of what it wrote:\npanic: boom",
                "exit_code": 7,
                "stderr_tail": "panic: boom",
                "partial": "half",
            })
        );
        assert_eq!(
            serde_json::to_value(LoadError::Closed).unwrap(),
            json!({"kind": "closed", "message": "the model is closed"})
        );
    }
}
