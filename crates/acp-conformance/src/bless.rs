//! What the calls of a transcript return, as a run gives it.
//!
//! The run stops at the first `returns` that does not match; so each is corrected and the transcript
//! played again, until it passes or fails for another reason.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use acp_fake_server::{
    Fixture, FixtureError, Outcome,
    fixture::{Expected, Step, Verb},
    pattern::Captures,
    transcript::{LogEntry, LogEvent},
};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    cell::{self, Stage},
    port::Port,
    verdict::Verdict,
};

/// A transcript, and what became of it.
#[derive(Debug)]
pub struct Blessed {
    /// The text with its `returns` corrected as far as the run came.
    pub text: String,
    /// What the last run came to.
    pub verdict: Verdict,
}

/// Plays the transcript `text` until its `returns` are what `port` gives. A `returns` whose pattern is
/// `"$any"` is filled in; one that matches stays as it is.
///
/// # Errors
///
/// A text that is no transcript, as the first of its faults.
pub fn bless(path: &Path, text: &str, port: &Port, stage: &Stage) -> Result<Blessed, FixtureError> {
    let mut text = text.to_owned();
    loop {
        let fixture = Fixture::parse(path, &text, &mut |name| prelude(path, name))?;
        let (cell, log) = cell::play_logged(&fixture, port, stage);
        match correction(&fixture, &text, &log) {
            Some(corrected) if corrected != text => text = corrected,
            _ => {
                return Ok(Blessed {
                    text,
                    verdict: cell.verdict,
                });
            }
        }
    }
}

/// Preludes stand in `_prelude` beside the area of a transcript.
fn prelude(path: &Path, name: &str) -> Option<(PathBuf, String)> {
    let root = path.ancestors().nth(2)?;
    let path = root.join("_prelude").join(name).with_extension("jsonl");
    let text = fs::read_to_string(&path).ok()?;
    Some((path, text))
}

/// The text with the first `returns` corrected that is not what the log says, if there is one.
fn correction(fixture: &Fixture, text: &str, log: &[LogEntry]) -> Option<String> {
    let mut ops = HashMap::new();
    let mut ends: HashMap<&str, Vec<&Outcome>> = HashMap::new();
    for entry in log {
        match &entry.event {
            LogEvent::Called { label, op, .. } => drop(ops.insert(label.as_str(), op.as_str())),
            LogEvent::Returned { label, outcome } => ends.entry(label).or_default().push(outcome),
            _ => {}
        }
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for step in returns(&fixture.steps) {
        let Verb::Returns { label, outcome } = &step.verb else {
            continue;
        };
        let count = seen.entry(label).or_default();
        let end = ends.get(label.as_str()).and_then(|ends| ends.get(*count));
        *count += 1;
        // A step of a prelude is shared, and is not for one transcript to change.
        if step.location.used_by.is_some() {
            continue;
        }
        if let Some(end) = end
            && !holds(outcome, end)
            && let Some(value) = expected(ops.get(label.as_str()).copied(), end)
        {
            return replace(text, step.location.line, label, &value);
        }
    }
    None
}

/// The `returns` among the steps, those in `any_order` included.
fn returns(steps: &[Step]) -> Vec<&Step> {
    let mut found = Vec::new();
    for step in steps {
        match &step.verb {
            Verb::Returns { .. } => found.push(step),
            Verb::AnyOrder(steps) => found.extend(returns(steps)),
            _ => {}
        }
    }
    found
}

/// Whether the step says something of what came, and it is so. What refers to other values is left to
/// the player.
fn holds(expected: &Expected, end: &Outcome) -> bool {
    let (pattern, value) = match (expected, end) {
        (Expected::Ok(pattern) | Expected::Either { ok: pattern, .. }, Outcome::Ok(value))
        | (Expected::Err(pattern) | Expected::Either { err: pattern, .. }, Outcome::Err(value)) => {
            (pattern, value)
        }
        _ => return false,
    };
    let checked = pattern.check(Some(value), "$", &mut Captures::new());
    *pattern.source() != "$any" && (checked.is_ok() || !pattern.references().is_empty())
}

/// What a `returns` says of this end: what every port has to report, and no words for people.
fn expected(op: Option<&str>, end: &Outcome) -> Option<(&'static str, Value)> {
    let only = |value: &Value, names: &[&str]| -> Value {
        let known = names.iter().filter_map(|name| {
            let member = value.get(name)?;
            Some(((*name).to_owned(), literal(member)))
        });
        Value::Object(known.collect::<Map<_, _>>())
    };
    match end {
        Outcome::Ok(value) => Some((
            "ok",
            match op {
                // The end that every turn is to have is no news.
                Some("generate") if value["stop_reason"] == "end_turn" => only(value, &["content"]),
                Some("generate") => only(value, &["content", "stop_reason"]),
                Some("is_alive") => only(value, &["alive"]),
                Some("load" | "lane") => {
                    let session = literal(&value["session_id"]);
                    json!({"session_id": {"$oneof": ["$absent", session]}})
                }
                _ => json!({}),
            },
        )),
        Outcome::Err(error) => {
            let names = [
                "kind",
                "code",
                "methods",
                "answered",
                "partial",
                "exit_code",
                "signal",
            ];
            Some(("err", only(error, &names)))
        }
        Outcome::Crash(_) | Outcome::Unsupported(_) => None,
    }
}

/// A value as a pattern that nothing else matches.
fn literal(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with('$') => format!("${text}").into(),
        Value::Array(items) => items.iter().map(literal).collect(),
        other => other.clone(),
    }
}

