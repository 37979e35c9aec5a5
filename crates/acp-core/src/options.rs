//! How an agent is started and used.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::connection::{ConnectionOptions, Resume, Settle, StatePolicy};
use crate::error::LoadError;
use crate::hooks::Hooks;
use crate::mcp::McpServer;
use crate::permission::{ChoicePolicy, PermissionDecision, PermissionPolicy, PermissionRequest};
use crate::protocol::{ConfigValue, Implementation};
use crate::secrets::is_secret_name;
use crate::turn::TurnOptions;

/// How [`load_acp`](crate::load_acp) starts an agent, and how its turns run.
///
/// Only the command is needed. All times can be switched off with `None`.
///
/// | option | default |
/// | --- | --- |
/// | working directory | the host's own |
/// | session mode | the agent's own |
/// | configuration options, MCP servers, further directories | none |
/// | session | a new one |
/// | permission requests | the first option whose kind starts with `allow` |
/// | requests of a vendor's own | refused with `-32601` |
/// | login | none: `auth_required` is an error |
/// | after the agent's death | every turn is `agent_exited` |
/// | start-up limit (`initialize`, and again `session/new` with `session/set_mode`) | 120 s |
/// | idle limit of a turn | 5 min, 6 times as long while a tool call is open |
/// | absolute limit of a turn | off |
/// | wait for a cancelled turn to end | 10 s |
/// | wait for the host's answer to a permission request | 60 s |
/// | late text after a turn | waited for where there is a reason, see [`Settle`] |
/// | a turn without text | an error |
/// | what of a request goes out | all of it, into the same session, with the marker |
/// | next session | opened ahead where the state policy may need one |
/// | sessions that pile up in an agent that cannot close them | 64 |
/// | a reply that is not in the form that tools or a response format ask for | asked for again, twice |
/// | the agent's own tools in a turn with tools or a response format | refused |
/// | longest line read | 64 MiB |
/// | turns waiting on one lane | 1024 |
/// | end of the process | 1 s after its input has ended SIGTERM, 2 s later SIGKILL |
#[derive(Clone)]
pub struct LoadOptions {
    pub(crate) command: Vec<OsString>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: Vec<(OsString, Option<OsString>)>,
    additional_directories: Vec<PathBuf>,
    pub(crate) hooks: Hooks,
    pub(crate) restart: bool,
    pub(crate) turn: TurnOptions,
    pub(crate) eof_grace: Duration,
    pub(crate) term_grace: Duration,
    /// Everything that the engine takes; its `cwd` is filled in when the agent is started.
    pub(crate) connection: ConnectionOptions,
}

