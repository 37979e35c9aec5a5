//! Which agent, and how it is started.

use std::env::{self, VarError};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use acp_core::{AcpAgent, Implementation, Lane, LoadError, LoadOptions, Secrets, split_command};

use crate::cli::{AgentsFileArgs, StartArgs, State, TurnArgs};
use crate::failure::{Failure, login_advice};
use crate::interrupt::Interrupts;
use crate::mcp::may_be_secret;
use crate::presets::{self, Preset, Presets};
use crate::terminal;

/// Names the agent where there is no `--agent`.
const AGENT_VARIABLE: &str = "ACP_AGENT";

/// The agent's command line, and a short name for it.
pub(crate) struct AgentCommand {
    argv: Vec<OsString>,
    pub(crate) name: String,
    /// What is known of it, if that is how it was named.
    preset: Option<Preset>,
    /// Whether it is a word that could have been a name, and is none.
    is_unknown_name: bool,
}

impl AgentCommand {
    /// The one that is named, or the demo agent, which is this program itself.
    pub(crate) fn find(args: &StartArgs) -> Result<Self, Failure> {
        let named = match &args.agent {
            Some(line) => Some(line.clone()),
            None => variable()?,
        };
        match named {
            Some(line) => Self::named(&line, &args.file),
            None => {
                terminal::note(
                    "This is the built-in demo agent; name a real one with --agent or ACP_AGENT. \
                     `acp agents` lists those that are known.",
                );
                Self::demo()
            }
        }
    }

    /// A word is a name if there is an agent of that name, and a program otherwise.
    fn named(line: &str, file: &AgentsFileArgs) -> Result<Self, Failure> {
        let argv = split_command(line).map_err(Failure::load)?;
        let mut is_unknown_name = false;
        if let [word] = &argv[..]
            && presets::is_name(word)
        {
            match Presets::load(file)?.get(word) {
                Some(preset) => return Ok(Self::preset(word, preset)),
                None => is_unknown_name = true,
            }
        }
        let program = argv.first().map(Path::new).and_then(Path::file_name);
        Ok(Self {
            name: program.unwrap_or_default().to_string_lossy().into_owned(),
            argv: argv.into_iter().map(OsString::from).collect(),
            preset: None,
            is_unknown_name,
        })
    }

    fn preset(name: &str, preset: &Preset) -> Self {
        Self {
            argv: preset.command.iter().map(OsString::from).collect(),
            name: name.to_owned(),
            preset: Some(preset.clone()),
            is_unknown_name: false,
        }
    }

    /// The demo agent, which does nothing but say back what it is asked.
    pub(crate) fn demo() -> Result<Self, Failure> {
        let this = env::current_exe().map_err(|error| {
            Failure::options(format!(
                "the demo agent cannot be found, name one with --agent: {error}"
            ))
        })?;
        Ok(Self {
            argv: vec![this.into(), "demo-agent".into()],
            name: "the demo agent".to_owned(),
            preset: None,
            is_unknown_name: false,
        })
    }

    /// How it is started, with what the command line says.
    pub(crate) fn options(&self, start: &StartArgs, turn: Option<&TurnArgs>) -> LoadOptions {
        let mut options = LoadOptions::new(&self.argv)
            .client_info(Implementation::new("acp", env!("CARGO_PKG_VERSION")));
        if let Some(cwd) = &start.cwd {
            options = options.cwd(cwd);
        }
        if let Some(method) = &start.authenticate {
            options = options.authenticate(method);
        }
        if let Some(limit) = start.startup_timeout {
            options = options.startup_timeout(limit.0);
        }
        for (name, value) in self.variables() {
            options = options.env(name, value);
        }
        let Some(turn) = turn else { return options };
        options = turn.setting.apply(options);
        options = options.permission(turn.permission.into());
        if let Some(limit) = turn.idle_timeout {
            options = options.idle_timeout(limit.0);
        }
        if let Some(limit) = turn.deadline {
            options = options.deadline(limit.0);
        }
        options
    }

