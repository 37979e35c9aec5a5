//! What a session was sent and what it answered, to tell whether a request is that and something new.
//!
//! The record decides whether less than the whole request may be sent. It never makes up a request, so it
//! cannot drift from the host's own store into a wrong answer.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::message::{Content, Message};
use crate::request::GenerateRequest;

/// What a session was sent, and what it answered.
#[derive(Debug, Default)]
pub(crate) struct History {
    messages: Vec<Message>,
    tools: Vec<Value>,
    response_format: Option<Value>,
    /// Whether it was told to answer by a JSON object, which it is with its first prompt or never.
    told: bool,
}

impl History {
    /// Whether the session was never used.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The part of a request that the session has not seen, if it has seen the rest and nothing else. Calls
    /// of tools that the host has renumbered are named in it as the session knows them.
    pub(crate) fn unseen(&self, request: &GenerateRequest) -> Option<Vec<Message>> {
        let (seen, unseen) = request.messages.split_at_checked(self.messages.len())?;
        if unseen.is_empty()
            || self.tools != request.tools
            || self.response_format != request.response_format
            || !self.told && request.wants_object()
        {
            return None;
        }
        let mut ids = CallIds::default();
        let mut pairs = self.messages.iter().zip(seen);
        if !pairs.all(|(held, asked)| is_same(held, asked, &mut ids)) {
            return None;
        }
        let mut unseen = unseen.to_vec();
        for message in &mut unseen {
            ids.translate(message);
        }
        Some(unseen)
    }

    /// Takes what was sent to the session in a turn, and its answer.
    pub(crate) fn add(&mut self, sent: GenerateRequest, answer: Message) {
        self.told |= sent.wants_object();
        self.messages.extend(sent.messages);
        self.messages.push(answer);
        self.tools = sent.tools;
        self.response_format = sent.response_format;
    }
}

/// The session's ids of tool calls, by those of the host. Neither has one twice.
#[derive(Default)]
struct CallIds<'a> {
    held: HashMap<&'a str, &'a str>,
    asked: HashMap<&'a str, &'a str>,
}

impl<'a> CallIds<'a> {
    /// Notes that the two are one call; whether they can be.
    fn unite(&mut self, held: &'a str, asked: &'a str) -> bool {
        *self.held.entry(asked).or_insert(held) == held
            && *self.asked.entry(held).or_insert(asked) == asked
    }

    /// Puts the session's id in the place of the host's, in the result of a call.
    fn translate(&self, message: &mut Message) {
        if let Some(Value::String(id)) = message.other.get_mut("tool_call_id")
            && let Some(&held) = self.held.get(id.as_str())
            && held != id
        {
            *id = held.to_owned();
        }
    }
}

/// Whether two messages are the same but for the ids of the calls in them.
fn is_same<'a>(held: &'a Message, asked: &'a Message, ids: &mut CallIds<'a>) -> bool {
    if held.role != asked.role || held.other.len() != asked.other.len() {
        return false;
    }
    // Beside calls of tools, some hosts write no content as the empty text.
    let same_content = held.content == asked.content
        || held.is_of_tools() && is_nothing(&held.content) && is_nothing(&asked.content);
    same_content
        && held.other.iter().all(|(name, held)| {
            let Some(asked) = asked.other.get(name) else {
                return false;
            };
            match (&**name, held, asked) {
                ("tool_call_id", Value::String(held), Value::String(asked)) => {
                    ids.unite(held, asked)
                }
                ("tool_calls", Value::Array(held), Value::Array(asked)) => {
                    let mut calls = held.iter().zip(asked);
                    held.len() == asked.len()
                        && calls.all(|(held, asked)| is_same_call(held, asked, ids))
                }
                _ => held == asked,
            }
        })
}

fn is_nothing(content: &Content) -> bool {
    match content {
        Content::Null => true,
        Content::Text(text) => text.is_empty(),
        Content::Parts(parts) => parts.is_empty(),
    }
}

fn is_same_call<'a>(held: &'a Value, asked: &'a Value, ids: &mut CallIds<'a>) -> bool {
    let (Some(held), Some(asked)) = (held.as_object(), asked.as_object()) else {
        return held == asked;
    };
    have_same_members(held, asked, |name, held, asked| match (name, held, asked) {
        ("id", Value::String(held), Value::String(asked)) => ids.unite(held, asked),
        ("function", Value::Object(held), Value::Object(asked)) => {
            have_same_members(held, asked, |name, held, asked| {
                held == asked || name == "arguments" && are_same_arguments(held, asked)
            })
        }
        _ => held == asked,
    })
}

fn have_same_members<'a>(
    held: &'a Map<String, Value>,
    asked: &'a Map<String, Value>,
    mut is_same: impl FnMut(&str, &'a Value, &'a Value) -> bool,
) -> bool {
    let mut members = held.iter();
    held.len() == asked.len()
        && members.all(|(name, held)| {
            let asked = asked.get(name);
            asked.is_some_and(|asked| is_same(name, held, asked))
        })
}

