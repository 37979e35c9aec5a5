//! The agent's process, with no session of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Lane;
use super::shared::Shared;
use crate::driver::{Driven, Link};
use crate::error::{ExitInfo, LoadError};
use crate::options::LoadOptions;
use crate::protocol::AgentInfo;
use crate::sync::lock;

/// A running agent. Sessions are opened with [`AcpAgent::lane`].
///
/// [`load_acp`](super::load_acp) is the short way to an agent with one session. Dropping the agent ends its
/// process, but does not wait for that: to be sure that it is gone, and to give it time to leave in order,
/// [close](AcpAgent::close) it.
pub struct AcpAgent {
    link: Arc<Link<Shared>>,
}

impl AcpAgent {
    /// Starts the process and waits for its answer to `initialize`. Its tasks run in the runtime of the
    /// caller.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]. The process is ended then.
    pub async fn start(options: LoadOptions) -> Result<Self, LoadError> {
        let agent = Self::spawn(options)?;
        if let Err(error) = agent.wait_ready().await {
            agent.close().await;
            return Err(error);
        }
        Ok(agent)
    }

    /// Starts the process and returns at once, while the handshake runs.
    ///
    /// # Errors
    ///
    /// `invalid_options` and `spawn_failed`, the latter also outside of a runtime.
    pub fn spawn(options: LoadOptions) -> Result<Self, LoadError> {
        let link = Link::start(options)?;
        Ok(Self { link })
    }

    /// Waits for the answer to `initialize`.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub async fn wait_ready(&self) -> Result<(), LoadError> {
        self.link.shared().wait_ready().await
    }

    /// Opens a session. Each has its own queue of turns and all run side by side.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; other lanes are not affected.
    pub async fn lane(&self) -> Result<Lane, LoadError> {
        Lane::open(&self.link).await
    }

    /// What the agent said of itself; empty until `initialize` is answered.
    pub fn info(&self) -> AgentInfo {
        lock(&self.link.shared().core).connection.agent().clone()
    }

    /// How long it took from the start of the process to its answer to `initialize`, once that is there:
    /// what every turn would cost without a warm process.
    pub fn startup_time(&self) -> Option<Duration> {
        self.link.shared().startup_time()
    }

    /// The id of the process, which leads a process group of its own.
    pub fn process_id(&self) -> u32 {
        self.link.shared().process.id()
    }

    /// Whether the process runs and the connection has not ended.
    pub fn is_alive(&self) -> bool {
        self.link.shared().is_alive()
    }

    /// How the process ended, once it has.
    pub fn exit(&self) -> Option<ExitInfo> {
        self.link.shared().process.exit()
    }

    /// The end of the agent's standard error, and of what it wrote to standard output that was no message.
    pub fn diagnostics(&self) -> String {
        lock(&self.link.shared().core).connection.diagnostics()
    }

    /// Ends every turn with `closed`, then the process and all that it started. They are gone when this
    /// returns. Closing twice, or from several tasks, is no error.
    pub async fn close(&self) {
        self.link.close().close().await;
    }

    /// Ends the process and its group by SIGKILL, without giving them time to leave in order, and without
    /// waiting.
    pub fn kill(&self) {
        self.link.shared().process.kill();
    }
}

impl Drop for AcpAgent {
    fn drop(&mut self) {
        self.link.close().close_behind();
    }
}

impl fmt::Debug for AcpAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcpAgent")
            .field("process_id", &self.process_id())
            .field("alive", &self.is_alive())
            .finish_non_exhaustive()
    }
}
