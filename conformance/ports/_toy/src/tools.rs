//! Requests that are more than text: with tools, with a response format, or with calls and their results.

use serde_json::{Map, Value, json};

use crate::mutant::{Mutant, broken};
use crate::reply::Form;

/// What a request has beside its messages: `tools`, `tool_choice` and `response_format`.
pub type Extras = Map<String, Value>;

const INSTRUCTIONS: &str = "The JSON object below is a request to a chat model. Reply as that model, with one \
JSON object and no other text. Its member tool_calls is a list of the tools that you call, each as \
{\"id\": …, \"function\": {\"name\": …, \"arguments\": {…}}}; without calls, its member content is your answer.";

pub fn extras(args: &Value) -> Extras {
    ["tools", "tool_choice", "response_format"]
        .iter()
        .filter(|name| !args[**name].is_null() && args[**name] != json!([]))
        .map(|name| ((*name).to_owned(), args[*name].clone()))
        .collect()
}

/// What is expected of the reply, where that is more than text.
pub fn form(messages: &[Value], extras: &Extras) -> Option<Form> {
    let json = extras
        .get("response_format")
        .is_some_and(|format| format["type"] != "text" || broken(Mutant::TextFormatIsForm));
    let is_of_tools =
        |message: &Value| message["role"] == "tool" || message["tool_calls"].is_array();
    let wanted = json
        || extras.contains_key("tools")
        || messages.iter().any(is_of_tools) && !broken(Mutant::ResultsAreText);
    let ids = messages.iter().flat_map(calls);
    let tools = extras.get("tools").and_then(Value::as_array);
    let names = tools.into_iter().flatten().map(|tool| match &tool["name"] {
        Value::Null => &tool["function"]["name"],
        name => name,
    });
    wanted.then(|| Form {
        tools: names
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect(),
        ids: ids
            .filter_map(|call| Some(call["id"].as_str()?.to_owned()))
            .collect(),
        json,
    })
}

/// The prompt of a whole request, as its content blocks.
pub fn whole(messages: &[Value], extras: &Extras, question: Option<&str>) -> Vec<Value> {
    let mut sent = extras.clone();
    for (mutant, name) in [
        (Mutant::ToolsNotSent, "tools"),
        (Mutant::ToolChoiceNotSent, "tool_choice"),
        (Mutant::ResponseFormatNotSent, "response_format"),
    ] {
        if broken(mutant) {
            sent.remove(name);
        }
    }
    blocks(INSTRUCTIONS, messages, sent, question)
}

/// The prompt that goes on with a request of which the session has the rest.
pub fn rest(messages: &[Value], extras: &Extras) -> Vec<Value> {
    let mut sent = extras.clone();
    if !broken(Mutant::DeltaSendsToolsAgain) {
        sent.retain(|name, _| name == "tool_choice" && !broken(Mutant::DeltaForgetsChoice));
    }
    let goes_on = "The conversation has gone on. Reply in the same way to:";
    blocks(goes_on, messages, sent, None)
}

/// The prompt that asks for a reply once more.
pub fn again(fault: &str) -> Vec<Value> {
    let fault = if broken(Mutant::FaultNotNamed) {
        "it is of no use"
    } else {
        fault
    };
    let text = format!("I could not use your reply: {fault}. Please repair it and send it again.");
    vec![json!({"type": "text", "text": text})]
}

fn blocks(words: &str, messages: &[Value], sent: Extras, question: Option<&str>) -> Vec<Value> {
    let mut others = Vec::new();
    let mut named = messages.to_vec();
    for message in &mut named {
        if broken(Mutant::CallsNotSent) {
            message.as_object_mut().map(|all| all.remove("tool_calls"));
        }
        let parts = message["content"].as_array_mut();
        for part in parts.into_iter().flatten() {
            if let Some(image) = image(part) {
                others.push(image);
                if !broken(Mutant::ImageLeftInObject) {
                    let number = others.len() + 1;
                    *part = json!({"type": part["type"], "content_block": number});
                }
            }
        }
    }
    let mut object = sent;
    object.insert("messages".to_owned(), named.into());
    let object = Value::Object(object);
    let line = if broken(Mutant::ObjectOverLines) {
        format!("{object:#}")
    } else {
        object.to_string()
    };
    let mut text = format!("{words}\n{line}");
    if let Some(question) = question {
        text.push_str(&format!("\nSUPERSEDES-ALL-PRIOR: {question}"));
    }
    let mut blocks = vec![json!({"type": "text", "text": text})];
    blocks.append(&mut others);
    blocks
}

/// Whether a message has neither text nor anything else that a prompt would tell of it.
pub fn says_nothing(message: &Value) -> bool {
    let content = &message["content"];
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    let is_text = |part: &Value| part["text"].as_str().is_some_and(str::is_empty);
    let is_of_tools = !calls(message).is_empty() || message["tool_call_id"].is_string();
    !is_of_tools && content.as_str().is_none_or(str::is_empty) && parts.iter().all(is_text)
}

pub fn has_images(messages: &[Value]) -> bool {
    let parts = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    messages
        .iter()
        .flat_map(parts)
        .any(|part| image(&part).is_some())
}

/// The content block that a part becomes which is an image.
fn image(part: &Value) -> Option<Value> {
    let url = part["image_url"]["url"].as_str()?.strip_prefix("data:")?;
    let (kind, data) = url.split_once(";base64,")?;
    Some(json!({"type": "image", "mimeType": kind, "data": data}))
}

fn calls(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}
