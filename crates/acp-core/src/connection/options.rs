//! What a connection is told at its beginning.

use std::time::Duration;

use super::StatePolicy;
use crate::error::LoadError;
use crate::mcp::McpServer;
use crate::permission::{ChoicePolicy, PermissionPolicy};
use crate::protocol::{ConfigValue, Implementation};
use crate::secrets::Secrets;

/// What the engine needs to know. Times of `None` are off.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionOptions {
    /// What this client says of itself in `initialize`.
    pub client_info: Implementation,
    /// `cwd` of every session: an absolute path.
    pub cwd: String,
    /// `modeId` that every session is set to.
    pub mode: Option<String>,
    /// Whether a session that cannot be set to that mode is an error. Otherwise it is noted in
    /// [`SessionInfo::mode_error`](crate::SessionInfo::mode_error).
    pub mode_required: bool,
    /// Configuration options that every session is set to, in this order, after its mode.
    pub config_options: Vec<(String, ConfigValue)>,
    /// MCP servers of every session.
    pub mcp_servers: Vec<McpServer>,
    /// Directories of every session besides `cwd`: absolute paths.
    pub additional_directories: Vec<String>,
    /// The session that the first lane goes on with.
    pub resume: Option<Resume>,
    /// The method (`methodId`) to log in with if `session/new` wants a login and the agent offers this
    /// method. It is used once.
    pub authenticate: Option<String>,
    /// Who answers permission requests.
    pub permission: PermissionPolicy,
    /// What to do with permission requests that are a real choice.
    pub choices: ChoicePolicy,
    /// Whether requests whose method begins with `_` are handed to the host
    /// ([`Event::RequestReceived`](super::Event::RequestReceived)). Otherwise they are refused like any other.
    pub forward_requests: bool,
    /// Longest time for `initialize`, and again for opening a session.
    pub startup_timeout: Option<Duration>,
    /// Longest time for the agent to end a turn that was cancelled. After it the session is given up
    /// and the lane's next turn opens another one.
    pub cancel_grace: Option<Duration>,
    /// Longest time for the host's own answer to a request of the agent ([`PermissionPolicy::Ask`],
    /// [`ConnectionOptions::forward_requests`]).
    pub permission_timeout: Option<Duration>,
    /// When the end of a turn waits for late text.
    pub settle: Settle,
    /// What is masked in traces and in the messages of errors, besides what can be told by its shape.
    pub secrets: Secrets,
    /// What of a request goes out, and into which session.
    pub state: StatePolicy,
    /// Whether the session that the next turn may need is opened right after an answer, while nobody waits
    /// for it. Nothing is opened ahead under [`StatePolicy::FullRequest`], which needs no other session.
    pub spare_session: bool,
    /// Sessions that were given up and that the agent cannot close, after which its process should be
    /// replaced: [`Connection::is_worn_out`](super::Connection::is_worn_out). In some agents each one is memory.
    pub max_given_up_sessions: Option<usize>,
    /// How often the agent is asked once more for a reply that is not in the form that tools or a response
    /// format ask for.
    pub max_repairs: u32,
    /// Whether the agent may use tools of its own in a turn with tools or a response format. Otherwise what
    /// it wants a permission for is refused in such a turn, whatever `permission` says.
    pub native_tools: bool,
    /// Longest line read, in bytes. A longer one is dropped and the connection lives on.
    pub max_line_len: usize,
    /// Most turns that wait on one lane.
    pub max_queue: usize,
}

impl ConnectionOptions {
    /// The defaults, for sessions in this directory.
    pub fn new(cwd: impl Into<String>) -> Self {
        Self {
            client_info: Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            cwd: cwd.into(),
            mode: None,
            mode_required: true,
            config_options: Vec::new(),
            mcp_servers: Vec::new(),
            additional_directories: Vec::new(),
            resume: None,
            authenticate: None,
            choices: ChoicePolicy::default(),
            forward_requests: false,
            permission: PermissionPolicy::default(),
            startup_timeout: Some(Duration::from_secs(120)),
            cancel_grace: Some(Duration::from_secs(10)),
            permission_timeout: Some(Duration::from_secs(60)),
            settle: Settle::default(),
            secrets: Secrets::default(),
            state: StatePolicy::default(),
            spare_session: true,
            max_given_up_sessions: Some(64),
            max_repairs: 2,
            native_tools: false,
            max_line_len: 64 * 1024 * 1024,
            max_queue: 1024,
        }
    }

    /// Whether the options can work together.
    ///
    /// # Errors
    ///
    /// [`LoadError::InvalidOptions`] if not.
    pub fn check(&self) -> Result<(), LoadError> {
        if self.resume.is_some() && self.state != StatePolicy::FullRequest {
            return Err(LoadError::InvalidOptions(
                "a session that goes on holds what the host does not know, so its state policy must be the full \
                 request"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// A session of before that is to go on, by its id.
///
/// It is resumed (`session/resume`) where the agent can do that, and otherwise loaded (`session/load`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    pub(crate) session_id: String,
    pub(crate) required: bool,
}

impl Resume {
    /// This session, and no other: that it cannot go on is an error.
    pub fn required(session_id: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            required: true,
        }
    }

    /// This session, or a new one if it cannot go on. [`SessionInfo::resume_error`] then says why.
    ///
    /// [`SessionInfo::resume_error`]: crate::SessionInfo::resume_error
    pub fn or_new(session_id: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            required: false,
        }
    }
}

/// When the end of a turn waits for text that is late.
///
/// Some agents send the last chunks after the response. The wait is [`SETTLE_WINDOW`], begins anew with
/// each late chunk, and is at most [`SETTLE_LIMIT`] in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Settle {
    /// Where there is a reason: the answer is empty, or this agent was late before. It costs an agent
    /// that is never late nothing.
    #[default]
    Adaptive,
    /// After every turn.
    Always,
    /// Never.
    Never,
}

/// How long the end of a turn waits for late text.
pub const SETTLE_WINDOW: Duration = Duration::from_millis(250);
/// How long it waits in all.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(2);
