//! The lines of the driver protocol, version 1 (`spec/driver-protocol.md`).

use serde_json::{Map, Value, json};

use crate::tier::Capability;

/// The oldest and the newest version the harness speaks.
pub const VERSIONS: [u64; 2] = [1, 1];

/// The closed list of error kinds of `spec/errors.md`.
pub const ERROR_KINDS: [&str; 18] = [
    "invalid_options",
    "spawn_failed",
    "startup_timeout",
    "protocol_version",
    "auth_required",
    "rejected",
    "invalid_response",
    "agent_exited",
    "idle_timeout",
    "deadline_exceeded",
    "cancelled",
    "refused",
    "unknown_stop_reason",
    "empty_turn",
    "malformed_reply",
    "invalid_request",
    "busy",
    "closed",
];

/// The line of one request, with its newline.
pub fn request_line(seq: u64, op: &str, args: &Value) -> Vec<u8> {
    let mut line = json!({"seq": seq, "op": op, "args": args}).to_string();
    line.push('\n');
    line.into_bytes()
}

/// The arguments of `hello`.
pub fn hello_args() -> Value {
    json!({
        "protocol": VERSIONS,
        "harness": concat!("acp-conformance ", env!("CARGO_PKG_VERSION")),
    })
}

/// A driver's answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The request it answers.
    pub seq: u64,
    /// What it says.
    pub body: Body,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The library returned this object.
    Ok(Value),
    /// The library reported this error: an object whose `kind` is of [`ERROR_KINDS`].
    Err(Value),
    /// The driver caught what the library should have reported.
    Crash(String),
    /// The library has no such operation or option.
    Unsupported(String),
}

impl Answer {
    /// Reads one line of a driver, without its newline.
    pub fn parse(line: &[u8]) -> Result<Answer, AnswerError> {
        let value: Value =
            serde_json::from_slice(line).map_err(|_| match str::from_utf8(line) {
                Ok(line) if holds_half_character(line) => AnswerError::HalfCharacter,
                Ok(_) => AnswerError::NotJson,
                Err(error) => AnswerError::NotUtf8(error.valid_up_to()),
            })?;
        let Value::Object(mut members) = value else {
            return Err(AnswerError::NotAnObject);
        };
        let seq = members
            .remove("seq")
            .and_then(|seq| seq.as_u64())
            .ok_or(AnswerError::NoSeq)?;
        let (Some((key, value)), true) = (members.iter().next(), members.len() == 1) else {
            return Err(AnswerError::NotOneBody);
        };
        let body = match (key.as_str(), value) {
            ("ok", Value::Object(_)) => Body::Ok(value.clone()),
            ("err", Value::Object(error)) => {
                check_error(error)?;
                Body::Err(value.clone())
            }
            ("crash", Value::String(text)) => Body::Crash(text.clone()),
            ("unsupported", Value::String(text)) => Body::Unsupported(text.clone()),
            ("ok" | "err" | "crash" | "unsupported", _) => {
                return Err(AnswerError::WrongType(key.clone()));
            }
            _ => return Err(AnswerError::NotOneBody),
        };
        Ok(Answer { seq, body })
    }
}

/// What a driver says about its port in answer to `hello`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// The port's name.
    pub name: String,
    /// The language it is written in.
    pub language: String,
    /// The version of the library.
    pub version: String,
    /// What it can do.
    pub capabilities: Vec<Capability>,
}

impl Greeting {
    /// Reads the `ok` of an answer to `hello`.
    pub fn parse(ok: &Value) -> Result<Greeting, AnswerError> {
        let chosen = ok.get("protocol").and_then(Value::as_u64);
        if !chosen.is_some_and(|version| (VERSIONS[0]..=VERSIONS[1]).contains(&version)) {
            return Err(AnswerError::Version);
        }
        let text = |key: &'static str| {
            ok.pointer(&format!("/port/{key}"))
                .and_then(Value::as_str)
                .map(str::to_owned)
                .ok_or(AnswerError::Greeting(key))
        };
        let names = ok
            .get("capabilities")
            .and_then(Value::as_array)
            .ok_or(AnswerError::Greeting("capabilities"))?;
        let capabilities = names
            .iter()
            .map(|name| {
                name.as_str()
                    .and_then(Capability::from_name)
                    .ok_or_else(|| AnswerError::Capability(name.to_string()))
            })
            .collect::<Result<_, _>>()?;
        Ok(Greeting {
            name: text("name")?,
            language: text("language")?,
            version: text("version")?,
            capabilities,
        })
    }
}

/// How a driver broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The line is not JSON.
    #[error("a line that is not JSON")]
    NotJson,
    /// A string holds half of a character, which is the port's fault: an agent's halves become U+FFFD.
    #[error("half a character (`\\ud800` to `\\udfff`, alone) where U+FFFD is due")]
    HalfCharacter,
    /// The line is not UTF-8, from this byte on.
    #[error("a line that is not valid UTF-8 at its byte {}", .0 + 1)]
    NotUtf8(usize),
    /// The line is JSON of another type.
    #[error("a line that is not an object")]
    NotAnObject,
    /// There is no `seq`, or none that the harness could have sent.
    #[error("an answer without the `seq` of a request")]
    NoSeq,
    /// None or several of the four bodies, or another member.
    #[error("an answer that is not exactly one of `ok`, `err`, `crash` and `unsupported`")]
    NotOneBody,
    /// A body of the wrong type.
    #[error("an answer whose `{0}` has the wrong type")]
    WrongType(String),
    /// `err` without a `kind` from the closed list, or without a `message`.
    #[error("an error whose kind is not in the list: {0}")]
    Kind(String),
    /// `err` without a `message`.
    #[error("an error without a message")]
    NoMessage,
    /// `hello` chose a version outside the offered range.
    #[error("a `hello` answer without a protocol version that was offered")]
    Version,
    /// `hello` lacks this member.
    #[error("a `hello` answer without `{0}`")]
    Greeting(&'static str),
    /// `hello` declares a capability that there is not.
    #[error("a `hello` answer with the unknown capability {0}")]
    Capability(String),
}

