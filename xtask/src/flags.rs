//! The command line of `cargo xtask`.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

/// The project's own tasks. What they do is in the crates; here they are only put together.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
pub struct Xtask {
    #[command(subcommand)]
    pub task: Task,
}

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Build all ports and play every transcript against them, and then the mutants
    Conformance(Conformance),
    /// Check the transcripts, or begin a new one
    #[command(subcommand)]
    Fixtures(Fixtures),
    /// Check that requirements, transcripts, mutants and the parity page agree, and print each requirement with
    /// what holds it
    Spec {
        /// Print also where each comes from, and its transcripts and mutants by name
        #[arg(long, short)]
        verbose: bool,
    },
    /// Drive real agents against a mock model: turns, a tool, a cancel, the end, and each state policy
    ///
    /// Nothing leaves the machine but what an agent does on its own account: each has a home of its own that is removed
    /// afterwards, none of your environment but `PATH`, and a model on loopback.
    ///
    /// Agents are installed into `agents` in the target directory, or into $ACP_AGENTS_DIR. Exits 1 when a step of one
    /// fails, and 2 when none could be driven.
    Agents(Agents),
    /// Run warm agents for a long time and look for what they leave: calls, processes, threads, memory
    Soak {
        /// Repeats a run [default: another one each time]
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Compare acp-core with other clients and with a floor written by hand; -h for its own flags
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
pub struct Conformance {
    /// A port's directory, or its name; may be given several times [default: all ports]
    #[arg(long, value_name = "DIR|NAME")]
    pub port: Vec<String>,
    /// Fetch what a port's driver needs from its registry, and run nothing; may be given several times
    #[arg(long, value_name = "DIR|NAME|all", conflicts_with_all = ["port", "filter", "list"])]
    pub setup: Vec<String>,
    /// Only transcripts whose id contains this; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// List the transcripts and run nothing; with -v say what each is about
    #[arg(long)]
    pub list: bool,
    /// Print the whole transcript of each failure
    #[arg(long, short)]
    pub verbose: bool,
    /// Cells that are played at once [default: three for each processor]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<String>,
    /// Bring the parity page and the badges up to date. A run of everything without it checks that they are
    #[arg(long, conflicts_with = "list")]
    pub parity: bool,
    /// Hunt the mutants, too, although only some ports or transcripts are played
    #[arg(long, overrides_with = "no_mutants")]
    pub mutants: bool,
    /// Do not hunt the mutants
    #[arg(long)]
    pub no_mutants: bool,
    /// Play every transcript against every mutant
    #[arg(long)]
    pub full: bool,
}

impl Conformance {
    /// Whether every transcript is played against every port that can be run.
    pub fn is_of_everything(&self) -> bool {
        !self.list && self.port.is_empty() && self.filter.is_empty()
    }

    /// Whether the mutants are hunted: in a run of everything, and wherever it is asked for.
    pub fn hunts(&self) -> bool {
        let wanted = self.is_of_everything() || self.mutants || self.full;
        !self.list && !self.no_mutants && wanted
    }
}

#[derive(Debug, Args)]
pub struct Agents {
    /// Agents, as they are called in conformance/agents/pins.toml [default: all]; those that are not installed are
    /// skipped
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Install an agent at its pinned version, and drive none; may be given several times
    #[arg(long, value_name = "NAME|all", conflicts_with_all = ["names", "quick"])]
    pub setup: Vec<String>,
    /// The agents that install in seconds and need no model; they are installed first where they are not
    #[arg(long, conflicts_with = "names")]
    pub quick: bool,
}

#[derive(Debug, Subcommand)]
pub enum Fixtures {
    /// Check that every transcript can be read, covers a requirement and is failed by a mutant
    Check,
    /// Correct the `returns` of transcripts by what the rust port gives, after showing what would change
    Bless {
        /// Their ids
        #[arg(value_name = "AREA/BEHAVIOUR", required = true)]
        ids: Vec<String>,
        /// Write the changes without asking
        #[arg(long)]
        yes: bool,
    },
    /// Write the beginning of a new transcript
    New {
        /// Its id
        #[arg(value_name = "AREA/BEHAVIOUR")]
        id: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Xtask::command().debug_assert();
    }

    #[test]
    fn mutants_are_hunted_in_a_run_of_everything() {
        let hunts = |args: &[&str]| {
            let args = ["xtask", "conformance"].iter().chain(args);
            match Xtask::parse_from(args).task {
                Task::Conformance(flags) => flags.hunts(),
                task => panic!("{task:?}"),
            }
        };
        assert!(hunts(&[]));
        assert!(!hunts(&["--filter", "turn"]));
        assert!(hunts(&["--filter", "turn", "--mutants"]));
        assert!(!hunts(&["--no-mutants"]));
        assert!(!hunts(&["--list"]));
    }
}
