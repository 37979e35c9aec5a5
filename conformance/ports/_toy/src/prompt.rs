//! The text of a prompt.

use serde_json::Value;

use crate::mutant::{Mutant, broken};

/// The text of the prompt for a request: every message, then the line that names the current one.
pub fn render(messages: &[Value]) -> String {
    let (mut lines, question) = read(messages);
    if let Some(question) = question
        && !broken(Mutant::NoMarker)
    {
        lines.push(format!("SUPERSEDES-ALL-PRIOR: {question}"));
    }
    lines.join("\n")
}

/// Messages alone.
pub fn lines(messages: &[Value]) -> String {
    read(messages).0.join("\n")
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
