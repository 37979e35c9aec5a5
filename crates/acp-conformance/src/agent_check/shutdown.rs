//! Checks of the end of the process.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};

use super::{
    Verdict,
    bench::{Bench, Finding, open},
    talk::{Agent, Stop},
    turn::begin_slow,
};

/// How often a process group that should end is looked at. There is no event for its end.
const POLL: Duration = Duration::from_millis(10);

pub(super) fn eof(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let mut agent = bench.ready()?;
    agent.close();
    ended(agent, bench.options.limits.exit)
}

pub(super) fn eof_mid_turn(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let mut agent = bench.ready()?;
    let session = open(&mut agent, bench.options)?;
    let params = bench.prompt(&session.id, &bench.options.prompts.slow);
    begin_slow(&mut agent, &params, bench.options.limits.turn)?;
    agent.close();
    ended(agent, bench.options.limits.exit)
}

pub(super) fn term(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let mut agent = bench.ready()?;
    let pid = i32::try_from(agent.pid()).map_err(std::io::Error::other)?;
    signal::kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(std::io::Error::from)?;
    ended(agent, bench.options.limits.exit)
}

/// Waits for the leader, and then for what it left. All of it is killed afterwards.
fn ended(mut agent: Agent, limit: Duration) -> Result<Finding, Stop> {
    let deadline = Instant::now() + limit;
    let group = agent.pid();
    let Some(_) = agent.wait_for_end(limit)? else {
        agent.drain();
        return Ok(Finding::new(Verdict::Differs, "stays"));
    };
    agent.drain();
    loop {
        let left = members(group);
        if left.is_empty() {
            return Ok(Finding::new(Verdict::Ok, "ends"));
        }
        if Instant::now() >= deadline {
            let outcome = format!("ends, leaves {}", left.len());
            return Ok(Finding::new(Verdict::Differs, outcome).with(left.join(", ")));
        }
        thread::sleep(POLL);
    }
}

/// The names of the processes that run in this group.
fn members(group: u32) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        // Elsewhere than on Linux only whether there are any can be told.
        let pid = i32::try_from(group).map(Pid::from_raw);
        let any = pid.is_ok_and(|pid| signal::killpg(pid, None).is_ok());
        return any.then(|| "a process".to_owned()).into_iter().collect();
    };
    let stats = processes
        .flatten()
        .filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats.filter_map(|stat| member(&stat, group)).collect()
}

/// The name in a line of `/proc/PID/stat`, if that process is of the group and no zombie.
fn member(stat: &str, group: u32) -> Option<String> {
    // The name is in parentheses, and may hold some.
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    let (state, _parent, pgrp) = (fields.next()?, fields.next()?, fields.next()?);
    let runs = !matches!(state, "Z" | "X");
    (runs && pgrp.parse() == Ok(group)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombies_and_processes_of_other_groups_are_no_members() {
        let stat = |state, group| format!("7 (a) b) {state} 1 {group} 1 0 -1 4194560");
        assert_eq!(member(&stat("S", 5), 5), Some("a) b".to_owned()));
        assert_eq!(member(&stat("Z", 5), 5), None);
        assert_eq!(member(&stat("S", 6), 5), None);
        assert_eq!(member("nonsense", 5), None);
    }
}
