//! What does not go into a transcript: where it was recorded, who recorded it, and the agent's own prose.
//!
//! Facts about an agent stay as they are: kinds, order, ids, `_meta`, the members that are there. Long
//! texts, and the names and descriptions that agents give to things, become neutral placeholders, which
//! are the same wherever the same text stood.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::recording::Directories;

/// A text with more characters is replaced, unless it has no white space and so may be an id.
const LONGEST_TEXT: usize = 40;
/// A session id that is shorter may be part of anything, and is replaced only where a session is named.
const SHORTEST_ID: usize = 8;
/// Nothing that is longer stays as it is.
const LONGEST_WORD: usize = 200;
/// How much of a list is kept that only tells what there is to choose from.
const CHOICES: usize = 2;

const MASK: &str = "[masked]";

/// Members whose text is for people.
const FOR_PEOPLE: [&str; 6] = ["description", "hint", "label", "name", "title", "summary"];

/// Lists of what there is to choose from, beside the member that names the current choice.
const CHOICE_LISTS: [&str; 4] = ["availableCommands", "availableModels", "models", "options"];
const CURRENT: [&str; 2] = ["currentModelId", "currentValue"];

/// Home directories, and the directories for temporary files on macOS.
static PLACES: LazyLock<[(Regex, &'static str); 2]> = LazyLock::new(|| {
    [
        (pattern(r#"/(?:home|Users)/[^/\s"':]+"#), "/home/user"),
        (
            pattern(r#"(?:/private)?/var/folders/[^/\s"']+/[^/\s"']+/T\b"#),
            "/tmp",
        ),
    ]
});

/// Tokens that can be told by their shape; what is kept of them says what they were.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"\b(?:(sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AIza|AKIA|hf_|npm_|pypi-)[A-Za-z0-9_-]{10,}",
        r"|(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
        r"|(Bearer +)[A-Za-z0-9._~+/=-]{8,})",
    ))
});

/// Names of members whose text is secret.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)(?:api[_-]?key|secret|password|passwd|credential|authorization|[a-z]token)$")
});

/// Cleans what was recorded of one client and its agents.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// Session ids and their names, in the order in which they came.
    sessions: Vec<(String, String)>,
    /// Directories and what stands for them, the longest first.
    places: Vec<(String, &'static str)>,
    /// Long texts and their numbers.
    texts: HashMap<String, usize>,
}

impl Cleaner {
    /// From now on these directories have neutral names.
    pub(super) fn hide(&mut self, directories: &Directories) {
        for (place, name) in [
            (&directories.cwd, "/project"),
            (&directories.home, "/home/user"),
            (&directories.temp, "/tmp"),
        ] {
            let place = place.as_deref().unwrap_or_default().trim_end_matches('/');
            if place.starts_with('/') && !self.places.iter().any(|(known, _)| known == place) {
                self.places.push((place.to_owned(), name));
            }
        }
        self.places
            .sort_by_key(|(place, _)| std::cmp::Reverse(place.len()));
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
        self.member("", value)
    }

    /// A text of a message, which is not for people alone.
    pub(super) fn text(&mut self, text: &str) -> String {
        self.string("text", text)
    }

    /// Bytes that are no message, with nothing but the names of places and sessions changed.
    pub(super) fn raw(&self, bytes: &[u8]) -> String {
        let bytes = match str::from_utf8(bytes) {
            Ok(text) => self.masked(text).into_bytes(),
            Err(_) => bytes.to_vec(),
        };
        bytes.into_iter().map(char::from).collect()
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
            clean.insert(key.clone(), self.member(key, value));
        }
        clean
    }

    fn string(&mut self, key: &str, text: &str) -> String {
        if SECRET.is_match(key) {
            return MASK.to_owned();
        }
        if let Some(name) = self.known_session(text).filter(|_| key == "sessionId") {
            return name.to_owned();
        }
        let text = self.masked(text);
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

    /// Text without places, sessions and secrets.
    fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let long = |(id, _): &&(String, String)| id.len() >= SHORTEST_ID;
        for (id, name) in self.sessions.iter().filter(long) {
            text = replace_word(&text, id, name);
        }
        for (place, name) in &self.places {
            text = replace_word(&text, place, name);
        }
        for (place, name) in PLACES.iter() {
            text = place.replace_all(&text, *name).into_owned();
        }
        let keep = |found: &regex_lite::Captures<'_>| {
            let prefix = found.iter().skip(1).flatten().next();
            format!("{}{MASK}", prefix.map_or("", |prefix| prefix.as_str()))
        };
        TOKEN.replace_all(&text, keep).into_owned()
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

/// Replaces `word` where it is not part of a longer name.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(word).filter(|_| !word.is_empty()) {
        let (before, found) = rest.split_at(start);
        let after = &found[word.len()..];
        replaced.push_str(before);
        let joined = |c: char| is_part(c) || (word.starts_with('/') && c == '.');
        let is_whole = !before.ends_with(joined) && !after.starts_with(is_part);
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
    fn places_are_neutral() {
        let mut cleaner = Cleaner::default();
        cleaner.hide(&Directories {
            cwd: Some("/home/me/p".to_owned()),
            home: Some("/home/me".to_owned()),
            temp: Some("/scratch/".to_owned()),
        });
        for (text, want) in [
            ("/home/me/p/a.txt", "/project/a.txt"),
            ("/home/me/p", "/project"),
            ("/home/me/pq", "/home/user/pq"),
            ("/home/other/x", "/home/user/x"),
            ("/Users/me/x", "/home/user/x"),
            ("/scratch/1", "/tmp/1"),
            ("a/scratch/1", "a/scratch/1"),
            ("/private/var/folders/ab/c_d/T/x", "/tmp/x"),
        ] {
            assert_eq!(cleaner.text(text), want);
        }
    }

    #[test]
    fn secrets_are_masked_by_shape_and_by_name() {
        let mut cleaner = Cleaner::default();
        for (text, want) in [
            ("key sk-ant-REDACTED", "key sk-[masked]"),
            ("Bearer abcdefgh12", "Bearer [masked]"),
            ("eyJhbGciOiJI.eyJzdWIi.x", "eyJ[masked]"),
        ] {
            assert_eq!(cleaner.text(text), want);
        }
        let value = json!({"apiKey": "abc", "accessToken": "abc", "inputTokens": 3, "token": "t"});
        let want = json!({"apiKey": MASK, "accessToken": MASK, "inputTokens": 3, "token": "t"});
        assert_eq!(cleaner.value(&value), want);
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
        assert_eq!(cleaner.raw(b"\xff abcdefgh"), "\u{ff} abcdefgh");
    }
}
