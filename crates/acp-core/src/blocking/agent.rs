//! The agent's process, with no session of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Lane, Shared};
use crate::driver::{Driven, Link};
use crate::error::{ExitInfo, LoadError};
use crate::options::LoadOptions;
use crate::protocol::AgentInfo;
use crate::sync::{lock, wait};

/// A running agent. Sessions are opened with [`AcpAgent::lane`].
///
/// [`load_acp`](crate::load_acp) is the short way to an agent with one session. Dropping the agent closes
/// it.
pub struct AcpAgent {
    link: Arc<Link<Shared>>,
}

impl AcpAgent {
    /// Starts the process and waits for its answer to `initialize`.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]. Nothing of the agent is left running then.
    pub fn start(options: LoadOptions) -> Result<Self, LoadError> {
        let agent = Self::spawn(options)?;
        // On an error the drop of `agent` closes it.
        agent.wait_ready()?;
        Ok(agent)
    }

    /// Starts the process and returns at once, while the handshake runs: for hosts that want to be able
    /// to [close](AcpAgent::close) an agent that takes its time.
    ///
    /// # Errors
    ///
    /// `invalid_options` and `spawn_failed`.
    pub fn spawn(options: LoadOptions) -> Result<Self, LoadError> {
        let link = Link::start(options)?;
        Ok(Self { link })
    }

    /// Waits for the answer to `initialize`.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn wait_ready(&self) -> Result<(), LoadError> {
        let shared = self.link.shared();
        let mut core = lock(&shared.core);
        loop {
            match &core.initialized {
                Some(result) => return result.clone().map(drop),
                None => core = wait(&shared.changed, core),
            }
        }
    }

    /// Opens a session. Each has its own queue of turns and all run side by side.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; other lanes are not affected.
    pub fn lane(&self) -> Result<Lane, LoadError> {
        Lane::open(&self.link)
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
    /// returns. Closing twice, or from several threads, is no error.
    pub fn close(&self) {
        self.link.close().close();
    }

    /// Ends the process and its group by SIGKILL, without giving them time to leave in order, and without
    /// waiting. [`AcpAgent::close`], now or while it runs, then has little left to do.
    pub fn kill(&self) {
        self.link.shared().process.kill();
    }
}

impl Drop for AcpAgent {
    fn drop(&mut self) {
        self.close();
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
