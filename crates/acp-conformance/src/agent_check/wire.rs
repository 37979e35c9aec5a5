//! Every line the agent writes: read, held against the envelope of JSON-RPC and the official schema.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    Verdict,
    bench::{Bench, Finding},
    talk::{Answer, Message, RpcError, Stop},
};
use crate::wire_schema::{self, Sender};

/// How much of a line is shown, in characters.
const SHOWN: usize = 120;

/// What was seen on the wire, of all processes of the agent.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Each once, in the order in which they came.
    faults: Vec<(Fault, String)>,
    /// The kinds of the ids of the agent's requests.
    ids: BTreeSet<&'static str>,
}

impl Wire {
    /// How many faults there are. Those after it are new.
    pub(super) fn mark(&self) -> usize {
        self.faults.len()
    }

    /// The faults since the mark.
    pub(super) fn since(&self, mark: usize) -> Vec<String> {
        let new = self.faults.iter().skip(mark);
        new.map(|(_, text)| text.clone()).collect()
    }

    /// Notes a line that was too long to be read.
    pub(super) fn too_long(&mut self, what: &str) {
        self.note(Fault::Noise, format!("{what} on standard output"));
    }

    fn note(&mut self, fault: Fault, text: String) {
        if !self.faults.iter().any(|(_, known)| *known == text) {
            self.faults.push((fault, text));
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is no JSON object.
    Noise,
    /// It is no message of JSON-RPC 2.0, or answers nothing.
    Envelope,
    /// It is not what the schema says.
    Schema,
    /// It asks for what the client has not declared.
    Capability,
}

/// Reads a line. `asked` has the methods of the open requests, by the JSON of their ids.
pub(super) fn read(
    line: &[u8],
    asked: &mut BTreeMap<String, String>,
    wire: &mut Wire,
) -> Option<Message> {
    let text = String::from_utf8_lossy(line);
    let shown: String = text.chars().take(SHOWN).collect();
    let Ok(Value::Object(members)) = serde_json::from_slice(line) else {
        wire.note(
            Fault::Noise,
            format!("no JSON object on standard output: {shown}"),
        );
        return None;
    };
    if members
        .get("jsonrpc")
        .is_none_or(|version| version != "2.0")
    {
        wire.note(Fault::Envelope, format!("no jsonrpc \"2.0\": {shown}"));
    }
    let message = match message(&members) {
        Ok(message) => message,
        Err(why) => {
            wire.note(Fault::Envelope, format!("{why}: {shown}"));
            return None;
        }
    };
    let mut answers = None;
    match &message {
        Message::Answer(Answer { id: None, .. }) => {
            wire.note(
                Fault::Envelope,
                "a response without the member id".to_owned(),
            );
        }
        Message::Answer(Answer { id: Some(id), .. }) => {
            answers = asked.remove(&id.to_string());
            if answers.is_none() && !id.is_null() {
                wire.note(Fault::Envelope, "a response to no open request".to_owned());
            }
        }
        Message::Request { id, method, .. } => {
            wire.ids.insert(match id {
                Value::String(_) => "strings",
                Value::Number(_) => "numbers",
                _ => "neither strings nor numbers",
            });
            if method.starts_with("fs/") || method.starts_with("terminal/") {
                wire.note(
                    Fault::Capability,
                    format!("{method}, a capability that the client does not declare"),
                );
            }
        }
        Message::Notification { .. } => {}
    }
    if let Err(why) = wire_schema::check(Sender::Agent, line, answers.as_deref()) {
        wire.note(Fault::Schema, why);
    }
    Some(message)
}

fn message(members: &Map<String, Value>) -> Result<Message, &'static str> {
    let id = members.get("id").cloned();
    let params = members.get("params").cloned().unwrap_or_default();
    if let Some(method) = members.get("method") {
        let method = method.as_str().ok_or("the method is no string")?.to_owned();
        return Ok(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        });
    }
    let result = match (members.get("result"), members.get("error")) {
        (Some(_), Some(_)) => return Err("a response with both a result and an error"),
        (Some(result), None) => Ok(result.clone()),
        (None, Some(error)) => Err(rpc_error(error)),
        (None, None) => return Err("neither a method nor a result nor an error"),
    };
    Ok(Message::Answer(Answer { id, result }))
}

