//! What does not go into a transcript: where it was recorded, who recorded it, and the agent's own prose.
//!
//! Facts about an agent stay as they are: kinds, order, ids, `_meta`, the members that are there, as far as
//! they do not name a place, a user or a secret ([`places`], [`secrets`]). Long texts, and the names and descriptions that agents give to things, become neutral placeholders, which
//! are the same wherever the same text stood.

mod places;
mod secrets;

use std::collections::HashMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

use self::places::Places;
use self::secrets::{Secrets, without_secrets};
use crate::recording::Directories;

/// A text with more characters is replaced, unless it has no white space and so may be an id.
const LONGEST_TEXT: usize = 40;
/// A session id that is shorter may be part of anything, and is replaced only where a session is named.
const SHORTEST_ID: usize = 8;
/// Nothing that is longer stays as it is.
const LONGEST_WORD: usize = 200;
/// How much of a list is kept that only tells what there is to choose from.
const CHOICES: usize = 2;

/// Members whose text is for people.
const FOR_PEOPLE: [&str; 6] = ["description", "hint", "label", "name", "title", "summary"];

/// Lists of what there is to choose from, beside the member that names the current choice.
const CHOICE_LISTS: [&str; 4] = ["availableCommands", "availableModels", "models", "options"];
const CURRENT: [&str; 2] = ["currentModelId", "currentValue"];

/// Members by whose text other messages name the same thing: two things must not get one name.
const IDS: [&str; 9] = [
    "currentModeId",
    "currentModelId",
    "id",
    "messageId",
    "modeId",
    "modelId",
    "optionId",
    "terminalId",
    "toolCallId",
];

/// Cleans what was recorded of one client and its agents.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// Session ids and their names, in the order in which they came.
    sessions: Vec<(String, String)>,
    places: Places,
    secrets: Secrets,
    /// Long texts and their numbers.
    texts: HashMap<String, usize>,
    /// Ids that were changed, and those that stand for them.
    ids: HashMap<String, String>,
}

impl Cleaner {
    /// From now on these directories have neutral names.
    pub(super) fn hide(&mut self, directories: &Directories) {
        for (place, name) in [
            (&directories.cwd, "/project"),
            (&directories.home, "/home/user"),
            (&directories.temp, "/tmp"),
        ] {
            self.places.hide(place.as_deref().unwrap_or_default(), name);
        }
        self.places
            .hide_user(directories.home.as_deref().unwrap_or_default());
    }

    /// From now on the secrets in this value are masked wherever they stand.
    pub(super) fn learn(&mut self, value: &Value) {
        self.secrets.learn(value);
    }

    /// The name of the session with this id: `s1` for the first, and so on.
    pub(super) fn session(&mut self, id: &str) -> String {
        if let Some(name) = self.known_session(id) {
            return name.to_owned();
        }
        let name = format!("s{}", self.sessions.len() + 1);
        self.sessions.push((id.to_owned(), name.clone()));
        name
    }

    /// The name of the session with this id, if it has one.
    pub(super) fn known_session(&self, id: &str) -> Option<&str> {
        let known = self.sessions.iter().find(|(known, _)| known == id);
        known.map(|(_, name)| &**name)
    }

    /// A value as it may be shown.
    pub(super) fn value(&mut self, value: &Value) -> Value {
        self.member("", &without_secrets(value))
    }

    /// A text of a message, which is not for people alone.
    pub(super) fn text(&mut self, text: &str) -> String {
        self.string("text", text)
    }

    /// An id, as [`Cleaner::value`] shows it where it is the member `key`.
    pub(super) fn id(&mut self, key: &str, id: &Value) -> Value {
        self.member(key, id)
    }

