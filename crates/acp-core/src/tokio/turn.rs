//! A turn that runs.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_core::Stream;

use super::shared::Shared;
use crate::connection::TurnId;
use crate::driver::{Canceller, Driven};
use crate::error::GenerateError;
use crate::request::GenerateResponse;
use crate::sync::lock;
use crate::turn::TurnEvent;

/// A turn that has been started. Its answer is what the future comes to; dropping it before cancels the turn.
///
/// What happens until then is a stream, if the turn was started with
/// [`TurnOptions::events`](crate::TurnOptions::events). Events that wait are bounded: what a slow consumer does not
/// take in time is left out and counted ([`TurnEvent::Skipped`]), but for the text, which is handed out whole.
#[must_use = "a turn that is dropped is cancelled"]
pub struct Turn {
    shared: Arc<Shared>,
    id: TurnId,
    /// Events that were taken and not handed out.
    events: VecDeque<TurnEvent>,
    result: Option<Result<GenerateResponse, GenerateError>>,
}

impl Turn {
    pub(super) fn new(shared: Arc<Shared>, id: TurnId) -> Self {
        Self {
            shared,
            id,
            events: VecDeque::new(),
            result: None,
        }
    }

    /// The next thing that happens within the turn, in the order of the wire; `None` once it has ended. Then
    /// the turn itself, awaited, gives the answer.
    pub async fn next_event(&mut self) -> Option<TurnEvent> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Cancels the turn; it then comes to `cancelled`, unless it had ended.
    pub fn cancel(&self) {
        self.shared.cancel_turn(self.id, Instant::now());
    }

    /// A handle that cancels the turn from elsewhere.
    pub fn canceller(&self) -> Canceller {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Canceller::new(move || shared.cancel_turn(id, Instant::now()))
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if self.result.is_some() {
            return Poll::Ready(None);
        }
        let mut core = lock(&self.shared.core);
        self.events.extend(core.take_events(self.id));
        self.result = core.take_result(self.id);
        match self.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if self.result.is_some() => Poll::Ready(None),
            None => match core.turns.get_mut(&self.id) {
                Some(slot) => {
                    slot.streams = true;
                    slot.wake = Some(context.waker().clone());
                    Poll::Pending
                }
                // The answer was taken already.
                None => Poll::Ready(None),
            },
        }
    }
}

impl Future for Turn {
    type Output = Result<GenerateResponse, GenerateError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(result) = self.result.take() {
            return Poll::Ready(result);
        }
        let turn = &mut *self;
        let mut core = lock(&turn.shared.core);
        turn.events.extend(core.take_events(turn.id));
        match core.take_result(turn.id) {
            Some(result) => Poll::Ready(result),
            None => {
                if let Some(slot) = core.turns.get_mut(&turn.id) {
                    slot.streams = false;
                    slot.wake = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Stream for Turn {
    type Item = TurnEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        self.get_mut().poll_event(context)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.abandon_turn(self.id, Instant::now());
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