fn rpc_error(error: &Value) -> RpcError {
    let message = error.get("message").and_then(Value::as_str);
    let message = message.unwrap_or_default();
    // The words are often in the data, as a string or as its `details`.
    let data = error.get("data");
    let details = data.and_then(|data| data.get("details").or(Some(data)));
    let message = match details.and_then(Value::as_str) {
        Some(details) => format!("{message}: {details}"),
        None => message.to_owned(),
    };
    RpcError {
        code: error
            .get("code")
            .and_then(Value::as_i64)
            .unwrap_or_default(),
        message,
    }
}

pub(super) fn output(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    Ok(faults(bench, Fault::Noise, "messages only"))
}

pub(super) fn envelope(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    Ok(faults(bench, Fault::Envelope, "well-formed"))
}

pub(super) fn schema(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    Ok(faults(bench, Fault::Schema, "valid"))
}

pub(super) fn capabilities(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    Ok(faults(bench, Fault::Capability, "none used"))
}

pub(super) fn ids(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let wire = bench.wire.borrow();
    if wire.ids.is_empty() {
        return Err(Stop::NotApplicable("the agent asked nothing".to_owned()));
    }
    let kinds: Vec<&str> = wire.ids.iter().copied().collect();
    Ok(Finding::new(Verdict::Ok, kinds.join(" and ")))
}

fn faults(bench: &Bench<'_>, kind: Fault, good: &str) -> Finding {
    let wire = bench.wire.borrow();
    let of_kind: Vec<&str> = wire
        .faults
        .iter()
        .filter(|(fault, _)| *fault == kind)
        .map(|(_, text)| text.as_str())
        .collect();
    match of_kind.first() {
        None => Finding::new(Verdict::Ok, good),
        Some(first) => {
            let more = of_kind.len() - 1;
            let detail = if more == 0 {
                (*first).to_owned()
            } else {
                format!("{first}; and {more} more")
            };
            Finding::new(Verdict::Wrong, "faults").with(detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with `line`, where `"id":1` answers `initialize`.
    fn fault(line: &str) -> Option<Fault> {
        let mut wire = Wire::default();
        let mut asked = BTreeMap::from([("1".to_owned(), "initialize".to_owned())]);
        read(line.as_bytes(), &mut asked, &mut wire);
        assert!(wire.faults.len() < 2, "{:?}", wire.faults);
        wire.faults.pop().map(|(fault, _)| fault)
    }

    #[test]
    fn each_kind_of_fault_is_found_and_its_neighbour_is_none() {
        for (line, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#,
                None,
            ),
            ("Listening…", Some(Fault::Noise)),
            ("[]", Some(Fault::Noise)),
            (
                r#"{"id":1,"result":{"protocolVersion":1}}"#,
                Some(Fault::Envelope),
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
                Some(Fault::Envelope),
            ),
            (
                r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#,
                Some(Fault::Envelope),
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":1}"#, Some(Fault::Envelope)),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                Some(Fault::Schema),
            ),
            (
                r#"{"jsonrpc":"2.0","id":0,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/p"}}"#,
                Some(Fault::Capability),
            ),
        ] {
            assert_eq!(fault(line), expected, "{line}");
        }
    }

    #[test]
    fn a_fault_that_comes_again_is_noted_once() {
        let mut wire = Wire::default();
        for _ in 0..2 {
            read(b"noise", &mut BTreeMap::new(), &mut wire);
        }
        assert_eq!(wire.mark(), 1);
        assert_eq!(wire.since(0).len(), 1);
        assert!(wire.since(1).is_empty());
    }
}
