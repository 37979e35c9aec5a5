//! The queue of lines to the agent. Whoever has something to say puts it here and goes on; only the
//! writer thread waits for the pipe.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

use crate::sync::{lock, wait};

/// Lines that may wait. What hosts have to say is bounded by what they wait for; this bounds the answers to
/// an agent that asks without reading.
const MAX_LINES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    closed: bool,
}

impl Outbox {
    /// Adds a whole line; after the end it is dropped. False if the queue is as long as no well-behaved
    /// agent lets it become.
    pub(super) fn push(&self, line: Vec<u8>) -> bool {
        let mut state = lock(&self.state);
        if !state.closed {
            state.lines.push_back(line);
            self.changed.notify_one();
        }
        state.lines.len() <= MAX_LINES
    }

    /// Ends the queue; lines in it are still handed out.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// The next line; waits for it. `None` at the end.
    pub(super) fn next(&self) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(line) = state.lines.pop_front() {
                return Some(line);
            }
            if state.closed {
                return None;
            }
            state = wait(&self.changed, state);
        }
    }
}
