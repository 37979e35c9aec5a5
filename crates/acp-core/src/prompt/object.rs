//! The prompt of a request whose answer may be more than text: with tools, or with a response format.
//!
//! What a chat request holds beyond text has no place in the lines of a plain prompt. So the prompt is a few
//! instructions and then `messages` and `tools` as they came, as one JSON object on one line; the reply is
//! one too, and is read by [`crate::reply`].

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::message::{Content, Message, Part};
use crate::request::GenerateRequest;

const ROLE: &str = "You stand in for a language model behind an API. The chat request is the JSON object \
below. Answer the last of its messages by one JSON object and nothing else.";
const CALLS: &str = "To call tools of the request: \
{\"tool_calls\":[{\"id\":\"call_1\",\"function\":{\"name\":\"NAME\",\"arguments\":{}}}]}. The caller runs \
them and sends their results in the next request. Use no other tools.";
const CONTENT: &str = "To answer: {\"content\":\"TEXT\"}";
const JSON: &str = "TEXT must be JSON in the form that `response_format` asks for.";
const GOES_ON: &str = "The conversation goes on with these messages. Answer in the same form.";

/// The members of the object, in this order. Those that are empty are left out.
#[derive(Serialize)]
struct Request<'a> {
    messages: Cow<'a, [Message]>,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    tools: &'a [Value],
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a Value>,
}

/// The whole request, for a session that knows nothing of it.
pub(super) fn request(request: &GenerateRequest) -> String {
    let object = object(&Request {
        messages: numbered(&request.messages),
        tools: &request.tools,
        tool_choice: request.tool_choice.as_ref(),
        response_format: request.response_format.as_ref(),
    });
    let mut lines = vec![ROLE];
    if !request.tools.is_empty() {
        lines.push(CALLS);
    }
    lines.push(CONTENT);
    if request.wants_json() {
        lines.push(JSON);
    }
    lines.push(&object);
    lines.join("\n")
}

/// What is new of a request, for a session that knows the rest of it and its tools.
pub(super) fn rest(request: &GenerateRequest) -> String {
    let object = object(&Request {
        messages: numbered(&request.messages),
        tools: &[],
        tool_choice: request.tool_choice.as_ref(),
        response_format: None,
    });
    format!("{GOES_ON}\n{object}")
}

/// What an agent is told whose reply cannot be used.
pub(super) fn repair(fault: &str) -> String {
    format!(
        "That reply cannot be used: {fault}. Send it once more as one JSON object and nothing else, in the \
         form that the request asked for."
    )
}

fn object(request: &Request<'_>) -> String {
    // Maps have text as keys, and nothing else here can fail.
    serde_json::to_string(request).unwrap_or_default()
}

/// The messages as they are, but for what goes as content blocks of its own: that is named by its number
/// among the blocks of the prompt, of which this text is the first.
fn numbered(messages: &[Message]) -> Cow<'_, [Message]> {
    let is_other = |part: &Part| matches!(part, Part::Other(_));
    let has_other = |message: &Message| match &message.content {
        Content::Parts(parts) => parts.iter().any(is_other),
        _ => false,
    };
    if !messages.iter().any(has_other) {
        return Cow::Borrowed(messages);
    }
    let mut messages = messages.to_vec();
    let mut number = 1;
    for message in &mut messages {
        let Content::Parts(parts) = &mut message.content else {
            continue;
        };
        for part in parts {
            if let Part::Other(value) = part {
                number += 1;
                *value = json!({"type": value["type"], "content_block": number});
            }
        }
    }
    Cow::Owned(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_line(text: &str) -> Value {
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }

    #[test]
    fn messages_and_tools_go_as_they_came() {
        let asked = json!({
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "add\n1 and 2"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "x", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}
                ]},
                {"role": "tool", "tool_call_id": "x", "content": "3", "name": "add"},
            ],
            "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
            "tool_choice": "required",
            "response_format": {"type": "json_object"},
        });
        let mut read: GenerateRequest = serde_json::from_value(asked.clone()).unwrap();
        let text = request(&read);
        assert_eq!(last_line(&text), asked);
        for line in [ROLE, CALLS, CONTENT, JSON] {
            assert!(text.lines().any(|l| l == line), "{line}");
        }
        read.messages.drain(..2);
        assert_eq!(
            last_line(&rest(&read)),
            json!({"messages": [asked["messages"][2]], "tool_choice": "required"})
        );
        read.tools.clear();
        read.response_format = None;
        let text = request(&read);
        assert!(!text.contains(CALLS) && !text.contains(JSON) && text.contains(CONTENT));
    }

    #[test]
    fn what_is_a_block_of_its_own_is_named_by_its_number() {
        let image =
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let link = json!({"type": "resource_link", "name": "a", "uri": "file:///a"});
        let asked = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "see"}, image]},
            {"role": "user", "content": [link]},
        ]});
        let sent = last_line(&request(&serde_json::from_value(asked).unwrap()));
        assert_eq!(
            sent["messages"][0]["content"][1],
            json!({"type": "image_url", "content_block": 2})
        );
        assert_eq!(
            sent["messages"][1]["content"][0],
            json!({"type": "resource_link", "content_block": 3})
        );
    }
}
