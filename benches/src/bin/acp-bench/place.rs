//! Which CPU a client and its agent run on.
//!
//! Left to itself the system moves them about, and the time of a turn has two modes that are far apart: one where
//! both share a CPU, and one where each wakes the other on another one.

use clap::ValueEnum;
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

/// How client and agent are bound to CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Both on one CPU
    Pinned,
    /// One CPU each
    Split,
    /// As the system likes
    Free,
}

impl Placement {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Split => "split",
            Self::Free => "free",
        }
    }
}

/// The CPUs that the bench may use.
#[derive(Debug, Clone, Copy)]
pub struct Cpus {
    all: CpuSet,
    client: usize,
    /// Where there is more than one.
    other: Option<usize>,
}

impl Cpus {
    pub fn of_this_process() -> Result<Self, String> {
        let all = sched_getaffinity(Pid::from_raw(0))
            .map_err(|error| format!("failed to ask for the CPUs of this process: {error}"))?;
        let mut numbers = (0..CpuSet::count()).filter(|&cpu| all.is_set(cpu) == Ok(true));
        let client = numbers.next().ok_or("this process has no CPU")?;
        let other = numbers.next();
        Ok(Self { all, client, other })
    }

    /// Whether there are enough for it.
    pub fn allow(&self, placement: Placement) -> bool {
        placement != Placement::Split || self.other.is_some()
    }

    /// Does something, which is to start the client, where the client belongs: processes are where their parent is.
    pub fn with_client<T>(
        &self,
        placement: Placement,
        start: impl FnOnce() -> T,
    ) -> Result<T, String> {
        let bind = |set: &CpuSet| {
            sched_setaffinity(Pid::from_raw(0), set)
                .map_err(|error| format!("failed to bind to a CPU: {error}"))
        };
        if placement == Placement::Free {
            return Ok(start());
        }
        let mut one = CpuSet::new();
        one.set(self.client).map_err(|error| error.to_string())?;
        bind(&one)?;
        let started = start();
        bind(&self.all)?;
        Ok(started)
    }

    /// What the agent is told, so that it moves to where it belongs.
    pub fn agent_args(&self, placement: Placement) -> Vec<String> {
        match (placement, self.other) {
            (Placement::Split, Some(cpu)) => vec!["--cpu".to_owned(), cpu.to_string()],
            _ => Vec::new(),
        }
    }
}
