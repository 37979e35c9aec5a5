//! A request to the prompt of one ACP turn.
//!
//! The session already holds the turns before, and a host sends them all again. So that the agent does
//! not answer an older copy of a question, the prompt ends with a line that names the one that counts:
//!
//! ```text
//! system: You are terse.
//! user: Capital of France?
//! assistant: Paris.
//! user: And of Peru?
//! SUPERSEDES-ALL-PRIOR: And of Peru?
//! ```
//!
//! This is, to the letter, what the ports of the same capability in other languages send. A request with
//! tools or a response format goes as a JSON object instead, before the same marker.

mod object;

use serde_json::Value;

use crate::message::{Content, Message, Part};
use crate::protocol::{ContentBlock, PromptCapabilities};
use crate::request::GenerateRequest;

/// Begins the line that says which message the prompt is about.
pub const SUPERSEDES_MARKER: &str = "SUPERSEDES-ALL-PRIOR";

/// The parts of a message that are no text.
fn other_parts(message: &Message) -> impl Iterator<Item = &Value> {
    let parts = match &message.content {
        Content::Parts(parts) => parts.as_slice(),
        _ => &[],
    };
    parts.iter().filter_map(|part| match part {
        Part::Text(_) => None,
        Part::Other(value) => Some(value),
    })
}

/// The full request as one text: a `role: content` line for each message that has text, and the
/// marker. Without a user message the marker names the last line.
pub fn render_text(request: &GenerateRequest) -> String {
    let with_text = |message: &&Message| !message.content.text().is_empty();
    let user = |message: &&Message| message.role == "user" && with_text(message);
    let messages = &request.messages;
    let named = match messages.iter().rfind(user) {
        Some(message) => message.content.text(),
        None => {
            let last = messages.iter().rfind(with_text);
            last.map_or_else(String::new, line).into()
        }
    };
    let mut prompt = text_of(request, SUPERSEDES_MARKER.len() + named.len() + 3);
    if !prompt.is_empty() {
        prompt.push('\n');
    }
    prompt.push_str(SUPERSEDES_MARKER);
    prompt.push_str(": ");
    prompt.push_str(&named);
    prompt
}

/// The full request without the marker, with room for so many bytes more.
fn text_of(request: &GenerateRequest, room: usize) -> String {
    if request.wants_object() {
        object::request(request)
    } else {
        lines(&request.messages, room)
    }
}

/// One line for each message that has text, and room for so many bytes more.
fn lines(messages: &[Message], room: usize) -> String {
    let lengths = messages.iter().map(|message| match &message.content {
        Content::Text(text) => message.role.len() + text.len() + 3,
        Content::Parts(_) | Content::Null => 0,
    });
    let mut text = String::with_capacity(lengths.sum::<usize>() + room);
    for message in messages {
        let content = message.content.text();
        if content.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&message.role);
        text.push_str(": ");
        text.push_str(&content);
    }
    text
}

fn line(message: &Message) -> String {
    lines(std::slice::from_ref(message), 0)
}

/// The content blocks of a full request: its text, then the parts that are no text, in order.
pub(crate) fn full_request(request: &GenerateRequest) -> Vec<ContentBlock> {
    blocks(render_text(request), &request.messages)
}

/// The content blocks of a full request in a session that was never used, where nothing needs superseding.
pub(crate) fn first_request(request: &GenerateRequest) -> Vec<ContentBlock> {
    blocks(text_of(request, 0), &request.messages)
}

/// The content blocks of a request whose session holds what was before its messages, and nothing else, and
/// was told to answer by a JSON object, or was not.
pub(crate) fn rest_of_request(request: &GenerateRequest, as_object: bool) -> Vec<ContentBlock> {
    let text = if as_object {
        object::rest(request)
    } else {
        lines(&request.messages, 0)
    };
    blocks(text, &request.messages)
}

/// The content blocks that ask for a reply once more.
pub(crate) fn repair(fault: &str) -> Vec<ContentBlock> {
    blocks(object::repair(fault), &[])
}

/// Whether this agent takes everything in these messages. Otherwise the error names what it does not.
pub(crate) fn check(messages: &[Message], accepts: PromptCapabilities) -> Result<(), String> {
    for (i, message) in messages.iter().enumerate() {
        for part in other_parts(message) {
            block(part, accepts)
                .map_err(|why| format!("{why} (message {i}, role `{}`)", message.role))?;
        }
    }
    Ok(())
}

/// The text as one block, then the parts that are no text. What this agent does not take was refused by
/// [`check`] and is left out here.
fn blocks(text: String, messages: &[Message]) -> Vec<ContentBlock> {
    let all = PromptCapabilities {
        image: true,
        audio: true,
        embedded_context: true,
    };
    let mut blocks = vec![ContentBlock::Text { text }];
    for part in messages.iter().flat_map(other_parts) {
        blocks.extend(block(part, all));
    }
    blocks
}

