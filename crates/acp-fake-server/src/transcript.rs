//! What went over the wire so far.

use std::fmt;

use serde_json::Value;

use crate::control::Command;
use crate::fixture::Location;
use crate::pattern::{brief, shorten};
use crate::player::Outcome;

/// One thing that happened, in the order it happened.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The step that was being played; for what came from outside, the step that was waiting.
    pub location: Location,
    /// What happened.
    pub event: LogEvent,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum LogEvent {
    /// The transcript's own remark.
    Note(String),
    /// The host program called an operation.
    Called {
        /// The label of the call.
        label: String,
        /// The operation.
        op: String,
        /// Its arguments.
        args: Value,
    },
    /// A call ended.
    Returned {
        /// The label of the call.
        label: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// The client started an agent process; the first is 1.
    Started {
        /// Its number.
        process: u32,
    },
    /// A line from the client, without its newline.
    FromClient {
        /// The process it went to.
        process: u32,
        /// The bytes.
        line: Vec<u8>,
        /// The method of the agent's request it answers, if it answers one.
        answers: Option<String>,
    },
    /// The client closed the agent's standard input.
    Eof {
        /// The process.
        process: u32,
    },
    /// The agent process was ended by the client, or lost.
    Gone {
        /// The process.
        process: u32,
    },
    /// A line to the client, without its newline.
    ToClient {
        /// The process it came from.
        process: u32,
        /// The bytes.
        line: Vec<u8>,
        /// The method of the client's request it answers, if it answers one.
        answers: Option<String>,
        /// Why it breaks the official schema, if the step says that it does.
        invalid: Option<String>,
    },
    /// Bytes of a `raw` step, which no schema covers.
    Raw {
        /// The process they came from.
        process: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Something else that the agent process did.
    Agent {
        /// The process.
        process: u32,
        /// What it did; never [`Command::Stdout`].
        command: Command,
    },
}

/// What happened since the last note, one line each; with the note, and without the oldest part
/// where it is long.
pub(crate) fn since_last_note(log: &[LogEntry]) -> String {
    const MOST: usize = 60;
    let start = log
        .iter()
        .rposition(|entry| matches!(entry.event, LogEvent::Note(_)));
    let entries = &log[start.unwrap_or(0)..];
    let skipped = entries.len().saturating_sub(MOST);
    let mut text = String::new();
    if skipped > 0 {
        text.push_str(&format!("  … {skipped} earlier\n"));
    }
    for entry in &entries[skipped..] {
        text.push_str(&format!("  {}\n", entry.event));
    }
    text.truncate(text.trim_end().len());
    text
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The number of the process is of use only where there are several.
        let number = |process: &u32| {
            if *process > 1 {
                process.to_string()
            } else {
                String::new()
            }
        };
        match self {
            LogEvent::Note(text) => write!(f, "note {text}"),
            LogEvent::Called { label, op, args } if label == op => {
                write!(f, "call {op} {}", brief(args))
            }
            LogEvent::Called { label, op, args } => {
                write!(f, "call {op} {} as {label}", brief(args))
            }
            LogEvent::Returned { label, outcome } => write!(f, "{label} returns {outcome}"),
            LogEvent::Started { process } => {
                write!(f, "#{} the client starts the agent", number(process))
            }
            LogEvent::FromClient { process, line, .. } => {
                write!(f, "C{}> {}", number(process), text(line))
            }
            LogEvent::Eof { process } => {
                write!(f, "C{}> closes standard input", number(process))
            }
            LogEvent::Gone { process } => write!(f, "#{} the agent is gone", number(process)),
            LogEvent::ToClient { process, line, .. } => {
                write!(f, "A{}> {}", number(process), text(line))
            }
            LogEvent::Raw { process, bytes } => {
                write!(f, "A{}> raw {:?}", number(process), text(bytes))
            }
            LogEvent::Agent { process, command } => {
                write!(f, "A{} {command}", number(process))
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    shorten(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn log(events: Vec<LogEvent>) -> Vec<LogEntry> {
        let location = Location::new(Path::new("t.jsonl"), 1);
        let entry = |event| LogEntry {
            location: location.clone(),
            event,
        };
        events.into_iter().map(entry).collect()
    }

    #[test]
    fn what_happened_is_one_line_each_from_the_last_note_on() {
        let called = |label: &str| LogEvent::Called {
            label: label.to_owned(),
            op: "load".to_owned(),
            args: json!({}),
        };
        let from_client = |process| LogEvent::FromClient {
            process,
            line: b"{}".to_vec(),
            answers: None,
        };
        let events = vec![
            LogEvent::Note("one".to_owned()),
            LogEvent::Eof { process: 1 },
            LogEvent::Note("two".to_owned()),
            called("load"),
            called("l2"),
            from_client(1),
            from_client(2),
            LogEvent::Raw {
                process: 2,
                bytes: b"x\n".to_vec(),
            },
            LogEvent::Agent {
                process: 1,
                command: Command::Exit(3),
            },
        ];
        let text = since_last_note(&log(events));
        let (first, last) = text.rsplit_once('\n').unwrap();
        assert_eq!(
            first,
            "  note two\n  call load {}\n  call load {} as l2\n  C> {}\n  C2> {}\n  A2> raw \"x\\n\""
        );
        assert!(last.starts_with("  A exit"), "{last}");
    }

    #[test]
    fn the_oldest_part_of_much_is_left_out() {
        let text = |count| since_last_note(&log(vec![LogEvent::Gone { process: 1 }; count]));
        assert_eq!(text(60).lines().count(), 60);
        assert!(!text(60).contains('…'));
        let long = text(61);
        assert!(long.starts_with("  … 1 earlier\n"), "{long}");
        assert_eq!(long.lines().count(), 61);
    }
}
