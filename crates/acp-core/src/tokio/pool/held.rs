//! From the queue to a lane and back.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Inner;
use crate::connection::LaneId;
use crate::error::LoadError;
use crate::pool::{Grant, Ticket, Used};
use crate::sync::lock;
use crate::tokio::shared::Shared;

/// A caller in the queue, which it leaves when this is dropped.
pub(super) struct Waits {
    inner: Arc<Inner>,
    ticket: Ticket,
    is_told: bool,
}

impl Waits {
    pub(super) fn new(inner: &Arc<Inner>, ticket: Ticket) -> Self {
        Self {
            inner: Arc::clone(inner),
            ticket,
            is_told: false,
        }
    }

    /// Waits for the lane.
    pub(super) async fn granted(mut self) -> Result<Held, LoadError> {
        let outcome = poll_fn(|context| self.poll(context)).await;
        self.is_told = true;
        let grant = outcome?;
        Ok(Held {
            inner: Arc::clone(&self.inner),
            grant,
            released: false,
        })
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Grant, LoadError>> {
        let mut state = lock(&self.inner.state);
        let waiter = state.waiters.entry(self.ticket).or_default();
        match waiter.outcome.take() {
            Some(outcome) => {
                state.waiters.remove(&self.ticket);
                Poll::Ready(outcome)
            }
            None => {
                waiter.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if self.is_told {
            return;
        }
        let ticket = self.ticket;
        self.inner.update_state(|state, now| {
            let waiter = state.waiters.remove(&ticket);
            match waiter.and_then(|waiter| waiter.outcome) {
                Some(Ok(grant)) => state.router.release(grant.lane, Used::Not, now),
                Some(Err(_)) => {}
                None => state.router.leave(ticket),
            }
        });
    }
}

/// A lane for one turn.
pub(super) struct Held {
    pub(super) inner: Arc<Inner>,
    pub(super) grant: Grant,
    released: bool,
}

impl Held {
    /// The lane, unless its process has ended since.
    pub(super) fn lane(&self) -> Option<(Arc<Shared>, LaneId)> {
        let state = lock(&self.inner.state);
        state.lanes.get(&self.grant.lane).cloned()
    }

    pub(super) fn release(mut self, used: Used) {
        self.give_back(used);
    }

    fn give_back(&mut self, used: Used) {
        if !self.released {
            self.released = true;
            let lane = self.grant.lane;
            self.inner
                .update(|router, now| router.release(lane, used, now));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(Used::Failed);
    }
}
