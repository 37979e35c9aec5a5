//! The engine's next instant, and the thread that keeps it.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::sync::{lock, wait, wait_until};

/// When the timer thread is to look at the engine.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    at: Option<Instant>,
    stopped: bool,
}

impl Alarm {
    /// Asks for a look at this instant, at the latest.
    ///
    /// An alarm that is set for earlier stays: the thread then looks once too often, which is cheaper
    /// than to wake it in every turn to be told of a later one.
    pub(super) fn set(&self, at: Option<Instant>) {
        let Some(at) = at else {
            return;
        };
        let mut state = lock(&self.state);
        if state.at.is_none_or(|set| at < set) {
            state.at = Some(at);
            self.changed.notify_one();
        }
    }

    /// Ends [`Alarm::wait`].
    pub(super) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    /// Waits for the instant; false once stopped.
    pub(super) fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        loop {
            if state.stopped {
                return false;
            }
            let Some(at) = state.at else {
                state = wait(&self.changed, state);
                continue;
            };
            let (guard, earlier) = wait_until(&self.changed, state, at, |state| {
                state.stopped || state.at.is_none_or(|set| set < at)
            });
            state = guard;
            if !earlier {
                state.at = None;
                return true;
            }
        }
    }
}
