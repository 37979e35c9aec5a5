//! An agent with one session, as a model.

use super::{AcpAgent, Lane, Turn};
use crate::client::{CancelToken, Generate};
use crate::error::{GenerateError, LoadError};
use crate::options::LoadOptions;
use crate::protocol::SessionInfo;
use crate::request::{GenerateRequest, GenerateResponse};
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
    Ok(AcpModel { agent, main })
}

/// A warm agent as a model: one process, and the session that its turns run in.
///
/// The process lives as long as the model, however its turns end; dropping the model closes it. Turns of
/// one model are one conversation and run one after the other. For conversations side by side open
/// [lanes](AcpModel::lane).
#[derive(Debug)]
pub struct AcpModel {
    // Dropped in this order: a turn that runs ends as closed with its agent, not as cancelled with its lane.
    agent: AcpAgent,
    main: Lane,
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

    fn generate_cancellable(
        &self,
        request: &GenerateRequest,
        cancel: &CancelToken,
    ) -> Result<GenerateResponse, GenerateError> {
        self.main.generate_cancellable(request, cancel)
    }
}
