//! Checks of the end of the process.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};

use super::{
    Verdict,
    bench::{Bench, Finding, open},
    left::Left,
    talk::{Agent, Stop},
    turn::begin_slow,
};

/// How often what should end is looked for. There is no event for its end.
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

/// Waits for the leader, and then for what it left, in its process group or outside of it. All of it is killed afterwards.
fn ended(mut agent: Agent, limit: Duration) -> Result<Finding, Stop> {
    let deadline = Instant::now() + limit;
    let Some(_) = agent.wait_for_end(limit)? else {
        agent.drain();
        return Ok(Finding::new(Verdict::Differs, "stays"));
    };
    agent.drain();
    loop {
        let left = agent.left();
        if left.is_empty() {
            return Ok(Finding::new(Verdict::Ok, "ends"));
        }
        if Instant::now() >= deadline {
            let detail: Vec<String> = left.iter().map(Left::describe).collect();
            let outcome = format!("ends, leaves {}", left.len());
            return Ok(Finding::new(Verdict::Differs, outcome).with(detail.join(", ")));
        }
        thread::sleep(POLL);
    }
}
