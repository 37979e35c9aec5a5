//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use acp_core::{PermissionPolicy, StatePolicy};
use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};

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
  acp ask --agent 'gemini --acp' 'Explain main.rs'
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
    pub(crate) turn: TurnArgs,
    #[command(flatten)]
    pub(crate) state: StateArgs,
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
    pub(crate) turn: TurnArgs,
    #[command(flatten)]
    pub(crate) state: StateArgs,
}

#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) start: StartArgs,
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
    /// The agent's command line, quoted as for a shell; nothing in it is expanded [default: the
    /// environment variable ACP_AGENT, else a built-in demo agent].
    #[arg(long, value_name = "CMD")]
    pub(crate) agent: Option<String>,
    /// The directory the agent works in [default: this one].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Longest wait for each step of the agent's start, such as 30s or 2m; off is no limit
    /// [default: 2m].
    #[arg(long, value_name = "TIME")]
    pub(crate) startup_timeout: Option<Limit>,
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

/// How turns run.
#[derive(Args)]
pub(crate) struct TurnArgs {
    /// The session mode, by its id; `acp inspect` lists them [default: the agent's own].
    #[arg(long)]
    pub(crate) mode: Option<String>,
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
    /// What of the conversation goes out with a turn, and into which session.
    ///
    /// The default sends an agent least where a conversation grows, and notices where it does not; the
    /// library's is full-request, which is what other clients of the same kind send.
    #[arg(long = "state", value_name = "POLICY", value_enum, default_value_t)]
    pub(crate) policy: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Permission {
    /// The first option that allows, in the agent's order, which may allow for good.
    FirstAllow,
    /// Allow once, where that is offered.
    #[default]
    AllowOnce,
    /// Reject.
    Reject,
}

impl From<Permission> for PermissionPolicy {
    fn from(permission: Permission) -> Self {
        match permission {
            Permission::FirstAllow => Self::FirstAllow,
            Permission::AllowOnce => Self::AllowOnce,
            Permission::Reject => Self::Reject,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum State {
    /// All of it, into the same session, which piles up a copy for each turn.
    #[value(alias = "full_request")]
    FullRequest,
    /// All of it, into a session that was never used.
    #[value(alias = "fresh_session")]
    FreshSession,
    /// What is new, where the session holds exactly the rest; otherwise as fresh-session.
    #[default]
    #[value(alias = "verified_delta")]
    VerifiedDelta,
}

impl From<State> for StatePolicy {
    fn from(state: State) -> Self {
        match state {
            State::FullRequest => Self::FullRequest,
            State::FreshSession => Self::FreshSession,
            State::VerifiedDelta => Self::VerifiedDelta,
        }
    }
}

impl State {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FullRequest => "full-request",
            Self::FreshSession => "fresh-session",
            Self::VerifiedDelta => "verified-delta",
        }
    }
}

/// Which state policies are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchState {
    One(State),
    All,
}

impl ValueEnum for BenchState {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self::One(State::FullRequest),
                Self::One(State::FreshSession),
                Self::One(State::VerifiedDelta),
                Self::All,
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::One(state) => state.to_possible_value(),
            Self::All => Some(PossibleValue::new("all").help("All of these")),
        }
    }
}

/// The size of a prompt, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.char_indices().last() {
            Some((end, 'K' | 'k')) => (&text[..end], 1 << 10),
            Some((end, 'M' | 'm')) => (&text[..end], 1 << 20),
            _ => (text, 1),
        };
        let size: Option<usize> = digits.parse().ok();
        // A line of more than 64 MiB is not read by this library, nor by much else.
        match size.and_then(|size| size.checked_mul(unit)) {
            Some(size @ 1..=0x400_0000) => Ok(Self(size)),
            _ => Err("write it as 17, 12K or 1M, of 64M at most".to_owned()),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            size if size.is_multiple_of(1 << 20) => write!(f, "{} MiB", size >> 20),
            size if size.is_multiple_of(1 << 10) => write!(f, "{} KiB", size >> 10),
            size => write!(f, "{size} bytes"),
        }
    }
}

/// A time limit; `None` is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<Duration>);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        match humantime::parse_duration(text) {
            // 0 is off wherever ACP clients take times as numbers.
            Ok(Duration::ZERO) => Ok(Self(None)),
            Ok(limit) => Ok(Self(Some(limit))),
            Err(error) => Err(format!("{error}; write it as 500ms, 30s, 5m or off")),
        }
    }
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
    fn limits_are_read_with_units() {
        let seconds = |n| Ok(Limit(Some(Duration::from_secs(n))));
        assert_eq!("90s".parse(), seconds(90));
        assert_eq!("1m 30s".parse(), seconds(90));
        assert_eq!("500ms".parse(), Ok(Limit(Some(Duration::from_millis(500)))));
        assert_eq!("off".parse(), Ok(Limit(None)));
        assert_eq!("0s".parse(), Ok(Limit(None)));
        for wrong in ["", "30", "-1s", "soon"] {
            let error = wrong.parse::<Limit>().unwrap_err();
            assert!(error.contains("30s"), "{error}");
        }
    }

    #[test]
    fn sizes_are_read_and_shown_in_binary_units() {
        for (text, size, shown) in [
            ("17", 17, "17 bytes"),
            ("12K", 12 << 10, "12 KiB"),
            ("1m", 1 << 20, "1 MiB"),
            ("64M", 64 << 20, "64 MiB"),
        ] {
            assert_eq!(text.parse(), Ok(Size(size)));
            assert_eq!(Size(size).to_string(), shown);
        }
        for wrong in [
            "",
            "0",
            "K",
            "-1",
            "1G",
            "65M",
            "99999999999999999999M",
            "1µ",
        ] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
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
