//! What a session has seen, as one number, to find the lane whose history begins a request.
//!
//! A request has one digest for each number of its first messages, so that a lane is compared with it in one
//! step, however long the conversation; and one who waits in the queue is remembered by its digests instead of
//! by its text. Messages that the [history](crate::connection) of a session takes for the same have the same
//! digest. The reverse is only very likely, and need not be more: the engine compares the text itself before it
//! sends less than all of it, so that a lane that was chosen wrongly costs a new session and nothing else.

use std::hash::{BuildHasher, Hash, Hasher};

use serde_json::Value;

use crate::message::{Content, Message};
use crate::request::{GenerateRequest, GenerateResponse};

/// What a session was sent and has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How many messages.
    len: usize,
    digest: u64,
}

/// The digests of a request: of its tools and response format, and then of each message with all before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digests(Vec<u64>);

impl Digests {
    pub(crate) fn of(request: &GenerateRequest, hasher: &impl BuildHasher) -> Self {
        let mut digests = Vec::with_capacity(request.messages.len() + 1);
        let mut digest = hasher.hash_one((&request.tools, &request.response_format));
        digests.push(digest);
        for message in &request.messages {
            digest = extend(digest, message, hasher);
            digests.push(digest);
        }
        Self(digests)
    }

    /// How many messages of the request a session has seen, if it has seen these and nothing else, and not all.
    pub(crate) fn seen_by(&self, seen: &Seen) -> Option<usize> {
        let is_less = seen.len + 1 < self.0.len();
        (is_less && self.0[seen.len] == seen.digest).then_some(seen.len)
    }

    /// What a session has seen that was sent this request and has given this answer, where that is known.
    pub(crate) fn answered(
        &self,
        answer: &GenerateResponse,
        hasher: &impl BuildHasher,
    ) -> Option<Seen> {
        // The same answers as those of which the engine does not know what the session holds.
        if answer.dropped.non_text > 0 || !answer.repairs.is_empty() {
            return None;
        }
        let sent = *self.0.last()?;
        Some(Seen {
            len: self.0.len(),
            digest: extend(sent, &answer.to_message(), hasher),
        })
    }
}

/// The digest of a message and what was before it.
fn extend(before: u64, message: &Message, hasher: &impl BuildHasher) -> u64 {
    let mut state = hasher.build_hasher();
    (before, &message.role, message.other.len()).hash(&mut state);
    match &message.content {
        // Beside calls of tools, some hosts write no content as the empty text.
        content if message.is_of_tools() && content.text().is_empty() && !holds_parts(content) => {
            0_u8.hash(&mut state);
        }
        Content::Null => 0_u8.hash(&mut state),
        Content::Text(text) => (1_u8, text).hash(&mut state),
        Content::Parts(parts) => {
            (2_u8, parts.len()).hash(&mut state);
            for part in parts {
                match part {
                    crate::message::Part::Text(text) => (0_u8, text).hash(&mut state),
                    crate::message::Part::Other(value) => (1_u8, value).hash(&mut state),
                }
            }
        }
    }
    // Members have no order.
    let members = message.other.iter().map(|(name, value)| {
        let mut member = hasher.build_hasher();
        name.hash(&mut member);
        match (name.as_str(), value) {
            // The ids of calls are the host's own affair.
            ("tool_call_id", Value::String(_)) => {}
            ("tool_calls", Value::Array(calls)) => {
                calls.len().hash(&mut member);
                for call in calls {
                    hash_call(call, hasher).hash(&mut member);
                }
            }
            _ => value.hash(&mut member),
        }
        member.finish()
    });
    members.fold(0, u64::wrapping_add).hash(&mut state);
    state.finish()
}

fn holds_parts(content: &Content) -> bool {
    matches!(content, Content::Parts(parts) if !parts.is_empty())
}

fn hash_call(call: &Value, hasher: &impl BuildHasher) -> u64 {
    let Some(members) = call.as_object() else {
        return hasher.hash_one(call);
    };
    let members = members.iter().map(|(name, value)| match (&**name, value) {
        ("id", Value::String(_)) => hasher.hash_one(name),
        ("function", Value::Object(function)) => {
            let members = function.iter().map(|(name, value)| match &**name {
                "arguments" => hasher.hash_one((name, arguments(value))),
                _ => hasher.hash_one((name, value)),
            });
            hasher.hash_one((name, members.fold(0, u64::wrapping_add)))
        }
        _ => hasher.hash_one((name, value)),
    });
    members.fold(0, u64::wrapping_add)
}

