//! What of a request to the model counts, whichever API it is for.

use serde_json::Value;

/// What the model is given: tools, then the system's part, then what was said.
///
/// That is the order in which providers look for what they have in their caches.
pub fn context(body: &Value) -> String {
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
pub fn is_turn(body: &Value, question: &str) -> bool {
    let has_tools = body["tools"]
        .as_array()
        .is_some_and(|tools| !tools.is_empty());
    let of_user = |said: &&Value| said["role"] == "user";
    let last = said(body).iter().rev().find(of_user);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(said: &[(&str, &str)]) -> Value {
        let messages: Vec<Value> = said
            .iter()
            .map(|(role, text)| json!({"role": role, "content": text, "cache_control": {}}))
            .collect();
        json!({"model": "m", "system": "s", "tools": [{"name": "t"}], "messages": messages})
    }

    #[test]
    fn a_turn_offers_tools_and_ends_with_its_question() {
        let turn = body(&[
            ("user", "q1"),
            ("assistant", "a"),
            ("user", "q2"),
            ("tool", "x"),
        ]);
        assert!(is_turn(&turn, "q2"));
        assert!(!is_turn(&turn, "q1"), "that is an older one");
        let mut title = turn.clone();
        title["tools"] = json!([]);
        assert!(!is_turn(&title, "q2"));
        assert!(!is_turn(&json!({}), "q2"));
    }

    #[test]
    fn a_context_grows_at_its_end() {
        let before = context(&body(&[("user", "q1")]));
        let after = context(&body(&[("user", "q1"), ("assistant", "a")]));
        assert!(after.starts_with(&before), "{after}");
        assert!(!after.contains("cache_control"));
        let share = before.len() as f64 / after.len() as f64;
        assert!((shared_prefix(&before, &after) - share).abs() < 1e-9);
        assert!(shared_prefix("abc", "xbc") < 1e-9);
    }
}
