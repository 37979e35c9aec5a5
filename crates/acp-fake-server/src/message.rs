//! JSON-RPC lines: reading the client's, writing the agent's.

use serde_json::{Map, Value, json};

use crate::fixture::Answer;

/// A line from the client.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    /// The line as it came, for messages.
    pub(crate) text: String,
    pub(crate) body: Body,
    /// What is wrong with the envelope although the body could be told.
    pub(crate) problem: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
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
    /// An object of JSON-RPC 2.0 that is none of these.
    Other,
}

/// Why a line is no JSON-RPC 2.0 message at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoMessage {
    NotJson,
    NotJsonRpc,
}

impl Incoming {
    pub(crate) fn read(line: &[u8]) -> Result<Incoming, NoMessage> {
        let mut members = match serde_json::from_slice(line) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err(NoMessage::NotJsonRpc),
            Err(_) => return Err(NoMessage::NotJson),
        };
        if members
            .remove("jsonrpc")
            .is_none_or(|version| version != "2.0")
        {
            return Err(NoMessage::NotJsonRpc);
        }
        let (body, problem) = read_body(&mut members);
        let problem = problem.or_else(|| {
            members
                .keys()
                .next()
                .map(|key| format!("the message has a member {key:?} too many"))
        });
        Ok(Incoming {
            text: String::from_utf8_lossy(line).into_owned(),
            body,
            problem,
        })
    }
}

/// Takes the known members out, so that what is left is too many.
fn read_body(members: &mut Map<String, Value>) -> (Body, Option<String>) {
    let id = members.remove("id");
    let mut problem = match &id {
        None => None,
        Some(Value::String(_)) => None,
        Some(id) if id.is_i64() || id.is_u64() => None,
        Some(id) => Some(format!("the id {id} is neither a string nor an integer")),
    };
    if let Some(method) = members.remove("method") {
        let Value::String(method) = method else {
            return (Body::Other, Some("the method is not a string".to_owned()));
        };
        let params = members.remove("params");
        let body = match id {
            Some(id) => Body::Request { id, method, params },
            None => Body::Notification { method, params },
        };
        return (body, problem);
    }
    let id = id.unwrap_or_else(|| {
        problem = Some("the message has neither a method nor an id".to_owned());
        Value::Null
    });
    match (members.remove("result"), members.remove("error")) {
        (Some(result), None) => (
            Body::Response {
                id,
                answer: Ok(result),
            },
            problem,
        ),
        (None, Some(error)) => (
            Body::Response {
                id,
                answer: Err(error),
            },
            problem,
        ),
        (Some(_), Some(_)) => (
            Body::Other,
            Some("the response has both a result and an error".to_owned()),
        ),
        (None, None) => {
            let message = "the message has no method, no result and no error";
            (
                Body::Other,
                Some(problem.unwrap_or_else(|| message.to_owned())),
            )
        }
    }
}

impl Incoming {
    /// Whether it is the answer that JSON-RPC 2.0 section 5.1 has for a line that is no message.
    pub(crate) fn is_complaint(&self) -> bool {
        match &self.body {
            Body::Response {
                id: Value::Null,
                answer: Err(error),
            } => error["code"] == -32700 || error["code"] == -32600,
            _ => false,
        }
    }
}

/// Whether one of the lines that the agent writes as bytes is no message, as a blank one is none.
pub(crate) fn has_noise(bytes: &[u8]) -> bool {
    let is_message = |line: &[u8]| match serde_json::from_slice(line) {
        Ok(Value::Object(members)) => ["method", "result", "error"]
            .iter()
            .any(|member| members.contains_key(*member)),
        _ => false,
    };
    let mut lines = bytes
        .strip_suffix(b"\n")
        .unwrap_or(bytes)
        .split(|byte| *byte == b'\n');
    lines.any(|line| !is_message(line))
}

pub(crate) fn request(id: &Value, method: &str, params: Option<&Value>) -> Vec<u8> {
    to_line(&[
        ("id", Some(id)),
        ("method", Some(&json!(method))),
        ("params", params),
    ])
}

pub(crate) fn notification(method: &str, params: Option<&Value>) -> Vec<u8> {
    to_line(&[("method", Some(&json!(method))), ("params", params)])
}

pub(crate) fn response(id: &Value, answer: &Result<Value, Value>) -> Vec<u8> {
    self::answer(Some(id), answer)
}

/// A response, which lacks a member where there is no id.
pub(crate) fn answer(id: Option<&Value>, answer: &Result<Value, Value>) -> Vec<u8> {
    let answer = match answer {
        Ok(result) => ("result", Some(result)),
        Err(error) => ("error", Some(error)),
    };
    to_line(&[("id", id), answer])
}

/// A response with the members that a transcript gives it, which may be one too many or too few.
pub(crate) fn scripted_response(id: &Value, answer: &Answer) -> Vec<u8> {
    to_line(&[
        ("id", Some(id)),
        ("result", answer.result.as_ref()),
        ("error", answer.error.as_ref()),
    ])
}

pub(crate) fn update(session: &Value, update: &Value) -> Vec<u8> {
    notification(
        "session/update",
        Some(&json!({"sessionId": session, "update": update})),
    )
}

/// The update that carries a piece of the answer.
pub(crate) fn text_chunk(text: &str) -> Value {
    json!({
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": text},
    })
}

/// The text of the prompt in the params of a `session/prompt`: its text blocks, joined.
pub(crate) fn prompt_text(params: Option<&Value>) -> String {
    let blocks = params
        .and_then(|params| params.get("prompt"))
        .and_then(Value::as_array);
    let texts = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| block.get("text")?.as_str());
    texts.collect()
}

/// The session that params are about.
pub(crate) fn session_of(params: Option<&Value>) -> Option<&str> {
    params?.get("sessionId")?.as_str()
}

/// A message in the order in which people write them, without the newline, which is framing.
fn to_line(members: &[(&str, Option<&Value>)]) -> Vec<u8> {
    let mut line = r#"{"jsonrpc":"2.0""#.to_owned();
    for (name, value) in members {
        if let Some(value) = value {
            line.push_str(&format!(",\"{name}\":{value}"));
        }
    }
    line.push('}');
    line.into_bytes()
}
