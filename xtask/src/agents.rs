//! `cargo xtask agents`: real agents, driven against a mock model.
//!
//! - `pins`: which agents, at which versions
//! - `install`: from their registries into a directory
//! - `place`: a private home, a scrubbed environment
//! - `drive`: the steps that every agent is taken through
//! - `states`: the state policies, and what of each reaches the model
//! - `tools`: a loop of turns with tools of the host
//! - `table`: what came of it

mod drive;
mod install;
mod pins;
mod place;
mod states;
mod table;
mod tools;

use std::{env, path::Path, thread};

use crate::flags::Agents;
use drive::Row;
use install::Store;
use pins::{Agent, Answers, Pins};
use place::Place;

/// Names another directory for installed agents than `TARGET/agents`.
const STORE: &str = "ACP_AGENTS_DIR";

/// Installs agents, or drives them and prints a table. False if a step of one failed.
pub fn run(flags: &Agents, root: &Path, target: &Path) -> Result<bool, String> {
    let pins = Pins::read(root)?;
    let store = match env::var_os(STORE) {
        Some(dir) => Store::new(dir, root),
        None => Store::new(target.join("agents"), root),
    };
    if !flags.setup.is_empty() {
        let chosen = pins.select(&flags.setup)?;
        return Ok(set_up(&store, &chosen));
    }
    let chosen = match flags.quick {
        true => pins.quick(),
        false => pins.select(&flags.names)?,
    };
    // What cannot be installed here for want of a program is skipped below.
    let possible: Vec<_> = chosen
        .iter()
        .copied()
        .filter(|agent| agent.missing().is_empty())
        .collect();
    let installed = !flags.quick || set_up(&store, &possible);
    let rows: Vec<Row> = chosen
        .into_iter()
        .map(|agent| match store.unavailable(agent) {
            Some(why) => Row::skipped(agent, why),
            None => drive_all(&store, agent),
        })
        .inspect(table::print_progress)
        .collect();
    if rows.iter().all(Row::is_skipped) {
        table::print_reasons(&rows);
        return Err("no agent is installed here, so nothing was driven".into());
    }
    table::print(&rows);
    Ok(installed && !rows.iter().any(Row::has_failed))
}

/// Installs those that are not. False if one could not be.
fn set_up(store: &Store, agents: &[&Agent]) -> bool {
    let mut all = true;
    for agent in agents {
        if store.unavailable(agent).is_none() {
            continue;
        }
        eprintln!("installing {}: {}", agent.name, agent.pin.agent);
        if let Err(why) = store.install(agent) {
            eprintln!("error: {}: {why}", agent.name);
            all = false;
        }
    }
    all
}

/// The steps in one process, and each state policy in one of its own.
///
/// They run one after the other, so that their times are the agent's; but an agent whose turns are a script with
/// sleeps in it is waited for all at once.
fn drive_all(store: &Store, agent: &Agent) -> Row {
    let place = || Place::new(agent, store);
    let mut row = Row::new(agent);
    if agent.pin.answers == Answers::Fixed {
        thread::scope(|scope| {
            let states = states::POLICIES
                .map(|policy| scope.spawn(move || (policy, states::drive(agent, place(), policy))));
            drive::drive(agent, place(), &mut row);
            for state in states {
                match state.join() {
                    Ok((policy, cell)) => row.set(policy.step(), cell),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    } else {
        drive::drive(agent, place(), &mut row);
        for policy in states::POLICIES {
            row.set(policy.step(), states::drive(agent, place(), policy));
        }
    }
    row.set(drive::Step::Tools, tools::drive(agent, place()));
    row
}

#[cfg(test)]
mod tests;
