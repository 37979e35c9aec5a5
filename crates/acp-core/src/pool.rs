//! Which caller gets which lane: a state machine without clock, task or process.
//!
//! [`Router`] is told who wants a lane, which lane is free again and what became of the processes, always with the
//! time, and says in [`Action`]s what is to be done about it. A caller gets, in this order: the idle lane of its key
//! whose history is the longest beginning of its request; a lane that was never used; one that is opened for it,
//! in the process with the fewest, or in another process; the place of the lane that was idle for longest. Else it
//! waits: keys take turns, and within a key the first to come is the first to be served.
//!
//! Two rules keep callers apart. A lane that has run a turn never goes to another key. And it goes on within its key
//! only with the rest of its own conversation, so that also callers without a key see nothing of each other.

mod digest;
mod health;
mod metrics;
mod options;
mod place;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::error::{GenerateError, LoadError};
pub(crate) use digest::{Digests, Seen};
pub use metrics::PoolMetrics;
pub(crate) use options::Bounds;
pub use options::PoolOptions;
use queue::{FairQueue, Waiting};
pub(crate) use queue::{Key, Ticket};

/// A process of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ProcessNumber(u64);

/// A lane of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LaneNumber(u64);

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Action {
    /// Start a process; then tell [`Router::process_ready`] or [`Router::process_failed`].
    StartProcess(ProcessNumber),
    /// End a process, with all that it runs; then tell [`Router::process_gone`].
    EndProcess(ProcessNumber),
    /// Open a lane; then tell [`Router::lane_opened`] or [`Router::lane_failed`].
    OpenLane(ProcessNumber, LaneNumber),
    /// Give up a lane. No turn runs on it.
    CloseLane(LaneNumber),
    /// A caller has its lane.
    Grant(Ticket, Grant),
    /// A caller gets none.
    Fail(Ticket, LoadError),
}

/// A lane for one turn, which is to be given back by [`Router::release`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) lane: LaneNumber,
    /// Whether its session holds the rest of the conversation.
    pub(crate) continues: bool,
    pub(crate) waited: Duration,
}

/// What became of a lane that was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Used {
    /// Nothing was sent.
    Not,
    /// Nothing was sent, and nothing can be.
    Unusable,
    /// It has answered; what its session has seen, where that is known.
    Answered(Option<Seen>),
    /// Its turn ended otherwise, and what its session holds is anybody's guess.
    Failed,
}

#[derive(Debug)]
struct Process {
    state: ProcessState,
    /// When it became ready, or something of it was used last.
    last_used: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    Starting,
    Ready,
    /// It takes nothing new, and is ended when its last turn has.
    Retiring,
    Ending,
}

#[derive(Debug)]
struct Lane {
    process: ProcessNumber,
    state: LaneState,
    /// Whose it is and what its session has seen; `None` if it was never used.
    held: Option<(Key, Seen)>,
}

#[derive(Debug)]
enum LaneState {
    Opening,
    Idle { since: Instant },
    Busy(Key),
}

impl Lane {
    fn is_idle(&self) -> bool {
        matches!(self.state, LaneState::Idle { .. })
    }

    /// Since when it is idle, if it is and was never used.
    fn warm_since(&self) -> Option<Instant> {
        match self.state {
            LaneState::Idle { since } if self.held.is_none() => Some(since),
            _ => None,
        }
    }

    /// Since when it is idle, if it is and was used.
    fn held_since(&self) -> Option<Instant> {
        match self.state {
            LaneState::Idle { since } if self.held.is_some() => Some(since),
            _ => None,
        }
    }
}

/// How far the end of the pool has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// Nobody new is taken.
    Draining,
    Ended,
}

/// Which caller gets which lane.
#[derive(Debug)]
pub(crate) struct Router {
    bounds: Bounds,
    phase: Phase,
    processes: BTreeMap<ProcessNumber, Process>,
    lanes: BTreeMap<LaneNumber, Lane>,
    queue: FairQueue,
    actions: VecDeque<Action>,
    next_number: u64,
    /// Processes that failed since the last answer.
    failures: u32,
    /// No process is started before.
    start_after: Option<Instant>,
    /// No lane is opened ahead before.
    warm_after: Option<Instant>,
    counts: PoolMetrics,
}

impl Router {
    /// A pool that starts with its fewest processes.
    pub(crate) fn new(bounds: Bounds, now: Instant) -> Self {
        let mut router = Self {
            bounds,
            phase: Phase::Open,
            processes: BTreeMap::new(),
            lanes: BTreeMap::new(),
            queue: FairQueue::default(),
            actions: VecDeque::new(),
            next_number: 1,
            failures: 0,
            start_after: None,
            warm_after: None,
            counts: PoolMetrics::default(),
        };
        router.dispatch(now);
        router
    }

    // Getters.

