//! What became of one cell: one transcript played against one port.

use std::{fmt, time::Duration};

use acp_fake_server::Fixture;

use crate::{port::Port, protocol::Greeting};

/// The outcome of a cell, from the table in `spec/driver-protocol.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything matched.
    Pass,
    /// It failed, and the port's `known.toml` says so.
    Known {
        /// The reason that `known.toml` gives.
        reason: String,
        /// Where the port's authors track it.
        link: Option<String>,
        /// What did not match this time.
        failure: Box<Verdict>,
    },
    /// The transcript needs capabilities that the port does not declare and its tier does not
    /// require.
    NotApplicable {
        /// The capabilities that are missing.
        missing: Vec<String>,
    },
    /// Something did not match.
    Fail(String),
    /// The driver answered `crash`, or ended early.
    Crash(String),
    /// A wait ran out.
    Timeout(String),
    /// The harness, the transcript or the driver protocol is at fault.
    Broken(String),
}

impl Verdict {
    /// Every verdict's word, in the order of a summary.
    pub const WORDS: [&'static str; 7] =
        ["pass", "known", "n/a", "fail", "crash", "timeout", "broken"];

    /// The verdict's word in reports.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Known { .. } => "known",
            Verdict::NotApplicable { .. } => "n/a",
            Verdict::Fail(_) => "fail",
            Verdict::Crash(_) => "crash",
            Verdict::Timeout(_) => "timeout",
            Verdict::Broken(_) => "broken",
        }
    }

    /// Whether a run that holds this verdict can be green.
    pub fn is_green(&self) -> bool {
        matches!(
            self,
            Verdict::Pass | Verdict::Known { .. } | Verdict::NotApplicable { .. }
        )
    }

    /// Whether the port was caught doing something wrong. `broken` says nothing about the port, and
    /// so kills no mutant.
    pub fn is_caught(&self) -> bool {
        matches!(
            self,
            Verdict::Fail(_) | Verdict::Crash(_) | Verdict::Timeout(_)
        )
    }

    /// Why, in words; nothing for a pass.
    pub fn reason(&self) -> Option<String> {
        match self {
            Verdict::Pass => None,
            Verdict::NotApplicable { missing } => Some(format!("needs {}", missing.join(", "))),
            Verdict::Known { reason, .. }
            | Verdict::Fail(reason)
            | Verdict::Crash(reason)
            | Verdict::Timeout(reason)
            | Verdict::Broken(reason) => Some(reason.clone()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self.reason() {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// One cell's outcome and what is needed to understand it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The port's name.
    pub port: String,
    /// The transcript's id, `area/behaviour`.
    pub fixture: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What the driver answered to `hello`. A cell without shows nothing about the library.
    pub greeting: Option<Greeting>,
    /// Steps of the transcript that were played.
    pub steps_done: usize,
    /// Steps that the transcript has.
    pub steps_total: usize,
    /// Wall time from the driver's start to its end.
    pub elapsed: Duration,
    /// What went over the wire and between the harness and the driver, one event a line.
    pub transcript: String,
    /// The end of what the driver wrote to standard error.
    pub stderr_tail: String,
}

impl Cell {
    /// A cell in which nothing has happened yet.
    pub fn new(port: &Port, fixture: &Fixture) -> Cell {
        Cell {
            port: port.name.clone(),
            fixture: fixture.id.clone(),
            verdict: Verdict::Pass,
            greeting: None,
            steps_done: 0,
            steps_total: 0,
            elapsed: Duration::ZERO,
            transcript: String::new(),
            stderr_tail: String::new(),
        }
    }
}
