//! The measured clients that need nothing but this workspace: `bench-client CLIENT ORDER`, one process for each
//! measurement.
//!
//! | client | is |
//! | --- | --- |
//! | `floor` | by hand, with a reader thread: borrowed parse, one append, no validation |
//! | `floor-single` | the same without the thread |
//! | `ceiling` | counts newlines: what the agent and the pipe give at most |
//! | `blocking` | `acp-core`'s blocking driver |
//! | `tokio` | its driver for tokio, on a runtime of one thread; in a crowd, on one of as many as there are CPUs |

mod blocking;
mod ceiling;
mod conversation;
mod crowd;
mod floor;
mod floor_single;
mod on_tokio;
mod wire;

use std::{
    env,
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use acp_bench::{
    order::{Order, Outcome, Work},
    usage,
};

use crate::{
    blocking::Blocking, ceiling::Ceiling, floor::Floor, floor_single::FloorSingle,
    on_tokio::OnTokio,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(client), Some(order)) = (args.next(), args.next()) else {
        eprintln!("usage: bench-client CLIENT ORDER");
        return ExitCode::from(2);
    };
    match run(&client, &order) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-client {client}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(client: &str, order: &str) -> Result<String> {
    let Order { agent, work } = serde_json::from_str(order)?;
    let outcome = match (client, &work) {
        (
            "blocking",
            Work::History {
                bytes,
                turns,
                count,
            },
        ) => conversation::run(&agent, *bytes, *turns, *count),
        (
            "blocking",
            Work::Crowd {
                processes,
                lanes,
                count,
            },
        ) => crowd::of_lanes(&agent, *processes, *lanes, *count),
        ("floor", Work::Crowd { lanes, count, .. }) => crowd::of_floors(&agent, *lanes, *count),
        (
            "tokio",
            Work::Crowd {
                processes,
                lanes,
                count,
            },
        ) => crowd::of_lanes_on_tokio(&agent, *processes, *lanes, *count),
        ("blocking", Work::IdleLanes { count }) => crowd::idle(&agent, *count),
        ("tokio", Work::IdleLanes { count }) => crowd::idle_on_tokio(&agent, *count),
        ("tokio", _) => measure::<OnTokio>(&agent, &work),
        ("blocking", _) => measure::<Blocking>(&agent, &work),
        ("floor", _) => measure::<Floor>(&agent, &work),
        ("floor-single", _) => measure::<FloorSingle>(&agent, &work),
        ("ceiling", _) => measure::<Ceiling>(&agent, &work),
        _ => return Err("there is no such client".into()),
    }?;
    Ok(serde_json::to_string(&outcome)?)
}

/// A client of one session.
trait Client: Sized {
    /// Starts the agent and opens the session.
    fn open(agent: &[String]) -> Result<Self>;

    /// Runs `count` turns one after the other and gives each one's duration and length of text to `done`.
    fn turns(
        &mut self,
        script: &str,
        count: usize,
        done: &mut dyn FnMut(Duration, usize),
    ) -> Result<()>;

    /// Ends the agent.
    fn close(self) -> Result<()>;
}

fn measure<C: Client>(agent: &[String], work: &Work) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    match work {
        Work::Turns {
            script,
            count,
            warm_up,
        } => {
            outcome.samples_ns.reserve_exact(*count);
            let mut client = C::open(agent)?;
            client.turns("bench echo", *warm_up, &mut |_, _| {})?;
            let cpu = usage::cpu_ns();
            client.turns(script, *count, &mut |duration, len| {
                outcome.samples_ns.push(nanos(duration));
                outcome.text_bytes += len as u64;
            })?;
            outcome.cpu_ns = usage::cpu_ns() - cpu;
            client.close()?;
        }
        Work::Cycles { script, count } => {
            let cpu = usage::cpu_ns();
            for _ in 0..*count {
                let start = Instant::now();
                let mut client = C::open(agent)?;
                client.turns(script, 1, &mut |_, len| outcome.text_bytes += len as u64)?;
                client.close()?;
                outcome.samples_ns.push(nanos(start.elapsed()));
            }
            outcome.cpu_ns = usage::cpu_ns() - cpu;
        }
        Work::History { .. } | Work::Crowd { .. } | Work::IdleLanes { .. } => {
            return Err("this client does not do this".into());
        }
    }
    outcome.peak_rss = usage::peak_rss();
    Ok(outcome)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