/// Whether two texts of arguments are the same JSON: hosts write them anew.
fn are_same_arguments(held: &Value, asked: &Value) -> bool {
    let read = |value: &Value| match value {
        Value::String(text) => serde_json::from_str(text).ok(),
        other => Some(other.clone()),
    };
    let (held, asked): (Option<Value>, Option<Value>) = (read(held), read(asked));
    held.is_some() && held == asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;
    use serde_json::json;

    fn history(messages: &[Message]) -> History {
        History {
            messages: messages.to_vec(),
            ..History::default()
        }
    }

    #[test]
    fn only_what_is_exactly_more_is_unseen() {
        let [a, b, c] = ["a", "b", "c"].map(Message::user);
        let x = Message::assistant("x");
        let history = history(&[a.clone(), x.clone()]);
        let unseen = |messages: &[Message]| history.unseen(&GenerateRequest::new(messages));
        assert_eq!(
            unseen(&[a.clone(), x.clone(), b.clone()]),
            Some(vec![b.clone()])
        );
        let named = Message {
            other: [("name".to_owned(), json!("n"))].into_iter().collect(),
            ..a.clone()
        };
        for (why, messages) in [
            ("a retry", vec![a.clone()]),
            ("nothing new", vec![a.clone(), x.clone()]),
            ("an edited question", vec![b.clone(), x.clone(), c.clone()]),
            (
                "an edited answer",
                vec![a.clone(), Message::assistant("y"), c.clone()],
            ),
            (
                "another role",
                vec![a.clone(), Message::user("x"), c.clone()],
            ),
            ("one left out", vec![a.clone(), b, c.clone()]),
            ("another member", vec![named, x, c]),
            (
                "an empty answer",
                vec![
                    a,
                    Message::new("assistant", Content::Null),
                    Message::user("c"),
                ],
            ),
            ("nothing", vec![]),
        ] {
            assert_eq!(unseen(&messages), None, "{why}");
        }
    }

    fn calling(ids: [&str; 2], arguments: &str) -> Message {
        let calls = ids.map(|id| ToolCall::new(id, "add", json!({"a": 1})));
        let mut message = Message::assistant_calling(Content::Null, &calls);
        message.other["tool_calls"][0]["function"]["arguments"] = json!(arguments);
        message
    }

    #[test]
    fn ids_of_calls_are_the_host_s_own_affair() {
        let tools = [json!({"type": "function", "function": {"name": "add"}})];
        let mut history = history(&[Message::user("a"), calling(["s1", "s2"], "{\"a\":1}")]);
        history.tools = tools.to_vec();
        history.told = true;
        let unseen = |calls: Message, results: [&str; 2]| {
            let results = results.map(|id| Message::tool(id, "2"));
            let messages = [&[Message::user("a"), calls][..], &results].concat();
            history.unseen(&GenerateRequest::new(messages).tools(tools.clone()))
        };
        let known = vec![Message::tool("s2", "2"), Message::tool("s1", "2")];
        for calls in [
            calling(["s1", "s2"], "{\"a\":1}"),
            calling(["s1", "s2"], "{ \"a\": 1 }"),
        ] {
            assert_eq!(unseen(calls, ["s2", "s1"]), Some(known.clone()));
        }
        let renumbered = calling(["h1", "h2"], "{\"a\":1}");
        assert_eq!(unseen(renumbered, ["h2", "h1"]), Some(known.clone()));
        // Even so that the ids change places.
        let swapped = calling(["s2", "s1"], "{\"a\":1}");
        assert_eq!(unseen(swapped, ["s1", "s2"]), Some(known));
        for (why, calls) in [
            ("one id for two calls", calling(["h1", "h1"], "{\"a\":1}")),
            ("other arguments", calling(["s1", "s2"], "{\"a\":2}")),
            ("no JSON", calling(["s1", "s2"], "{")),
        ] {
            assert_eq!(unseen(calls, ["s1", "s2"]), None, "{why}");
        }
        let mut said = calling(["s1", "s2"], "{\"a\":1}");
        said.content = "Let me see.".into();
        assert_eq!(unseen(said, ["s1", "s2"]), None);
        let mut empty = calling(["s1", "s2"], "{\"a\":1}");
        empty.content = "".into();
        assert!(unseen(empty, ["s1", "s2"]).is_some());
    }

    #[test]
    fn other_tools_are_another_conversation() {
        let [now, add] = ["now", "add"].map(|name| json!({"function": {"name": name}}));
        let first = GenerateRequest::user("a").tools([now.clone()]);
        let mut history = History::default();
        history.add(first.clone(), Message::assistant("x"));
        let mut next = first;
        next.messages
            .extend([Message::assistant("x"), Message::user("b")]);
        assert!(history.unseen(&next).is_some());
        next.tool_choice = Some(json!("none"));
        assert!(history.unseen(&next).is_some());
        for tools in [vec![], vec![add.clone()], vec![now.clone(), add]] {
            next.tools = tools;
            assert_eq!(history.unseen(&next), None);
        }
        next.tools = vec![now];
        next.response_format = Some(json!({"type": "json_object"}));
        assert_eq!(history.unseen(&next), None);
    }

    #[test]
    fn a_session_that_was_not_told_the_form_is_not_asked_for_it() {
        let mut history = History::default();
        history.add(GenerateRequest::user("a"), Message::assistant("x"));
        let messages = [
            Message::user("a"),
            Message::assistant("x"),
            Message::tool("c", "2"),
        ];
        assert_eq!(history.unseen(&GenerateRequest::new(messages)), None);
    }
}
