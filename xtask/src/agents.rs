//! `cargo xtask agents`: real agents, driven against a mock model.
//!
//! - `pins`: which agents, at which versions
//! - `install`: from their registries into a directory
//! - `place`: a private home, a scrubbed environment
//! - `drive`: the steps that every agent is taken through
//! - `states`: the state policies, and what of each reaches the model
//! - `table`: what came of it

mod drive;
mod install;
mod pins;
mod place;
mod states;
mod table;

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
        for agent in pins.select(&flags.setup)? {
            set_up(&store, agent)?;
        }
        return Ok(true);
    }
    let chosen = match flags.quick {
        true => pins.quick(),
        false => pins.select(&flags.names)?,
    };
    if flags.quick {
        // What cannot be installed here for want of a program is skipped below.
        for agent in chosen.iter().filter(|agent| agent.missing().is_empty()) {
            set_up(&store, agent)?;
        }
    }
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
    Ok(!rows.iter().any(Row::has_failed))
}

fn set_up(store: &Store, agent: &Agent) -> Result<(), String> {
    if store.unavailable(agent).is_none() {
        return Ok(());
    }
    eprintln!("installing {}: {}", agent.name, agent.pin.agent);
    store
        .install(agent)
        .map_err(|why| format!("{}: {why}", agent.name))
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
    row
}

#[cfg(test)]
mod tests;