/// The text in which the `returns` of `label` on this line, counted from 1, says `value`.
fn replace(text: &str, line: u32, label: &str, value: &(&str, Value)) -> Option<String> {
    let (key, value) = value;
    let step = format!("{{\"returns\":{},\"{key}\":{value}}}", json!(label));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let old = lines.get_mut(index)?;
    let members: HashMap<String, &RawValue> = serde_json::from_str(old).ok()?;
    *old = match members.get("any_order") {
        None => step,
        Some(items) => {
            let items: Vec<&RawValue> = serde_json::from_str(items.get()).ok()?;
            let is_it = |item: &RawValue| {
                serde_json::from_str::<Value>(item.get()).is_ok_and(|item| item["returns"] == label)
            };
            let items = items.into_iter().map(|item| match is_it(item) {
                true => step.as_str(),
                false => item.get(),
            });
            let items: Vec<&str> = items.collect();
            format!("{{\"any_order\":[{}]}}", items.join(","))
        }
    };
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_returns_is_replaced_and_everything_else_stays() {
        let text = concat!(
            "{\"note\" : \"kept\"}\n",
            "{\"any_order\":[{\"want_eof\" :true},{\"returns\":\"g\",\"ok\":{}}]}\n",
            "{\"returns\":\"g\",\"ok\":\"$any\"}\n",
        );
        let value = ("err", json!({"kind": "closed"}));
        let first = replace(text, 2, "g", &value).unwrap();
        assert_eq!(
            first.lines().nth(1).unwrap(),
            r#"{"any_order":[{"want_eof" :true},{"returns":"g","err":{"kind":"closed"}}]}"#
        );
        let second = replace(&first, 3, "g", &value).unwrap();
        assert_eq!(
            second.lines().nth(2).unwrap(),
            r#"{"returns":"g","err":{"kind":"closed"}}"#
        );
        assert!(second.starts_with("{\"note\" : \"kept\"}\n"));
        assert_eq!(replace(text, 9, "g", &value), None);
    }

    #[test]
    fn what_is_said_of_an_end_is_what_every_port_reports() {
        for (reason, want) in [
            ("end_turn", json!({"content": "$$x"})),
            (
                "max_tokens",
                json!({"content": "$$x", "stop_reason": "max_tokens"}),
            ),
        ] {
            let ok = Outcome::Ok(json!({"content": "$x", "stop_reason": reason, "usage": {}}));
            assert_eq!(expected(Some("generate"), &ok), Some(("ok", want)));
        }
        let error = json!({"kind": "rejected", "code": 1, "message": "m", "stderr_tail": "t"});
        let want = json!({"kind": "rejected", "code": 1});
        let err = Outcome::Err(error);
        assert_eq!(expected(Some("generate"), &err), Some(("err", want)));
        assert_eq!(expected(Some("close"), &Outcome::Crash("c".into())), None);
    }
}
