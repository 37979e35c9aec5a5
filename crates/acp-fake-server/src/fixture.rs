//! Transcripts as typed steps.

mod check;
mod json;
mod limits;
mod members;
mod read;
mod verbs;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use self::limits::Repeated;
pub(crate) use self::verbs::CHUNKS;
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
        answer: Expected,
    },
    WantEof,
    Send(Send),
    Raw(Repeated),
    Split {
        send: Send,
        cuts: Cuts,
    },
    Batch(Vec<Send>),
    Stderr(Repeated),
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
    /// It ends in one of the two ways.
    Either {
        /// The value, if it ends well.
        ok: Pattern,
        /// The error, if it does not.
        err: Pattern,
    },
}

/// A message to the client, and whether it breaks the schema on purpose.
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
        answer: Answer,
        id: Option<Value>,
        id_as_string: bool,
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
    /// One `session/update` for each of the updates.
    Update { session: Value, updates: Vec<Value> },
}

/// What a response of the agent carries. One of the two is absent, unless the step is `invalid`.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The member `result`.
    pub result: Option<Value>,
    /// The member `error`.
    pub error: Option<Value>,
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
    /// The first fault, with its file and line: a file that cannot be read, an id that is not the
    /// end of the path, a line that is not a step, or steps that do not fit together.
    pub fn load(path: &Path) -> Result<Fixture, FixtureError> {
        let (fixture, faults) = Fixture::examine(path);
        sound(path, fixture, faults)
    }

    /// Every fault of the transcript at `path`, in the order of its lines; none if it can be loaded.
    #[must_use]
    pub fn faults(path: &Path) -> Vec<FixtureError> {
        Fixture::examine(path).1
    }

    /// Reads a transcript from `text`. `path` is for messages, `preludes` gives the path and the text of a
    /// prelude by its name.
    ///
    /// # Errors
    ///
    /// The first fault, with its file and line.
    pub fn parse(
        path: &Path,
        text: &str,
        preludes: &mut dyn FnMut(&str) -> Option<(PathBuf, String)>,
    ) -> Result<Fixture, FixtureError> {
        let (fixture, faults) = Fixture::read(path, text, &mut |name| preludes(name).map(Ok));
        sound(path, fixture, faults)
    }

    fn examine(path: &Path) -> (Option<Fixture>, Vec<FixtureError>) {
        let text = match read_text(path) {
            Ok(text) => text,
            Err(fault) => return (None, vec![fault]),
        };
        // A path that does not show the area is seen from the root.
        let named = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .count();
        let whole = if named < 2 {
            std::path::absolute(path)
        } else {
            Ok(path.to_path_buf())
        };
        let whole = whole.unwrap_or_else(|_| path.to_path_buf());
        let preludes = whole.ancestors().nth(2).map(|root| root.join("_prelude"));
        let (fixture, mut faults) = Fixture::read(path, &text, &mut |name| {
            let path = preludes.as_ref()?.join(name).with_extension("jsonl");
            let text = path.is_file().then(|| read_text(&path))?;
            Some(text.map(|text| (path, text)))
        });
        if let Some(fixture) = &fixture
            && !whole.with_extension("").ends_with(&fixture.id)
        {
            let message = format!(
                "the id {0:?} is not the end of the path: such a file is named {0}.jsonl",
                fixture.id
            );
            faults.insert(
                0,
                FixtureError {
                    location: Location::new(path, 1),
                    message,
                },
            );
        }
        (fixture, faults)
    }

    fn read(
        path: &Path,
        text: &str,
        preludes: read::FindPrelude<'_>,
    ) -> (Option<Fixture>, Vec<FixtureError>) {
        let (fixture, mut faults) = read::fixture(path, text, preludes);
        // Whether the steps fit together can be told only where all are known.
        if let Some(fixture) = &fixture
            && faults.is_empty()
        {
            faults.extend(check::labels(&fixture.steps).err());
        }
        (fixture, faults)
    }

    /// How many agent processes the client is expected to start: 0 for a transcript that never
    /// reaches the agent.
    #[must_use]
    pub fn processes(&self) -> u32 {
        let mut processes = 0;
        self.visit(&mut |step| {
            processes = processes.max(match &step.verb {
                Verb::Process(number) => *number,
                verb if verb.is_for_agent() => 1,
                _ => 0,
            });
        });
        processes
    }

    /// Whether any step, at any depth, has this verb, as in `uses("grandchild")`.
    #[must_use]
    pub fn uses(&self, verb: &str) -> bool {
        let mut found = false;
        self.visit(&mut |step| found |= step.verb.name() == verb);
        found
    }

    fn visit(&self, see: &mut dyn FnMut(&Step)) {
        fn walk(steps: &[Step], see: &mut dyn FnMut(&Step)) {
            for step in steps {
                see(step);
                match &step.verb {
                    Verb::AnyOrder(steps) => walk(steps, see),
                    Verb::Choose { cases, .. } => {
                        for case in cases {
                            walk(&case.steps, see);
                        }
                    }
                    _ => {}
                }
            }
        }
        walk(&self.steps, see);
    }
}

