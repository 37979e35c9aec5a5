//! Messages, in the shape of OpenAI chat completions, which is what in-process LLM clients hold.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`; others are passed on.
    pub role: String,
    /// What it says.
    pub content: Content,
    /// Its other members, as they came: `tool_calls`, `tool_call_id`, `name` and the like.
    pub other: Map<String, Value>,
}

impl Message {
    /// A message with this role.
    pub fn new(role: impl Into<String>, content: impl Into<Content>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            other: Map::new(),
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

    /// The message in which an assistant calls tools, with what it says beside that, which may be nothing.
    pub fn assistant_calling(content: impl Into<Content>, calls: &[ToolCall]) -> Self {
        let mut message = Self::new("assistant", content);
        if !calls.is_empty() {
            let calls = calls.iter().map(ToolCall::to_value).collect();
            message.other.insert("tool_calls".to_owned(), calls);
        }
        message
    }

    /// A message with the role `tool`: what the call with this id came to.
    pub fn tool(call_id: impl Into<String>, result: impl Into<String>) -> Self {
        let mut message = Self::new("tool", result.into());
        let call_id = Value::String(call_id.into());
        message.other.insert("tool_call_id".to_owned(), call_id);
        message
    }

    /// Whether it says nothing, so that it leaves no trace in a plain prompt.
    pub(crate) fn is_nothing(&self) -> bool {
        let other_parts = match &self.content {
            Content::Parts(parts) => parts.iter().any(|part| matches!(part, Part::Other(_))),
            _ => false,
        };
        !other_parts && !self.is_of_tools() && self.content.text().is_empty()
    }

    /// Whether it is about a call of a tool.
    pub(crate) fn is_of_tools(&self) -> bool {
        let has = |name: &str| self.other.get(name).is_some_and(|value| !value.is_null());
        !self.other.is_empty() && (has("tool_calls") || has("tool_call_id"))
    }

    /// The tools that it calls, as far as they can be read.
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        let calls = self.other.get("tool_calls").and_then(Value::as_array);
        let calls = calls.map(Vec::as_slice).unwrap_or_default();
        calls.iter().filter_map(ToolCall::from_value).collect()
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2 + self.other.len()))?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("content", &self.content)?;
        for (name, value) in &self.other {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MessageVisitor;

        impl<'de> Visitor<'de> for MessageVisitor {
            type Value = Message;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message, which is an object with a `role`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
                let (mut role, mut content, mut other) = (None, Content::Null, Map::new());
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "role" => role = Some(map.next_value()?),
                        "content" => content = map.next_value()?,
                        _ => {
                            other.insert(name, map.next_value()?);
                        }
                    }
                }
                let role = role.ok_or_else(|| de::Error::missing_field("role"))?;
                Ok(Message {
                    role,
                    content,
                    other,
                })
            }
        }

        deserializer.deserialize_map(MessageVisitor)
    }
}

/// One call of a tool that a model asks for.
///
/// As JSON it has the shape of OpenAI chat completions, with the arguments as text.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// What its result is sent back under.
    pub id: String,
    /// The tool.
    pub name: String,
    /// A JSON object.
    pub arguments: Value,
}

impl ToolCall {
    /// A call of this tool.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments,
        }
    }

    fn to_value(&self) -> Value {
        json!({
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments.to_string()},
        })
    }

    /// Reads a call of a message. Arguments that are no JSON are kept as text.
    fn from_value(value: &Value) -> Option<Self> {
        let function = &value["function"];
        let arguments = match &function["arguments"] {
            Value::String(text) => match serde_json::from_str(text) {
                Ok(arguments) => arguments,
                Err(_) => Value::String(text.clone()),
            },
            other => other.clone(),
        };
        Some(Self {
            id: value["id"].as_str()?.to_owned(),
            name: function["name"].as_str()?.to_owned(),
            arguments,
        })
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

/// The content of a message: text, a list of parts, or nothing.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Content {
    /// Nothing, as in a message that calls tools and says nothing: null, or not there at all.
    #[default]
    Null,
    /// Plain text.
    Text(String),
    /// Parts, of which some may be no text.
    Parts(Vec<Part>),
}

impl Content {
    /// Its text: all of it, or that of the parts that are text, joined without a separator.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::Borrowed(""),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    Part::Other(_) => None,
                })
                .collect(),
        }
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
            Self::Null => serializer.serialize_unit(),
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
                Ok(Content::Null)
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
        assert_eq!(read(json!(null)).unwrap(), Content::Null);
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
        assert_eq!(absent, Message::new("assistant", Content::Null));
        assert_eq!(read(json!([])).unwrap(), Vec::<Part>::new().into());
        assert_eq!(
            Message::new("user", vec![Part::Text("a".into())]).content,
            Content::Parts(vec![Part::Text("a".into())])
        );
        assert_eq!(Message::user("a").content, "a".into());
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

    #[test]
    fn what_a_message_holds_beside_its_content_is_kept() {
        let calling = json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}
        ]});
        let message: Message = serde_json::from_value(calling.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), calling);
        let call = ToolCall::new("c1", "add", json!({"a": 1}));
        assert_eq!(message.tool_calls(), std::slice::from_ref(&call));
        assert_eq!(
            Message::assistant_calling(Content::Null, std::slice::from_ref(&call)).tool_calls(),
            [call]
        );
        assert_eq!(
            serde_json::to_value(Message::tool("c1", "3")).unwrap(),
            json!({"role": "tool", "content": "3", "tool_call_id": "c1"})
        );
        let odd = json!({"role": "assistant", "tool_calls": [7, {"id": 1}]});
        assert_eq!(
            serde_json::from_value::<Message>(odd).unwrap().tool_calls(),
            []
        );
        let error = serde_json::from_value::<Message>(json!({"content": "x"})).unwrap_err();
        assert!(error.to_string().contains("role"), "{error}");
    }
}
