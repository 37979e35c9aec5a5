//! The `acp` command: any ACP agent, from the command line.
//!
//! In reading order:
//!
//! - [`cli`]: the command line
//! - [`failure`]: what can go wrong, and the exit codes
//! - [`terminal`]: standard output and standard error, plain or coloured, and the spinner
//! - [`interrupt`]: the first Ctrl-C and the second
//! - [`presets`], [`program`]: agents that are known by name, and where their programs are
//! - [`agent`]: which agent, and how it is started
//! - [`session`], [`mcp`]: what its session is given
//! - [`trace`]: the wire, in a file
//! - [`activity`], [`turn`]: one turn, shown as it comes
//! - [`ask`], [`chat`], [`inspect`], [`agents`]: the commands
//! - [`mod@bench`]: whether a warm session pays
//! - [`record`]: between a client and its agent

mod activity;
mod agent;
mod agents;
mod ask;
mod bench;
mod chat;
mod cli;
mod failure;
mod inspect;
mod interrupt;
mod mcp;
mod presets;
mod program;
mod record;
mod session;
mod terminal;
mod trace;
mod turn;

use std::io;
use std::process::ExitCode;

use acp_fake_server::agents::{Builtin, serve};
use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.no_color {
        anstream::ColorChoice::Never.write_global();
    }
    match trace::start(&cli.trace).and_then(|()| run(&cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Ask(args) => ask::run(args),
        Command::Agents(args) => agents::run(args),
        Command::Chat(args) => chat::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Record(args) => record::run(args),
        Command::RecordWire(args) => record::wire::run(args),
        Command::Completions { shell } => completions(*shell),
        Command::DemoAgent => demo_agent(),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    // Built anew, because clap_complete offers hidden commands as well.
    let cli = Cli::command();
    let shown = cli
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let mut shown = clap::Command::new("acp")
        .version(env!("CARGO_PKG_VERSION"))
        .args(cli.get_arguments().cloned())
        .subcommands(shown.cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "acp", &mut script);
    terminal::print(&script).map_err(Failure::Output)
}

fn demo_agent() -> Result<(), Failure> {
    serve(Builtin::Echo, io::stdin().lock(), io::stdout().lock()).map_err(Failure::Output)
}
