//! One agent process of a recording: what was said, and how it ended.

use serde_json::Value;

use super::steps::Line;
use super::wire::Message;
use crate::control::Signal;
use crate::recording::{Entry, Event, Recording, Side};

/// One agent process, as far as it was on the wire.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) reads: Vec<Read>,
    /// How the process ended of itself, if it did.
    pub(super) end: Option<End>,
}

/// The end of a process that nobody has told to end.
#[derive(Debug)]
pub(super) struct End {
    /// The line in the recording.
    pub(super) line: u32,
    /// The step that is the same, or stands for it.
    pub(super) step: Line,
    /// Whether more is known than that the agent has closed its output.
    pub(super) is_known: bool,
    /// What a person should know of a step that is not the same.
    pub(super) note: Option<String>,
}

/// A line of the wire.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) line: u32,
    pub(super) from: Side,
    pub(super) bytes: Vec<u8>,
    pub(super) message: Message,
}

impl Read {
    pub(super) fn is_prompt(&self) -> bool {
        matches!(&self.message, Message::Request { method, .. }
            if self.from == Side::Client && method == "session/prompt")
    }
}

impl Process {
    /// Drops all turns but these; `turn` is how many there were before.
    pub(super) fn keep_turns(&mut self, turn: &mut usize, kept: &[usize]) {
        let before = *turn;
        self.reads.retain(|read| {
            *turn += usize::from(read.is_prompt());
            *turn == before || kept.contains(turn)
        });
    }

    /// The directories of its sessions.
    pub(super) fn directories(&self) -> impl Iterator<Item = String> {
        self.reads.iter().filter_map(|read| match &read.message {
            Message::Request { params, .. } if read.from == Side::Client => {
                let cwd = params.as_ref()?["cwd"].as_str()?;
                crate::pattern::is_absolute(cwd).then(|| cwd.to_owned())
            }
            _ => None,
        })
    }

    /// Everything that was said, as JSON.
    pub(super) fn values(&self) -> impl Iterator<Item = Value> {
        self.reads.iter().map(|read| {
            let text = String::from_utf8_lossy(&read.bytes);
            serde_json::from_str(&text).unwrap_or_else(|_| text.into())
        })
    }

    /// The agent's name and version, as it gives them itself.
    pub(super) fn agent(&self) -> Option<String> {
        self.reads.iter().find_map(|read| match &read.message {
            Message::Response {
                answer: Ok(result), ..
            } if read.from == Side::Agent => {
                let info = &result["agentInfo"];
                let version = info["version"].as_str().unwrap_or_default();
                let name = info["name"].as_str()?;
                Some(format!("{name} {version}").trim_end().to_owned())
            }
            _ => None,
        })
    }
}

/// The agent processes of a recording. What came after the client had closed the agent's input is not
/// part of the conversation any more.
pub(super) fn processes(recording: &Recording) -> Vec<Process> {
    let process = |entries: &Vec<Entry>| {
        let mut process = Process {
            reads: Vec::new(),
            end: None,
        };
        for entry in entries {
            let end = |step, is_known, note| {
                let line = entry.line;
                Some(End {
                    line,
                    step,
                    is_known,
                    note,
                })
            };
            match &entry.event {
                Event::Line { from, bytes } if *from != Side::Stderr => process.reads.push(Read {
                    line: entry.line,
                    from: *from,
                    bytes: bytes.clone(),
                    message: Message::read(bytes),
                }),
                Event::End(Side::Client) => break,
                Event::End(Side::Agent) => {
                    let note = "how the agent ended is not known; exit 1 stands for it";
                    process.end = end(Line::new("exit", 1), false, Some(note.to_owned()));
                }
                Event::Exit(code) => process.end = end(Line::new("exit", *code), true, None),
                // Whoever was told to end did not end of itself.
                Event::Signal(name) if ["SIGTERM", "SIGINT", "SIGHUP"].contains(&&**name) => {
                    process.end = None;
                }
                Event::Signal(name) => {
                    let known = Signal::from_name(name);
                    let note = format!("no step ends an agent by {name:?}; SIGKILL stands for it");
                    let note = Some(note).filter(|_| known.is_none());
                    let signal = known.unwrap_or(Signal::Kill).name();
                    process.end = end(Line::new("signal", signal), true, note);
                }
                _ => {}
            }
        }
        process
    };
    recording.processes.iter().map(process).collect()
}
