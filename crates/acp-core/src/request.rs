//! The vocabulary of a model source: what a host asks and what it gets.
//!
//! Messages have the shape of OpenAI chat completions, which is what in-process LLM clients hold.

use std::fmt;
use std::ops::Range;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One turn's request: the whole conversation, as stateless model clients send it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GenerateRequest {
    /// The conversation so far, oldest first, ending with what is to be answered.
    pub messages: Vec<Message>,
}

impl GenerateRequest {
    /// A request with these messages.
    pub fn new(messages: impl Into<Vec<Message>>) -> Self {
        Self {
            messages: messages.into(),
        }
    }

    /// A request that is one user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new([Message::user(text)])
    }
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`; others are passed on.
    pub role: String,
    /// What it says.
    #[serde(default)]
    pub content: Content,
}

impl Message {
    /// A message with this role.
    pub fn new(role: impl Into<String>, content: impl Into<Content>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
        }
    }

    /// A message with the role `system`.
    pub fn system(text: impl Into<String>) -> Self {
        Self::new("system", text.into())
    }

    /// A message with the role `user`.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new("user", text.into())
    }

    /// A message with the role `assistant`.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new("assistant", text.into())
    }
}

/// The content of a message: text, or a list of parts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Plain text. JSON null reads as the empty text.
    Text(String),
    /// Parts, of which some may be no text.
    Parts(Vec<Part>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self::Parts(parts)
    }
}

/// One part of a message's content.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text(String),
    /// Anything else, as it came: an object with a `type`.
    Other(Value),
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Parts(parts) => serializer.collect_seq(parts),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, a list of parts, or null")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Content, E> {
                Ok(Content::default())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                Ok(text.into())
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(text.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = seq.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct TextPart<'a> {
            r#type: &'static str,
            text: &'a str,
        }
        match self {
            Self::Text(text) => TextPart {
                r#type: "text",
                text,
            }
            .serialize(serializer),
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;

        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content part, which is an object with a `type`, or text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Part, E> {
                Ok(Part::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
                let mut members = serde_json::Map::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    members.insert(key, value);
                }
                match (members.get("type"), members.get("text")) {
                    (Some(Value::String(kind)), Some(Value::String(text))) if kind == "text" => {
                        Ok(Part::Text(text.clone()))
                    }
                    (Some(Value::String(kind)), _) if kind == "text" => {
                        Err(de::Error::missing_field("text"))
                    }
                    (Some(Value::String(_)), _) => Ok(Part::Other(members.into())),
                    _ => Err(de::Error::missing_field("type")),
                }
            }
        }

        deserializer.deserialize_any(PartVisitor)
    }
}

/// A turn's answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GenerateResponse {
    /// The text of the agent's message chunks, joined in the order of the wire.
    pub content: String,
    /// Why the turn ended. Other reasons than these are errors.
    pub stop_reason: StopReason,
    /// What the agent reported as usage in its answer, as it came. Agents name and count things
    /// differently, so nothing here is summed.
    pub usage: Option<Value>,
    /// What came within the turn and is not part of the answer.
    pub dropped: Dropped,
    /// The messages that [`content`](GenerateResponse::content) is made of, in order: some agents send a
    /// status or a warning as a message of its own before the answer, or the whole answer again after it
    /// was streamed.
    pub messages: Vec<MessageSpan>,
}

/// One message within an answer: the chunks in a row that carry the same `messageId`, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageSpan {
    /// The `messageId`, if the agent gave one.
    pub message_id: Option<String>,
    /// Where in the answer its text is, in bytes.
    pub range: Range<usize>,
}

impl GenerateResponse {
    /// An answer with this text, for models that are not ACP agents.
    pub fn text(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            stop_reason: StopReason::EndTurn,
            usage: None,
            dropped: Dropped::default(),
            messages: Vec::new(),
        }
    }

    /// The text of the last message; all of it if the agent does not tell messages apart.
    pub fn last_message(&self) -> &str {
        let last = self.messages.last();
        last.map_or(&self.content, |span| &self.content[span.range.clone()])
    }
}

/// Why a turn that gave an answer ended.
///
/// Source: ACP v1 `StopReason`. `refusal` and `cancelled` are errors here, see
/// [`GenerateError`](crate::GenerateError).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The agent was done.
    EndTurn,
    /// The model's token limit was reached: the text may be cut.
    MaxTokens,
    /// The agent's limit of model requests in one turn was reached.
    MaxTurnRequests,
}

impl StopReason {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
        }
    }
}

/// How many updates came within a turn and did not become part of its answer, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dropped {
    /// `agent_thought_chunk`.
    pub thoughts: u64,
    /// `tool_call` and `tool_call_update`.
    pub tool_calls: u64,
    /// `plan`.
    pub plans: u64,
    /// `user_message_chunk`: the agent repeats the prompt or an older one.
    pub user_messages: u64,
    /// Other kinds of ACP v1, such as usage, modes and commands.
    pub other: u64,
    /// Kinds that ACP v1 does not have.
    pub unknown: u64,
    /// Message chunks whose content is not text.
    pub non_text: u64,
    /// Updates that could not be read.
    pub malformed: u64,
    /// Updates that name a session this client does not have.
    pub other_sessions: u64,
    /// Message chunks of this session that came between the turn before it and this one, or after this one
    /// was cancelled.
    pub outside_turn: u64,
    /// Requests of the agent that were refused because nothing was declared that serves them.
    pub requests: u64,
    /// Permission requests of this session that were refused or cancelled.
    pub refused_permissions: u64,
    /// Lines on standard output that were no message.
    pub noise: u64,
}

impl Dropped {
    /// The counts that are not zero, by name.
    pub fn nonzero(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("thoughts", self.thoughts),
            ("tool_calls", self.tool_calls),
            ("plans", self.plans),
            ("user_messages", self.user_messages),
            ("other", self.other),
            ("unknown", self.unknown),
            ("non_text", self.non_text),
            ("malformed", self.malformed),
            ("other_sessions", self.other_sessions),
            ("outside_turn", self.outside_turn),
            ("requests", self.requests),
            ("refused_permissions", self.refused_permissions),
            ("noise", self.noise),
        ]
        .into_iter()
        .filter(|&(_, count)| count > 0)
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, count) in self.nonzero() {
            write!(f, "{separator}{name}: {count}")?;
            separator = ", ";
        }
        if separator.is_empty() {
            f.write_str("nothing came")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_read_in_the_shapes_that_clients_hold() {
        let read = |content: Value| {
            serde_json::from_value::<Message>(json!({"role": "user", "content": content}))
                .map(|message| message.content)
        };
        assert_eq!(read(json!("hi")).unwrap(), Content::Text("hi".into()));
        assert_eq!(read(json!(null)).unwrap(), Content::Text(String::new()));
        let image = json!({"type": "image_url", "image_url": {"url": "data:x"}});
        let parts = read(json!([{"type": "text", "text": "a"}, "b", image])).unwrap();
        assert_eq!(
            parts,
            Content::Parts(vec![
                Part::Text("a".into()),
                Part::Text("b".into()),
                Part::Other(image.clone())
            ])
        );
        assert_eq!(
            serde_json::to_value(&parts).unwrap(),
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, image])
        );
        let borrowed: Content = serde_json::from_str(r#""hi""#).unwrap();
        assert_eq!(borrowed, "hi".into());
        let absent: Message = serde_json::from_value(json!({"role": "assistant"})).unwrap();
        assert_eq!(absent, Message::assistant(""));
        assert_eq!(read(json!([])).unwrap(), Vec::<Part>::new().into());
        assert_eq!(
            Message::new("user", vec![Part::Text("a".into())]).content,
            Content::Parts(vec![Part::Text("a".into())])
        );
        assert_eq!(Message::user("a").content, "a".into());
        assert_eq!(GenerateRequest::user("a").messages, [Message::user("a")]);
        for (wrong, wants) in [
            (json!(7), "text, a list of parts, or null"),
            (
                json!([7]),
                "a content part, which is an object with a `type`, or text",
            ),
            (json!([{"type": "text", "text": 7}]), "missing field `text`"),
            (json!([{"type": 7, "text": "x"}]), "missing field `type`"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(wants), "{error}");
        }
        let other = json!({"type": "hologram", "text": "x"});
        assert_eq!(
            read(json!([other])).unwrap(),
            vec![Part::Other(other)].into()
        );
        for wrong in [
            json!(7),
            json!({}),
            json!([7]),
            json!([{"text": "x"}]),
            json!([{"type": "text"}]),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
