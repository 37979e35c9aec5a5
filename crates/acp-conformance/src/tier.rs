//! Capabilities and the tiers that require them.

use serde::{Deserialize, Serialize};

/// Something a port may be able to do; the table is in `spec/driver-protocol.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Cancel a running turn.
    Cancel,
    /// Hold several sessions in one process.
    Lanes,
    /// Give up a session whose agent ignores a cancel.
    CancelGrace,
    /// Start the agent's process, and end it with all that it started.
    Process,
    /// Set a session mode at start.
    Mode,
    /// Take a permission policy.
    Permission,
    /// Limit the handshake.
    StartupTimeout,
    /// Limit the silence within a turn.
    IdleTimeout,
    /// Limit a turn.
    Deadline,
    /// Take message content as a list of parts.
    Parts,
    /// Be told that an empty turn is no error.
    AllowEmptyTurn,
    /// Report what was left out of the answer.
    Dropped,
    /// Show the end of the agent's standard error in errors.
    StderrTail,
    /// Tell whether the agent process is alive.
    IsAlive,
    /// Say when the end of a turn waits for late text.
    Settle,
    /// Log in by a configured method.
    Authenticate,
    /// Do without a mode that the agent does not take.
    LenientMode,
    /// Start a new process after a death.
    Restart,
    /// Limit the length of a line.
    MaxLine,
    /// Ask the host about permissions.
    PermissionCallback,
    /// Take a policy for permission requests that are a real choice.
    Choices,
    /// Hand vendors' requests to the host.
    RequestHook,
    /// Tell the messages of an answer apart.
    Messages,
    /// Keep the contract of a model source: render a chat request as the prompt, name in it what
    /// supersedes the prompts before, and take the contract's defaults.
    ModelSource,
    /// Take a state policy: what of a request goes out, and into which session.
    State,
    /// Replace a process in which sessions pile up.
    MaxGivenUpSessions,
    /// Take tools and a response format, and read tool calls from the answer.
    Tools,
    /// Go on with a session that the agent has kept.
    ResumeSession,
    /// Set configuration options of every session.
    ConfigOptions,
    /// Pass MCP servers on to every session.
    McpServers,
    /// Name further directories of every session.
    AdditionalDirectories,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Capability; 31] = [
        Capability::Cancel,
        Capability::Lanes,
        Capability::CancelGrace,
        Capability::Process,
        Capability::Mode,
        Capability::Permission,
        Capability::StartupTimeout,
        Capability::IdleTimeout,
        Capability::Deadline,
        Capability::Parts,
        Capability::AllowEmptyTurn,
        Capability::Dropped,
        Capability::StderrTail,
        Capability::IsAlive,
        Capability::Settle,
        Capability::Authenticate,
        Capability::LenientMode,
        Capability::Restart,
        Capability::MaxLine,
        Capability::PermissionCallback,
        Capability::Choices,
        Capability::RequestHook,
        Capability::Messages,
        Capability::ModelSource,
        Capability::State,
        Capability::MaxGivenUpSessions,
        Capability::Tools,
        Capability::ResumeSession,
        Capability::ConfigOptions,
        Capability::McpServers,
        Capability::AdditionalDirectories,
    ];

    /// The capability's name in the driver protocol.
    pub fn name(self) -> &'static str {
        match self {
            Capability::Cancel => "cancel",
            Capability::Lanes => "lanes",
            Capability::CancelGrace => "cancel_grace",
            Capability::Process => "process",
            Capability::Mode => "mode",
            Capability::Permission => "permission",
            Capability::StartupTimeout => "startup_timeout",
            Capability::IdleTimeout => "idle_timeout",
            Capability::Deadline => "deadline",
            Capability::Parts => "parts",
            Capability::AllowEmptyTurn => "allow_empty_turn",
            Capability::Dropped => "dropped",
            Capability::StderrTail => "stderr_tail",
            Capability::IsAlive => "is_alive",
            Capability::Settle => "settle",
            Capability::Authenticate => "authenticate",
            Capability::LenientMode => "lenient_mode",
            Capability::Restart => "restart",
            Capability::MaxLine => "max_line",
            Capability::PermissionCallback => "permission_callback",
            Capability::Choices => "choices",
            Capability::RequestHook => "request_hook",
            Capability::Messages => "messages",
            Capability::ModelSource => "model_source",
            Capability::State => "state",
            Capability::MaxGivenUpSessions => "max_given_up_sessions",
            Capability::Tools => "tools",
            Capability::ResumeSession => "resume_session",
            Capability::ConfigOptions => "config_options",
            Capability::McpServers => "mcp_servers",
            Capability::AdditionalDirectories => "additional_directories",
        }
    }

    /// The capability of that name.
    pub fn from_name(name: &str) -> Option<Capability> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// What a port is held to. It stands in `port.toml`, because a port that assigned its own tier could
/// make any failure go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The rules of the protocol, for any client.
    Client,
    /// A model source: one agent, one session, a chat request in and text out, with its limits and its
    /// permission policy in the caller's hands.
    ModelSource,
    /// Everything there is.
    Complete,
}

impl Tier {
    /// The tier's name in `port.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Client => "client",
            Tier::ModelSource => "model-source",
            Tier::Complete => "complete",
        }
    }

    /// The capabilities whose absence fails a port of this tier.
    pub fn required(self) -> &'static [Capability] {
        match self {
            Tier::Client => &[],
            Tier::ModelSource => &[
                Capability::ModelSource,
                Capability::Process,
                Capability::Permission,
                Capability::StartupTimeout,
                Capability::Deadline,
            ],
            Tier::Complete => &Capability::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_capabilities_is_the_specification_s() {
        let spec = include_str!("../../../spec/driver-protocol.md");
        let section = spec
            .split("## Capabilities")
            .nth(1)
            .and_then(|rest| rest.split("\n## ").next())
            .unwrap();
        let mut listed: Vec<&str> = section
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'))
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
            .flat_map(|(names, _)| names.split("` `"))
            .collect();
        let mut known: Vec<&str> = Capability::ALL.map(Capability::name).to_vec();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn the_table_of_tiers_is_the_specification_s() {
        let spec = include_str!("../../../spec/driver-protocol.md");
        let required = Tier::ModelSource.required().iter();
        let names: Vec<String> = required.map(|one| format!("`{}`", one.name())).collect();
        let row = format!("| `model-source` | {} |", names.join(", "));
        assert!(spec.contains(&row), "{row}");
        assert_eq!(Tier::Client.required(), []);
        assert_eq!(Tier::Complete.required(), Capability::ALL);
    }

    #[test]
    fn every_name_reads_back() {
        for capability in Capability::ALL {
            assert_eq!(Capability::from_name(capability.name()), Some(capability));
        }
        assert_eq!(Capability::from_name("telepathy"), None);
    }
}