impl LoadOptions {
    /// Options for the agent that this command starts: a program and its arguments, as they are. No
    /// shell reads them; [`split_command`](crate::split_command) makes them of one string.
    pub fn new<I>(command: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            cwd: None,
            env: Vec::new(),
            additional_directories: Vec::new(),
            hooks: Hooks::default(),
            restart: false,
            turn: TurnOptions::default().idle_timeout(Duration::from_secs(300)),
            eof_grace: Duration::from_secs(1),
            term_grace: Duration::from_secs(2),
            connection: ConnectionOptions::new(String::new()),
        }
    }

    /// The working directory of the process and of its sessions. A relative path is relative to the
    /// host's own directory; it must exist.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Sets an environment variable of the process, beside those of the host. If its name says that it is
    /// a key, a token or the like, its value is masked wherever people read.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let (name, value) = (name.into(), value.into());
        if is_secret_name(&name.to_string_lossy()) {
            self.connection.secrets.add(value.to_string_lossy());
        }
        self.env.push((name, Some(value)));
        self
    }

    /// Masks this value in traces and in the messages of errors. What goes over the wire is not touched.
    #[must_use]
    pub fn secret(mut self, value: impl Into<String>) -> Self {
        self.connection.secrets.add(value);
        self
    }

    /// Keeps an environment variable of the host from the process.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// The session mode (`modeId`) that every session is set to. An agent that rejects it is an error:
    /// a mode may be there to restrict what it does.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.connection.mode = Some(mode.into());
        self
    }

    /// Whether a session that cannot be set to its mode is an error, which is the default. Otherwise
    /// [`SessionInfo::mode_error`](crate::SessionInfo::mode_error) says why.
    #[must_use]
    pub fn mode_required(mut self, required: bool) -> Self {
        self.connection.mode_required = required;
        self
    }

    /// Sets a configuration option (`configId`) of every session, after those before it and the mode. One
    /// that the agent does not offer, or refuses, is an error.
    #[must_use]
    pub fn config_option(mut self, id: impl Into<String>, value: impl Into<ConfigValue>) -> Self {
        self.connection
            .config_options
            .push((id.into(), value.into()));
        self
    }

    /// Gives every session an MCP server. The values of its headers, and of variables whose names say that they
    /// are keys, tokens or the like, are masked wherever people read.
    #[must_use]
    pub fn mcp_server(mut self, server: McpServer) -> Self {
        for secret in server.secrets() {
            self.connection.secrets.add(secret);
        }
        self.connection.mcp_servers.push(server);
        self
    }

    /// Gives every session a directory besides its working directory. A relative path is relative to the
    /// host's own directory. An agent that does not take any is an error.
    #[must_use]
    pub fn additional_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.additional_directories.push(path.into());
        self
    }

    /// Goes on with a session of before in the model's own lane, or, of a bare agent, in the first one.
    /// It holds what the host does not know, so the [state policy](LoadOptions::state) must be the full request.
    ///
    /// ```no_run
    /// use acp_core::{LoadOptions, McpServer, Resume, load_acp};
    ///
    /// let model = load_acp(
    ///     LoadOptions::new(["claude-agent-acp"])
    ///         .config_option("model", "haiku")
    ///         .mcp_server(McpServer::stdio("files", "/usr/local/bin/mcp-files"))
    ///         .resume(Resume::or_new("7b1c9f60")),
    /// )?;
    /// let session = model.session();
    /// println!("{}: {:?}", session.session_id, session.resume_error);
    /// # Ok::<(), acp_core::LoadError>(())
    /// ```
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.connection.resume = Some(resume);
        self
    }

    /// The same for a process that takes the place of another.
    pub(crate) fn without_resume(mut self) -> Self {
        self.connection.resume = None;
        self
    }

    /// How permission requests are answered. For [`PermissionPolicy::Ask`] use
    /// [`LoadOptions::ask_permission`].
    #[must_use]
    pub fn permission(mut self, policy: PermissionPolicy) -> Self {
        self.connection.permission = policy;
        self
    }

    /// Asks the host about each permission request. The function runs on a thread of its own, so it may
    /// take its time; what it does not answer within
    /// [`permission_timeout`](LoadOptions::permission_timeout), or panics at, is refused. It may use the
    /// model, but a turn of the lane that asks only starts when this one is over.
    #[must_use]
    pub fn ask_permission(
        mut self,
        decide: impl Fn(&PermissionRequest) -> PermissionDecision + Send + Sync + 'static,
    ) -> Self {
        self.connection.permission = PermissionPolicy::Ask;
        self.hooks.permission = Some(Arc::new(decide));
        self
    }

    /// Says what to do with permission requests that are a real choice.
    #[must_use]
    pub fn choices(mut self, policy: ChoicePolicy) -> Self {
        self.connection.choices = policy;
        self
    }

    /// Hands requests of the agent whose method begins with `_` to the host, with their method and params.
    /// `None` refuses one with `-32601`, as all are without this. The function runs on a thread of its own
    /// within [`permission_timeout`](LoadOptions::permission_timeout).
    #[must_use]
    pub fn on_request(
        mut self,
        answer: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.connection.forward_requests = true;
        self.hooks.request = Some(Arc::new(answer));
        self
    }

    /// Asks the host about each permission request by a function that may await, in a task of its own. The
    /// blocking driver cannot run it.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn ask_permission_async<F>(
        mut self,
        decide: impl Fn(PermissionRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = PermissionDecision> + Send + 'static,
    {
        self.connection.permission = PermissionPolicy::Ask;
        self.hooks.permission_async = Some(Arc::new(move |request| Box::pin(decide(request))));
        self
    }

    /// Hands requests of the agent whose method begins with `_` to a function that may await, as
    /// [`on_request`](LoadOptions::on_request) does. The blocking driver cannot run it.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn on_request_async<F>(
        mut self,
        answer: impl Fn(String, Value) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Option<Value>> + Send + 'static,
    {
        self.connection.forward_requests = true;
        self.hooks.request_async = Some(Arc::new(move |method, params| {
            Box::pin(answer(method, params))
        }));
        self
    }

    /// The method (`methodId`) to log in with, once, if `session/new` wants a login and the agent offers
    /// this method for `authenticate`.
    #[must_use]
    pub fn authenticate(mut self, method: impl Into<String>) -> Self {
        self.connection.authenticate = Some(method.into());
        self
    }

    /// Whether the next turn after the agent's death starts a new process, whose sessions know nothing of
    /// the old ones. The turns that were lost are never sent again: they may have had effects. It also
    /// replaces a process that opens no session any more.
    #[must_use]
    pub fn restart(mut self, restart: bool) -> Self {
        self.restart = restart;
        self
    }

    /// Longest time for the host's own answer to a permission request.
    #[must_use]
    pub fn permission_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.connection.permission_timeout = limit.into();
        self
    }

    /// Longest time for the agent to answer `initialize`, and again to open a session.
    #[must_use]
    pub fn startup_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.connection.startup_timeout = limit.into();
        self
    }

    /// Limits of every turn that does not bring its own.
    #[must_use]
    pub fn turn_options(mut self, turn: TurnOptions) -> Self {
        self.turn = turn;
        self
    }

    /// Longest silence of a turn's session, see [`TurnOptions::idle_timeout`].
    #[must_use]
    pub fn idle_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.turn.idle_timeout = limit.into();
        self
    }

    /// Absolute limit of a turn, see [`TurnOptions::deadline`].
    #[must_use]
    pub fn deadline(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.turn.deadline = limit.into();
        self
    }

    /// Whether `end_turn` without any text is an answer.
    #[must_use]
    pub fn allow_empty_turn(mut self, allow: bool) -> Self {
        self.turn.allow_empty = allow;
        self
    }

    /// Longest time for the agent to end a cancelled turn. After it the turn ends all the same and the
    /// lane's next turn gets a new session.
    #[must_use]
    pub fn cancel_grace(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.connection.cancel_grace = limit.into();
        self
    }

    /// When the end of a turn waits for late text.
    #[must_use]
    pub fn settle(mut self, settle: Settle) -> Self {
        self.connection.settle = settle;
        self
    }

    /// What of a request goes out, and into which session. [`StatePolicy::VerifiedDelta`] is the one to
    /// choose for a conversation that grows; the default is what the ports in other languages do.
    #[must_use]
    pub fn state(mut self, policy: StatePolicy) -> Self {
        self.connection.state = policy;
        self
    }

    /// Whether the session that the next turn may need is opened right after an answer, while nobody waits
    /// for it. Without effect under [`StatePolicy::FullRequest`].
    #[must_use]
    pub fn spare_session(mut self, open: bool) -> Self {
        self.connection.spare_session = open;
        self
    }

    /// How many sessions may pile up in an agent that cannot close them. Then the next turn gets a new
    /// process, once nothing runs in the old one. `None` never replaces it.
    #[must_use]
    pub fn max_given_up_sessions(mut self, sessions: impl Into<Option<usize>>) -> Self {
        self.connection.max_given_up_sessions = sessions.into();
        self
    }

    /// How often the agent is asked once more for a reply that is not in the form that a request with tools or
    /// a response format asks for. After that the turn is
    /// [`MalformedReply`](crate::GenerateError::MalformedReply).
    #[must_use]
    pub fn max_repairs(mut self, repairs: u32) -> Self {
        self.connection.max_repairs = repairs;
        self
    }

    /// Whether the agent may use tools of its own, as its permission requests are answered, in a turn whose
    /// request has tools or a response format. Without this they are refused in such a turn: the host's tools
    /// are meant.
    #[must_use]
    pub fn native_tools(mut self, allow: bool) -> Self {
        self.connection.native_tools = allow;
        self
    }

    /// Longest line read, in bytes. A longer one is dropped, counted as noise, and the session lives on.
    #[must_use]
    pub fn max_line_len(mut self, bytes: usize) -> Self {
        self.connection.max_line_len = bytes;
        self
    }

    /// Most turns that wait on one lane; one more is `busy`.
    #[must_use]
    pub fn max_queue(mut self, turns: usize) -> Self {
        self.connection.max_queue = turns;
        self
    }

    /// What this client says of itself to the agent.
    #[must_use]
    pub fn client_info(mut self, info: Implementation) -> Self {
        self.connection.client_info = info;
        self
    }

    /// How long the process may take to exit after its input has ended, before it gets SIGTERM.
    #[must_use]
    pub fn eof_grace(mut self, wait: Duration) -> Self {
        self.eof_grace = wait;
        self
    }

    /// How long the process may take to exit after SIGTERM, before it gets SIGKILL.
    #[must_use]
    pub fn term_grace(mut self, wait: Duration) -> Self {
        self.term_grace = wait;
        self
    }

    /// What the engine takes, with the secrets in the variables that the process inherits.
    pub(crate) fn connection_options(&self, cwd: String) -> Result<ConnectionOptions, LoadError> {
        let mut options = self.connection.clone();
        options.cwd = cwd;
        for path in &self.additional_directories {
            let absolute = std::path::absolute(path);
            let absolute = absolute
                .ok()
                .and_then(|path| path.to_str().map(str::to_owned));
            let Some(absolute) = absolute else {
                return Err(LoadError::InvalidOptions(format!(
                    "the additional directory `{}` cannot be used: it is no Unicode path",
                    path.display()
                )));
            };
            options.additional_directories.push(absolute);
        }
        options.check()?;
        options.secrets.add_environment();
        Ok(options)
    }

    /// The working directory as agents want it: absolute, and there.
    pub(crate) fn resolve_cwd(&self) -> Result<PathBuf, LoadError> {
        let path = self.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
        let invalid = |why: &dyn fmt::Display| {
            LoadError::InvalidOptions(format!(
                "the working directory `{}` cannot be used: {why}",
                path.display()
            ))
        };
        let absolute = std::path::absolute(&path).map_err(|error| invalid(&error))?;
        match absolute.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(absolute),
            Ok(_) => Err(invalid(&"it is not a directory")),
            Err(error) => Err(invalid(&error)),
        }
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of variables are often secrets.
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("LoadOptions")
            .field("command", &self.command)
            .field("cwd", &self.cwd)
            .field("env", &names)
            .field("turn", &self.turn)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}
