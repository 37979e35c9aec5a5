//! Which agent a spike asks.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use acp_fake_server::agents::Builtin;
use acp_mock_model::Script;
use clap::Args;

use crate::builtin;
use crate::program::Program;
use crate::real::{Home, Recipe};

/// The arguments that say so.
#[derive(Debug, Args)]
pub struct Which {
    /// A real agent, by its name in `conformance/agents/pins.toml`; `cargo xtask agents --setup` installs it.
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    agent: Option<String>,
    /// Any agent, and its arguments [default: one of the fake server's own].
    #[arg(last = true, value_name = "AGENT")]
    command: Vec<OsString>,
}

/// An agent, and what must be there as long as it runs.
#[derive(Debug)]
pub struct Agent {
    /// How it is started.
    pub program: Program,
    _home: Option<Home>,
}

impl Which {
    /// Whether it is one of the fake server's own, whose every answer is known.
    pub fn is_builtin(&self) -> bool {
        self.agent.is_none() && self.command.is_empty()
    }

    /// The agent: this one of the fake server's own, if no other is named. A real one has a model with this
    /// script.
    ///
    /// # Errors
    ///
    /// If it is not installed.
    pub fn agent(&self, own: Builtin, script: Script) -> io::Result<Agent> {
        if let Some(name) = &self.agent {
            let home = Home::new(&Recipe::named(name)?, script)?;
            return Ok(Agent {
                program: home.program(),
                _home: Some(home),
            });
        }
        let program = if self.command.is_empty() {
            builtin::program(own, "strict", Duration::ZERO)?
        } else {
            Program {
                command: self.command.clone(),
                env: None,
                cwd: std::env::current_dir()?,
                mode: None,
            }
        };
        Ok(Agent {
            program,
            _home: None,
        })
    }
}
