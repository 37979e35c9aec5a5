//! What of a request to the model counts, whichever API it is for.

use acp_mock_model::Request;
use serde_json::Value;

/// What the model is given: tools, then the system's part, then what was said.
///
/// That is the order in which providers look for what they have in their caches.
pub fn context(request: &Request) -> String {
    let body = &request.body;
    let system = ["system", "instructions", "systemInstruction"];
    let mut context = String::new();
    for part in ["tools"].iter().chain(&system) {
        if let Some(part) = body.get(*part) {
            context.push_str(&written(part));
        }
    }
    for said in said(body) {
        context.push_str(&written(said));
    }
    context
}

/// Whether the request is the turn itself, and not one of those that agents make on the side, for titles or
/// suggestions: it offers tools, and what the user said last has this in it.
pub fn is_turn(request: &Request, question: &str) -> bool {
    let has_tools = request.body["tools"]
        .as_array()
        .is_some_and(|tools| !tools.is_empty());
    let of_user = |said: &&Value| said["role"] == "user";
    let last = said(&request.body).iter().rev().find(of_user);
    has_tools && last.is_some_and(|last| last.to_string().contains(question))
}

/// How much of a context, of 1, the one before began with as well.
pub fn shared_prefix(before: &str, context: &str) -> f64 {
    let same = before
        .bytes()
        .zip(context.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    same as f64 / context.len().max(1) as f64
}

fn said(body: &Value) -> &[Value] {
    let said = ["messages", "input", "contents"]
        .iter()
        .find_map(|name| body.get(*name)?.as_array());
    said.map_or(&[], Vec::as_slice)
}

/// As JSON, without the marks that say up to where a provider should keep what it was given: they move on
/// with each turn, and are no part of what is kept.
fn written(value: &Value) -> String {
    let mut value = value.clone();
    without_marks(&mut value);
    value.to_string()
}

fn without_marks(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(without_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        _ => {}
    }
}
