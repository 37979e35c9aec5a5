//! What a player's log says: as text for a person, and held against the official schema.

use std::fmt::Write as _;

use acp_fake_server::{
    Outcome,
    transcript::{LogEntry, LogEvent},
};

use crate::{
    verdict::Verdict,
    wire_schema::{self, Sender},
};

/// The longest piece of a line that is shown.
const SHOWN: usize = 2000;

/// The log as text, one event a line.
pub fn render(log: &[LogEntry]) -> String {
    let mut text = String::new();
    for entry in log {
        let line = match &entry.event {
            LogEvent::Note(note) => format!("# {note}"),
            LogEvent::Called { label, op, args } => format!("host   call {label}: {op} {args}"),
            LogEvent::Returned { label, outcome } => match outcome {
                Outcome::Ok(value) => format!("host   {label} returned ok {value}"),
                Outcome::Err(error) => format!("host   {label} returned err {error}"),
                Outcome::Crash(what) => format!("host   {label} crashed: {what}"),
                Outcome::Unsupported(what) => format!("host   {label} is unsupported: {what}"),
            },
            LogEvent::Started { process } => format!("agent{process} started"),
            LogEvent::FromClient { process, line, .. } => {
                format!("agent{process} < {}", String::from_utf8_lossy(line))
            }
            LogEvent::Eof { process } => format!("agent{process} < end of input"),
            LogEvent::Gone { process } => format!("agent{process} is gone"),
            LogEvent::ToClient { process, line, .. } => {
                format!("agent{process} > {}", String::from_utf8_lossy(line))
            }
            LogEvent::Raw { process, bytes } => {
                format!("agent{process} > raw {:?}", String::from_utf8_lossy(bytes))
            }
            LogEvent::Agent { process, command } => format!("agent{process} does {command:?}"),
        };
        push_shortened(&mut text, &line);
    }
    text
}

/// Holds every message of the log against the official schema and returns the verdict then.
///
/// A client that wrote an invalid line has failed. An agent's line that is invalid and does not say
/// so, or the reverse, is the transcript's fault, and says that the other verdict means nothing.
pub fn check_schema(verdict: Verdict, log: &[LogEntry]) -> Verdict {
    let mut client = Vec::new();
    for entry in log {
        match &entry.event {
            LogEvent::FromClient { line, answers, .. } => {
                if let Err(fault) = wire_schema::check(Sender::Client, line, answers.as_deref()) {
                    client.push(format!(
                        "the client wrote what the official schema does not allow: {fault}: {}",
                        shortened(&String::from_utf8_lossy(line))
                    ));
                }
            }
            LogEvent::ToClient {
                line,
                answers,
                invalid,
                ..
            } => {
                let checked = wire_schema::check(Sender::Agent, line, answers.as_deref());
                let fault = match (checked, invalid) {
                    (Ok(()), None) | (Err(_), Some(_)) => continue,
                    (Err(fault), None) => {
                        format!("the line breaks the official schema and does not say so: {fault}")
                    }
                    (Ok(()), Some(why)) => format!(
                        "the line is invalid, it says ({why}), but the official schema allows it"
                    ),
                };
                let at = entry
                    .location
                    .as_ref()
                    .map_or_else(String::new, |location| format!("{location}: "));
                return Verdict::Broken(format!("{at}{fault}"));
            }
            _ => {}
        }
    }
    match (verdict, client.first()) {
        (Verdict::Pass, Some(fault)) => Verdict::Fail(fault.clone()),
        (Verdict::Fail(reason), Some(fault)) => Verdict::Fail(format!("{reason}\nalso, {fault}")),
        (verdict, _) => verdict,
    }
}

fn push_shortened(text: &mut String, line: &str) {
    let short = shortened(line);
    text.push_str(short);
    if short.len() < line.len() {
        // Writing to a string cannot fail.
        let _ = write!(text, "… ({} bytes)", line.len());
    }
    text.push('\n');
}

fn shortened(line: &str) -> &str {
    &line[..line.floor_char_boundary(SHOWN)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(event: LogEvent) -> LogEntry {
        LogEntry {
            location: None,
            event,
        }
    }

    fn to_client(message: Value, invalid: Option<&str>) -> LogEntry {
        entry(LogEvent::ToClient {
            process: 1,
            line: message.to_string().into_bytes(),
            answers: Some("session/prompt".into()),
            invalid: invalid.map(str::to_owned),
        })
    }

    fn from_client(message: Value) -> LogEntry {
        entry(LogEvent::FromClient {
            process: 1,
            line: message.to_string().into_bytes(),
            answers: None,
        })
    }

    #[test]
    fn an_invalid_client_line_fails_a_cell_that_passed() {
        let log = [from_client(
            json!({"id": 1, "method": "session/new", "params": {}}),
        )];
        let verdict = check_schema(Verdict::Pass, &log);
        assert!(matches!(&verdict, Verdict::Fail(why) if why.contains("NewSessionRequest")));
        let timeout = Verdict::Timeout("t".into());
        assert_eq!(check_schema(timeout.clone(), &log), timeout);
    }

    #[test]
    fn the_agent_is_invalid_exactly_where_it_says_so() {
        let good = json!({"id": 1, "result": {"stopReason": "end_turn"}});
        let bad = json!({"id": 1, "result": {"stopReason": "tired"}});
        let cases = [
            (good.clone(), None, "pass"),
            (bad.clone(), Some("tired"), "pass"),
            (good, Some("tired"), "broken"),
            (bad, None, "broken"),
        ];
        for (message, invalid, want) in cases {
            let log = [to_client(message, invalid)];
            assert_eq!(check_schema(Verdict::Pass, &log).word(), want);
        }
    }

    #[test]
    fn a_long_line_is_shortened_at_a_character() {
        let log = [entry(LogEvent::Note("ä".repeat(5000)))];
        let text = render(&log);
        assert!(text.len() < SHOWN + 40, "{}", text.len());
        assert!(text.ends_with("… (10002 bytes)\n"));
    }
}
