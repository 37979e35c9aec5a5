//! An agent with one session, as a model.

use super::{AcpAgent, Lane, Turn};
use crate::error::{GenerateError, LoadError};
use crate::options::LoadOptions;
use crate::protocol::SessionInfo;
use crate::request::{GenerateRequest, GenerateResponse};
use crate::turn::TurnOptions;

/// Starts an agent and waits until it is warm: the process runs, `initialize` is answered and a session
/// is open, with its mode set if one was asked for. Its tasks run in the runtime of the caller.
///
/// # Errors
///
/// See [`LoadError`]. Nothing of the agent is left running then.
pub async fn load_acp(options: LoadOptions) -> Result<AcpModel, LoadError> {
    let agent = AcpAgent::start(options).await?;
    match agent.lane().await {
        Ok(main) => Ok(AcpModel { agent, main }),
        Err(error) => {
            agent.close().await;
            Err(error)
        }
    }
}

/// A warm agent as a model: one process, and the session that its turns run in.
///
/// The process lives as long as the model, however its turns end. Turns of one model are one conversation and
/// run one after the other. For conversations side by side open [lanes](AcpModel::lane).
#[derive(Debug)]
pub struct AcpModel {
    // Dropped in this order: a turn that runs ends as closed with its agent, not as cancelled with its lane.
    agent: AcpAgent,
    main: Lane,
}

impl AcpModel {
    /// Runs a turn with the options' limits and waits for its answer. Dropping the future cancels the turn.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`]. The model stays usable after all but `agent_exited` and `closed`.
    pub async fn generate(
        &self,
        request: &GenerateRequest,
    ) -> Result<GenerateResponse, GenerateError> {
        self.main.generate(request).await
    }

    /// Begins a turn, to be waited for, streamed or cancelled: see [`Lane::start`].
    ///
    /// # Errors
    ///
    /// See [`Lane::start`].
    pub async fn start(
        &self,
        request: &GenerateRequest,
        options: TurnOptions,
    ) -> Result<Turn, GenerateError> {
        self.main.start(request, options).await
    }

    /// Opens another session in the same process.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; the model itself is not affected.
    pub async fn lane(&self) -> Result<Lane, LoadError> {
        self.agent.lane().await
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
    pub async fn close(&self) {
        self.agent.close().await;
    }
}
