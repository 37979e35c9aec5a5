//! From a recording of a real agent to a transcript.
//!
//! The transcript holds what the agent wrote, in its order, and what a client does that has the same
//! conversation: the calls of the host program are inferred from the recorded client's requests. What
//! no client of the driver protocol would do, such as a `session/list`, is left out with its answer,
//! and a note says so. Times are left out; what differs from one machine or run to the next gets a
//! neutral name (`clean`).

mod agent_only;
mod clean;
mod host;
mod permission;
mod process;
mod runs;
mod steps;
mod turns;
mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use self::clean::Cleaner;
use self::process::{End, Process, Read};
use self::steps::{Line, Steps};
use self::wire::Message;
use crate::fixture::{Fixture, FixtureError};
use crate::recording::{Directories, Event, Recording, Side};

/// What cannot be seen in a recording.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The id of the transcript, `AREA/BEHAVIOUR`.
    pub id: String,
    /// The behaviour, as one sentence about the client. The default says only what was recorded.
    pub title: Option<String>,
    /// The requirements that it is about.
    pub covers: Vec<String>,
    /// The agent's name and version, where `initialize` does not tell them.
    pub agent: Option<String>,
    /// Leave out what no turn depends on: lines that are no message, and what an agent tells of its
    /// commands, its usage and the like.
    pub drop_noise: bool,
    /// Keep only these turns, counted from 1 by their prompts, and what came before the first one; all if
    /// there are none. What follows a turn up to the next prompt belongs to it.
    pub turns: Vec<usize>,
    /// Write the agent's side only, for [`crate::play`]: nothing of what the recorded client asked for
    /// is left out.
    pub agent_only: bool,
}

/// A transcript, and what a person should know of it.
#[derive(Debug, Clone)]
pub struct Distilled {
    /// The transcript's text.
    pub text: String,
    /// What was left out.
    pub notes: Vec<Note>,
}

/// Something that was left out of the transcript. Displays as `file:line: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The recording.
    pub path: PathBuf,
    /// The line in it.
    pub line: u32,
    /// What was left out, and why.
    pub message: String,
}

/// Why there is no transcript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DistillError {
    /// Nothing was recorded that could be played.
    #[error("no client could be told to do this: {}", .0.as_ref().map_or_else(
        || "the recording holds no message".to_owned(), ToString::to_string))]
    NothingToPlay(Option<Note>),
    /// The transcript would be one that nobody can play, for which an option may be the reason.
    #[error("what came of the recording is no transcript: {0}")]
    Faulty(FixtureError),
    /// The transcript would show what it is not to.
    #[error(
        "line {line} of the transcript would show {what}; --title and --id, too, are to show none of it"
    )]
    Shows {
        /// The line of the transcript, counted from 1.
        line: usize,
        /// What it shows; a secret is not told.
        what: String,
    },
}

/// Makes a transcript of a recording.
///
/// # Errors
///
/// A recording without a process in which a client of the driver protocol could open a session, of which
/// the agent's side alone can be had. A transcript in which [`Fixture::parse`] finds a fault, or that would
/// show where it was recorded, by whom, or a secret.
pub fn distill(recording: &Recording, options: &Options) -> Result<Distilled, DistillError> {
    let mut script = Script {
        path: recording.path.clone(),
        drop_noise: options.drop_noise,
        ..Script::default()
    };
    for gap in &recording.gaps {
        script.note(gap.line, &gap.message);
    }
    for entries in &recording.processes {
        for entry in entries {
            if let Event::Start(directories) = &entry.event {
                script.cleaner.hide(directories);
            }
        }
    }
    let mut processes = process::processes(recording);
    for process in &processes {
        for cwd in process.directories() {
            script.cleaner.hide(&Directories {
                cwd: Some(cwd),
                ..Directories::default()
            });
        }
        process.values().for_each(|it| script.cleaner.learn(&it));
    }
    let mut turn = 0;
    for process in &mut processes {
        if !options.turns.is_empty() {
            process.keep_turns(&mut turn, &options.turns);
        }
        runs::join(process, &script.cleaner);
    }
    for process in &processes {
        if options.agent_only {
            agent_only::add(&mut script, process);
        } else {
            host::add(&mut script, process);
        }
    }
    if script.processes == 0 {
        return Err(DistillError::NothingToPlay(script.notes.pop()));
    }
    let agent = options.agent.clone();
    let agent = agent.or_else(|| processes.iter().find_map(Process::agent));
    let agent = agent.unwrap_or_else(|| "an agent that does not say its name".to_owned());
    let header = script.header(options, &script.cleaner.masked(&agent));
    let text = format!("{header}\n{}", script.steps);
    check(&text, &options.id, &script.cleaner)?;
    Ok(Distilled {
        text,
        notes: script.notes,
    })
}