/// Whether the line would be read if each half of a character, alone or not, were a whole one.
fn holds_half_character(line: &str) -> bool {
    let mut rest = line;
    let mut whole = String::with_capacity(line.len());
    while let Some(at) = rest.find("\\u") {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let is_half = escape.get(2..4).is_some_and(|digits| {
            matches!(
                digits.as_bytes(),
                [b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']
            )
        });
        whole.push_str("\\u");
        rest = &escape[2..];
        if is_half && rest.len() >= 4 && rest.is_char_boundary(4) {
            whole.push_str("fffd");
            rest = &rest[4..];
        }
    }
    whole.push_str(rest);
    whole != line && serde_json::from_str::<serde::de::IgnoredAny>(&whole).is_ok()
}

fn check_error(error: &Map<String, Value>) -> Result<(), AnswerError> {
    let kind = error.get("kind").unwrap_or(&Value::Null);
    if !kind
        .as_str()
        .is_some_and(|kind| ERROR_KINDS.contains(&kind))
    {
        return Err(AnswerError::Kind(kind.to_string()));
    }
    match error.get("message") {
        Some(Value::String(_)) => Ok(()),
        _ => Err(AnswerError::NoMessage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_kinds_are_the_specification_s() {
        let spec = include_str!("../../../spec/errors.md");
        // The kinds are the first table; another one describes the fields.
        let listed: Vec<&str> = spec
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'))
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .collect();
        assert_eq!(listed, ERROR_KINDS);
    }

    #[test]
    fn the_schema_has_the_same_lists() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../spec/driver.schema.json")).unwrap();
        let kinds = &schema["$defs"]["error"]["properties"]["kind"]["enum"];
        assert_eq!(*kinds, json!(ERROR_KINDS));
        let capabilities = &schema["$defs"]["capability"]["enum"];
        assert_eq!(*capabilities, json!(Capability::ALL.map(Capability::name)));
    }

    #[test]
    fn each_answer_is_read() {
        let cases = [
            (r#"{"seq":1,"ok":{}}"#, Body::Ok(json!({}))),
            (
                r#"{"seq":1,"err":{"kind":"busy","message":"m","n":1}}"#,
                Body::Err(json!({"kind": "busy", "message": "m", "n": 1})),
            ),
            (r#"{"seq":1,"crash":"c"}"#, Body::Crash("c".into())),
            (
                r#"{"seq":1,"unsupported":"u"}"#,
                Body::Unsupported("u".into()),
            ),
        ];
        for (line, body) in cases {
            assert_eq!(Answer::parse(line.as_bytes()), Ok(Answer { seq: 1, body }));
        }
    }

    #[test]
    fn a_broken_answer_says_how() {
        let cases = [
            ("hello", "not JSON"),
            (
                r#"{"seq":1,"ok":{"content":"a\ud83d\ude00\ud83d"}}"#,
                "half a character",
            ),
            (r#"{"seq":1,"ok":{"content":"\uDE00"}}"#, "half a character"),
            (r#"{"seq":1,"ok":{"content":"\ud83d"}"#, "not JSON"),
            ("[]", "not an object"),
            (r#"{"ok":{}}"#, "without the `seq`"),
            (r#"{"seq":"1","ok":{}}"#, "without the `seq`"),
            (r#"{"seq":1}"#, "not exactly one"),
            (r#"{"seq":1,"ok":{},"crash":"c"}"#, "not exactly one"),
            (r#"{"seq":1,"okay":{}}"#, "not exactly one"),
            (r#"{"seq":1,"ok":true}"#, "`ok` has the wrong type"),
            (
                r#"{"seq":1,"err":{"message":"m"}}"#,
                "not in the list: null",
            ),
            (
                r#"{"seq":1,"err":{"kind":"sad","message":"m"}}"#,
                r#"not in the list: "sad""#,
            ),
            (r#"{"seq":1,"err":{"kind":"busy"}}"#, "without a message"),
        ];
        for (line, want) in cases {
            let got = Answer::parse(line.as_bytes()).unwrap_err().to_string();
            assert!(got.contains(want), "{line}: {got}");
        }
    }

    #[test]
    fn a_greeting_is_complete_or_refused() {
        let good = json!({
            "protocol": 1,
            "port": {"name": "n", "language": "l", "version": "1"},
            "capabilities": ["cancel"],
        });
        let greeting = Greeting::parse(&good).unwrap();
        assert_eq!(greeting.capabilities, [Capability::Cancel]);
        let changes = [
            ("/protocol", json!(2), "protocol version"),
            ("/port/name", json!(null), "without `name`"),
            ("/port/version", json!(1), "without `version`"),
            ("/capabilities", json!({}), "without `capabilities`"),
            ("/capabilities", json!(["fly"]), r#"capability "fly""#),
        ];
        for (pointer, value, want) in changes {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = value;
            let got = Greeting::parse(&bad).unwrap_err().to_string();
            assert!(got.contains(want), "{pointer}: {got}");
        }
    }
}
