//! Checks of an agent: what it makes of good and of bad input, beside what the protocol asks.
//!
//! Transcripts judge clients; this judges the other side. It starts any command as an agent, talks to
//! it over real pipes and says of each [`Check`] what was seen. Everything the agent writes meanwhile is
//! held against the official schema, too.
//!
//! In reading order: `checks` is the list; `bench` has what a check works with, an agent process of
//! `talk`, and `left` finds what that leaves; `handshake`, `session`, `message`, `turn`, `shutdown` and `wire` are the checks; [`Report`]
//! is the result.

mod bench;
mod checks;
mod handshake;
mod left;
mod message;
mod report;
mod session;
mod shutdown;
mod talk;
mod turn;
mod wire;

use std::{fmt, io, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use self::bench::Bench;
pub use self::{
    checks::{CHECKS, Check, Level},
    report::{Entry, Report, table},
};

/// The agent, and how to talk to it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The agent's program and its arguments.
    pub command: Vec<String>,
    /// The working directory of its sessions: an existing directory, absolute.
    pub cwd: PathBuf,
    /// The mode that sessions are put into first, for agents that ask for permission in some only.
    pub mode: Option<String>,
    /// What is said to it.
    pub prompts: Prompts,
    /// How long it may take.
    pub limits: Limits,
}

/// What is said to the agent. `{cwd}` stands for the working directory of the session.
#[derive(Debug, Clone)]
pub struct Prompts {
    /// For a turn that ends by itself.
    pub plain: String,
    /// For a turn that lasts until it is cancelled.
    pub slow: String,
    /// For a turn in which the agent asks for permission.
    pub tool: String,
}

/// How long the agent may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the answer to the first request of a process.
    pub start: Duration,
    /// For the answer to any other request but a prompt.
    pub answer: Duration,
    /// For a turn.
    pub turn: Duration,
    /// How long a slow turn lasts at least after its first text.
    pub lasts: Duration,
    /// For the end of a turn after its cancel.
    pub cancel: Duration,
    /// For what may come and need not: the answer to a second prompt in a busy session, a message
    /// after the last one.
    pub settle: Duration,
    /// For the end of the process.
    pub exit: Duration,
}

impl Limits {
    /// The usual limits, multiplied by `scale`.
    #[must_use]
    pub fn scaled(scale: f64) -> Limits {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds * scale);
        Limits {
            start: seconds(30.0),
            answer: seconds(10.0),
            turn: seconds(60.0),
            lasts: seconds(0.5),
            cancel: seconds(10.0),
            settle: seconds(2.0),
            exit: seconds(5.0),
        }
    }
}

/// What a check comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As the protocol asks or recommends.
    Ok,
    /// Allowed, and not what is recommended.
    Differs,
    /// Against a MUST.
    Wrong,
    /// Could not be checked, for example because the agent does not offer it.
    #[serde(rename = "n/a")]
    NotApplicable,
    /// The process ended over it.
    Died,
    /// An answer that is due did not come in time.
    Timeout,
}

impl Verdict {
    /// All of them, from good to bad.
    pub const ALL: [Verdict; 6] = [
        Verdict::Ok,
        Verdict::Differs,
        Verdict::Wrong,
        Verdict::Died,
        Verdict::Timeout,
        Verdict::NotApplicable,
    ];

    /// Whether the agent should be mended.
    #[must_use]
    pub fn is_red(self) -> bool {
        matches!(self, Verdict::Wrong | Verdict::Died | Verdict::Timeout)
    }

    /// The word for it, in tables and in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Differs => "differs",
            Verdict::Wrong => "wrong",
            Verdict::NotApplicable => "n/a",
            Verdict::Died => "died",
            Verdict::Timeout => "timeout",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// One check of one agent.
#[derive(Debug, Clone)]
pub struct Row {
    /// The check.
    pub check: &'static Check,
    /// What it comes to.
    pub verdict: Verdict,
    /// What was seen, in few words that are the same each time: `error -32602`, `silent`, `cancelled`.
    pub outcome: String,
    /// The agent's own words, or the reason of an `n/a`. May be empty.
    pub detail: String,
    /// What was wrong with the lines that the agent wrote during this check.
    pub faults: Vec<String>,
}

/// Why an agent cannot be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum NotRunnable {
    /// The operating system refuses.
    #[error("the agent cannot be started: {0}")]
    Start(#[from] io::Error),
    /// It does not get as far as an answer to `initialize`.
    #[error("the agent does not answer initialize: {0}")]
    NoAgent(String),
}

/// Runs those of [`CHECKS`] that `wanted` picks, in order, and hands out each row when it is there.
///
/// When it returns, no process of the agent's process group is left; on Linux nor is one that has left the
/// group, as long as it has kept the environment or a pipe of the agent.
///
/// # Errors
///
/// An agent that cannot be started or does not answer `initialize`.
pub fn run(
    options: &Options,
    wanted: impl Fn(&Check) -> bool,
    mut on_row: impl FnMut(&Row),
) -> Result<Report, NotRunnable> {
    let mut bench = Bench::open(options)?;
    let mut rows = Vec::new();
    for check in CHECKS.iter().filter(|check| wanted(check)) {
        let row = bench.run(check)?;
        on_row(&row);
        rows.push(row);
    }
    Ok(Report::new(bench.initialized(), rows))
}
