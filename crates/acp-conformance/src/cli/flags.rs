//! The command line.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use acp_conformance::transcripts::Transcripts;
use clap::{ArgAction, Args, Parser, Subcommand};

/// The directory in which this repository keeps its ports.
pub const PORTS: &str = "conformance/ports";

/// Runs ACP transcripts against any client and prints the parity matrix.
///
/// Exits 0 when all is green, 1 when something is red, and 2 when nothing could be run; 130, 143 or 129
/// when SIGINT, SIGTERM or SIGHUP ended it, and all that it had started.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: Color,
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: Run,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Play transcripts against ports; the default
    Run(Run),
    /// Fetch what drivers need from their registries, at the versions that their port.toml pins
    Setup(Setup),
    /// Prove that the transcripts can fail: break a port one rule at a time
    Mutants(Mutants),
    /// Correct the `returns` of transcripts by what a run gives, after showing what would change
    ///
    /// Exits 1 when a change was not written, and when a transcript fails for another reason.
    Bless(Bless),
    /// Check that the transcripts, the requirements and the mutants agree, and print each requirement with
    /// what holds it
    Ledger(Ledger),
    /// Check an agent: what it makes of good and of bad input
    ///
    /// Exits 0 when the agent breaks no MUST, 1 when it does, dies or does not answer, and 2 when it cannot be
    /// run. Some checks need a model that does what the prompts say; the defaults are plain enough for real
    /// ones. ACP_TIME_SCALE=3 gives slow agents three times as long for everything.
    Agent(Agent),
    /// Write the built-in transcripts to a directory
    Unpack {
        /// The directory, which must not be there yet
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// The agent process that a client under test starts
    #[command(hide = true)]
    Relay,
}

/// Where the transcripts are.
#[derive(Debug, Args)]
pub struct Fixtures {
    /// The directory of the transcripts [default: fixtures, if there are any in it, or else those that are
    /// built in]
    #[arg(long, value_name = "DIR")]
    pub fixtures: Option<PathBuf>,
    /// Only transcripts whose id contains this; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
}

impl Fixtures {
    /// The transcripts that are meant.
    pub fn transcripts(&self) -> Transcripts {
        match &self.fixtures {
            Some(dir) => Transcripts::Dir(dir.clone()),
            None => Transcripts::in_or_built_in(Path::new("fixtures")),
        }
    }
}

/// How ports are found and cells are played.
#[derive(Debug, Args)]
pub struct Ports {
    /// The directory in which ports are found by name
    #[arg(long, value_name = "DIR", default_value = PORTS)]
    pub ports: PathBuf,
    /// Do not run the ports' build commands
    #[arg(long)]
    pub no_build: bool,
    /// Cells that are played at once [default: three for each processor]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// A port's directory, or its name; may be given several times [default: all ports]
    #[arg(long, value_name = "DIR|NAME")]
    pub port: Vec<String>,
    #[command(flatten)]
    pub fixtures: Fixtures,
    #[command(flatten)]
    pub ports: Ports,
    /// List the transcripts and run nothing; with -v say what each is about
    #[arg(long)]
    pub list: bool,
    /// Print the whole transcript of each failure
    #[arg(long, short)]
    pub verbose: bool,
    #[command(flatten)]
    pub reports: Reports,
}