    /// Bytes that are no message, with nothing changed but the names of places and sessions, and secrets.
    pub(super) fn raw(&self, bytes: &[u8]) -> String {
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => {
                // What is hidden is found in ASCII, whatever is around it.
                let text: String = bytes.iter().copied().map(char::from).collect();
                return self.masked(&text);
            }
        };
        let masked = match serde_json::from_str::<Value>(text) {
            Ok(value) if without_secrets(&value) != value => {
                self.masked(&without_secrets(&value).to_string())
            }
            _ => self.masked(text),
        };
        masked.bytes().map(char::from).collect()
    }

    /// Text without places, sessions and secrets.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let long = |(id, _): &&(String, String)| id.len() >= SHORTEST_ID;
        for (id, name) in self.sessions.iter().filter(long) {
            text = replace_word(&text, id, name);
        }
        self.places.masked(&self.secrets.masked(&text))
    }

    /// What of all that is to be hidden a text still shows.
    pub(super) fn shown(&self, text: &str) -> Option<String> {
        if self.secrets.are_in(text) {
            return Some("a secret".to_owned());
        }
        self.places.shown(text)
    }

    fn member(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => self.string(key, text).into(),
            Value::Array(items) => items.iter().map(|item| self.member(key, item)).collect(),
            Value::Object(members) => Value::Object(self.members(members)),
            scalar => scalar.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>) -> Map<String, Value> {
        let current: Vec<&Value> = CURRENT.iter().filter_map(|key| members.get(*key)).collect();
        let mut clean = Map::new();
        for (key, value) in members {
            let few;
            let value = match value {
                Value::Array(items) if CHOICE_LISTS.contains(&&**key) => {
                    few = Value::Array(fewer(items, &current));
                    &few
                }
                other => other,
            };
            let value = self.member(key, value);
            let mut key = self.masked(key);
            while clean.contains_key(&key) {
                key.push('\'');
            }
            clean.insert(key, value);
        }
        clean
    }

    fn string(&mut self, key: &str, text: &str) -> String {
        if let Some(name) = self.known_session(text).filter(|_| key == "sessionId") {
            return name.to_owned();
        }
        let short = self.shortened(key, self.masked(text));
        if short != text && IDS.contains(&key) {
            self.unique(text, short)
        } else {
            short
        }
    }

    /// `name` for the id, or one like it that no other id has.
    fn unique(&mut self, id: &str, name: String) -> String {
        if let Some(name) = self.ids.get(id) {
            return name.clone();
        }
        let mut number = 1;
        let mut free = name.clone();
        while self.ids.values().any(|taken| *taken == free) {
            number += 1;
            free = format!("{name}-{number}");
        }
        self.ids.insert(id.to_owned(), free.clone());
        free
    }

    fn shortened(&mut self, key: &str, text: String) -> String {
        let has_space = text.contains(char::is_whitespace);
        if FOR_PEOPLE.contains(&key) && has_space {
            return format!("a {key}");
        }
        let length = text.chars().count();
        if length <= LONGEST_TEXT || (!has_space && length <= LONGEST_WORD) {
            return text;
        }
        // White space at the ends of a chunk is a fact, and one that clients have lost before.
        let core = text.trim();
        let next = self.texts.len() + 1;
        let number = *self.texts.entry(core.to_owned()).or_insert(next);
        let start = text.len() - text.trim_start().len();
        let end = start + core.len();
        format!("{}text {number}{}", &text[..start], &text[end..])
    }
}

/// The first few choices, and the current one.
fn fewer(items: &[Value], current: &[&Value]) -> Vec<Value> {
    // The options of a permission request are what it is about, and all of them stay.
    if items.iter().any(|item| item.get("kind").is_some()) {
        return items.to_vec();
    }
    let is_current = |item: &Value| {
        let members = item.as_object().into_iter().flatten();
        members
            .into_iter()
            .any(|(_, member)| member.is_string() && current.contains(&member))
    };
    let kept = items.iter().enumerate();
    kept.filter(|(index, item)| *index < CHOICES || is_current(item))
        .map(|(_, item)| item.clone())
        .collect()
}

/// Replaces `word` where it is not part of a longer one.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(word).filter(|_| !word.is_empty()) {
        let (before, found) = rest.split_at(start);
        let after = &found[word.len()..];
        replaced.push_str(before);
        let is_whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        replaced.push_str(if is_whole { by } else { word });
        rest = after;
    }
    replaced + rest
}

