//! An agent's command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use acp_core::LoadOptions;

/// How an agent is started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// All of its environment; `None` is ours.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// Where it works.
    pub cwd: PathBuf,
    /// The session mode in which it asks for permission, if that is not its own.
    pub mode: Option<String>,
}

impl Program {
    /// For this library.
    pub fn options(&self) -> LoadOptions {
        let mut options = LoadOptions::new(&self.command).cwd(&self.cwd);
        if let Some(env) = &self.env {
            for (name, _) in std::env::vars_os() {
                options = options.env_remove(name);
            }
            for (name, value) in env {
                options = options.env(name, value);
            }
        }
        options
    }

    /// For a client that does less.
    pub fn command(&self) -> Command {
        let mut words = self.command.iter();
        let mut command = Command::new(words.next().map_or_else(OsString::new, Clone::clone));
        command.args(words).current_dir(&self.cwd);
        if let Some(env) = &self.env {
            command.env_clear().envs(env.iter().cloned());
        }
        command
    }
}
