//! One session of an agent, and the queue of its turns.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Caller, Shared, Turn};
use crate::client::{CancelToken, Generate};
use crate::connection::LaneId;
use crate::driver::{Driven, Link, TurnSlot};
use crate::error::{GenerateError, LoadError};
use crate::protocol::SessionInfo;
use crate::request::{GenerateRequest, GenerateResponse};
use crate::sync::{lock, wait};
use crate::turn::TurnOptions;

/// One session of an agent's process, and the queue of its turns.
///
/// Lanes run side by side; the turns of one lane run in the order in which they were started. Dropping a
/// lane gives up its session; the process belongs to the [`AcpModel`](crate::AcpModel) or
/// [`AcpAgent`](crate::AcpAgent).
pub struct Lane {
    link: Arc<Link<Shared>>,
    /// Locked for a moment only.
    session: Mutex<Bound>,
    /// Held while the lane finds its way to a new process, so that only one caller does it.
    binding: Mutex<()>,
    open_time: Duration,
}

/// The process that serves a lane, and what the lane is called there.
struct Bound {
    shared: Arc<Shared>,
    id: LaneId,
}

impl Lane {
    pub(super) fn open(link: &Arc<Link<Shared>>) -> Result<Self, LoadError> {
        let asked = Instant::now();
        let session = Bound::open(link)?;
        Ok(Self {
            link: Arc::clone(link),
            session: Mutex::new(session),
            binding: Mutex::new(()),
            open_time: asked.elapsed(),
        })
    }

    /// Runs a turn with the options' limits and waits for its answer.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    pub fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        self.start(request, self.turn_options())?.wait()
    }

    /// Begins a turn with limits of its own.
    ///
    /// # Errors
    ///
    /// Those that are known before anything is sent: `invalid_request`, `busy`, `agent_exited`, `closed`.
    pub fn start(
        &self,
        request: &GenerateRequest,
        options: TurnOptions,
    ) -> Result<Turn, GenerateError> {
        let (shared, lane) = self
            .bind()
            .map_err(|error| error.into_turn(String::new()))?;
        shared.catch_up();
        let caller = Caller::new(&shared.alarm);
        let mut core = lock(&shared.core);
        if core.retired && !self.link.is_closed() {
            // Somebody else has found meanwhile that it is time for a new process.
            drop(core);
            return self.start(request, options);
        }
        let id = core
            .connection
            .prompt(lane, request, options, Instant::now())?;
        core.turns.insert(id, TurnSlot::new(Arc::clone(&caller)));
        shared.pump(core);
        Ok(Turn {
            shared,
            id,
            caller,
            ended: false,
        })
    }

    /// Cancels the turn that the lane runs now. If none runs, nothing is sent.
    pub fn cancel(&self) {
        let (shared, lane) = self.bound();
        shared.cancel_running(lane, Instant::now());
    }

    /// The limits of turns that do not bring their own.
    pub fn turn_options(&self) -> TurnOptions {
        self.link.turn_options()
    }

    /// How long it took to open the session.
    pub fn open_time(&self) -> Duration {
        self.open_time
    }

    /// The session that serves the lane now.
    pub fn session(&self) -> SessionInfo {
        let (shared, lane) = self.bound();
        shared.session(lane)
    }

    fn bound(&self) -> (Arc<Shared>, LaneId) {
        let session = lock(&self.session);
        (Arc::clone(&session.shared), session.id)
    }

    /// The process for the next turn: the one that serves the lane, or a new one in its place, in which
    /// the lane then needs a new session.
    fn bind(&self) -> Result<(Arc<Shared>, LaneId), LoadError> {
        let bound = self.bound();
        if Arc::ptr_eq(&self.link.live()?, &bound.0) {
            return Ok(bound);
        }
        let _binding = lock(&self.binding);
        // Somebody else may have done it meanwhile.
        if !Arc::ptr_eq(&self.link.live()?, &self.bound().0) {
            let session = Bound::open(&self.link)?;
            *lock(&self.session) = session;
        }
        Ok(self.bound())
    }
}

impl Bound {
    /// Opens a session and waits for it.
    fn open(link: &Link<Shared>) -> Result<Self, LoadError> {
        let shared = link.live()?;
        let mut core = lock(&shared.core);
        if core.retired && !link.is_closed() {
            drop(core);
            return Self::open(link);
        }
        let id = core.open_lane(Instant::now());
        shared.pump(core);
        shared.seat.rouse();
        let mut core = lock(&shared.core);
        loop {
            if let Some(result) = core.lanes.remove(&id) {
                drop(core);
                return result.map(|()| Self { shared, id });
            }
            core = wait(&shared.changed, core);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let (shared, lane) = self.bound();
        shared.close_lane(lane, Instant::now());
    }
}

impl Generate for Lane {
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        Lane::generate(self, request)
    }

    fn generate_cancellable(
        &self,
        request: &GenerateRequest,
        cancel: &CancelToken,
    ) -> Result<GenerateResponse, GenerateError> {
        if cancel.is_cancelled() {
            return Err(GenerateError::Cancelled {
                partial: String::new(),
            });
        }
        let turn = self.start(request, self.turn_options())?;
        let canceller = turn.canceller();
        let _while_it_runs = cancel.on_cancel(move || canceller.cancel());
        turn.wait()
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("session", &self.session().session_id)
            .finish_non_exhaustive()
    }
}
