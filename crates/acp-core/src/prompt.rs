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
//! This is, to the letter, what the ports of the same capability in other languages send.

use serde_json::Value;

use crate::protocol::{ContentBlock, PromptCapabilities};
use crate::request::{Content, GenerateRequest, Message, Part};

/// Begins the line that says which message the prompt is about.
pub const SUPERSEDES_MARKER: &str = "SUPERSEDES-ALL-PRIOR";

/// The text of a message: its text, or the text of its parts, joined without a separator.
fn text_of(message: &Message) -> String {
    match &message.content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Other(_) => None,
            })
            .collect(),
    }
}

/// The full request as one text: a `role: content` line for each message that has text, and the
/// marker. Without a user message the marker names the last line.
pub fn render_text(request: &GenerateRequest) -> String {
    let mut prompt = String::new();
    let mut last_user = String::new();
    let mut last_line = 0..0;
    for message in &request.messages {
        let text = text_of(message);
        if text.is_empty() {
            continue;
        }
        let start = prompt.len();
        prompt.push_str(&message.role);
        prompt.push_str(": ");
        prompt.push_str(&text);
        last_line = start..prompt.len();
        prompt.push('\n');
        if message.role == "user" {
            last_user = text;
        }
    }
    if last_user.is_empty() {
        last_user = prompt[last_line].to_owned();
    }
    prompt.push_str(SUPERSEDES_MARKER);
    prompt.push_str(": ");
    prompt.push_str(&last_user);
    prompt
}

/// The content blocks of the prompt: the text, then the parts that are no text, in order.
///
/// A part that this agent did not say it takes is an error that names it.
pub fn render(
    request: &GenerateRequest,
    accepts: PromptCapabilities,
) -> Result<Vec<ContentBlock>, String> {
    let mut blocks = vec![ContentBlock::Text {
        text: render_text(request),
    }];
    for (i, message) in request.messages.iter().enumerate() {
        let Content::Parts(parts) = &message.content else {
            continue;
        };
        for part in parts {
            if let Part::Other(value) = part {
                let block = block(value, accepts)
                    .map_err(|why| format!("{why} (message {i}, role `{}`)", message.role))?;
                blocks.push(block);
            }
        }
    }
    Ok(blocks)
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
            let blocks = render(&request, all).unwrap();
            assert_eq!(serde_json::to_value(&blocks[1..]).unwrap(), json!([sent]));
            let error = render(&request, PromptCapabilities::default()).unwrap_err();
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
        let blocks = render(&request(json!([{"role": "user", "content": [link]}])), none);
        assert_eq!(serde_json::to_value(&blocks.unwrap()[1]).unwrap(), link);
        let odd = request(json!([{"role": "user", "content": [{"type": "hologram"}]}]));
        assert!(render(&odd, none).unwrap_err().contains("`hologram`"));
        let remote = request(json!([{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        ]}]));
        let images = PromptCapabilities {
            image: true,
            ..none
        };
        assert!(render(&remote, images).unwrap_err().contains("data:"));
    }
}
