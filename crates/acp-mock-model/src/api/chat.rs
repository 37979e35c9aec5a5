//! OpenAI's chat completions.

use serde_json::{Value, json};

use super::{Answer, Content, Data, Event};
use crate::conversation::{Conversation, Role, Tool, items, text_at, text_of};

pub(super) fn read(body: &Value) -> Conversation {
    let mut conversation = Conversation::default();
    for message in items(&body["messages"]) {
        let role = match text_at(message, "role") {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" | "function" => Role::Tool,
            _ => continue,
        };
        conversation.push(role, &text_of(&message["content"]));
    }
    let functions = items(&body["tools"]).iter().map(|tool| &tool["function"]);
    let functions = functions.filter(|function| function["name"].is_string());
    conversation.tools = functions
        .map(|function| Tool {
            name: text_at(function, "name").to_owned(),
            parameters: function["parameters"].clone(),
        })
        .collect();
    let format = &body["response_format"]["json_schema"]["schema"];
    conversation.schema = format.is_object().then(|| format.clone());
    conversation
}

pub(super) fn whole(answer: &Answer<'_>) -> Value {
    let message = match answer.content {
        Content::Text(pieces) => json!({"role": "assistant", "content": pieces.concat()}),
        Content::Call { .. } => {
            json!({"role": "assistant", "content": null, "tool_calls": [call(answer)]})
        }
    };
    let choice = json!({"index": 0, "message": message, "finish_reason": finish(answer)});
    let mut whole = head(answer, "chat.completion");
    whole["choices"] = json!([choice]);
    whole["usage"] = usage(answer);
    whole
}

pub(super) fn events(answer: &Answer<'_>) -> Vec<Event> {
    let chunk = |choices: Value| {
        let mut chunk = head(answer, "chat.completion.chunk");
        chunk["choices"] = choices;
        chunk
    };
    let delta = |delta: Value, finish: Value| {
        Event::json(chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": finish}]),
        ))
    };
    let mut events = vec![delta(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    match answer.content {
        Content::Text(pieces) => {
            let pieces = pieces.iter();
            events.extend(pieces.map(|text| delta(json!({"content": text}), Value::Null).piece()));
        }
        Content::Call { .. } => {
            let mut call = call(answer);
            call["index"] = json!(0);
            events.push(delta(json!({"tool_calls": [call]}), Value::Null));
        }
    }
    events.push(delta(json!({}), json!(finish(answer))));
    let mut last = chunk(json!([]));
    last["usage"] = usage(answer);
    events.push(Event::json(last));
    events.push(Event {
        name: None,
        data: Data::Done,
        is_piece: false,
    });
    events
}

fn head(answer: &Answer<'_>, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{}", answer.serial),
        "object": object,
        "created": 1,
        "model": answer.model,
    })
}

fn call(answer: &Answer<'_>) -> Value {
    let Content::Call { name, arguments } = answer.content else {
        return Value::Null;
    };
    json!({
        "id": format!("call_{}", answer.serial),
        "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()},
    })
}

fn finish(answer: &Answer<'_>) -> &'static str {
    match answer.content {
        Content::Text(_) => "stop",
        Content::Call { .. } => "tool_calls",
    }
}

fn usage(answer: &Answer<'_>) -> Value {
    let (input, output) = (answer.input_tokens, answer.output_tokens());
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_tools_are_read() {
        let schema = json!({"type": "object"});
        let conversation = read(&json!({
            "messages": [
                {"role": "system", "content": "be terse"},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": null, "tool_calls": []},
                {"role": "tool", "content": "done"},
            ],
            "tools": [{"type": "function", "function": {"name": "t", "parameters": schema}}, {"type": "x"}],
            "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
        }));
        let roles: Vec<_> = conversation.turns.iter().map(|turn| turn.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
        assert_eq!(conversation.last_user_text(), "hi");
        assert_eq!(conversation.tool_result(), Some("done"));
        let tool = Tool {
            name: "t".into(),
            parameters: schema.clone(),
        };
        assert_eq!(conversation.tools, [tool]);
        assert_eq!(conversation.schema, Some(schema));
    }
}
