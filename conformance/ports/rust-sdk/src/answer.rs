//! Answers of the driver protocol, and the SDK's errors as its kinds.

use agent_client_protocol::{Error, ErrorCode, Result, v1::schema::AuthMethod};
use serde_json::{Value, json};

/// The one answer to a request.
pub enum Answer {
    /// The library returned.
    Ok(Value),
    /// The library reported an error.
    Err(Value),
    /// Something panicked.
    Crash(String),
    /// The library has no such thing.
    Unsupported(String),
}

impl Answer {
    /// The line that answers the request `seq`.
    pub fn line(self, seq: &Value) -> Value {
        match self {
            Self::Ok(value) => json!({"seq": seq, "ok": value}),
            Self::Err(error) => json!({"seq": seq, "err": error}),
            Self::Crash(what) => json!({"seq": seq, "crash": what}),
            Self::Unsupported(what) => json!({"seq": seq, "unsupported": what}),
        }
    }
}

impl From<std::result::Result<Value, Value>> for Answer {
    fn from(result: std::result::Result<Value, Value>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(error) => Self::Err(error),
        }
    }
}

/// The library has no `what`.
pub fn unsupported(what: &str) -> Answer {
    Answer::Unsupported(what.into())
}

/// The error that the request `method` ended with. It is the agent's, but for two that the SDK makes
/// itself and that its data tells: of an answer that it cannot read, and of a protocol version.
pub fn request_failed(method: &str, error: &Error, auth_methods: &[AuthMethod]) -> Value {
    let data = error.data.as_ref();
    if data.is_some_and(|data| data["phase"] == "deserialization") {
        json!({"kind": "invalid_response", "method": method, "message": error.to_string()})
    } else if method == "initialize"
        && let Some(Value::String(detail)) = data
        && detail.contains("ACP protocol version")
    {
        let mut refused = json!({"kind": "protocol_version", "message": detail});
        if let Some(answered) = number_after(detail, "peer negotiated ") {
            refused["answered"] = answered.into();
        }
        refused
    } else if error.code == ErrorCode::AUTH_REQUIRED {
        let methods: Vec<_> = auth_methods.iter().map(AuthMethod::id).collect();
        json!({"kind": "auth_required", "message": error.message, "methods": methods})
    } else {
        let mut rejected = json!({
            "kind": "rejected",
            "method": method,
            "code": error.code.value(),
            "message": error.message,
        });
        if let Some(data) = data {
            rejected["data"] = data.clone();
        }
        rejected
    }
}

/// The end of a connection that the host did not ask for. What the SDK knows of the process is in the
/// text of its error: `Process exited with exit status: 1: STDERR`.
pub fn agent_exited(ended: &Result<()>) -> Value {
    let Err(error) = ended else {
        return json!({"kind": "agent_exited", "message": "the agent ended the connection"});
    };
    let mut exited = json!({"kind": "agent_exited", "message": error.to_string()});
    if let Some(status) = process_exit(error) {
        if let Some(code) = number_after(status, "exit status: ") {
            exited["exit_code"] = code.into();
        }
        if let Some(signal) = number_after(status, "signal: ") {
            exited["signal"] = signal.into();
        }
        exited["stderr_tail"] = status.splitn(3, ": ").nth(2).unwrap_or_default().into();
    }
    exited
}

/// The status of the process and its standard error, where `error` tells of them.
pub fn process_exit(error: &Error) -> Option<&str> {
    let text = error.data.as_ref()?.as_str()?;
    text.strip_prefix("Process exited with ")
}

fn number_after(text: &str, words: &str) -> Option<i64> {
    let (_, rest) = text.split_once(words)?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}
