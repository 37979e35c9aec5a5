//! The lines of a recording as JSON-RPC messages, read as leniently as a client reads them.

use serde_json::{Map, Value};

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    Request {
        id: Value,
        method: String,
        params: Option<Value>,
    },
    Notification {
        method: String,
        params: Option<Value>,
    },
    Response {
        id: Value,
        answer: Result<Value, Value>,
    },
    /// What is no message.
    Noise,
}

impl Message {
    pub(super) fn read(line: &[u8]) -> Message {
        match serde_json::from_slice(line) {
            Ok(Value::Object(members)) if members.get("jsonrpc").is_some_and(|v| v == "2.0") => {
                Message::of(members)
            }
            _ => Message::Noise,
        }
    }

    fn of(mut members: Map<String, Value>) -> Message {
        let id = members.remove("id").filter(|id| !id.is_null());
        let params = members.remove("params");
        match (members.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Message::Request { id, method, params },
            (Some(Value::String(method)), None) => Message::Notification { method, params },
            (None, Some(id)) => match (members.remove("result"), members.remove("error")) {
                (_, Some(error)) if !error.is_null() => Message::Response {
                    id,
                    answer: Err(error),
                },
                (Some(result), _) => Message::Response {
                    id,
                    answer: Ok(result),
                },
                _ => Message::Noise,
            },
            _ => Message::Noise,
        }
    }
}

/// The `sessionId` of params or of a result.
pub(super) fn session_of(value: &Value) -> Option<&str> {
    value["sessionId"].as_str()
}

/// Whether `answered` is the id `asked`, or the number `asked` as a string.
pub(super) fn same_id(asked: &Value, answered: &Value) -> bool {
    let number = asked.as_number().map(ToString::to_string);
    asked == answered || (number.is_some() && answered.as_str() == number.as_deref())
}
