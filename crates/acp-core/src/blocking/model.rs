//! What a host holds: the model, its lanes, and the turns that run.

use std::fmt;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use super::{AcpAgent, Core, Shared, TurnSlot};
use crate::client::Generate;
use crate::connection::{LaneId, TurnId};
use crate::error::{GenerateError, LoadError};
use crate::options::LoadOptions;
use crate::protocol::SessionInfo;
use crate::request::{GenerateRequest, GenerateResponse};
use crate::sync::{lock, wait};
use crate::turn::TurnOptions;

/// Starts an agent and waits until it is warm: the process runs, `initialize` is answered and a session
/// is open, with its mode set if one was asked for.
///
/// ```no_run
/// use acp_core::{GenerateRequest, LoadOptions, load_acp};
///
/// let model = load_acp(LoadOptions::new(["gemini", "--acp"]))?;
/// let answer = model.generate(&GenerateRequest::user("What is ACP?"))?;
/// println!("{}", answer.content);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// See [`LoadError`]. Nothing of the agent is left running then.
pub fn load_acp(options: LoadOptions) -> Result<AcpModel, LoadError> {
    let agent = AcpAgent::start(options)?;
    let main = agent.lane()?;
    Ok(AcpModel { main, agent })
}

/// A warm agent as a model: one process, and the session that its turns run in.
///
/// The process lives as long as the model, however its turns end; dropping the model closes it. Turns of
/// one model are one conversation and run one after the other. For conversations side by side open
/// [lanes](AcpModel::lane).
#[derive(Debug)]
pub struct AcpModel {
    main: Lane,
    agent: AcpAgent,
}

impl AcpModel {
    /// Runs a turn with the options' limits and waits for its answer.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`]. The model stays usable after all but `agent_exited` and `closed`.
    pub fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        self.main.generate(request)
    }

    /// Begins a turn, to be waited for, streamed or cancelled: see [`Lane::start`].
    ///
    /// # Errors
    ///
    /// See [`Lane::start`].
    pub fn start(
        &self,
        request: &GenerateRequest,
        options: TurnOptions,
    ) -> Result<Turn, GenerateError> {
        self.main.start(request, options)
    }

    /// Opens another session in the same process.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; the model itself is not affected.
    pub fn lane(&self) -> Result<Lane, LoadError> {
        self.agent.lane()
    }

    /// Cancels the turn that the model's own session runs now. If none runs, nothing is sent.
    pub fn cancel(&self) {
        self.main.cancel();
    }

    /// The session that serves the model's own turns.
    pub fn session(&self) -> SessionInfo {
        self.main.session()
    }

    /// The lane of the model's own turns.
    pub fn main_lane(&self) -> &Lane {
        &self.main
    }

    /// The process behind the model.
    pub fn agent(&self) -> &AcpAgent {
        &self.agent
    }

    /// Whether the process runs and the connection has not ended.
    pub fn is_alive(&self) -> bool {
        self.agent.is_alive()
    }

    /// Closes the agent and all its lanes: see [`AcpAgent::close`].
    pub fn close(&self) {
        self.agent.close();
    }
}

impl Generate for AcpModel {
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        self.main.generate(request)
    }
}

/// One session of an agent's process, and the queue of its turns.
///
/// Lanes run side by side; the turns of one lane run in the order in which they were started. Dropping a
/// lane gives up its session; the process belongs to the [`AcpModel`] or [`AcpAgent`].
pub struct Lane {
    shared: Arc<Shared>,
    id: LaneId,
    turn_options: TurnOptions,
    open_time: Duration,
}

impl Lane {
    pub(super) fn open(shared: &Arc<Shared>, turn_options: TurnOptions) -> Result<Self, LoadError> {
        let asked = Instant::now();
        let mut core = lock(&shared.core);
        let id = core.connection.open_lane(asked);
        shared.pump(&mut core);
        loop {
            if let Some(result) = core.lanes.remove(&id) {
                result?;
                return Ok(Self {
                    shared: Arc::clone(shared),
                    id,
                    turn_options,
                    open_time: asked.elapsed(),
                });
            }
            core = wait(&shared.changed, core);
        }
    }

