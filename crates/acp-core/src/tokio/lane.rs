//! One session of an agent, and the queue of its turns.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Turn;
use super::shared::{Core, Shared};
use crate::connection::LaneId;
use crate::driver::{Driven, Link, TurnSlot};
use crate::error::{GenerateError, LoadError};
use crate::protocol::SessionInfo;
use crate::request::{GenerateRequest, GenerateResponse};
use crate::sync::lock;
use crate::turn::TurnOptions;

/// One session of an agent's process, and the queue of its turns.
///
/// Lanes run side by side; the turns of one lane run in the order in which they were started. Dropping a
/// lane gives up its session; the process belongs to the [`AcpModel`](super::AcpModel) or
/// [`AcpAgent`](super::AcpAgent).
pub struct Lane {
    link: Arc<Link<Shared>>,
    /// Locked for a moment only.
    session: Mutex<Bound>,
    /// Held while the lane finds its way to a new process, so that only one caller does it.
    binding: tokio::sync::Mutex<()>,
    open_time: Duration,
}

/// The session in the process that serves the lane now.
struct Bound {
    shared: Arc<Shared>,
    id: LaneId,
}

impl Lane {
    pub(super) async fn open(link: &Arc<Link<Shared>>) -> Result<Self, LoadError> {
        let asked = Instant::now();
        let session = Bound::open(link).await?;
        Ok(Self {
            link: Arc::clone(link),
            session: Mutex::new(session),
            binding: tokio::sync::Mutex::new(()),
            open_time: asked.elapsed(),
        })
    }

    /// Runs a turn with the options' limits and waits for its answer. Dropping the future cancels the turn.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    pub async fn generate(
        &self,
        request: &GenerateRequest,
    ) -> Result<GenerateResponse, GenerateError> {
        self.start(request, self.turn_options()).await?.await
    }

    /// Begins a turn with limits of its own. It waits for nothing, unless the process has to be replaced
    /// before.
    ///
    /// # Errors
    ///
    /// Those that are known before anything is sent: `invalid_request`, `busy`, `agent_exited`, `closed`.
    pub async fn start(
        &self,
        request: &GenerateRequest,
        options: TurnOptions,
    ) -> Result<Turn, GenerateError> {
        loop {
            let bound = self.bind().await;
            let (shared, lane) = bound.map_err(|error| error.into_turn(String::new()))?;
            shared.catch_up();
            let mut core = lock(&shared.core);
            if core.retired && !self.link.is_closed() {
                // Somebody else has found meanwhile that it is time for a new process.
                continue;
            }
            let id = core
                .connection
                .prompt(lane, request, options, Instant::now())?;
            core.turns.insert(id, TurnSlot::new(None));
            shared.pump(core);
            return Ok(Turn::new(shared, id));
        }
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
    async fn bind(&self) -> Result<(Arc<Shared>, LaneId), LoadError> {
        let bound = self.bound();
        if Arc::ptr_eq(&self.link.live()?, &bound.0) {
            return Ok(bound);
        }
        let _binding = self.binding.lock().await;
        if !Arc::ptr_eq(&self.link.live()?, &self.bound().0) {
            let session = Bound::open(&self.link).await?;
            *lock(&self.session) = session;
        }
        Ok(self.bound())
    }
}

impl Bound {
    /// Opens a session and waits for it. Dropping the future gives the session up.
    async fn open(link: &Link<Shared>) -> Result<Self, LoadError> {
        loop {
            let shared = link.live()?;
            let opening = {
                let core = lock(&shared.core);
                if core.retired && !link.is_closed() {
                    continue;
                }
                Opening::begin(&shared, core)
            };
            let id = opening.opened().await?;
            return Ok(Self { shared, id });
        }
    }
}

/// A lane that somebody waits for, and is given up if nobody does any more.
pub(super) struct Opening {
    shared: Arc<Shared>,
    id: LaneId,
    opened: bool,
}

impl Opening {
    /// Asks for the session.
    pub(super) fn begin(shared: &Arc<Shared>, mut core: MutexGuard<'_, Core>) -> Self {
        let id = core.open_lane(Instant::now());
        shared.pump(core);
        Self {
            shared: Arc::clone(shared),
            id,
            opened: false,
        }
    }

    /// Waits for the session.
    pub(super) async fn opened(mut self) -> Result<LaneId, LoadError> {
        loop {
            let changed = self.shared.changed.notified();
            let result = lock(&self.shared.core).lanes.remove(&self.id);
            if let Some(result) = result {
                self.opened = true;
                return result.map(|()| self.id);
            }
            changed.await;
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if !self.opened {
            self.shared.close_lane(self.id, Instant::now());
            lock(&self.shared.core).lanes.remove(&self.id);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let (shared, lane) = self.bound();
        shared.close_lane(lane, Instant::now());
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("session", &self.session().session_id)
            .finish_non_exhaustive()
    }
}
