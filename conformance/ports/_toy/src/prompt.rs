//! The text of a prompt.

use serde_json::{Value, json};

use crate::mutant::{Mutant, broken};
use crate::tools;
use crate::turn::Turn;

/// The prompt for a whole request: every message, then, where it is to be marked, the line that names the
/// current one.
pub fn whole(turn: &Turn, marked: bool) -> Vec<Value> {
    let (mut lines, question) = read(&turn.messages);
    let question = question.filter(|_| marked && !broken(Mutant::NoMarker));
    if turn.form.is_some() {
        return tools::whole(&turn.messages, &turn.extras, question.as_deref());
    }
    if let Some(question) = question {
        lines.push(format!("SUPERSEDES-ALL-PRIOR: {question}"));
    }
    text(&lines.join("\n"))
}

/// The prompt for these messages of a request alone.
pub fn rest(turn: &Turn, messages: &[Value]) -> Vec<Value> {
    if turn.form.is_some() {
        return tools::rest(messages, &turn.extras);
    }
    text(&read(messages).0.join("\n"))
}

fn text(text: &str) -> Vec<Value> {
    vec![json!({"type": "text", "text": text})]
}

/// A line for each message, and the current question.
fn read(messages: &[Value]) -> (Vec<String>, Option<String>) {
    let mut lines = Vec::new();
    let mut question = None;
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        let text = content(&message["content"]);
        if text.is_empty() && !broken(Mutant::EmptyMessagesKept) {
            continue;
        }
        if broken(Mutant::LoneMessageUnlabelled) && messages.len() == 1 {
            lines.push(text.clone());
        } else {
            lines.push(format!("{role}: {text}"));
        }
        let keeps_first = broken(Mutant::MarkerNamesFirstQuestion) && question.is_some();
        if (role == "user" && !keeps_first) || broken(Mutant::MarkerNamesLastMessage) {
            question = Some(text);
        }
    }
    (lines, question)
}

fn content(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let separator = if broken(Mutant::PartsJoinedByLineBreak) {
                "\n"
            } else {
                ""
            };
            parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect::<Vec<_>>()
                .join(separator)
        }
        _ => String::new(),
    };
    if broken(Mutant::LineBreaksFlattened) {
        text.replace('\n', " ")
    } else {
        text
    }
}