impl Verb {
    /// The key that names the verb in a transcript. `ask_permission`, `say` and `update` are short
    /// for others and are given as what they stand for, `ask` and `tell`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Verb::Call { .. } => "call",
            Verb::Returns { .. } => "returns",
            Verb::Want { .. } => "want",
            Verb::WantNote { .. } => "want_note",
            Verb::WantReply { .. } => "want_reply",
            Verb::WantEof => "want_eof",
            Verb::Send(Send {
                message: Message::Reply { .. },
                ..
            }) => "reply",
            Verb::Send(Send {
                message: Message::Ask { .. },
                ..
            }) => "ask",
            Verb::Send(Send {
                message: Message::Tell { .. } | Message::Update { .. },
                ..
            }) => "tell",
            Verb::Raw(_) => "raw",
            Verb::Split { .. } => "split",
            Verb::Batch(_) => "batch",
            Verb::Stderr(_) => "stderr",
            Verb::Exit(_) => "exit",
            Verb::Signal(_) => "signal",
            Verb::CloseStdout => "close_stdout",
            Verb::StopReading(_) => "stop_reading",
            Verb::Linger(_) => "linger",
            Verb::Grandchild => "grandchild",
            Verb::Process(_) => "process",
            Verb::AnyOrder(_) => "any_order",
            Verb::Choose { .. } => "choose",
            Verb::Stale { .. } => "stale",
            Verb::Fence => "fence",
            Verb::Delay(_) => "delay_ms",
            Verb::Note(_) => "note",
        }
    }

    /// Whether the step needs an agent process. `any_order` and `choose` leave that to their steps.
    fn is_for_agent(&self) -> bool {
        !matches!(
            self,
            Verb::Call { .. }
                | Verb::Returns { .. }
                | Verb::Process(_)
                | Verb::AnyOrder(_)
                | Verb::Choose { .. }
                | Verb::Delay(_)
                | Verb::Note(_)
        )
    }
}

impl Location {
    pub(crate) fn new(file: &Path, line: u32) -> Location {
        Location {
            file: file.into(),
            line,
            used_by: None,
        }
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

/// The transcript if it has no fault, or the first.
fn sound(
    path: &Path,
    fixture: Option<Fixture>,
    faults: Vec<FixtureError>,
) -> Result<Fixture, FixtureError> {
    match (faults.into_iter().next(), fixture) {
        (None, Some(fixture)) => Ok(fixture),
        (Some(fault), _) => Err(fault),
        (None, None) => {
            let message = "there is no header".to_owned();
            Err(FixtureError {
                location: Location::new(path, 1),
                message,
            })
        }
    }
}

fn read_text(path: &Path) -> Result<String, FixtureError> {
    let at = |line, message| FixtureError {
        location: Location::new(path, line),
        message,
    };
    let bytes =
        limits::read_file(path).map_err(|error| at(1, format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        at(
            u32::try_from(line).unwrap_or(u32::MAX),
            "not UTF-8".to_owned(),
        )
    })
}

#[cfg(test)]
mod tests;