/// A part that is no text, in the shapes of OpenAI chat completions and of ACP itself.
fn block(part: &Value, accepts: PromptCapabilities) -> Result<ContentBlock, String> {
    let kind = part["type"].as_str().unwrap_or_default();
    let need = |name: &str, has: bool| {
        if has {
            Ok(())
        } else {
            Err(format!(
                "the agent does not take content of type `{kind}`: its prompt capabilities have no `{name}`"
            ))
        }
    };
    let member = |value: &Value, name: &str| {
        value[name]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("content of type `{kind}` has no text member `{name}`"))
    };
    match kind {
        "image" => {
            need("image", accepts.image)?;
            Ok(ContentBlock::Image {
                data: member(part, "data")?,
                mime_type: member(part, "mimeType")?,
            })
        }
        "image_url" => {
            need("image", accepts.image)?;
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            let (mime_type, data) = url
                .strip_prefix("data:")
                .and_then(|rest| rest.split_once(";base64,"))
                .ok_or("an `image_url` must be a `data:` URL in base64, because ACP sends the image itself")?;
            Ok(ContentBlock::Image {
                data: data.to_owned(),
                mime_type: mime_type.to_owned(),
            })
        }
        "audio" => {
            need("audio", accepts.audio)?;
            Ok(ContentBlock::Audio {
                data: member(part, "data")?,
                mime_type: member(part, "mimeType")?,
            })
        }
        "input_audio" => {
            need("audio", accepts.audio)?;
            let audio = &part["input_audio"];
            Ok(ContentBlock::Audio {
                data: member(audio, "data")?,
                mime_type: format!("audio/{}", member(audio, "format")?),
            })
        }
        "resource" => {
            need("embeddedContext", accepts.embedded_context)?;
            let resource = &part["resource"];
            member(resource, "uri")?;
            if resource["text"].is_string() || resource["blob"].is_string() {
                Ok(ContentBlock::Resource {
                    resource: resource.clone(),
                })
            } else {
                Err("content of type `resource` has neither `text` nor `blob`".to_owned())
            }
        }
        // Every agent takes these: ACP v1, Content, "Resource Link".
        "resource_link" => Ok(ContentBlock::ResourceLink {
            name: member(part, "name")?,
            uri: member(part, "uri")?,
        }),
        _ => Err(format!("content of type `{kind}` cannot be sent over ACP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(messages: Value) -> GenerateRequest {
        serde_json::from_value(json!({ "messages": messages })).unwrap()
    }

    #[test]
    fn the_whole_request_is_rendered_and_its_question_named() {
        let text = render_text(&GenerateRequest::new([
            Message::system("Be terse."),
            Message::user("One?"),
            Message::assistant("1"),
            Message::assistant(""),
            Message::user("Two?\nPlease."),
        ]));
        assert_eq!(
            text,
            "system: Be terse.\nuser: One?\nassistant: 1\nuser: Two?\nPlease.\n\
             SUPERSEDES-ALL-PRIOR: Two?\nPlease."
        );
    }

    #[test]
    fn without_a_user_message_the_last_line_is_named() {
        assert_eq!(
            render_text(&GenerateRequest::new([Message::system("Go.")])),
            "system: Go.\nSUPERSEDES-ALL-PRIOR: system: Go."
        );
        assert_eq!(
            render_text(&GenerateRequest::default()),
            "SUPERSEDES-ALL-PRIOR: "
        );
    }

    #[test]
    fn text_parts_are_joined() {
        let request = request(json!([{"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
        ]}]));
        assert_eq!(render_text(&request), "user: ab\nSUPERSEDES-ALL-PRIOR: ab");
    }

    #[test]
    fn other_parts_go_as_blocks_only_where_the_agent_takes_them() {
        let all = PromptCapabilities {
            image: true,
            audio: true,
            embedded_context: true,
        };
        for (part, sent, name) in [
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
                json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
                "image",
            ),
            (
                json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
                json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
                "image",
            ),
            (
                json!({"type": "audio", "data": "BB", "mimeType": "audio/wav"}),
                json!({"type": "audio", "data": "BB", "mimeType": "audio/wav"}),
                "audio",
            ),
            (
                json!({"type": "input_audio", "input_audio": {"data": "BB", "format": "wav"}}),
                json!({"type": "audio", "data": "BB", "mimeType": "audio/wav"}),
                "audio",
            ),
            (
                json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}),
                json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}),
                "embeddedContext",
            ),
        ] {
            let request = request(json!([{"role": "user", "content": [part]}]));
            check(&request.messages, all).unwrap();
            let blocks = full_request(&request);
            assert_eq!(serde_json::to_value(&blocks[1..]).unwrap(), json!([sent]));
            let error = check(&request.messages, PromptCapabilities::default()).unwrap_err();
            assert!(
                error.contains(name) && error.contains("message 0"),
                "{error}"
            );
        }
    }

    #[test]
    fn links_need_no_capability_and_unknown_parts_are_named() {
        let none = PromptCapabilities::default();
        let link = json!({"type": "resource_link", "name": "a", "uri": "file:///a"});
        let linked = request(json!([{"role": "user", "content": [link]}]));
        check(&linked.messages, none).unwrap();
        let blocks = first_request(&linked);
        assert_eq!(serde_json::to_value(&blocks[1]).unwrap(), link);
        let odd = request(json!([{"role": "user", "content": [{"type": "hologram"}]}]));
        let error = check(&odd.messages, none).unwrap_err();
        assert!(error.contains("`hologram`"), "{error}");
        let remote = request(json!([{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        ]}]));
        let images = PromptCapabilities {
            image: true,
            ..none
        };
        let error = check(&remote.messages, images).unwrap_err();
        assert!(error.contains("data:"), "{error}");
    }
}
