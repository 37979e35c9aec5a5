//! OpenAI's responses.

use serde_json::{Value, json};

use super::{Answer, Content, Event};
use crate::conversation::{Conversation, Role, Tool, items, text_at, text_of};

pub(super) fn read(body: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    if let Some(text) = body["input"].as_str() {
        conversation.push(Role::User, text);
    }
    for item in items(&body["input"]) {
        match (text_at(item, "type"), text_at(item, "role")) {
            ("message" | "", "user") => conversation.push(Role::User, &text_of(&item["content"])),
            ("message" | "", "assistant") => {
                conversation.push(Role::Assistant, &text_of(&item["content"]));
            }
            (kind, _) if kind.ends_with("_output") => {
                conversation.push(Role::Tool, &text_of(&item["output"]));
            }
            _ => {}
        }
    }
    // The other types of tool are called in other ways.
    let functions = items(&body["tools"]).iter();
    conversation.tools = functions
        .filter(|tool| tool["type"] == "function")
        .map(|tool| Tool {
            name: text_at(tool, "name").to_owned(),
            parameters: tool["parameters"].clone(),
        })
        .collect();
    let format = &body["text"]["format"]["schema"];
    conversation.schema = format.is_object().then(|| format.clone());
    conversation
}

pub(super) fn whole(answer: &Answer<'_>) -> Value {
    response(answer, "completed", json!([item(answer)]))
}

pub(super) fn events(answer: &Answer<'_>) -> Vec<Event> {
    let started = response(answer, "in_progress", json!([]));
    let mut events = vec![
        json!({"type": "response.created", "response": started}),
        json!({"type": "response.in_progress", "response": started}),
    ];
    let mut pieces = 0..0;
    let mut begun = item(answer);
    begun["status"] = json!("in_progress");
    match answer.content {
        Content::Text(texts) => {
            begun["content"] = json!([]);
            events.push(of_item(
                "response.output_item.added",
                json!({"item": begun}),
            ));
            let part = json!({"type": "output_text", "text": "", "annotations": []});
            events.push(of_text(
                answer,
                "response.content_part.added",
                json!({"part": part}),
            ));
            pieces = events.len()..events.len() + texts.len();
            for text in texts {
                events.push(of_text(
                    answer,
                    "response.output_text.delta",
                    json!({"delta": text}),
                ));
            }
            let text = json!({"text": texts.concat()});
            events.push(of_text(answer, "response.output_text.done", text));
            let part = json!({"part": text_part(answer)});
            events.push(of_text(answer, "response.content_part.done", part));
        }
        Content::Call { arguments, .. } => {
            begun["arguments"] = json!("");
            events.push(of_item(
                "response.output_item.added",
                json!({"item": begun}),
            ));
            let (id, arguments) = (id(answer), arguments.to_string());
            let delta = json!({"item_id": id, "delta": arguments});
            events.push(of_item("response.function_call_arguments.delta", delta));
            let done = json!({"item_id": id, "arguments": arguments});
            events.push(of_item("response.function_call_arguments.done", done));
        }
    }
    events.push(of_item(
        "response.output_item.done",
        json!({"item": item(answer)}),
    ));
    events.push(json!({"type": "response.completed", "response": whole(answer)}));

    let events = events.into_iter().enumerate();
    events
        .map(|(number, mut event)| {
            event["sequence_number"] = json!(number);
            match pieces.contains(&number) {
                true => Event::named(event).piece(),
                false => Event::named(event),
            }
        })
        .collect()
}

fn response(answer: &Answer<'_>, status: &str, output: Value) -> Value {
    let usage = match status {
        "completed" => json!({
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answer.output_tokens(),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens(),
        }),
        _ => Value::Null,
    };
    json!({
        "id": format!("resp_{}", answer.serial),
        "object": "response",
        "created_at": 1,
        "model": answer.model,
        "status": status,
        "output": output,
        "usage": usage,
    })
}

/// The one item that the answer is.
fn item(answer: &Answer<'_>) -> Value {
    match answer.content {
        Content::Text(_) => json!({
            "type": "message",
            "id": id(answer),
            "role": "assistant",
            "status": "completed",
            "content": [text_part(answer)],
        }),
        Content::Call { name, arguments } => json!({
            "type": "function_call",
            "id": id(answer),
            "call_id": format!("call_{}", answer.serial),
            "name": name,
            "arguments": arguments.to_string(),
            "status": "completed",
        }),
    }
}

fn id(answer: &Answer<'_>) -> String {
    match answer.content {
        Content::Text(_) => format!("msg_{}", answer.serial),
        Content::Call { .. } => format!("fc_{}", answer.serial),
    }
}

fn text_part(answer: &Answer<'_>) -> Value {
    json!({"type": "output_text", "text": answer.content.text(), "annotations": []})
}

/// An event about the item.
fn of_item(kind: &str, mut event: Value) -> Value {
    event["type"] = json!(kind);
    event["output_index"] = json!(0);
    event
}

/// An event about the text in the item.
fn of_text(answer: &Answer<'_>, kind: &str, event: Value) -> Value {
    let mut event = of_item(kind, event);
    event["item_id"] = json!(id(answer));
    event["content_index"] = json!(0);
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_tools_are_read() {
        assert_eq!(read(&json!({"input": "hi"})).last_user_text(), "hi");
        let schema = json!({"type": "object"});
        let conversation = read(&json!({
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "message", "role": "developer", "content": "be terse"},
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "name": "t"},
                {"type": "function_call_output", "output": [{"type": "input_text", "text": "done"}]},
            ],
            "tools": [
                {"type": "function", "name": "t", "parameters": schema},
                {"type": "custom", "name": "apply_patch"},
            ],
            "text": {"format": {"type": "json_schema", "schema": schema}},
        }));
        assert_eq!(conversation.last_user_text(), "hi");
        assert_eq!(conversation.tool_result(), Some("done"));
        let names: Vec<_> = conversation.tools.iter().map(|tool| &tool.name).collect();
        assert_eq!(names, ["t"]);
        assert_eq!(conversation.schema, Some(schema));
    }
}