    /// What is to be done next; to be called until there is nothing, after every other call.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Router::handle_timeout`] is to be called, unless something happens before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let expiry = self.next_expiry().map(|(at, _)| at);
        let pauses = [self.start_after, self.warm_after];
        pauses.into_iter().flatten().chain(expiry).min()
    }

    /// Whether nobody waits and no turn runs.
    pub(crate) fn is_drained(&self) -> bool {
        let is_busy = |lane: &Lane| matches!(lane.state, LaneState::Busy(_));
        self.queue.is_empty() && !self.lanes.values().any(is_busy)
    }

    /// Whether everything was ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether no process is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.processes.is_empty()
    }

    pub(crate) fn metrics(&self) -> PoolMetrics {
        let mut metrics = self.counts;
        metrics.processes = self.processes.len();
        metrics.queued = self.queue.len();
        for lane in self.lanes.values() {
            match lane.state {
                LaneState::Opening => metrics.lanes_opening += 1,
                LaneState::Busy(_) => metrics.lanes_busy += 1,
                LaneState::Idle { .. } if lane.held.is_none() => metrics.lanes_warm += 1,
                LaneState::Idle { .. } => metrics.lanes_idle += 1,
            }
        }
        metrics
    }

    // What callers want.

    /// Asks for a lane. There is an [`Action::Grant`] or [`Action::Fail`] for the ticket, unless it is
    /// [left](Router::leave) before.
    ///
    /// # Errors
    ///
    /// `busy` and `closed`.
    pub(crate) fn acquire(
        &mut self,
        key: Key,
        request: Digests,
        now: Instant,
    ) -> Result<Ticket, GenerateError> {
        if self.phase != Phase::Open {
            return Err(GenerateError::Closed {
                partial: String::new(),
            });
        }
        let ticket = Ticket(self.number());
        let waiting = Waiting {
            ticket,
            request,
            since: now,
        };
        // A lane that is idle while others wait is owed to nobody, because there are lanes on their way for all of
        // them: who goes on with it passes them by, and takes nothing from them.
        if let Some(lane) = self.lane_for(&key, &waiting) {
            self.grant(lane, &key, &waiting, now);
            self.dispatch(now);
            return Ok(ticket);
        }
        self.queue.push(key, waiting);
        self.dispatch(now);
        // Those whose lanes are being opened do not count.
        let waiting = self.queue.len().saturating_sub(self.opening());
        if waiting > self.bounds.queue && self.queue.leave(ticket) {
            self.counts.busy += 1;
            let queued = waiting - 1;
            return Err(GenerateError::Busy { queued });
        }
        Ok(ticket)
    }

    /// The caller waits no more. A lane that it was granted already is to be released.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.queue.leave(ticket);
    }

    /// A turn was sent on the lane that was granted.
    pub(crate) fn begun(&mut self, grant: &Grant) {
        self.counts.note(grant);
    }

    /// The turn of a lane has ended, or was not begun.
    pub(crate) fn release(&mut self, number: LaneNumber, used: Used, now: Instant) {
        match used {
            Used::Not | Used::Unusable => {}
            Used::Answered(_) => {
                self.counts.answered += 1;
                self.failures = 0;
                self.start_after = None;
            }
            Used::Failed => self.counts.failed += 1,
        }
        // It may have gone with its process.
        let Some(lane) = self.lanes.get_mut(&number) else {
            return;
        };
        let idle = LaneState::Idle { since: now };
        let LaneState::Busy(key) = std::mem::replace(&mut lane.state, idle) else {
            return;
        };
        let keeps = match used {
            Used::Not => true,
            Used::Answered(Some(seen)) if self.bounds.continues => {
                lane.held = Some((key, seen));
                true
            }
            Used::Answered(_) | Used::Failed | Used::Unusable => false,
        };
        let process = lane.process;
        let retires = self.touch(process, now) == Some(ProcessState::Retiring);
        if retires || !keeps {
            self.close_lane(number);
        }
        if retires {
            self.end_if_unused(process);
        }
        self.dispatch(now);
    }

    // The end.

    /// Takes nobody new. Those who are here are served.
    pub(crate) fn close(&mut self) {
        self.phase = self.phase.max(Phase::Draining);
    }

    /// Ends everything. Those who wait get `closed`, and so do the turns that run, by the ends of their processes.
    pub(crate) fn end(&mut self) {
        self.phase = Phase::Ended;
        self.fail_all(&LoadError::Closed);
        self.lanes.clear();
        (self.start_after, self.warm_after) = (None, None);
        for (&number, process) in &mut self.processes {
            if process.state != ProcessState::Ending {
                process.state = ProcessState::Ending;
                self.actions.push_back(Action::EndProcess(number));
            }
        }
    }

    fn fail_all(&mut self, error: &LoadError) {
        while let Some(waiting) = self.queue.serve_next() {
            let fail = Action::Fail(waiting.ticket, error.clone());
            self.actions.push_back(fail);
        }
    }

    fn opening(&self) -> usize {
        let is_opening = |lane: &&Lane| matches!(lane.state, LaneState::Opening);
        self.lanes.values().filter(is_opening).count()
    }

    /// Notes that something of a process is used; gives its state.
    fn touch(&mut self, process: ProcessNumber, now: Instant) -> Option<ProcessState> {
        let process = self.processes.get_mut(&process)?;
        process.last_used = now;
        Some(process.state)
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }
}