/// Arguments as JSON, because hosts write it anew.
fn arguments(value: &Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;
    use crate::connection::History;
    use crate::message::{Part, ToolCall};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_request_is_known_by_what_comes_before_its_end() {
        let hasher = RandomState::new();
        let ask = |texts: &[&str]| {
            let roles = ["user", "assistant"].into_iter().cycle();
            let messages = texts.iter().zip(roles);
            let messages = messages.map(|(&text, role)| Message::new(role, text));
            Digests::of(&GenerateRequest::new(messages.collect::<Vec<_>>()), &hasher)
        };
        let answer = |text: &str| GenerateResponse::text(text);
        let seen = ask(&["a"]).answered(&answer("x"), &hasher).unwrap();
        assert_eq!(ask(&["a", "x", "b"]).seen_by(&seen), Some(2));
        assert_eq!(ask(&["a", "x", "b", "y", "c"]).seen_by(&seen), Some(2));
        let longer = ask(&["a", "x", "b"])
            .answered(&answer("y"), &hasher)
            .unwrap();
        assert_eq!(ask(&["a", "x", "b", "y", "c"]).seen_by(&longer), Some(4));
        for other in [
            &["a"][..],
            &["a", "x"],
            &["a", "y", "b"],
            &["b", "x", "b"],
            &["ax", "", "b"],
            &[],
        ] {
            assert_eq!(ask(other).seen_by(&seen), None, "{other:?}");
        }
        let mut unknown = answer("x");
        unknown.dropped.non_text = 1;
        assert_eq!(ask(&["a"]).answered(&unknown, &hasher), None);
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["", "a", "b", "{}", "{\"a\":1}", "{ \"a\": 1 }"])
            .prop_map(str::to_owned)
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let part = prop_oneof![
            any_text().prop_map(Part::Text),
            Just(Part::Other(json!({"type": "image_url"}))),
        ];
        let content = prop_oneof![
            Just(Content::Null),
            any_text().prop_map(Content::Text),
            prop::collection::vec(part, 0..2).prop_map(Content::Parts),
        ];
        let id = prop::sample::select(vec!["1", "2", "h1", "h2"]);
        (0..4_u8, content, any_text(), id).prop_map(|(kind, content, text, id)| match kind {
            0 => Message::new("user", content),
            1 => Message::new("assistant", content),
            2 => Message::tool(id, text),
            _ => {
                let call = ToolCall::new(id, "add", json!({}));
                let mut message = Message::assistant_calling(content, &[call]);
                message.other["tool_calls"][0]["function"]["arguments"] = json!(text);
                message
            }
        })
    }

    proptest! {
        /// What the engine takes for the rest of a conversation is found by its digest.
        #[test]
        fn what_a_history_knows_has_its_digest(
            held in prop::collection::vec(any_message(), 1..3),
            answer in any_text(),
            asked in prop::collection::vec(any_message(), 2..5),
            copied in any::<bool>(),
        ) {
            let hasher = RandomState::new();
            let tools = vec![json!({"function": {"name": "add"}})];
            let first = GenerateRequest::new(held.clone()).tools(tools.clone());
            let answer = GenerateResponse::text(answer);
            let seen = Digests::of(&first, &hasher).answered(&answer, &hasher).unwrap();
            let messages = if copied {
                // The host's own copy, with ids and writing of its own.
                let mut messages = held;
                messages.push(answer.to_message());
                messages.extend(asked.into_iter().take(1));
                for message in &mut messages {
                    if let Some(calls) = message.other.get_mut("tool_calls") {
                        let id = calls[0]["id"].as_str().unwrap_or_default();
                        calls[0]["id"] = json!(format!("x{id}"));
                    }
                    if let Some(Value::String(id)) = message.other.get_mut("tool_call_id") {
                        id.insert(0, 'x');
                    }
                }
                messages
            } else {
                asked
            };
            let next = GenerateRequest::new(messages).tools(tools);
            let mut history = History::default();
            history.add(first, answer.to_message());
            let known = history.unseen(&next).is_some();
            prop_assert!(!known || Digests::of(&next, &hasher).seen_by(&seen).is_some());
            prop_assert!(!copied || known);
        }
    }
}