    /// The state policy for it, where none is asked for.
    pub(crate) fn state(&self) -> Option<State> {
        self.preset.as_ref()?.state
    }

    /// What is masked wherever people read: the environment's secrets, and what the agent is given.
    pub(crate) fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add_environment();
        self.variables()
            .filter(|(_, value)| may_be_secret(value))
            .for_each(|(_, value)| secrets.add(value));
        secrets
    }

    /// Adds to a failure what can be done about it with this agent.
    pub(crate) fn explain(&self, mut failure: Failure) -> Failure {
        let preset = self.preset.as_ref();
        match &failure {
            Failure::Load {
                error: LoadError::SpawnFailed { .. },
                ..
            } => {
                if let Some(install) = preset.and_then(|preset| preset.install.as_ref()) {
                    failure.advise(&format!("To install {}: {install}", self.name));
                } else if self.is_unknown_name {
                    failure.advise(&format!(
                        "There is no agent of the name `{}` either; `acp agents` lists them.",
                        self.name
                    ));
                }
            }
            _ if failure.wants_login() => {
                if let Some(login) = preset.and_then(|preset| preset.login.as_ref()) {
                    failure.advise(&format!("To log in to {}: {login}", self.name));
                }
            }
            _ => {}
        }
        failure
    }

    fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let variables = self.preset.iter().flat_map(|preset| &preset.env);
        variables.map(|(name, value)| (&**name, &**value))
    }
}

/// An agent that runs, until this is dropped.
pub(crate) struct Running {
    agent: Arc<AcpAgent>,
    interrupts: Interrupts,
}

impl Running {
    /// Starts the process.
    pub(crate) fn spawn(options: LoadOptions, interrupts: Interrupts) -> Result<Self, Failure> {
        let agent = interrupts.start_agent(|| AcpAgent::spawn(options).map_err(Failure::load))?;
        Ok(Self { agent, interrupts })
    }

    /// Waits for the answer to `initialize` and opens a session.
    pub(crate) fn open(&self) -> Result<Lane, Failure> {
        self.wait_ready()?;
        self.lane()
    }

    /// Waits for the answer to `initialize`.
    pub(crate) fn wait_ready(&self) -> Result<(), Failure> {
        self.agent
            .wait_ready()
            .map_err(|error| self.load_failure(error))
    }

    /// Opens a session.
    pub(crate) fn lane(&self) -> Result<Lane, Failure> {
        self.agent.lane().map_err(|error| self.load_failure(error))
    }

    pub(crate) fn agent(&self) -> &AcpAgent {
        &self.agent
    }

    pub(crate) fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// Why the agent did not start. Ends it, so that everything it wrote to standard error is there.
    fn load_failure(&self, error: LoadError) -> Failure {
        self.agent.close();
        match self.interrupts.signal() {
            Some(signal) => Failure::Interrupted {
                signal,
                partial: String::new(),
            },
            None => Failure::Load {
                advice: match &error {
                    LoadError::AuthRequired(_) => login_advice(&self.agent.info().auth_methods),
                    _ => String::new(),
                },
                error,
                diagnostics: self.agent.diagnostics(),
            },
        }
    }

    /// Adds what the agent wrote to standard error to the failure of its last turn. Ends it, see
    /// [`Running::load_failure`].
    pub(crate) fn explain(&self, mut failure: Failure) -> Failure {
        self.agent.close();
        if let Failure::Turn { diagnostics, .. } = &mut failure {
            *diagnostics = self.agent.diagnostics();
        }
        failure
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The thread that waits for signals holds the agent too, so its own drop comes too late.
        self.agent.close();
        self.interrupts.agent_ended(&self.agent);
    }
}

fn variable() -> Result<Option<String>, Failure> {
    match env::var(AGENT_VARIABLE) {
        // An empty variable is how shells unset one for a command.
        Ok(line) if line.is_empty() => Ok(None),
        Ok(line) => Ok(Some(line)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(Failure::options(format!("{AGENT_VARIABLE} is not Unicode")))
        }
    }
}
