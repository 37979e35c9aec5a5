//! Does a warm session save anything but the agent's start-up? See `SPIKE.md`.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use acp_core::{AcpAgent, GenerateRequest};
use acp_fake_server::agents::Builtin;
use acp_mock_model::Script;
use clap::Parser;
use spikes::builtin;
use spikes::claims::{self, Claims};
use spikes::program::Program;
use spikes::times::{median, millis, spread};
use spikes::which::Which;

/// By how much the start of the fake agent is made longer.
const DELAY: Duration = Duration::from_millis(300);

/// Compares a process for each question with a warm one.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    which: Which,
    /// Samples of each kind.
    #[arg(long, value_name = "N", default_value_t = 5)]
    samples: usize,
}

fn main() -> ExitCode {
    builtin::serve_if_asked().unwrap_or_else(|| claims::conclude(measure(&Arguments::parse())))
}

fn measure(arguments: &Arguments) -> io::Result<Claims> {
    println!("| agent | cold, ms | of it the start | warm, ms |\n| --- | --- | --- | --- |");
    let mut claims = Claims::default();
    if !arguments.which.is_builtin() {
        let agent = arguments.which.agent(Builtin::Echo, Script::Echo)?;
        let times = Times::take("the agent", &agent.program, arguments.samples)?;
        let (cold, start, warm) = times.medians();
        claims.claim("a warm turn is shorter than a cold one", warm < cold);
        claims.claim(
            "at least half of what it saves is the agent's start: initialize and session/new",
            start * 2 >= cold.saturating_sub(warm),
        );
        return Ok(claims);
    }
    let of = |name, delay| {
        let program = builtin::program(Builtin::Echo, "strict", delay)?;
        Times::take(name, &program, arguments.samples)
    };
    let (quick, _, quick_warm) = of("starts at once", Duration::ZERO)?.medians();
    let (slow, _, slow_warm) = of("takes 300 ms to start", DELAY)?.medians();
    claims.claim("a warm turn is shorter than a cold one", quick_warm < quick);
    claims.claim(
        "300 ms more in the start are 300 ms more in a cold turn, give or take a fifth",
        slow.saturating_sub(quick).abs_diff(DELAY) < DELAY / 5,
    );
    claims.claim(
        "and nothing in a warm one",
        slow_warm.abs_diff(quick_warm) < DELAY / 5,
    );
    Ok(claims)
}

#[derive(Default)]
struct Times {
    cold: Vec<Duration>,
    start: Vec<Duration>,
    warm: Vec<Duration>,
}

impl Times {
    /// Cold and warm turns by turns, so that noise meets both.
    fn take(name: &str, program: &Program, samples: usize) -> io::Result<Self> {
        let mut times = Self::default();
        let request = GenerateRequest::user("Say hello.");
        let warm = AcpAgent::start(program.options()).map_err(io::Error::other)?;
        let lane = warm.lane().map_err(io::Error::other)?;
        // The first turn of a process is none of those that a warm session is for.
        lane.generate(&request).map_err(io::Error::other)?;
        for _ in 0..samples {
            let begun = Instant::now();
            let agent = AcpAgent::start(program.options()).map_err(io::Error::other)?;
            let cold = agent.lane().map_err(io::Error::other)?;
            let start = begun.elapsed();
            cold.generate(&request).map_err(io::Error::other)?;
            times.cold.push(begun.elapsed());
            times.start.push(start);

            let begun = Instant::now();
            lane.generate(&request).map_err(io::Error::other)?;
            times.warm.push(begun.elapsed());
        }
        println!(
            "| {name} | {} | {} | {} |",
            spread(&times.cold),
            millis(median(&times.start)).round(),
            spread(&times.warm)
        );
        Ok(times)
    }

    fn medians(&self) -> (Duration, Duration, Duration) {
        (median(&self.cold), median(&self.start), median(&self.warm))
    }
}
