//! What each subcommand does.

mod advice;
mod agent;
mod bless;
mod find;
pub mod flags;
mod hunt;
mod interrupt;
mod kept;
mod ledger;
mod play;
mod setup;

use std::{
    env,
    error::Error,
    fmt,
    fs::{self, File},
    io::{self, Write as _},
    num::NonZeroUsize,
    path::Path,
    thread,
};

use acp_conformance::{cell::Stage, limits::Limits, transcripts};
use anstyle::{AnsiColor, Style};

use flags::{Cli, Command};

/// How errors are introduced.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default();

/// How many cells are played at once for each processor, unless the command line says otherwise.
const CELLS_PER_PROCESSOR: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Why nothing could be run.
type Fault = Box<dyn Error>;

/// Does what the command line says. False if something is red.
pub fn main(cli: Cli) -> Result<bool, Fault> {
    let command = cli.command.unwrap_or(Command::Run(cli.run));
    // An agent process is steered by its transcript, and knows what signals it is to take.
    if !matches!(command, Command::Relay) {
        interrupt::watch().map_err(|error| format!("signals cannot be watched: {error}"))?;
    }
    match command {
        Command::Run(flags) => play::main(flags),
        Command::Setup(flags) => setup::main(&flags),
        Command::Mutants(flags) => hunt::main(flags),
        Command::Bless(flags) => bless::main(flags),
        Command::Ledger(flags) => ledger::main(flags),
        Command::Agent(flags) => agent::main(flags),
        Command::Unpack { dir } => transcripts::write_built_in(&dir)
            .map(|()| true)
            .map_err(|error| format!("failed to write {}: {error}", dir.display()).into()),
        Command::Relay => Ok(acp_fake_server::relay::run().map(|()| true)?),
    }
}

/// Prints the faults and then the totals.
fn conclude(faults: &[String], totals: &str) -> bool {
    complain(faults);
    let style = if faults.is_empty() { GOOD } else { ERROR };
    say(format_args!(
        "{style}{totals}, {} faults{style:#}",
        faults.len()
    ));
    faults.is_empty()
}

/// Prints faults to standard error.
fn complain(faults: &[String]) {
    for fault in faults {
        anstream::eprintln!("{ERROR}error:{ERROR:#} {fault}");
    }
}

fn stage() -> Result<Stage, Fault> {
    let program = env::current_exe()?;
    let program = program
        .to_str()
        .ok_or("the path of this program is not UTF-8, which the driver protocol needs")?;
    Ok(Stage {
        relay: vec![program.to_owned(), "relay".into()],
        limits: Limits::from_env()?,
    })
}

fn jobs(flags: &flags::Ports) -> NonZeroUsize {
    // A cell waits most of its time, for processes to start, to end and to say nothing. How many processors
    // there are may be unknown; then one cell at a time is always right.
    let usual = || {
        let processors = thread::available_parallelism().ok()?;
        processors.checked_mul(CELLS_PER_PROCESSOR)
    };
    flags.jobs.or_else(usual).unwrap_or(NonZeroUsize::MIN)
}

fn create(path: &Path) -> Result<File, Fault> {
    File::create(parent_made(path)?)
        .map_err(|error| format!("failed to write {}: {error}", path.display()).into())
}

fn parent_made(path: &Path) -> Result<&Path, Fault> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(path)
}

/// Prints one piece of the report. A reader that has left, as `head` does, ends neither the run nor changes
/// its exit code.
fn say(text: fmt::Arguments<'_>) {
    let printed = writeln!(anstream::stdout().lock(), "{text}");
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        anstream::eprintln!("{ERROR}error:{ERROR:#} failed to print the report: {error}");
    }
}
