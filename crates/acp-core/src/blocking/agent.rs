//! The agent's process, with no session of its own.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Lane, Shared};
use crate::error::{ExitInfo, LoadError};
use crate::options::LoadOptions;
use crate::protocol::AgentInfo;
use crate::sync::{lock, wait};
use crate::turn::TurnOptions;

/// A running agent that has answered `initialize`. Sessions are opened with [`AcpAgent::lane`].
///
/// [`load_acp`](crate::load_acp) is the short way to an agent with one session. Dropping the agent closes
/// it.
pub struct AcpAgent {
    shared: Arc<Shared>,
    turn_options: TurnOptions,
    startup_time: Duration,
}

impl AcpAgent {
    /// Starts the process and waits for its answer to `initialize`.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]. Nothing of the agent is left running then.
    pub fn start(options: LoadOptions) -> Result<Self, LoadError> {
        let asked = Instant::now();
        let shared = Shared::start(&options)?;
        let mut core = lock(&shared.core);
        let result = loop {
            match &core.initialized {
                Some(result) => break result.clone(),
                None => core = wait(&shared.changed, core),
            }
        };
        drop(core);
        let agent = Self {
            shared,
            turn_options: options.turn,
            startup_time: asked.elapsed(),
        };
        // On an error the drop of `agent` closes it.
        result.map(|()| agent)
    }

    /// Opens a session. Each has its own queue of turns and all run side by side.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; other lanes are not affected.
    pub fn lane(&self) -> Result<Lane, LoadError> {
        Lane::open(&self.shared, self.turn_options)
    }

    /// What the agent said of itself.
    pub fn info(&self) -> AgentInfo {
        lock(&self.shared.core).connection.agent().clone()
    }

    /// How long it took from the start of the process to its answer to `initialize`: what every turn
    /// would cost without a warm process.
    pub fn startup_time(&self) -> Duration {
        self.startup_time
    }

    /// The id of the process, which leads a process group of its own.
    pub fn process_id(&self) -> u32 {
        self.shared.process.id()
    }

    /// Whether the process runs and the connection has not ended.
    pub fn is_alive(&self) -> bool {
        self.shared.is_alive()
    }

    /// How the process ended, once it has.
    pub fn exit(&self) -> Option<ExitInfo> {
        self.shared.process.exit()
    }

    /// The end of the agent's standard error, and of what it wrote to standard output that was no message.
    pub fn diagnostics(&self) -> String {
        lock(&self.shared.core).connection.diagnostics()
    }

    /// Ends every turn with `closed`, then the process and all that it started. They are gone when this
    /// returns. Closing twice, or from several threads, is no error.
    pub fn close(&self) {
        self.shared.close();
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
