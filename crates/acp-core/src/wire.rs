//! One line of bytes to one JSON-RPC 2.0 message, and back.
//!
//! Reading is by hand at the boundary: look at `method`, `id`, `result` and `error`, then decide.
//! `method` comes first, because the agent's request ids and ours are two spaces that overlap in
//! practice. Bodies stay borrowed and unparsed until somebody wants them. Writing is strict: every
//! line is one complete object and a newline.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// JSON-RPC error codes that this crate reads or writes.
///
/// Source: JSON-RPC 2.0 section 5.1; ACP v1 `ErrorCode`.
pub mod code {
    /// The message is not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist or is not available.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The agent wants the user to log in first.
    pub const AUTH_REQUIRED: i64 = -32000;
}

/// Longest id that is echoed, in bytes. Answers wait in memory until the agent reads them.
const MAX_ID: usize = 1024;

/// The id of a request, as JSON text, so that it is echoed with its type and value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Box<str>);

impl RequestId {
    /// `null`: the id of an answer to something that has none that can be told.
    pub fn null() -> Self {
        Self("null".into())
    }

    fn from_raw(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }

    /// Whether JSON-RPC allows it as the id of a request: a string, a number or null.
    fn is_valid(&self) -> bool {
        let kind = matches!(self.0.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'));
        self.0.len() <= MAX_ID && (kind || &*self.0 == "null")
    }
}

/// The id of a response as one of our own, which are small integers.
///
/// An agent that answers `"3"`, `3.0` or `3e0` to the request `3` is understood: no id of ours is a string, so it
/// cannot be confused with another, and three public clients hang on it.
pub(crate) fn own_id(id: &RawValue) -> Option<u64> {
    if let Ok(number) = id.get().parse() {
        return Some(number);
    }
    let text = id.get().trim_matches('"');
    // Every number of ours is far below where a float loses whole numbers.
    let number: f64 = text.parse().ok()?;
    let exact = (0.0..9e15).contains(&number) && number.fract() == 0.0;
    exact.then_some(number as u64)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One line from the agent.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Request {
        id: RequestId,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// A request whose id or method is of a type that JSON-RPC does not have. `id` is what may be
    /// echoed.
    InvalidRequest { id: RequestId },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Response {
        /// `None` for an answer without an id, which some agents send to what they could not parse.
        id: Option<&'a RawValue>,
        outcome: Outcome<'a>,
    },
    /// White space, which is allowed between messages.
    Blank,
    /// Anything else: log lines, bare JSON values, fragments.
    Noise,
}

/// What a response carries.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    Result(&'a RawValue),
    Error(&'a RawValue),
    /// Both members or neither, which JSON-RPC 2.0 section 5 forbids.
    Malformed(&'static str),
}

/// Messages that are looked for in a line that is not one message by itself.
const MAX_GLUED: usize = 64;

/// Where in its line a message stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is the whole line.
    Whole,
    /// Something else is in the line, too.
    Glued,
}

/// Reads one line and calls `each` for what is in it, in order, with its text: one message, almost always.
/// What is no message is [`Frame::Noise`]; nothing fails.
pub(crate) fn parse_line<'a>(line: &'a str, mut each: impl FnMut(Frame<'a>, &'a str, Place)) {
    let text = if line.starts_with('{') && line.ends_with('}') {
        line
    } else {
        line.trim_start_matches('\u{feff}').trim()
    };
    if text.is_empty() {
        return each(Frame::Blank, text, Place::Whole);
    }
    match Members::read(text) {
        Some((members, end)) if end == text.len() => each(members.classify(), text, Place::Whole),
        _ => parse_glued(text, each),
    }
}

/// A log line without a newline of its own is glued in front of a message, or a message lacks its newline:
/// the messages count, and the rest is noise.
fn parse_glued<'a>(text: &'a str, mut each: impl FnMut(Frame<'a>, &'a str, Place)) {
    let mut noise = false;
    let mut rest = text;
    for _ in 0..MAX_GLUED {
        let Some(start) = rest.find(r#"{"jsonrpc""#) else {
            break;
        };
        noise |= !rest[..start].trim().is_empty();
        rest = &rest[start..];
        let Some((members, end)) = Members::read(rest) else {
            noise = true;
            rest = &rest[1..];
            continue;
        };
        match members.classify() {
            // An agent that logs what it reads shows us our own lines.
            Frame::Request { method, .. } | Frame::Notification { method, .. }
                if is_our_own(&method) =>
            {
                noise = true;
            }
            frame => each(frame, &rest[..end], Place::Glued),
        }
        rest = &rest[end..];
    }
    if noise || !rest.trim().is_empty() {
        each(Frame::Noise, text, Place::Glued);
    }
}