/// What is written beside the matrix.
#[derive(Debug, Args)]
pub struct Reports {
    /// The requirements that the transcripts cover [default: spec/requirements.toml, where it is there]
    #[arg(long, value_name = "FILE")]
    pub requirements: Option<PathBuf>,
    /// Write the results as JSON Lines
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the results as one HTML page to look around in
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Bring the parity page up to date: Markdown, to be kept with the sources. What this run does not
    /// play stays as it is
    #[arg(long, value_name = "FILE")]
    pub parity: Option<PathBuf>,
    /// Fail if --parity would change the page by more than its date
    #[arg(long, value_name = "FILE", conflicts_with = "parity")]
    pub check_parity: Option<PathBuf>,
    /// Write a badge for each port on the parity page, as SVG and as JSON for badge services
    #[arg(long, value_name = "DIR")]
    pub badges: Option<PathBuf>,
    /// Fail if --badges would change a badge
    #[arg(long, value_name = "DIR", conflicts_with = "badges")]
    pub check_badges: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Setup {
    /// A port's directory or name, or `all`, which skips those whose toolchain is missing
    #[arg(required = true, value_name = "DIR|NAME|all")]
    pub port: Vec<String>,
    /// The directory in which ports are found by name
    #[arg(long, value_name = "DIR", default_value = PORTS)]
    pub ports: PathBuf,
    /// Do it again where it is done already
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Bless {
    /// The ids of the transcripts
    #[arg(value_name = "AREA/BEHAVIOUR", required = true)]
    pub ids: Vec<String>,
    /// Write the changes without asking
    #[arg(long)]
    pub yes: bool,
    /// The directory of the transcripts
    #[arg(long, value_name = "DIR", default_value = "fixtures")]
    pub fixtures: PathBuf,
    /// The port whose word counts, by directory or name
    #[arg(long, value_name = "DIR|NAME", default_value = "rust")]
    pub port: String,
    #[command(flatten)]
    pub ports: Ports,
}

#[derive(Debug, Args)]
pub struct Mutants {
    /// The port that can be broken, by directory or name
    #[arg(long, value_name = "DIR|NAME", default_value = "toy")]
    pub port: String,
    /// The list of mutants
    #[arg(long, value_name = "FILE", default_value = "conformance/mutants.toml")]
    pub mutants: PathBuf,
    /// Only mutants whose name contains this; may be given several times
    #[arg(long, value_name = "TEXT", action = ArgAction::Append)]
    pub mutant: Vec<String>,
    /// Play every transcript against every mutant and print all that catch it
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub fixtures: Fixtures,
    #[command(flatten)]
    pub ports: Ports,
}

#[derive(Debug, Args)]
pub struct Ledger {
    /// The directory of the transcripts
    #[arg(long, value_name = "DIR", default_value = "fixtures")]
    pub fixtures: PathBuf,
    /// The requirements
    #[arg(long, value_name = "FILE", default_value = "spec/requirements.toml")]
    pub requirements: PathBuf,
    /// The list of mutants
    #[arg(long, value_name = "FILE", default_value = "conformance/mutants.toml")]
    pub mutants: PathBuf,
    /// Print also where each requirement comes from, and its transcripts and mutants by name
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print only what is wrong, and the totals
    #[arg(long, short)]
    pub quiet: bool,
    /// Check also that this parity page is of these transcripts, requirements and ports
    #[arg(long, value_name = "FILE")]
    pub parity: Option<PathBuf>,
    /// Check also that the badges in this directory say what the parity page says
    #[arg(long, value_name = "DIR", requires = "parity")]
    pub badges: Option<PathBuf>,
    /// The directory in which ports are found
    #[arg(long, value_name = "DIR", default_value = PORTS)]
    pub ports: PathBuf,
}

#[derive(Debug, Args)]
pub struct Agent {
    /// Only checks whose name contains this; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub check: Vec<String>,
    /// List the checks and what the protocol asks, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Say also of good answers what the protocol asks
    #[arg(long, short)]
    pub verbose: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print a Markdown table of results that --json wrote, and run nothing; may be given several times
    #[arg(long, value_name = "FILE")]
    pub table: Vec<PathBuf>,
    /// The working directory of the sessions [default: a new one, removed afterwards]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// The mode that sessions are put into first, for agents that ask for permission in some only
    #[arg(long, value_name = "ID")]
    pub mode: Option<String>,
    /// Said for a turn that ends by itself
    #[arg(long, value_name = "TEXT", default_value = "Say hello.")]
    pub prompt: String,
    /// Said for a turn that lasts until it is cancelled
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Please go slow: count from 1 to 500 in words, one number a line."
    )]
    pub slow_prompt: String,
    /// Said for a turn in which the agent asks for permission; {cwd} is the working directory
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Please use a tool to write hello into the file path={cwd}/hello.txt"
    )]
    pub tool_prompt: String,
    /// The agent's program and its arguments, after --
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["list", "table"])]
    pub command: Vec<String>,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Makes the choice for the whole process.
    pub fn write_global(self) {
        match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_is_the_default() {
        let cli = Cli::parse_from(["acp-conformance", "--port", "./mine", "--filter", "turn"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.run.port, ["./mine"]);
        let cli = Cli::parse_from(["acp-conformance", "run", "--port", "./mine"]);
        assert!(matches!(cli.command, Some(Command::Run(run)) if run.port == ["./mine"]));
    }
}
