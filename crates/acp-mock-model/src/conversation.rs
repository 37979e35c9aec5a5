//! What an agent asked, whichever way it asked.

use serde_json::Value;

/// What agents put around what their user said: begin and end of each stretch are such a tag.
const CONTEXT_TAGS: [&str; 7] = [
    "environment_context",
    "permissions instructions",
    "session_context",
    "skills_instructions",
    "system-reminder",
    "user_info",
    "user_instructions",
];

/// One request to the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Conversation {
    /// What was said, oldest first. The system's part is left out.
    pub(crate) turns: Vec<Turn>,
    /// What the model may call.
    pub(crate) tools: Vec<Tool>,
    /// The JSON Schema that the answer has to fit, if it is not to be text.
    pub(crate) schema: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The JSON Schema of its arguments, or null.
    pub(crate) parameters: Value,
}

impl Conversation {
    /// Adds what was said, without the agent's own context. A user that said nothing else is left out, so
    /// that the last turn is the one that counts.
    pub(crate) fn push(&mut self, role: Role, text: &str) {
        let text = without_context(text);
        if !(role == Role::User && text.is_empty()) {
            self.turns.push(Turn { role, text });
        }
    }

    /// What the user said, oldest first.
    pub(crate) fn user_texts(&self) -> impl DoubleEndedIterator<Item = &str> {
        let of_user = self.turns.iter().filter(|turn| turn.role == Role::User);
        of_user.map(|turn| turn.text.as_str())
    }

    /// What the user said last; empty if the user said nothing.
    pub(crate) fn last_user_text(&self) -> &str {
        self.user_texts().next_back().unwrap_or_default()
    }

    /// What the tool gave, if the model has just called one.
    pub(crate) fn tool_result(&self) -> Option<&str> {
        let last = self.turns.last()?;
        (last.role == Role::Tool).then_some(&last.text)
    }
}

/// The text of a content: text itself, a part with a `text` or a `content`, or a list of such, joined by
/// line breaks. Thoughts are no text.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(text_of).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(part) if part.get("thought") == Some(&Value::Bool(true)) => String::new(),
        Value::Object(part) => match (part.get("text"), part.get("content")) {
            (Some(Value::String(text)), _) => text.clone(),
            (_, Some(content)) => text_of(content),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// The members of a list, or of nothing.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a member, or nothing.
pub(crate) fn text_at<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn without_context(text: &str) -> String {
    let mut text = text.to_owned();
    for tag in CONTEXT_TAGS {
        let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(from) = text.find(&begin)
            && let Some(len) = text[from..].find(&end)
        {
            text.replace_range(from..from + len + end.len(), "");
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_found_in_every_shape() {
        for (content, text) in [
            (json!("a"), "a"),
            (json!(null), ""),
            (json!({"text": "a"}), "a"),
            (
                json!([{"type": "text", "text": "a"}, "b", {"type": "image"}]),
                "a\nb",
            ),
            (json!([{"content": [{"text": "a"}]}]), "a"),
            (json!([{"text": "hm", "thought": true}, {"text": "a"}]), "a"),
        ] {
            assert_eq!(text_of(&content), text, "{content}");
        }
    }

    #[test]
    fn the_context_of_agents_is_not_what_the_user_said() {
        let text = "<system-reminder>\nbe good</system-reminder> hello <user_info>x</user_info>";
        assert_eq!(without_context(text), "hello");
        assert_eq!(without_context("<user_info>open"), "<user_info>open");
        let mut conversation = Conversation::default();
        conversation.push(Role::User, "why?");
        conversation.push(Role::Tool, "done");
        conversation.push(Role::User, "<system-reminder>x</system-reminder>");
        assert_eq!(conversation.tool_result(), Some("done"));
        assert_eq!(conversation.last_user_text(), "why?");
    }
}
