//! What a pool has done.

use std::time::Duration;

use super::Grant;

/// What a pool has done since it was started, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// Turns that went to a lane whose session held the rest of their conversation.
    pub hits: u64,
    /// Turns that went to a session that was never used.
    pub misses: u64,
    /// Callers that were turned away because the queue was full.
    pub busy: u64,
    /// Turns that ended with an answer.
    pub answered: u64,
    /// Turns that ended with an error, or were cancelled.
    pub failed: u64,
    /// Turns that had to wait for their lane.
    pub waited: u64,
    /// How long those waited in all.
    pub wait_total: Duration,
    /// The longest of these waits.
    pub wait_max: Duration,
    /// Sessions that were opened.
    pub sessions_opened: u64,
    /// Sessions that could not be opened.
    pub sessions_failed: u64,
    /// Processes that were started.
    pub processes_started: u64,
    /// Processes that ended unexpectedly, or were replaced because they opened no session any more or held too many
    /// that were of no use.
    pub restarts: u64,
    /// Processes that run, start or end.
    pub processes: usize,
    /// Lanes that run a turn.
    pub lanes_busy: usize,
    /// Lanes that have answered and wait for the rest of their conversation.
    pub lanes_idle: usize,
    /// Lanes that are open and were never used.
    pub lanes_warm: usize,
    /// Lanes that are being opened.
    pub lanes_opening: usize,
    /// Callers that wait.
    pub queued: usize,
}

impl PoolMetrics {
    /// Notes that a turn was begun on this lane.
    pub(super) fn note(&mut self, grant: &Grant) {
        if grant.continues {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        let wait = grant.waited;
        if !wait.is_zero() {
            self.waited += 1;
            self.wait_total += wait;
            self.wait_max = self.wait_max.max(wait);
        }
    }
}