/// Whether only a client sends this method.
fn is_our_own(method: &str) -> bool {
    matches!(method, "initialize" | "authenticate")
        || (method.starts_with("session/")
            && !matches!(method, "session/update" | "session/request_permission"))
}

/// The members of a message that decide what it is.
#[derive(Default)]
struct Members<'a> {
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> Members<'a> {
    /// Reads the object at the beginning of the text; how long it is.
    fn read(text: &'a str) -> Option<(Self, usize)> {
        if !text.starts_with('{') {
            return None;
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        let members = values.next()?.ok()?;
        Some((members, values.byte_offset()))
    }

    fn classify(self) -> Frame<'a> {
        if let Some(raw) = self.method {
            let id = self.id.map(RequestId::from_raw);
            let method = serde_json::from_str::<Text<'a>>(raw.get());
            return match (id, method) {
                (Some(id), Ok(Text(method))) if id.is_valid() => Frame::Request {
                    id,
                    method,
                    params: self.params,
                },
                (Some(id), _) => Frame::InvalidRequest {
                    id: if id.is_valid() { id } else { RequestId::null() },
                },
                (None, Ok(Text(method))) => Frame::Notification {
                    method,
                    params: self.params,
                },
                (None, Err(_)) => Frame::Noise,
            };
        }
        // An explicit `"error": null` beside a result is a habit of some JSON-RPC libraries.
        let error = self.error.filter(|raw| raw.get() != "null");
        let outcome = match (self.result, error) {
            (Some(result), None) => Outcome::Result(result),
            (None, Some(error)) => Outcome::Error(error),
            (Some(_), Some(_)) => Outcome::Malformed("it has both a result and an error"),
            (None, None) if self.id.is_none() => return Frame::Noise,
            (None, None) => Outcome::Malformed("it has neither a result nor an error"),
        };
        Frame::Response {
            id: self.id,
            outcome,
        }
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members::default();
                while let Some(Text(key)) = map.next_key()? {
                    let slot = match &*key {
                        "id" => &mut members.id,
                        "method" => &mut members.method,
                        "params" => &mut members.params,
                        "result" => &mut members.result,
                        "error" => &mut members.error,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *slot = Some(map.next_value()?);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// A string that is borrowed where it has no escapes. (`Cow` alone is always owned in serde.)
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Writes a request line.
pub(crate) fn request<P: Serialize>(id: u64, method: &str, params: P) -> Vec<u8> {
    let mut line = Message::new();
    line.member("id", &id);
    line.member("method", method);
    line.member("params", &params);
    line.into_line()
}

/// Writes a notification line.
pub(crate) fn notification<P: Serialize>(method: &str, params: P) -> Vec<u8> {
    let mut line = Message::new();
    line.member("method", method);
    line.member("params", &params);
    line.into_line()
}

/// Writes the line that answers a request with a result.
pub(crate) fn result<R: Serialize>(id: &RequestId, result: R) -> Vec<u8> {
    let mut line = Message::answer(id);
    line.member("result", &result);
    line.into_line()
}

/// Writes the line that answers a request with an error.
pub(crate) fn error(id: &RequestId, code: i64, message: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Error<'a> {
        code: i64,
        message: &'a str,
    }
    let mut line = Message::answer(id);
    line.member("error", &Error { code, message });
    line.into_line()
}

/// A message that is being written, member by member. As one struct for each kind of message, with each kind of
/// parameters, it would be a good deal more to compile.
struct Message(Vec<u8>);

impl Message {
    fn new() -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(br#"{"jsonrpc":"2.0""#);
        Self(bytes)
    }

    fn answer(id: &RequestId) -> Self {
        let mut answer = Self::new();
        answer.name("id");
        // The text was cut out of a parsed message, so it is JSON.
        answer.0.extend_from_slice(id.0.as_bytes());
        answer
    }

    fn name(&mut self, name: &'static str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.name(name);
        #[expect(
            clippy::expect_used,
            reason = "what goes out is our own structs with string keys, written to memory"
        )]
        serde_json::to_writer(&mut self.0, value).expect("a message serializes");
    }

    fn into_line(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> String {
        kinds(line).join(" + ")
    }

    fn kinds(line: &str) -> Vec<String> {
        let mut kinds = Vec::new();
        parse_line(line, |frame, _, _| kinds.push(name(&frame)));
        kinds
    }

    fn name(frame: &Frame<'_>) -> String {
        match frame {
            Frame::Request { id, method, .. } => format!("request {id} {method}"),
            Frame::InvalidRequest { id } => format!("invalid request {id}"),
            Frame::Notification { method, .. } => format!("notification {method}"),
            Frame::Response { id, outcome } => {
                let id = id.map_or("none", RawValue::get);
                match outcome {
                    Outcome::Result(raw) => format!("result {id} {}", raw.get()),
                    Outcome::Error(raw) => format!("error {id} {}", raw.get()),
                    Outcome::Malformed(why) => format!("malformed {id}: {why}"),
                }
            }
            Frame::Blank => "blank".to_owned(),
            Frame::Noise => "noise".to_owned(),
        }
    }

    #[test]
    fn method_decides_before_id() {
        assert_eq!(kind(r#"{"id":3,"method":"m","result":1}"#), "request 3 m");
        assert_eq!(kind(r#"{"id":null,"method":"m"}"#), "request null m");
        assert_eq!(kind(r#"{"id":"x-1","method":"m"}"#), r#"request "x-1" m"#);
        assert_eq!(kind(r#"{"method":"m\u0041"}"#), "notification mA");
        assert_eq!(kind(r#"{"id":3,"method":7}"#), "invalid request 3");
        assert_eq!(kind(r#"{"id":[1],"method":"m"}"#), "invalid request null");
        assert_eq!(kind(r#"{"method":7}"#), "noise");
    }

    #[test]
    fn responses_keep_null_apart_from_absent() {
        assert_eq!(kind(r#"{"id":1,"result":null}"#), "result 1 null");
        assert_eq!(kind(r#"{"id":1,"result":{},"error":null}"#), "result 1 {}");
        assert_eq!(kind(r#"{"id":null,"error":{}}"#), "error null {}");
        assert_eq!(kind(r#"{"error":{}}"#), "error none {}");
        assert!(kind(r#"{"id":1}"#).starts_with("malformed 1"));
        assert!(kind(r#"{"id":1,"result":1,"error":{}}"#).starts_with("malformed 1"));
    }

    #[test]
    fn what_is_no_message_is_noise() {
        for line in [
            "42",
            "\"ready\"",
            "[]",
            "Loaded.",
            "{",
            "{}",
            "{\"a\":1}",
            "{'x'}",
        ] {
            assert_eq!(kind(line), "noise", "{line}");
        }
        for line in ["", "  ", "\r", "\u{feff}"] {
            assert_eq!(kind(line), "blank");
        }
    }

    #[test]
    fn other_framings_are_read() {
        assert_eq!(kind("\u{feff}{\"id\":1,\"result\":0}\r"), "result 1 0");
    }

    #[test]
    fn messages_are_found_where_a_newline_is_missing() {
        let one = r#"{"jsonrpc":"2.0","id":1,"result":0}"#;
        let nested = r#"{"jsonrpc":"2.0","id":2,"result":{"jsonrpc":"2.0","id":9,"result":9}}"#;
        let ours = r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt"}"#;
        let read = |text: &str| kinds(text).join(" + ");
        assert_eq!(
            read(&format!("\u{1b}[2KLoading... {one}")),
            "result 1 0 + noise"
        );
        assert_eq!(read(&format!("{one}{one}")), "result 1 0 + result 1 0");
        assert_eq!(read(&format!("{one} done")), "result 1 0 + noise");
        let inner = r#"{"jsonrpc":"2.0","id":9,"result":9}"#;
        assert_eq!(
            read(&format!("log: {nested}")),
            format!("result 2 {inner} + noise")
        );
        assert_eq!(
            read(&format!("log: {nested}{one}")),
            format!("result 2 {inner} + result 1 0 + noise")
        );
        assert_eq!(read(&format!("received {ours}")), "noise");
        assert_eq!(read(ours), "request 3 session/prompt");
        assert_eq!(read("echo {\"jsonrpc\":\"2.0\",\"id\":1"), "noise");
        assert_eq!(read(&r#"{"jsonrpc""#.repeat(1000)), "noise");
    }

    #[test]
    fn own_ids_are_found_in_every_spelling() {
        let own = |text| own_id(serde_json::from_str(text).unwrap());
        assert_eq!(own("3"), Some(3));
        assert_eq!(own("\"3\""), Some(3));
        assert_eq!(own("3.0"), Some(3));
        assert_eq!(own("30e-1"), Some(3));
        for other in [
            "-3",
            "\"c-3\"",
            "null",
            "3.5",
            "\"\"",
            "99999999999999999999",
        ] {
            assert_eq!(own(other), None, "{other}");
        }
    }

    #[test]
    fn ids_are_echoed_as_they_came() {
        let mut found = None;
        parse_line(r#"{"id":"a\"é","method":"m"}"#, |frame, _, _| {
            if let Frame::Request { id, .. } = frame {
                found = Some(id);
            }
        });
        let id = found.unwrap();
        let line = String::from_utf8(error(&id, code::METHOD_NOT_FOUND, "x")).unwrap();
        assert_eq!(
            line,
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"é\",\"error\":{\"code\":-32601,\"message\":\"x\"}}\n"
        );
    }
}