/// Whether the transcript can be read, and shows nothing of what is to be hidden.
fn check(text: &str, id: &str, cleaner: &Cleaner) -> Result<(), DistillError> {
    let path = PathBuf::from(format!("{id}.jsonl"));
    Fixture::parse(&path, text, &mut |_| None).map_err(DistillError::Faulty)?;
    for (line, number) in text.lines().zip(1..) {
        if let Some(what) = cleaner.shown(line) {
            return Err(DistillError::Shows { line: number, what });
        }
    }
    Ok(())
}

/// The transcript as it is being written.
#[derive(Debug, Default)]
struct Script {
    path: PathBuf,
    drop_noise: bool,
    cleaner: Cleaner,
    steps: Steps,
    /// How many processes the steps are about.
    processes: u32,
    needs: BTreeSet<&'static str>,
    notes: Vec<Note>,
    /// How many requests have been labelled, by the first letters of their labels.
    labels: std::collections::BTreeMap<&'static str, u32>,
}

impl Script {
    fn note(&mut self, line: u32, message: impl fmt::Display) {
        self.notes.push(Note {
            path: self.path.clone(),
            line,
            message: message.to_string(),
        });
    }

    /// A label that no other request has: `p1`, `p2` and so on.
    fn label(&mut self, prefix: &'static str) -> String {
        let count = self.labels.entry(prefix).or_default();
        *count += 1;
        format!("{prefix}{count}")
    }

    /// The step that sends what the agent sent, if it is one that needs no answer.
    fn tell(&mut self, steps: &mut Steps, read: &Read) {
        let Message::Notification { method, params } = &read.message else {
            if !self.drop_noise {
                // The recorder took the line feed off, or there was none.
                let end = if read.bytes.ends_with(b"\n") {
                    ""
                } else {
                    "\n"
                };
                let text = self.cleaner.raw(&read.bytes);
                steps.push(Line::new("raw", format!("{text}{end}")));
            }
            return;
        };
        let params = params.clone().unwrap_or(Value::Null);
        let update = &params["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if method != "session/update" || kind.is_empty() {
            if !self.drop_noise {
                let step = Line::new("tell", self.cleaner.masked(method));
                steps.push(match params {
                    Value::Null => step,
                    params => step.with("params", self.cleaner.value(&params)),
                });
            }
            return;
        }
        if self.drop_noise && NOISE.contains(&kind) {
            return;
        }
        let session = wire::session_of(&params).map(|id| self.cleaner.session(id));
        match session.filter(|_| has_only(&params, &["sessionId", "update"])) {
            Some(session) => match chunk(update) {
                Some(text) => {
                    let text = self.cleaner.text(text);
                    let message = update.get("messageId");
                    let message = message.map(|id| self.cleaner.id("messageId", id));
                    steps.say(&text, kind, &session, message.as_ref());
                }
                None => {
                    let update = self.cleaner.value(update);
                    steps.push(Line::new("update", update).session(&session));
                }
            },
            None => {
                let params = self.cleaner.value(&params);
                steps.push(Line::new("tell", self.cleaner.masked(method)).with("params", params));
            }
        }
    }

