//! Transcripts as typed steps.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::control::{Linger, Signal};
use crate::pattern::Pattern;

/// One transcript: a behaviour of an ACP client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fixture {
    /// `AREA/BEHAVIOUR`, the path without its extension. It never changes.
    pub id: String,
    /// The file it was read from.
    pub path: PathBuf,
    /// The behaviour, as one sentence about the client.
    pub title: String,
    /// How binding the behaviour is.
    pub level: Level,
    /// The requirements it is evidence for; at least one.
    pub covers: Vec<String>,
    /// Capabilities without which it says nothing about a port.
    pub needs: Vec<String>,
    /// Where it comes from: `hand-written`, `modelled-on …` or `recorded AGENT VERSION`.
    pub source: String,
    /// Free text about it.
    pub about: Option<String>,
    /// The steps in order, preludes included.
    pub steps: Vec<Step>,
}

/// How binding a behaviour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A client without it is wrong.
    Must,
    /// A client without it is worse.
    Should,
}

/// Where a step stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file of the step.
    pub file: Arc<Path>,
    /// The line in it, counted from 1.
    pub line: u32,
    /// For a step of a prelude, the `use` that brought it in.
    pub used_by: Option<Arc<Location>>,
}

/// Why a transcript cannot be used. Displays as `file:line: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}")]
pub struct FixtureError {
    /// Where the fault is.
    pub location: Location,
    /// What is wrong there.
    pub message: String,
}

/// One line of a transcript.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where it stands.
    pub location: Location,
    /// What it does.
    pub verb: Verb,
}

/// What a step does; the variants are the verbs of `spec/transcript-format.md`.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the format describes each verb and its keys")]
pub enum Verb {
    Call {
        op: String,
        args: Value,
        label: String,
    },
    Returns {
        label: String,
        outcome: Expected,
    },
    Want {
        method: String,
        params: Option<Pattern>,
        label: Option<String>,
    },
    WantNote {
        method: String,
        params: Option<Pattern>,
    },
    WantReply {
        label: String,
        answer: Option<Expected>,
    },
    WantEof,
    Send(Send),
    Raw(Vec<u8>),
    Split {
        send: Send,
        cuts: Cuts,
    },
    Batch(Vec<Send>),
    Stderr {
        bytes: Vec<u8>,
        times: u32,
    },
    Exit(i32),
    Signal(Signal),
    CloseStdout,
    StopReading(bool),
    Linger(Linger),
    Grandchild,
    Process(u32),
    AnyOrder(Vec<Step>),
    Choose {
        label: String,
        cases: Vec<Case>,
    },
    Stale {
        label: String,
        answers: BTreeMap<String, String>,
    },
    Fence,
    Delay(Duration),
    Note(String),
}

/// The end of a call or of a request.
#[derive(Debug, Clone)]
pub enum Expected {
    /// It ends well, with a value like this.
    Ok(Pattern),
    /// It ends with an error like this.
    Err(Pattern),
}

/// One or more messages to the client, and whether they break the schema on purpose.
#[derive(Debug, Clone)]
pub struct Send {
    /// What is sent.
    pub message: Message,
    /// Why it breaks the official schema, if it does so on purpose.
    pub invalid: Option<String>,
}

/// A message to the client.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the format describes each verb and its keys")]
pub enum Message {
    Reply {
        label: String,
        answer: Result<Value, Value>,
        id: Option<Value>,
    },
    Ask {
        method: String,
        params: Option<Value>,
        label: Option<String>,
        id: Option<Value>,
    },
    Tell {
        method: String,
        params: Option<Value>,
    },
    Update {
        session: Value,
        updates: Vec<Value>,
    },
}

/// Where `split` cuts a line.
#[derive(Debug, Clone)]
pub enum Cuts {
    /// At these byte offsets, ascending.
    At(Vec<usize>),
    /// After every so many bytes; never 0.
    Every(usize),
}

/// One case of `choose`.
#[derive(Debug, Clone)]
pub struct Case {
    /// What the params must look like; absent for the case that always matches.
    pub when: Option<Pattern>,
    /// What is played then.
    pub steps: Vec<Step>,
}

impl Fixture {
    /// Reads the transcript at `path` and the preludes it uses, which stand in `_prelude` beside its
    /// area.
    ///
    /// # Errors
    ///
    /// The first fault, with its file and line: a file that cannot be read, a line that is not a
    /// step, or steps that do not fit together.
    pub fn load(path: &Path) -> Result<Fixture, FixtureError> {
        let _ = path;
        unimplemented!()
    }

    /// How many agent processes the transcript scripts.
    #[must_use]
    pub fn processes(&self) -> u32 {
        1
    }

    /// Whether any step, at any depth, is this verb, as in `uses("grandchild")`.
    #[must_use]
    pub fn uses(&self, verb: &str) -> bool {
        let _ = verb;
        false
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)?;
        match &self.used_by {
            Some(by) => write!(f, " (used by {by})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Must => "must",
            Level::Should => "should",
        })
    }
}

/// The transcripts under `root` in the order of their paths; directories whose name begins with `_`
/// are left out.
///
/// # Errors
///
/// A directory that cannot be read.
pub fn discover(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if !entry.file_name().to_string_lossy().starts_with('_') {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "jsonl") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
