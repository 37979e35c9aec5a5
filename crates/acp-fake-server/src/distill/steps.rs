//! The steps of a transcript, written.

use std::fmt;

use serde_json::{Value, json};

/// One step: its members in the order in which they are written, the verb first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line(Vec<(&'static str, Value)>);

impl Line {
    pub(super) fn new(verb: &'static str, value: impl Into<Value>) -> Line {
        Line(vec![(verb, value.into())])
    }

    pub(super) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Line {
        self.0.push((key, value.into()));
        self
    }

    /// `session`, where it is not the default.
    pub(super) fn session(self, session: &str) -> Line {
        match session {
            "s1" => self,
            other => self.with("session", other),
        }
    }

    /// The step as it stands within another one.
    pub(super) fn to_value(&self) -> Value {
        let members = self.0.iter().cloned();
        Value::Object(
            members
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = '{';
        for (key, value) in &self.0 {
            write!(f, "{separator}{}:{}", json!(key), Readable(value))?;
            separator = ',';
        }
        f.write_str("}")
    }
}

/// Members that say what an object is, and so are read best before the others, which follow in the
/// order of their names.
const FIRST: [&str; 16] = [
    "returns",
    "want_note",
    "want_reply",
    "sessionUpdate",
    "type",
    "role",
    "outcome",
    "protocolVersion",
    "sessionId",
    "toolCallId",
    "optionId",
    "id",
    "name",
    "kind",
    "code",
    "message",
];

/// JSON in an order that does not depend on how this program was built.
struct Readable<'a>(&'a Value);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    write!(f, "{separator}{}", Readable(item))?;
                }
                f.write_str("]")
            }
            Value::Object(members) => {
                let rank = |key: &str| FIRST.iter().position(|first| *first == key);
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(key, _)| (rank(key).unwrap_or(FIRST.len()), *key));
                f.write_str("{")?;
                for (index, (key, value)) in members.into_iter().enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    write!(f, "{separator}{}:{}", json!(key), Readable(value))?;
                }
                f.write_str("}")
            }
            scalar => write!(f, "{scalar}"),
        }
    }
}

/// Steps of which each is written on a line of its own.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<Line>);

impl Steps {
    pub(super) fn push(&mut self, line: Line) {
        self.0.push(line);
    }

    /// Adds a text chunk. Chunks in a row that differ in nothing but their text are one step.
    pub(super) fn say(
        &mut self,
        text: &str,
        kind: &str,
        session: &str,
        message_id: Option<&Value>,
    ) {
        let mut line = Line::new("say", text);
        if kind != "agent_message_chunk" {
            line = line.with("kind", kind);
        }
        line = line.session(session);
        if let Some(id) = message_id {
            line = line.with("message_id", id.clone());
        }
        if let Some(last) = self.0.last_mut()
            && last.0[1..] == line.0[1..]
            && let Some((verb, said)) = last.0.first_mut()
            && *verb == "say"
        {
            if let Value::String(first) = said {
                *said = json!([first]);
            }
            if let Value::Array(texts) = said {
                texts.push(text.into());
            }
            return;
        }
        self.push(line);
    }

    /// Where the next step will stand.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Replaces the step at `index`, if there is one.
    pub(super) fn replace(&mut self, index: usize, line: Line) {
        if let Some(step) = self.0.get_mut(index) {
            *step = line;
        }
    }

    /// Adds the steps of `other`.
    pub(super) fn append(&mut self, mut other: Steps) {
        self.0.append(&mut other.0);
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// A string as a pattern that matches nothing else.
pub(super) fn literal(text: &str) -> Value {
    match text.strip_prefix('$') {
        Some(rest) => format!("$${rest}").into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_in_a_row_are_one_step() {
        let mut steps = Steps::default();
        for text in ["a", "b", "c"] {
            steps.say(text, "agent_message_chunk", "s1", None);
        }
        steps.say("x", "agent_thought_chunk", "s1", None);
        steps.say("d", "agent_message_chunk", "s2", Some(&json!("m")));
        steps.push(Line::new("fence", true));
        steps.say("e", "agent_message_chunk", "s2", Some(&json!("m")));
        let want = r#"{"say":["a","b","c"]}
{"say":"x","kind":"agent_thought_chunk"}
{"say":"d","session":"s2","message_id":"m"}
{"fence":true}
{"say":"e","session":"s2","message_id":"m"}
"#;
        assert_eq!(steps.to_string(), want);
    }

    #[test]
    fn a_literal_is_no_wildcard() {
        assert_eq!(literal("$any"), json!("$$any"));
        assert_eq!(literal("text"), json!("text"));
    }
}
