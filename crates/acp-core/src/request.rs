//! The vocabulary of a model source: what a host asks and what it gets.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::message::{Content, Message, ToolCall};

/// One turn's request: the whole conversation, as stateless model clients send it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GenerateRequest {
    /// The conversation so far, oldest first, ending with what is to be answered.
    pub messages: Vec<Message>,
    /// The tools that the answer may call, as they are in OpenAI chat completions: objects with the `type`
    /// `function` and a `function` with `name`, `description` and `parameters`.
    #[serde(
        default,
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tools: Vec<Value>,
    /// Which tools it may or must call, as it is there: `auto`, `none`, `required`, or one function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// The form of the answer's text, as it is there: `{"type":"json_object"}`, or a `json_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
}

/// Some hosts write null for a list that is empty.
fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl GenerateRequest {
    /// A request with these messages.
    pub fn new(messages: impl Into<Vec<Message>>) -> Self {
        Self {
            messages: messages.into(),
            ..Self::default()
        }
    }

    /// A request that is one user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new([Message::user(text)])
    }

    /// Sets the tools that the answer may call.
    #[must_use]
    pub fn tools(mut self, tools: impl Into<Vec<Value>>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Sets the form of the answer's text.
    #[must_use]
    pub fn response_format(mut self, format: Value) -> Self {
        self.response_format = Some(format);
        self
    }

    /// Whether the request or its answer is more than text, so that both go as JSON objects.
    pub(crate) fn wants_object(&self) -> bool {
        !self.tools.is_empty()
            || self.wants_json()
            || self.messages.iter().any(Message::is_of_tools)
    }

    /// Whether the text of the answer is to be JSON.
    pub(crate) fn wants_json(&self) -> bool {
        let format = self.response_format.as_ref();
        format.is_some_and(|format| !format.is_null() && format["type"] != "text")
    }
}

/// A turn's answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GenerateResponse {
    /// The text of the agent's message chunks, joined in the order of the wire. Where the request has tools
    /// or a response format it is what the agent's reply says as its content, and may be empty beside tool
    /// calls.
    pub content: String,
    /// The tools that the answer calls. The caller runs them and asks again with their results.
    pub tool_calls: Vec<ToolCall>,
    /// Why the turn ended. Other reasons than these are errors.
    pub stop_reason: StopReason,
    /// What the agent reported as usage in its answer, as it came. Agents name and count things
    /// differently, so nothing here is summed.
    pub usage: Option<Value>,
    /// What came within the turn and is not part of the answer.
    pub dropped: Dropped,
    /// The messages that [`content`](GenerateResponse::content) is made of, in order: some agents send a
    /// status or a warning as a message of its own before the answer, or the whole answer again after it
    /// was streamed. Empty where `content` was taken out of a reply in JSON.
    pub messages: Vec<MessageSpan>,
    /// The replies before this one that were not in the form that was asked for, so that the agent had to be
    /// asked again. [`usage`](GenerateResponse::usage) is that of the last reply alone.
    pub repairs: Vec<Repair>,
}

/// A reply that was not in the form that was asked for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Repair {
    /// What was wrong with it, as the agent was told.
    pub fault: String,
    /// What the agent reported as its usage, as it came.
    pub usage: Option<Value>,
    /// From the prompt to the reply.
    pub duration: Duration,
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
            tool_calls: Vec::new(),
            stop_reason: StopReason::EndTurn,
            usage: None,
            dropped: Dropped::default(),
            messages: Vec::new(),
            repairs: Vec::new(),
        }
    }

    /// An answer that calls these tools, for models that are not ACP agents.
    pub fn calling(calls: impl Into<Vec<ToolCall>>) -> Self {
        Self {
            tool_calls: calls.into(),
            ..Self::text("")
        }
    }

    /// The answer as the next message of the conversation.
    pub fn to_message(&self) -> Message {
        let content = match self.content.as_str() {
            "" if !self.tool_calls.is_empty() => Content::Null,
            text => Content::from(text),
        };
        Message::assistant_calling(content, &self.tool_calls)
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
    fn a_request_is_read_and_written_as_it_is_in_chat_completions() {
        assert_eq!(GenerateRequest::user("a").messages, [Message::user("a")]);
        let plain = json!({"messages": [{"role": "user", "content": "a"}]});
        let read = |value: &Value| GenerateRequest::deserialize(value).unwrap();
        assert_eq!(serde_json::to_value(read(&plain)).unwrap(), plain);
        let full = json!({
            "messages": [],
            "tools": [{"type": "function", "function": {"name": "add"}}],
            "tool_choice": "auto",
            "response_format": {"type": "json_object"},
        });
        assert_eq!(serde_json::to_value(read(&full)).unwrap(), full);
        assert!(read(&full).wants_object() && read(&full).wants_json());
        for nothing in [
            json!({"messages": [], "tools": null, "response_format": null}),
            json!({"messages": [], "tools": [], "response_format": {"type": "text"}}),
        ] {
            assert!(!read(&nothing).wants_object(), "{nothing}");
        }
    }

    #[test]
    fn an_answer_is_the_next_message() {
        assert_eq!(
            GenerateResponse::text("a").to_message(),
            Message::assistant("a")
        );
        let calls = [ToolCall::new("c1", "add", json!({}))];
        let message = GenerateResponse::calling(calls.clone()).to_message();
        assert_eq!(message.content, Content::Null);
        assert_eq!(message.tool_calls(), calls);
    }
}
