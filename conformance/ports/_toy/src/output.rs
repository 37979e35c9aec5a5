//! What a session says in one turn: the text that counts, and how much of the rest there was.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use crate::line::join_halves;
use crate::mutant::{Mutant, broken};

#[derive(Default)]
pub struct Output {
    /// The text, by the message that it belongs to.
    messages: Vec<Message>,
    dropped: BTreeMap<&'static str, u64>,
    /// Tool calls that have begun and not ended.
    open_tools: HashSet<String>,
}

/// Consecutive chunks with the same `messageId`, or without one.
struct Message {
    id: Value,
    text: String,
}

/// The kinds of update that protocol version 1 has besides those that are told apart.
const OTHER_KINDS: &[&str] = &[
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
];

impl Output {
    /// Takes the text that counts: `agent_message_chunk`, type `text`, and nothing else. The rest is
    /// counted. Returns whether it was such text.
    pub fn add(&mut self, update: &Value) -> bool {
        let (left_out, counts) = match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => ("non_text", true),
            Some("agent_thought_chunk") => ("thoughts", broken(Mutant::ThoughtsAreText)),
            Some("user_message_chunk") => ("user_messages", broken(Mutant::EchoIsText)),
            Some("tool_call" | "tool_call_update") => {
                self.note_tool(update);
                ("tool_calls", false)
            }
            Some("plan") => ("plans", false),
            Some(kind) if OTHER_KINDS.contains(&kind) => ("other", false),
            Some(_) => ("unknown", broken(Mutant::AnyUpdateIsText)),
            None => ("malformed", broken(Mutant::AnyUpdateIsText)),
        };
        let is_text = update["content"]["type"] == "text" || broken(Mutant::AnyContentIsText);
        match update["content"]["text"].as_str() {
            Some(text) if counts && is_text => self.add_text(text, &update["messageId"]),
            _ => {
                self.count(left_out);
                return false;
            }
        }
        true
    }

    /// Counts something else that was no part of the answer.
    pub fn count(&mut self, name: &'static str) {
        *self.dropped.entry(name).or_default() += 1;
    }

    pub fn text(&self) -> String {
        let text: String = self.messages.iter().map(|one| one.text.as_str()).collect();
        if broken(Mutant::HalvesNotJoined) {
            text
        } else {
            join_halves(&text)
        }
    }

    /// Begins the text anew. What was left out stays counted.
    pub fn clear_text(&mut self) {
        self.messages.clear();
        self.open_tools.clear();
    }

    pub fn messages(&self) -> Value {
        let message = |one: &Message| json!({"message_id": one.id, "text": join_halves(&one.text)});
        self.messages.iter().map(message).collect()
    }

    pub fn dropped(&self) -> Value {
        if broken(Mutant::DroppedNotCounted) {
            json!({})
        } else {
            json!(self.dropped)
        }
    }

    pub fn has_open_tools(&self) -> bool {
        !self.open_tools.is_empty()
    }

    fn add_text(&mut self, text: &str, id: &Value) {
        if broken(Mutant::RepetitionsDropped) && self.text() == text {
            return;
        }
        let id = if broken(Mutant::MessageIdDropped) {
            &Value::Null
        } else {
            id
        };
        let same = |one: &&mut Message| one.id == *id;
        let found = if broken(Mutant::MessagesSorted) {
            self.messages.iter_mut().find(same)
        } else {
            self.messages.last_mut().filter(same)
        };
        match found {
            Some(message) if !broken(Mutant::ChunksAreMessages) => message.text.push_str(text),
            _ => self.messages.push(Message {
                id: id.clone(),
                text: text.to_owned(),
            }),
        }
    }

    fn note_tool(&mut self, update: &Value) {
        let Some(id) = update["toolCallId"].as_str() else {
            return;
        };
        match update["status"].as_str() {
            Some("completed" | "failed") if !broken(Mutant::ToolsNeverEnd) => {
                self.open_tools.remove(id);
            }
            // A call is pending unless it says otherwise; an update of one may be about other things.
            None if update["sessionUpdate"] == "tool_call_update" => {}
            _ => {
                self.open_tools.insert(id.to_owned());
            }
        }
    }
}
