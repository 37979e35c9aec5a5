//! What a player's log says: as text for a person, and held against the official schema.

use acp_fake_server::transcript::{LogEntry, LogEvent};

use crate::{
    verdict::Verdict,
    wire_schema::{self, Sender},
};

/// How much of a line is shown, in bytes.
const SHOWN: usize = 500;

/// The log as text, one event a line.
pub fn render(log: &[LogEntry]) -> String {
    log.iter()
        .map(|entry| format!("{}\n", entry.event))
        .collect()
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
                return Verdict::Broken(format!("{}: {fault}", entry.location));
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

fn shortened(line: &str) -> &str {
    &line[..line.floor_char_boundary(SHOWN)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use acp_fake_server::fixture::Location;
    use serde_json::{Value, json};

    fn entry(event: LogEvent) -> LogEntry {
        LogEntry {
            location: Location {
                file: Path::new("turn/one.jsonl").into(),
                line: 7,
                used_by: None,
            },
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
    fn a_fault_of_the_transcript_says_where_it_is() {
        let log = [to_client(json!({"id": 1, "result": null}), None)];
        let reason = check_schema(Verdict::Pass, &log).reason().unwrap();
        assert!(
            reason.starts_with("turn/one.jsonl:7: the line breaks"),
            "{reason}"
        );
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(
            shortened(&format!("x{}", "ä".repeat(SHOWN))).len(),
            SHOWN - 1
        );
    }
}
