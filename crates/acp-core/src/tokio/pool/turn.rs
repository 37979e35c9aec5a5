//! A turn on a lane of a pool.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::Held;
use crate::error::GenerateError;
use crate::pool::{Digests, Used};
use crate::request::GenerateResponse;
use crate::tokio::{Canceller, Turn};
use crate::turn::TurnEvent;

/// A turn that runs on a lane of a pool. Its answer is what the future comes to; dropping it before cancels the turn.
///
/// It is a [`Turn`], with the same events, and gives its lane back at its end: when its answer or `None` for its
/// next event is taken, or once the agent has confirmed that it is cancelled. Until then the lane serves nobody
/// else, so a turn that is started is to be polled.
#[must_use = "a turn that is dropped is cancelled"]
pub struct PoolTurn {
    /// Both are there until the end.
    running: Option<(Turn, Held)>,
    request: Digests,
    /// Whether the session held the rest of the conversation.
    continues: bool,
    queue_time: Duration,
    result: Option<Result<GenerateResponse, GenerateError>>,
    canceller: Canceller,
}

impl PoolTurn {
    pub(super) fn new(turn: Turn, held: Held, request: Digests) -> Self {
        Self {
            canceller: turn.canceller(),
            continues: held.grant.continues,
            queue_time: held.grant.waited,
            running: Some((turn, held)),
            request,
            result: None,
        }
    }

    /// The next thing that happens within the turn: see [`Turn::next_event`].
    pub async fn next_event(&mut self) -> Option<TurnEvent> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Cancels the turn; it then comes to `cancelled`, unless it had ended.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// A handle that cancels the turn from elsewhere.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Whether it went to the session that holds the rest of its conversation.
    pub fn is_hit(&self) -> bool {
        self.continues
    }

    /// How long it waited for its lane.
    pub fn queue_time(&self) -> Duration {
        self.queue_time
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        let Some((turn, _)) = &mut self.running else {
            return Poll::Ready(None);
        };
        match Pin::new(turn).poll_next(context) {
            // It has ended, and so does the use of its lane.
            Poll::Ready(None) => match self.poll_result(context) {
                Poll::Ready(result) => {
                    self.result = Some(result);
                    Poll::Ready(None)
                }
                Poll::Pending => Poll::Pending,
            },
            other => other,
        }
    }

    fn poll_result(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<GenerateResponse, GenerateError>> {
        if let Some(result) = self.result.take() {
            return Poll::Ready(result);
        }
        let Some((turn, _)) = &mut self.running else {
            // As with any future, its result is there once.
            return Poll::Pending;
        };
        let Poll::Ready(result) = Pin::new(turn).poll(context) else {
            return Poll::Pending;
        };
        if let Some((_, held)) = self.running.take() {
            give_back(held, &self.request, &result);
        }
        Poll::Ready(result)
    }
}

/// Gives a lane back after a turn.
fn give_back(held: Held, request: &Digests, result: &Result<GenerateResponse, GenerateError>) {
    let used = match result {
        Ok(answer) => Used::Answered(request.answered(answer, &held.inner.hasher)),
        Err(_) => Used::Failed,
    };
    held.release(used);
}

impl Future for PoolTurn {
    type Output = Result<GenerateResponse, GenerateError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_result(context)
    }
}

impl Stream for PoolTurn {
    type Item = TurnEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        self.get_mut().poll_event(context)
    }
}

impl Drop for PoolTurn {
    fn drop(&mut self) {
        let Some((turn, held)) = self.running.take() else {
            return;
        };
        turn.cancel();
        let request = self.request.clone();
        let runtime = held.inner.runtime.clone();
        // The agent works on it until it has confirmed the cancel, so the lane is not free before.
        runtime.spawn(async move {
            let result = turn.await;
            give_back(held, &request, &result);
        });
    }
}

impl fmt::Debug for PoolTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolTurn")
            .field("is_hit", &self.continues)
            .field("queue_time", &self.queue_time)
            .finish_non_exhaustive()
    }
}
