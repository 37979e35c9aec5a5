//! Anthropic's messages.

use serde_json::{Value, json};

use super::{Answer, Content, Event};
use crate::conversation::{Conversation, Role, Tool, items, text_at, text_of};

pub(super) fn read(body: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    for message in items(&body["messages"]) {
        let content = &message["content"];
        match text_at(message, "role") {
            "user" => {
                // A tool's result comes in a message of the user's, which may also say something.
                let is_result = |part: &&Value| part["type"] == "tool_result";
                let (results, said): (Vec<_>, Vec<_>) = items(content).iter().partition(is_result);
                for result in results {
                    conversation.push(Role::Tool, &text_of(&result["content"]));
                }
                let said = match content {
                    Value::String(text) => text.clone(),
                    _ => text_of(&said.into_iter().cloned().collect::<Value>()),
                };
                conversation.push(Role::User, &said);
            }
            "assistant" => conversation.push(Role::Assistant, &text_of(content)),
            _ => {}
        }
    }
    // A tool of the provider's own has a type instead of a schema.
    conversation.tools = items(&body["tools"])
        .iter()
        .filter(|tool| tool["input_schema"].is_object())
        .map(|tool| Tool {
            name: text_at(tool, "name").to_owned(),
            parameters: tool["input_schema"].clone(),
        })
        .collect();
    let formats = [&body["output_config"]["format"], &body["output_format"]];
    let mut schemas = formats.iter().map(|format| &format["schema"]);
    conversation.schema = schemas.find(|schema| schema.is_object()).cloned();
    conversation
}

pub(super) fn whole(answer: &Answer<'_>) -> Value {
    message(answer, json!([block(answer)]), json!(stop_reason(answer)))
}

pub(super) fn events(answer: &Answer<'_>) -> Vec<Event> {
    let started = message(answer, json!([]), Value::Null);
    let delta = |delta: Value| {
        Event::named(json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    };
    let mut begun = block(answer);
    let mut deltas = Vec::new();
    match answer.content {
        Content::Text(pieces) => {
            begun["text"] = json!("");
            for text in pieces {
                deltas.push(delta(json!({"type": "text_delta", "text": text})).piece());
            }
        }
        Content::Call { arguments, .. } => {
            begun["input"] = json!({});
            let json = arguments.to_string();
            deltas.push(delta(
                json!({"type": "input_json_delta", "partial_json": json}),
            ));
        }
    }
    let mut events = vec![
        Event::named(json!({"type": "message_start", "message": started})),
        Event::named(json!({"type": "content_block_start", "index": 0, "content_block": begun})),
    ];
    events.extend(deltas);
    events.push(Event::named(
        json!({"type": "content_block_stop", "index": 0}),
    ));
    events.push(Event::named(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(answer), "stop_sequence": null},
        "usage": usage(answer),
    })));
    events.push(Event::named(json!({"type": "message_stop"})));
    events
}

fn message(answer: &Answer<'_>, content: Value, stop_reason: Value) -> Value {
    json!({
        "id": format!("msg_{}", answer.serial),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage(answer),
    })
}

fn block(answer: &Answer<'_>) -> Value {
    match answer.content {
        Content::Text(pieces) => json!({"type": "text", "text": pieces.concat()}),
        Content::Call { name, arguments } => json!({
            "type": "tool_use",
            "id": format!("toolu_{}", answer.serial),
            "name": name,
            "input": arguments,
        }),
    }
}

fn stop_reason(answer: &Answer<'_>) -> &'static str {
    match answer.content {
        Content::Text(_) => "end_turn",
        Content::Call { .. } => "tool_use",
    }
}

fn usage(answer: &Answer<'_>) -> Value {
    json!({
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens(),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_tools_are_read() {
        let schema = json!({"type": "object"});
        let conversation = read(&json!({
            "system": "be terse",
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "name": "t"}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "content": [{"type": "text", "text": "done"}]},
                    {"type": "text", "text": "<system-reminder>go on</system-reminder>"},
                ]},
            ],
            "tools": [{"name": "t", "input_schema": schema}, {"name": "web", "type": "web_search"}],
            "output_config": {"format": {"type": "json_schema", "schema": schema}},
        }));
        assert_eq!(conversation.last_user_text(), "hi");
        assert_eq!(conversation.tool_result(), Some("done"));
        assert_eq!(conversation.tools.len(), 1);
        assert_eq!(conversation.schema, Some(schema));
    }
}
