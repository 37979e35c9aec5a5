//! Runs warm agents for a long time and looks for what is left: `cargo xtask soak`.
//!
//! Four bounded parts, on real processes: turns on one process, cancels at random moments, deaths at random
//! points, and open/close cycles with a launcher. Every call must end as it should, and afterwards threads,
//! file descriptors, processes and memory must be back to where they were. The program is its own agent.

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own, with clocks, threads and processes"
)]

mod agent;
mod machine;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use acp_core::{AcpModel, GenerateRequest, LoadOptions, TurnOptions, load_acp};
use machine::{Counts, Random, group_members};

/// How much each part does.
struct Sizes {
    turns: usize,
    cancels: usize,
    deaths: usize,
    cycles: usize,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "agent") {
        agent::serve();
        return ExitCode::SUCCESS;
    }
    let seed = match args.as_slice() {
        [] => u64::from(std::process::id()),
        [flag, seed] if flag == "--seed" => match seed.parse() {
            Ok(seed) => seed,
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    let sizes = Sizes {
        turns: 20_000,
        cancels: 2_000,
        deaths: 300,
        cycles: 200,
    };
    println!("seed {seed}");
    match soak(&sizes, &mut Random::new(seed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            println!("FAILED: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: soak [--seed N]");
    ExitCode::from(2)
}

fn soak(sizes: &Sizes, random: &mut Random) -> Result<(), String> {
    // What is only allocated once is there before anything is counted.
    load(&[])?
        .generate(&ask("warm up"))
        .map_err(|error| error.to_string())?;
    let before = Counts::now();
    println!("before: {before}");
    part("turns", || turns(sizes.turns))?;
    part("cancels", || cancels(sizes.cancels, random))?;
    part("deaths", || deaths(sizes.deaths, random))?;
    part("cycles", || cycles(sizes.cycles))?;
    let after = Counts::settled(&before);
    println!("after:  {after}");
    before.compare(&after)
}

fn part(name: &str, run: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
    let started = Instant::now();
    let figures = run().map_err(|fault| format!("{name}: {fault}"))?;
    println!(
        "{name}: {figures}, {:.1} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Turns on one process and one session, one after the other.
fn turns(count: usize) -> Result<String, String> {
    let model = load(&[])?;
    let mut times = Vec::with_capacity(count);
    let rss = machine::resident_kib();
    for i in 0..count {
        let question = format!("turn {i}");
        let started = Instant::now();
        let answer = model
            .generate(&ask(&question))
            .map_err(|error| format!("turn {i}: {error}"))?;
        times.push(started.elapsed());
        if answer.content != format!("echo {question}") {
            return Err(format!("turn {i} was answered by {:?}", answer.content));
        }
    }
    let window = (count / 20).max(1);
    let (first, last) = (p99(&times[..window]), p99(&times[count - window..]));
    let grown = machine::resident_kib().saturating_sub(rss);
    if grown > 8 * 1024 {
        return Err(format!("memory grew by {grown} KiB"));
    }
    // A noisy machine moves a p99 about; what grows with the turns grows by more than this.
    if last > first.max(Duration::from_millis(1)) * 5 {
        return Err(format!("the p99 of a turn rose from {first:?} to {last:?}"));
    }
    Ok(format!(
        "{count} turns on one process, p99 of the first {window} {first:?} and of the last {last:?}, \
         memory +{grown} KiB"
    ))
}

/// Cancels at random moments: before the prompt is out, while text comes, and when the turn is over.
fn cancels(count: usize, random: &mut Random) -> Result<String, String> {
    let model = load(&[])?;
    let (mut cancelled, mut answered) = (0, 0);
    for i in 0..count {
        let slow = random.below(2) == 0;
        let question = if slow {
            format!("slow {i}")
        } else {
            format!("quick {i}")
        };
        let turn = model
            .start(&ask(&question), TurnOptions::default())
            .map_err(|error| format!("turn {i}: {error}"))?;
        let wait = Duration::from_micros(random.below(if slow { 3_000 } else { 200 }));
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        turn.cancel();
        match turn.wait() {
            Ok(answer) if !slow && answer.content == format!("echo {question}") => answered += 1,
            Err(error) if error.kind() == "cancelled" => cancelled += 1,
            other => return Err(format!("turn {i} ended as {other:?}")),
        }
        if i % 10 == 0 {
            let question = format!("after {i}");
            let answer = model
                .generate(&ask(&question))
                .map_err(|error| format!("the turn after cancel {i}: {error}"))?;
            if answer.content != format!("echo {question}") {
                return Err(format!("after cancel {i} came {:?}", answer.content));
            }
        }
    }
    Ok(format!(
        "{count} cancels, {cancelled} in time and {answered} too late"
    ))
}

/// Agents that die at random points of a turn, each with two lanes busy.
fn deaths(count: usize, random: &mut Random) -> Result<String, String> {
    for i in 0..count {
        let model = load(&[])?;
        let lane = model.lane().map_err(|error| error.to_string())?;
        let pid = model.agent().process_id();
        let busy = lane
            .start(&ask("slow for ever"), TurnOptions::default())
            .map_err(|error| error.to_string())?;
        let how = format!("die {} {}", random.below(20), random.below(3));
        for (what, result) in [
            ("it", model.generate(&ask(&how))),
            ("its lane", busy.wait()),
        ] {
            match result {
                Err(error) if error.kind() == "agent_exited" => {}
                other => return Err(format!("death {i} ({how}): {what} ended as {other:?}")),
            }
        }
        drop((lane, model));
        if group_members(pid) > 0 {
            return Err(format!("death {i} left a process"));
        }
    }
    Ok(format!("{count} deaths, every call ended"))
}

/// Starts and closes agents behind a launcher that leaves a process of its own.
fn cycles(count: usize) -> Result<String, String> {
    for i in 0..count {
        let model = load(&["sh", "-c", "sleep 1000 & \"$@\"; exit $?", "launcher"])?;
        let pid = model.agent().process_id();
        if i % 2 == 0 {
            model.close();
        }
        drop(model);
        if group_members(pid) > 0 {
            return Err(format!("cycle {i} left a process"));
        }
    }
    Ok(format!("{count} open/close cycles with a launcher"))
}

fn load(launcher: &[&str]) -> Result<AcpModel, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command: Vec<std::ffi::OsString> = launcher.iter().map(Into::into).collect();
    command.extend([this.into_os_string(), "agent".into()]);
    load_acp(LoadOptions::new(command)).map_err(|error| error.to_string())
}

fn ask(question: &str) -> GenerateRequest {
    GenerateRequest::user(question)
}

fn p99(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)]
}