    /// Runs a turn with the options' limits and waits for its answer.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    pub fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        self.start(request, self.turn_options)?.wait()
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
        let changed = Arc::new(Condvar::new());
        let mut core = lock(&self.shared.core);
        let id = core
            .connection
            .prompt(self.id, request, options, Instant::now())?;
        core.turns.insert(
            id,
            TurnSlot {
                changed: Arc::clone(&changed),
                streams: false,
                result: None,
            },
        );
        self.shared.pump(&mut core);
        Ok(Turn {
            shared: Arc::clone(&self.shared),
            id,
            changed,
        })
    }

    /// Cancels the turn that the lane runs now. If none runs, nothing is sent.
    pub fn cancel(&self) {
        let mut core = lock(&self.shared.core);
        if let Some(turn) = core.connection.running(self.id) {
            core.connection.cancel(turn, Instant::now());
            self.shared.pump(&mut core);
        }
    }

    /// The limits of turns that do not bring their own.
    pub fn turn_options(&self) -> TurnOptions {
        self.turn_options
    }

    /// How long it took to open the session.
    pub fn open_time(&self) -> Duration {
        self.open_time
    }

    /// The session that serves the lane now.
    pub fn session(&self) -> SessionInfo {
        let core = lock(&self.shared.core);
        let session = core.connection.session(self.id);
        session.cloned().unwrap_or_default()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut core = lock(&self.shared.core);
        core.connection.close_lane(self.id, Instant::now());
        self.shared.pump(&mut core);
    }
}

impl Generate for Lane {
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        Lane::generate(self, request)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("session", &self.session().session_id)
            .finish_non_exhaustive()
    }
}

/// A turn that has been started. Dropping it before it has ended cancels it.
#[must_use = "a turn that is dropped is cancelled"]
pub struct Turn {
    shared: Arc<Shared>,
    id: TurnId,
    changed: Arc<Condvar>,
}

impl Turn {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    pub fn wait(self) -> Result<GenerateResponse, GenerateError> {
        let mut core = lock(&self.shared.core);
        loop {
            if let Some(result) = take_result(&mut core, self.id) {
                return result;
            }
            core = wait(&self.changed, core);
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
        self,
        mut on_text: impl FnMut(&str),
    ) -> Result<GenerateResponse, GenerateError> {
        let mut seen = 0;
        let mut core = lock(&self.shared.core);
        if let Some(slot) = core.turns.get_mut(&self.id) {
            slot.streams = true;
        }
        loop {
            let result = take_result(&mut core, self.id);
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
                core = wait(&self.changed, core);
            }
            if let Some(result) = result {
                return result;
            }
        }
    }

    /// Cancels the turn; the answer to [`Turn::wait`] is then `cancelled`, unless the turn had ended.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// A handle that cancels the turn from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            shared: Arc::clone(&self.shared),
            id: self.id,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut core = lock(&self.shared.core);
        // The slot is gone if somebody has waited for the end.
        if core.turns.remove(&self.id).is_some() {
            core.connection.cancel(self.id, Instant::now());
            self.shared.pump(&mut core);
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

/// Cancels one turn. If the turn has ended, it does nothing.
#[derive(Clone)]
pub struct Canceller {
    shared: Arc<Shared>,
    id: TurnId,
}

impl Canceller {
    /// Cancels the turn. It returns when the cancel is on its way, not when the turn has ended.
    pub fn cancel(&self) {
        let mut core = lock(&self.shared.core);
        core.connection.cancel(self.id, Instant::now());
        self.shared.pump(&mut core);
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

fn take_result(core: &mut Core, id: TurnId) -> Option<Result<GenerateResponse, GenerateError>> {
    let result = core.turns.get_mut(&id)?.result.take()?;
    core.turns.remove(&id);
    Some(result)
}
