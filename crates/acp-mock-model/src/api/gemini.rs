//! Gemini.

use serde_json::{Value, json};

use super::{Answer, Content, Event};
use crate::conversation::{Conversation, Role, Tool, items, text_at, text_of};

pub(super) fn read(body: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    for content in items(&body["contents"]) {
        let parts = &content["parts"];
        let mut responses = items(parts)
            .iter()
            .map(|part| &part["functionResponse"]["response"]);
        if let Some(response) = responses.find(|response| response.is_object()) {
            conversation.push(Role::Tool, &response.to_string());
            continue;
        }
        let role = match text_at(content, "role") {
            "model" => Role::Assistant,
            _ => Role::User,
        };
        conversation.push(role, &text_of(parts));
    }
    let functions = items(&body["tools"])
        .iter()
        .flat_map(|tool| items(&tool["functionDeclarations"]));
    conversation.tools = functions
        .map(|function| Tool {
            name: text_at(function, "name").to_owned(),
            parameters: schema_of(function, "parametersJsonSchema", "parameters"),
        })
        .collect();
    let config = &body["generationConfig"];
    let schema = schema_of(config, "responseJsonSchema", "responseSchema");
    conversation.schema = schema.is_object().then_some(schema);
    conversation
}

pub(super) fn whole(answer: &Answer<'_>) -> Value {
    chunk(answer, part(answer), true)
}

pub(super) fn events(answer: &Answer<'_>) -> Vec<Event> {
    let pieces = answer.content.pieces().iter();
    let mut events: Vec<Event> = pieces
        .map(|text| Event::json(chunk(answer, json!({"text": text}), false)).piece())
        .collect();
    let last = match answer.content {
        Content::Text(_) => json!({"text": ""}),
        Content::Call { .. } => part(answer),
    };
    events.push(Event::json(chunk(answer, last, true)));
    events
}

fn chunk(answer: &Answer<'_>, part: Value, is_last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": [part]}, "index": 0});
    if is_last {
        candidate["finishReason"] = json!("STOP");
    }
    let (input, output) = (answer.input_tokens, answer.output_tokens());
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": input,
            "candidatesTokenCount": output,
            "totalTokenCount": input + output,
        },
        "modelVersion": "mock-model",
        "responseId": format!("response-{}", answer.serial),
    })
}

fn part(answer: &Answer<'_>) -> Value {
    match answer.content {
        Content::Text(pieces) => json!({"text": pieces.concat()}),
        Content::Call { name, arguments } => {
            json!({"functionCall": {"name": name, "args": arguments}})
        }
    }
}

/// A schema has two names, after the two dialects it may be in.
fn schema_of(value: &Value, json: &str, own: &str) -> Value {
    let mut schemas = [json, own].into_iter().map(|name| &value[name]);
    schemas
        .find(|schema| schema.is_object())
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_tools_are_read() {
        let schema = json!({"type": "OBJECT"});
        let conversation = read(&json!({
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"response": {"output": "done"}}}]},
            ],
            "tools": [{"functionDeclarations": [
                {"name": "t", "parameters": schema},
                {"name": "u", "parametersJsonSchema": {"type": "object"}},
            ]}],
            "generationConfig": {"responseSchema": schema},
        }));
        assert_eq!(conversation.last_user_text(), "hi");
        assert_eq!(conversation.tool_result(), Some(r#"{"output":"done"}"#));
        let tools: Vec<_> = conversation
            .tools
            .iter()
            .map(|tool| &tool.parameters)
            .collect();
        assert_eq!(tools, [&schema, &json!({"type": "object"})]);
        assert_eq!(conversation.schema, Some(schema));
    }
}
