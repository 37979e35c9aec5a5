//! The command line.

mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};

pub(crate) use values::{BenchState, Format, Limit, Permission, Setting, Size, State};

const EXIT_CODES: &str = "\
Exit codes:
  0    well, or the reader of standard output wanted no more
  1    the turn failed, or standard output could not be written
  2    the command line, or an option in it, cannot work
  3    the agent could not be started, or opened no session
  130  ended by Ctrl-C; 143 by SIGTERM, 129 by SIGHUP";

const EXAMPLES: &str = "\
Examples:
  acp ask 'Hello?'                                 the built-in demo agent: nothing to install
  acp agents                                       the agents that are known by name
  acp ask --agent gemini 'Explain main.rs'
  export ACP_AGENT='npx -y @agentclientprotocol/claude-agent-acp'
  git diff | acp ask --permission reject -
  acp ask --format json 'Hello?' | jq .timings
  acp inspect
  acp bench
  acp chat";

const BENCH_EXAMPLES: &str = "\
Examples:
  acp bench --agent 'gemini --acp' --sizes 17,12K
  acp bench --agent 'gemini --acp' --sizes 17 --turns 20 --state all --svg bench.svg";

const AGENTS_FILES: &str = "\
An agent's name stands for its command line where --agent or ACP_AGENT is one word without a slash.
To those that are built in, one file adds others, or changes them: that of --agents, else of
ACP_AGENTS, else $XDG_CONFIG_HOME/acp/agents.toml, else ~/.config/acp/agents.toml. It is like this:

  [gemini]                         # no command: these keys, and the others as they are built in
  env = { GEMINI_API_KEY = \"…\" }

  [mine]                           # with a command: an agent of its own
  command = [\"/opt/mine/bin/agent\", \"--acp\"]
  title = \"My agent\"
  state = \"full-request\"           # as --state; also: install, login, notes, docs, verified";

const RECORD_EXAMPLES: &str = "\
Examples:
  acp ask --agent 'acp record --out r.jsonl -- gemini --acp' 'Hello?'
  acp-fake-server distill r.jsonl --id turn/gemini-says-hello";

/// Ask any agent that speaks the Agent Client Protocol (ACP).
///
/// Answers go to standard output, everything else to standard error.
#[derive(Parser)]
#[command(name = "acp", version, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    /// Use no colour, as with the environment variable NO_COLOR.
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Ask one question and print the answer as it comes.
    ///
    /// Ctrl-C cancels the turn; a second one ends the agent at once, as does the first after five seconds.
    #[command(after_help = EXIT_CODES)]
    Ask(Ask),
    /// List the agents that are known by name, and whether each is installed.
    #[command(after_help = AGENTS_FILES)]
    Agents(Agents),
    /// Hold a conversation with one warm agent, a line at a time.
    ///
    /// Ctrl-C cancels the turn that runs; between turns it ends the conversation, as Ctrl-D does. A
    /// warm turn is shorter than a first one by the agent's start-up, which is paid once; ACP itself
    /// makes no agent faster.
    #[command(after_help = EXIT_CODES)]
    Chat(Chat),
    /// Show what an agent says of itself, and how long its start takes.
    ///
    /// The start-up times are the agent's own. A warm session pays them once instead of with every
    /// turn; ACP itself makes no agent faster.
    #[command(after_help = EXIT_CODES)]
    Inspect(Inspect),
    /// Measure whether a warm session pays for an agent: cold starts against warm turns.
    ///
    /// A cold start is a process, initialize, session/new, one prompt and the end of the process; a warm turn
    /// is a prompt in a conversation that goes on. They are taken in turns, so that both meet the same
    /// machine, and so is the built-in demo agent, which does nothing: what it takes is the protocol's part.
    /// What a warm session saves is the agent's own start-up; ACP itself makes no agent faster.
    ///
    /// Every sample is a prompt that the agent's model answers, and is paid for. For each size that is twice
    /// the number of samples and one more, and with each further state policy as many again as there are
    /// samples, and one more.
    #[command(after_help = format!("{BENCH_EXAMPLES}\n\n{EXIT_CODES}"))]
    Bench(Bench),
    /// Stand between any client and a real agent, and write down what goes over the wire.
    ///
    /// The client starts `acp record -- AGENT ARGS` where it would start AGENT ARGS. Nothing changes for
    /// either: this process becomes the agent, with its exit status and its signals, and another one
    /// passes on standard input, output and error byte for byte. Lines are written as they pass, with
    /// secrets masked; `acp-fake-server distill` makes a transcript of the file.
    #[command(after_help = RECORD_EXAMPLES)]
    Record(Record),
    /// Pass on the wire of an agent that is recorded.
    #[command(hide = true)]
    RecordWire(RecordWire),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Be the demo agent, which says back what it is asked.
    #[command(hide = true)]
    DemoAgent,
}

#[derive(Args)]
pub(crate) struct Ask {
    #[command(flatten)]
    pub(crate) start: StartArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
    #[command(flatten)]
    pub(crate) state: StateArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Ask for an answer that is a JSON value. A reply that is none is asked for once more, twice at most.
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask for JSON in the form of the JSON Schema in this file. That it is JSON is made sure of; that it has
    /// this form is not.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) json_schema: Option<PathBuf>,
    /// What is printed on standard output: the text as it comes, or one JSON object at the end.
    ///
    /// Of its `timings`, in milliseconds, `initialize_ms` and `session_ms` are the agent's own
    /// start-up, which a warm session pays once; ACP itself makes no agent faster.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The question; `-` reads it from standard input.
    pub(crate) prompt: String,
}

#[derive(Args)]
pub(crate) struct Chat {
    #[command(flatten)]
    pub(crate) start: StartArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
    #[command(flatten)]
    pub(crate) state: StateArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[derive(Args)]
pub(crate) struct Agents {
    #[command(flatten)]
    pub(crate) file: AgentsFileArgs,
    /// Only these.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// What is printed on standard output.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) start: StartArgs,
    #[command(flatten)]
    pub(crate) setting: SettingArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// What is printed on standard output.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) start: StartArgs,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
    /// Samples of each kind: cold starts, and warm turns after the first.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) turns: u16,
    /// The state policies of the warm turns, compared side by side; `all` is all of them.
    #[arg(
        long = "state",
        visible_alias = "policy",
        value_name = "POLICY",
        value_delimiter = ',',
        value_enum,
        default_value = "verified-delta"
    )]
    pub(crate) states: Vec<BenchState>,
    /// The sizes of the prompts in bytes, smallest first; K and M stand for KiB and MiB.
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        default_value = "17,12K,1M"
    )]
    pub(crate) sizes: Vec<Size>,
    /// What is printed on standard output.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Write all samples to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw a chart into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Record {
    /// A regular file, which is added to where it exists: a client may start its agent again, or several.
    #[arg(long, value_name = "FILE", default_value = "acp-recording.jsonl")]
    pub(crate) out: PathBuf,
    /// The agent and its arguments.
    #[arg(last = true, required = true, value_name = "AGENT")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct RecordWire {
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// The agent's standard input, output and error, as numbers of file descriptors.
    #[arg(long, value_delimiter = ',')]
    pub(crate) pipes: Vec<i32>,
    /// Go on in a process that nobody waits for.
    #[arg(long)]
    pub(crate) detach: bool,
    #[arg(last = true)]
    pub(crate) command: Vec<OsString>,
}

