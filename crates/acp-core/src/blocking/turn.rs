//! A turn that runs.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::reader::{Pipes, Step};
use super::seat::Reading;
use super::{Caller, Shared};
use crate::connection::TurnId;
use crate::driver::{Canceller, Driven};
use crate::error::GenerateError;
use crate::request::GenerateResponse;
use crate::sync::lock;
use crate::turn::TurnEvent;

/// A turn that has been started. Dropping it before it has ended cancels it.
#[must_use = "a turn that is dropped is cancelled"]
pub struct Turn {
    pub(super) shared: Arc<Shared>,
    pub(super) id: TurnId,
    pub(super) caller: Arc<Caller>,
    /// Its end was handed out, so that there is nothing to cancel.
    pub(super) ended: bool,
}

impl Turn {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    pub fn wait(mut self) -> Result<GenerateResponse, GenerateError> {
        let mut core = lock(&self.shared.core);
        let mut reading: Option<Reading<'_, Box<Pipes>>> = None;
        loop {
            if let Some(result) = core.take_result(self.id) {
                self.ended = true;
                return result;
            }
            reading = reading.or_else(|| self.shared.take_seat());
            let Some(pipes) = reading.as_mut().and_then(Reading::pipes) else {
                core = self.caller.wait(core);
                continue;
            };
            self.caller.begins_to_read(core);
            let step = self.shared.step(pipes, Some(&self.caller));
            if matches!(step, Step::Ended | Step::Stopped) {
                // The thread sees to the end, which takes a while.
                reading = None;
                self.shared.seat.rouse();
            }
            core = lock(&self.shared.core);
        }
    }

    /// Waits for the answer and hands out its text as it comes, in order and without a gap.
    ///
    /// The function runs on the caller's thread while the agent goes on: a slow one delays nothing but
    /// itself, and costs no memory beyond the answer.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    pub fn wait_with(
        mut self,
        mut on_text: impl FnMut(&str),
    ) -> Result<GenerateResponse, GenerateError> {
        let mut seen = 0;
        self.shared.seat.rouse();
        let mut core = lock(&self.shared.core);
        if let Some(slot) = core.turns.get_mut(&self.id) {
            slot.streams = true;
        }
        loop {
            let result = core.take_result(self.id);
            let text = match &result {
                Some(Ok(response)) => response.content.as_str(),
                Some(Err(error)) => error.partial(),
                None => core.connection.turn_text(self.id).unwrap_or_default(),
            };
            if text.len() > seen {
                let new = text[seen..].to_owned();
                seen = text.len();
                drop(core);
                on_text(&new);
                core = lock(&self.shared.core);
            } else if result.is_none() {
                core = self.caller.wait(core);
            }
            if let Some(result) = result {
                self.ended = true;
                return result;
            }
        }
    }

    /// Waits for the answer and tells what happens until then, in the order of the wire. The turn must have
    /// been started with [`TurnOptions::events`](crate::TurnOptions::events).
    ///
    /// The function runs on the caller's thread while the agent goes on. What a slow one does not take in time
    /// is left out and counted ([`TurnEvent::Skipped`]), but for the text, which is handed out whole.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    pub fn wait_with_events(
        mut self,
        mut on_event: impl FnMut(TurnEvent),
    ) -> Result<GenerateResponse, GenerateError> {
        self.shared.seat.rouse();
        let mut core = lock(&self.shared.core);
        if let Some(slot) = core.turns.get_mut(&self.id) {
            slot.streams = true;
        }
        loop {
            let events = core.take_events(self.id);
            let result = core.take_result(self.id);
            if !events.is_empty() {
                drop(core);
                events.into_iter().for_each(&mut on_event);
                core = lock(&self.shared.core);
            } else if result.is_none() {
                core = self.caller.wait(core);
            }
            if let Some(result) = result {
                self.ended = true;
                return result;
            }
        }
    }

    /// Cancels the turn; the answer to [`Turn::wait`] is then `cancelled`, unless the turn had ended.
    pub fn cancel(&self) {
        self.shared.cancel_turn(self.id, Instant::now());
    }

    /// A handle that cancels the turn from elsewhere.
    pub fn canceller(&self) -> Canceller {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        Canceller::new(move || shared.cancel_turn(id, Instant::now()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.abandon_turn(self.id, Instant::now());
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
