//! The harness of `cargo xtask bench`: starts the clients one after the other, in another order each round, and
//! compares what they report.

mod cargo;
mod clients;
mod figures;
mod place;
mod plot;
mod report;
mod run;
mod table;
mod works;

use std::{fs, path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::{
    cargo::Cargo,
    clients::{Client, Peers},
    place::{Cpus, Placement},
    report::{Machine, Report},
    run::Runner,
    works::{Kind, WORKS, Work},
};

/// Compare acp-core with other ACP clients and with a floor written by hand, on the same work
///
/// All talk to one fast agent. Each measurement is a process of its own; the clients take turns, in another order each
/// round. What counts are ratios within a round, given as the median over the rounds with the least and the greatest:
/// absolute times depend on the machine and on who else uses it.
///
/// Exits 1 if a client of ours fails or text is missing. A target that is missed is said, and is no failure.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    max_term_width = 120
)]
struct Flags {
    /// What to measure, by the names that --list prints [default: all]
    works: Vec<String>,
    /// Print what can be measured, with its targets, and measure nothing
    #[arg(long)]
    list: bool,
    /// Which other clients are measured; those that are not set up are named and left out
    #[arg(long, value_enum, default_value_t = Peers::Rust)]
    peers: Peers,
    /// How often each client is measured [default: as many as each work needs]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Bind client and agent otherwise than each work says
    #[arg(long, value_enum)]
    placement: Option<Placement>,
    /// Do everything once and little of it, in a debug build, to see that it works; times mean nothing then
    #[arg(long)]
    smoke: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the ratios as a picture
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Draw the picture of earlier results, and measure nothing
    #[arg(long, value_name = "FILE", requires = "plot", conflicts_with_all = ["works", "json", "smoke"])]
    from: Option<PathBuf>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    match run(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(flags: &Flags) -> Result<bool, String> {
    if flags.list {
        print!("{}", table::of_works());
        return Ok(true);
    }
    if let Some(from) = &flags.from {
        let text =
            fs::read_to_string(from).map_err(|error| format!("{}: {error}", from.display()))?;
        let report =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", from.display()))?;
        return write_plot(flags, &report).map(|()| true);
    }
    let works = chosen(&flags.works)?;
    let cargo = Cargo::find(flags.smoke)?;
    let cpus = Cpus::of_this_process()?;
    let is_process = |work: &&Work| matches!(work.kind, Kind::Processes { .. });
    let clients = match works.iter().any(is_process) {
        true => clients::find(flags.peers, &cargo),
        false => Vec::new(),
    };
    let runner = Runner {
        clients: &clients,
        cpus,
        cargo: &cargo,
        smoke: flags.smoke,
        rounds: flags.rounds,
        placement: flags.placement,
    };
    let mut report = Report::new(Machine::now(flags.smoke));
    for work in works {
        let Some(result) = runner.measure(work)? else {
            continue;
        };
        print!("{}", table::of_result(&result, flags.smoke));
        report.works.push(result);
        // After each, so that a run that is broken off has something to show for it.
        report.judge();
        write(flags, &report)?;
    }
    print!("{}", table::of_targets(&report));
    let ours = |name: &str| {
        clients
            .iter()
            .any(|client: &Client| client.name == name && client.ours)
    };
    Ok(!report.failures().any(|(client, _)| ours(client)))
}

fn write(flags: &Flags, report: &Report) -> Result<(), String> {
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    }
    write_plot(flags, report)
}

fn write_plot(flags: &Flags, report: &Report) -> Result<(), String> {
    let Some(path) = &flags.plot else {
        return Ok(());
    };
    fs::write(path, plot::svg(report)).map_err(|error| format!("{}: {error}", path.display()))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Work>, String> {
    for name in names {
        if !WORKS.iter().any(|work| work.is_meant_by(name)) {
            return Err(format!("there is no work `{name}`; --list prints all"));
        }
    }
    let meant = |work: &&Work| names.is_empty() || names.iter().any(|name| work.is_meant_by(name));
    Ok(WORKS.iter().filter(meant).collect())
}