/// How the agent is started.
#[derive(Args)]
pub(crate) struct StartArgs {
    /// The agent: a name that `acp agents` lists, or else its command line, quoted as for a shell; nothing in
    /// it is expanded [default: the environment variable ACP_AGENT, else a built-in demo agent].
    #[arg(long, value_name = "NAME|CMD")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) file: AgentsFileArgs,
    /// The directory the agent works in [default: this one].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The method to log in with if the agent wants that, by its id; `acp inspect` lists them.
    #[arg(long, value_name = "METHOD")]
    pub(crate) authenticate: Option<String>,
    /// Longest wait for each step of the agent's start, such as 30s or 2m; off is no limit
    /// [default: 2m].
    #[arg(long, value_name = "TIME")]
    pub(crate) startup_timeout: Option<Limit>,
}

/// Where agents get their names.
#[derive(Args)]
pub(crate) struct AgentsFileArgs {
    /// Names for agents, beside the built-in ones; `acp help agents` shows its form [default: the environment
    /// variable ACP_AGENTS, else acp/agents.toml in the directory for configuration].
    #[arg(long, value_name = "FILE")]
    pub(crate) agents: Option<PathBuf>,
}

/// What a session is.
#[derive(Args)]
pub(crate) struct SessionArgs {
    /// Go on with this session of before; fail if the agent cannot. `--format json` shows the id of a session.
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) resume: Option<String>,
    /// Go on with this session of before, or begin a new one if the agent cannot.
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) resume_or_new: Option<String>,
    /// Give the session the MCP servers of this JSON file, an object with `mcpServers` as other MCP clients
    /// have it; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp: Vec<PathBuf>,
    /// Give the session this directory besides the one that the agent works in; may be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
}

/// What is shown beside the answer.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Show what the agent does as well, on standard error: thoughts, tool calls, plans, permissions, usage.
    #[arg(long, short, visible_alias = "events")]
    pub(crate) verbose: bool,
}

/// What is written down of the wire.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Write every line to and from the agent to this file, one JSON object each: the time in
    /// milliseconds, the direction (c2a or a2c) and the line, with secrets masked. Your questions and the
    /// answers are in it.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

/// What a session is set to.
#[derive(Args)]
pub(crate) struct SettingArgs {
    /// The session mode, by its id; `acp inspect` lists them [default: the agent's own].
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Set a configuration option of the session; may be given several times. `true` and `false` are sent as
    /// booleans, all else as text, and so is what stands in double quotes. `acp inspect` lists the options.
    #[arg(long = "config", value_name = "ID=VALUE")]
    pub(crate) settings: Vec<Setting>,
}

/// How turns run.
#[derive(Args)]
pub(crate) struct TurnArgs {
    #[command(flatten)]
    pub(crate) setting: SettingArgs,
    /// How the agent's permission requests are answered.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) permission: Permission,
    /// Longest silence of the agent in a turn, six times as long while it runs a tool; off is no limit
    /// [default: 5m].
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<Limit>,
    /// Longest time for a turn [default: off].
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Limit>,
}

/// What of a conversation goes to the agent.
#[derive(Args)]
pub(crate) struct StateArgs {
    /// What of the conversation goes out with a turn, and into which session [default: what the agents file
    /// says, else verified-delta; with --resume it is full-request, and can be nothing else].
    ///
    /// The default sends an agent least where a conversation grows, and notices where it does not; the
    /// library's is full-request, which is what other clients of the same kind send.
    #[arg(long = "state", value_name = "POLICY", value_enum)]
    pub(crate) policy: Option<State>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_in_the_help_are_those_of_the_library() {
        let options = acp_core::LoadOptions::new(["agent"]);
        let shown = format!("{options:?}");
        for limit in [
            "startup_timeout: Some(120s)",
            "idle_timeout: Some(300s)",
            "deadline: None",
        ] {
            assert!(shown.contains(limit), "{limit} is not in {shown}");
        }
    }
}
