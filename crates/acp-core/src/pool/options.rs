//! How a pool is sized.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::connection::StatePolicy;
use crate::error::LoadError;
use crate::options::LoadOptions;

/// How a pool starts its agents, and within which bounds.
///
/// | option | default |
/// | --- | --- |
/// | processes | 1 to 4; another one is started when all lanes of the others are taken |
/// | lanes of a process | 16 |
/// | callers that wait | 1024 |
/// | idle time after which a lane, or a process above the fewest, is ended | 5 min |
/// | lanes that are opened ahead and never used | 1 |
/// | state policy | [`StatePolicy::VerifiedDelta`] |
#[derive(Debug, Clone)]
pub struct PoolOptions {
    pub(crate) load: LoadOptions,
    processes: RangeInclusive<usize>,
    lanes_per_process: usize,
    queue: usize,
    idle_ttl: Option<Duration>,
    warm: usize,
}

/// What the router keeps to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) min_processes: usize,
    pub(crate) max_processes: usize,
    pub(crate) lanes_per_process: usize,
    pub(crate) queue: usize,
    pub(crate) idle_ttl: Option<Duration>,
    pub(crate) warm: usize,
    /// Whether a lane that has answered may go on with the same conversation.
    pub(crate) continues: bool,
}

impl PoolOptions {
    /// Options for a pool of agents that are started with these.
    ///
    /// The state policy is that of `load`, but for [`StatePolicy::FullRequest`], the default there, in whose place
    /// a pool takes [`StatePolicy::VerifiedDelta`]. [`LoadOptions::restart`] and [`LoadOptions::spare_session`] have no
    /// effect: a pool starts processes and opens sessions by rules of its own.
    pub fn new(load: LoadOptions) -> Self {
        let state = match load.connection.state {
            StatePolicy::FullRequest => StatePolicy::VerifiedDelta,
            policy => policy,
        };
        Self {
            load: load.state(state),
            processes: 1..=4,
            lanes_per_process: 16,
            queue: 1024,
            idle_ttl: Some(Duration::from_secs(300)),
            warm: 1,
        }
    }

    /// The fewest processes, which are kept, and the most, which are never exceeded, not even while one is
    /// replaced.
    #[must_use]
    pub fn processes(mut self, processes: RangeInclusive<usize>) -> Self {
        self.processes = processes;
        self
    }

    /// The most lanes of one process, each with a session of its own.
    #[must_use]
    pub fn lanes_per_process(mut self, lanes: usize) -> Self {
        self.lanes_per_process = lanes;
        self
    }

    /// The most callers that wait beyond those whose lanes are being opened; one more is `busy`.
    #[must_use]
    pub fn queue(mut self, callers: usize) -> Self {
        self.queue = callers;
        self
    }

    /// How long a lane or a process above the fewest may be idle. `None` keeps them.
    #[must_use]
    pub fn idle_ttl(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.idle_ttl = limit.into();
        self
    }

    /// How many lanes are opened ahead, in the processes that run, so that a new conversation finds its session open.
    #[must_use]
    pub fn warm(mut self, lanes: usize) -> Self {
        self.warm = lanes;
        self
    }

    /// How a request meets a session. [`StatePolicy::FreshSession`] uses each lane once.
    /// [`StatePolicy::FullRequest`] cannot keep callers apart, and is an error.
    #[must_use]
    pub fn state(mut self, policy: StatePolicy) -> Self {
        self.load = self.load.state(policy);
        self
    }

    /// What the router keeps to, if the options can work.
    pub(crate) fn bounds(&self) -> Result<Bounds, LoadError> {
        let invalid = |why: &str| Err(LoadError::InvalidOptions(why.to_owned()));
        let (&min_processes, &max_processes) = (self.processes.start(), self.processes.end());
        if max_processes == 0 || min_processes > max_processes {
            return invalid("a pool needs a range of processes whose end is at least one");
        }
        if self.lanes_per_process == 0 {
            return invalid("a pool needs at least one lane in a process");
        }
        let continues = match self.load.connection.state {
            StatePolicy::VerifiedDelta => true,
            StatePolicy::FreshSession => false,
            StatePolicy::FullRequest => {
                return invalid(
                    "under the state policy of the full request a session holds the text of all its callers, so a \
                     pool cannot keep them apart",
                );
            }
        };
        Ok(Bounds {
            min_processes,
            max_processes,
            lanes_per_process: self.lanes_per_process,
            queue: self.queue,
            idle_ttl: self.idle_ttl,
            warm: self.warm,
            continues,
        })
    }

    /// What each process is started with.
    pub(crate) fn into_load(self) -> LoadOptions {
        // A turn is put onto a lane that is free, and waits there for nothing but a session in the worst case.
        self.load.spare_session(false).max_queue(1)
    }
}