    /// The step that asks what the agent asked, bound to `label`.
    fn ask(&mut self, id: &Value, method: &str, params: Option<&Value>, label: &str) -> Line {
        let params = params.cloned().unwrap_or(Value::Null);
        let step = match (wire::session_of(&params), &params["options"]) {
            (Some(session), Value::Array(options))
                if method == "session/request_permission"
                    && has_only(&params, &["sessionId", "options", "toolCall"])
                    && params["toolCall"].is_object() =>
            {
                let session = self.cleaner.session(session);
                let options = options.iter().map(|option| self.cleaner.value(option));
                Line::new("ask_permission", options.collect::<Vec<_>>())
                    .with("as", label)
                    .session(&session)
                    .with("tool", self.cleaner.value(&params["toolCall"]))
            }
            _ => {
                let step = Line::new("ask", self.cleaner.masked(method));
                let step = match params {
                    Value::Null => step,
                    params => step.with("params", self.cleaner.value(&params)),
                };
                step.with("as", label)
            }
        };
        step.with("id", self.cleaner.id("id", id))
    }

    /// The step that answers the client's request `label` as the agent did.
    fn reply(
        &mut self,
        label: &str,
        asked: &Value,
        answered: &Value,
        answer: &Result<Value, Value>,
    ) -> Line {
        let step = Line::new("reply", label);
        let step = match answer {
            Ok(result) => step.with("result", self.cleaner.value(result)),
            Err(error) => step.with("error", self.cleaner.value(error)),
        };
        if asked.is_number() && answered.is_string() {
            step.with("id_as_string", true)
        } else {
            step
        }
    }

    fn header(&self, options: &Options, agent: &str) -> Line {
        let title = options.title.clone();
        let title = title.unwrap_or_else(|| {
            format!("The client has the conversation with {agent} that was recorded")
        });
        let covers = match &options.covers[..] {
            [] => vec!["TODO".to_owned()],
            covers => covers.to_vec(),
        };
        let mut header = Line::new("fixture", options.id.as_str())
            .with("format", 1)
            .with("title", title)
            .with("level", "must")
            .with("covers", covers);
        if !self.needs.is_empty() {
            let needs: Vec<&str> = self.needs.iter().copied().collect();
            header = header.with("needs", needs);
        }
        header = header.with("source", format!("recorded {agent}"));
        if options.agent_only {
            let about = "The agent's side only, to be played alone: there are no host steps.";
            header = header.with("about", about);
        }
        header
    }
}

/// Updates that tell of an agent's surroundings, and of no turn.
const NOISE: [&str; 5] = [
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
];

/// The text of an update that `say` can say.
fn chunk(update: &Value) -> Option<&str> {
    let is_chunk = update["sessionUpdate"]
        .as_str()
        .is_some_and(|kind| crate::fixture::CHUNKS.contains(&kind));
    let content = &update["content"];
    (is_chunk
        && has_only(update, &["sessionUpdate", "content", "messageId"])
        && has_only(content, &["type", "text"])
        && content["type"] == "text")
        .then(|| content["text"].as_str())
        .flatten()
}

fn has_only(value: &Value, members: &[&str]) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.keys().all(|key| members.contains(&&**key)))
}

/// What a client is to send, as far as every client sends the same.
fn params_wanted(cleaner: &mut Cleaner, method: &str, params: &Value) -> Value {
    let session = wire::session_of(params).map(|id| cleaner.session(id));
    match method {
        "initialize" => json!({"protocolVersion": 1}),
        "session/new" => json!({"cwd": "$abspath", "mcpServers": []}),
        "session/set_mode" => {
            let mode = cleaner.id("modeId", &params["modeId"]);
            let mode = steps::literal(mode.as_str().unwrap_or_default());
            json!({"sessionId": session, "modeId": mode})
        }
        _ => match session {
            Some(session) => json!({"sessionId": session}),
            None => json!({}),
        },
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

#[cfg(test)]
mod tests;