fn pattern(text: &str) -> Regex {
    #[expect(
        clippy::expect_used,
        reason = "the patterns are constants, and a test uses each"
    )]
    Regex::new(text).expect("a valid pattern")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sessions_are_named_in_their_order_wherever_they_stand() {
        let mut cleaner = Cleaner::default();
        for (id, name) in [
            ("abcdefg-1", "s1"),
            ("abcdefg-12", "s2"),
            ("abcdefg-1", "s1"),
            ("0", "s3"),
        ] {
            assert_eq!(cleaner.session(id), name);
        }
        let value = json!({
            "a": "abcdefg-12",
            "_meta": {"log": "/x/abcdefg-1.log", "other": "xabcdefg-1"},
            "sessionId": "0",
            "count": "0",
        });
        let want = json!({
            "a": "s2",
            "_meta": {"log": "/x/s1.log", "other": "xabcdefg-1"},
            "sessionId": "s3",
            "count": "0",
        });
        assert_eq!(cleaner.value(&value), want);
    }

    #[test]
    fn everything_in_a_value_is_cleaned() {
        let mut cleaner = Cleaner::default();
        cleaner.hide(&Directories {
            cwd: Some("/home/jdoe/p".to_owned()),
            home: Some("/home/jdoe".to_owned()),
            temp: None,
        });
        let value = json!({
            "/home/jdoe/p/a": {"jdoe": 1, "user": 2},
            "optionId": "allow:/home/jdoe/p",
            "authorization": {"value": "x"},
        });
        let want = json!({
            "/project/a": {"user": 1, "user'": 2},
            "optionId": "allow:/project",
            "authorization": {"value": "[masked]"},
        });
        assert_eq!(cleaner.value(&value), want);
    }

    #[test]
    fn two_ids_never_become_one() {
        let mut cleaner = Cleaner::default();
        let ids = [
            "sk-abcdefghij1",
            "sk-abcdefghij2",
            "sk-abcdefghij1",
            "plain",
        ];
        let clean = ids.map(|id| cleaner.id("id", &id.into()));
        assert_eq!(
            clean,
            ["sk-[masked]", "sk-[masked]-2", "sk-[masked]", "plain"]
        );
        let option = json!({"optionId": "sk-abcdefghij2"});
        assert_eq!(cleaner.value(&option), json!({"optionId": "sk-[masked]-2"}));
        assert_eq!(cleaner.id("id", &json!(7)), 7);
    }

    #[test]
    fn prose_becomes_placeholders_and_facts_stay() {
        let mut cleaner = Cleaner::default();
        let long = "a long text that the agent wrote, and that is its author's";
        let value = json!({
            "name": "Allow for this session",
            "optionId": "proceed_always",
            "description": long,
            "content": [{"type": "text", "text": format!(" {long}\n")}, {"text": long}],
            "rawInput": {"path": "/w/x", "id": "0".repeat(100), "blob": "0".repeat(300)},
        });
        let want = json!({
            "name": "a name",
            "optionId": "proceed_always",
            "description": "a description",
            "content": [{"type": "text", "text": " text 1\n"}, {"text": "text 1"}],
            "rawInput": {"path": "/w/x", "id": "0".repeat(100), "blob": "text 2"},
        });
        assert_eq!(cleaner.value(&value), want);
    }

    #[test]
    fn of_what_can_be_chosen_a_few_stay_and_the_current_one() {
        let models: Vec<Value> = (0..9)
            .map(|n| json!({"modelId": format!("m{n}")}))
            .collect();
        let value = json!({"currentModelId": "m7", "availableModels": models});
        let ids = json!([{"modelId": "m0"}, {"modelId": "m1"}, {"modelId": "m7"}]);
        assert_eq!(Cleaner::default().value(&value)["availableModels"], ids);
        let options: Vec<Value> = (0..5)
            .map(|n| json!({"optionId": n, "kind": "x"}))
            .collect();
        let value = json!({"options": options});
        assert_eq!(Cleaner::default().value(&value), value);
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        let mut cleaner = Cleaner::default();
        cleaner.session("abcdefgh");
        let masked = cleaner.raw(b"log: abcdefgh \xc3\xa4");
        assert_eq!(masked, "log: s1 \u{c3}\u{a4}");
        assert_eq!(cleaner.raw(b"\xff abcdefgh"), "\u{ff} s1");
        assert_eq!(
            cleaner.raw(br#"{"authorization": {"value": "x"}}"#),
            r#"{"authorization":{"value":"[masked]"}}"#
        );
    }
}
