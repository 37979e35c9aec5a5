//! What a pool costs, with an agent that costs next to nothing:
//! `cargo run --release -p acp-core --features tokio --example pool_load`. The program is its own agent.

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own, which reads the clock"
)]

#[path = "../tests/pool/agent.rs"]
mod agent;

use std::env;
use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_core::tokio::{Pool, PoolOptions};
use acp_core::{GenerateRequest, LoadOptions, Message};

const AGENT: &str = "--be-the-agent";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    if env::args().nth(1).is_some_and(|word| word == AGENT) {
        return Ok(agent::serve(&[])?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        memory().await?;
        routing().await?;
        throughput().await
    })
}

async fn pool(processes: usize, lanes: usize) -> Outcome<Arc<Pool>> {
    let program = env::current_exe()?.into_os_string();
    let load = LoadOptions::new([program, AGENT.into()]);
    let options = PoolOptions::new(load).processes(processes..=processes);
    let options = options.lanes_per_process(lanes).queue(100_000).warm(0);
    Ok(Arc::new(Pool::load(options).await?))
}

/// Opens a lane for each key, with one turn of this many bytes.
async fn fill(pool: &Pool, keys: std::ops::Range<usize>, bytes: usize) -> Outcome<()> {
    for key in keys {
        let request = GenerateRequest::user(format!("{key} {}", "x".repeat(bytes)));
        pool.generate_for(&key.to_string(), &request).await?;
    }
    Ok(())
}

/// Resident memory of this process, in KiB.
fn resident() -> Outcome<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let word = line.and_then(|line| line.split_whitespace().next());
    Ok(word.ok_or("no resident memory")?.parse()?)
}

async fn memory() -> Outcome<()> {
    let pool = pool(4, 16).await?;
    fill(&pool, 0..4, 10).await?;
    let before = resident()?;
    fill(&pool, 4..64, 10).await?;
    let lanes = pool.metrics().lanes_idle;
    let grown = resident()?.saturating_sub(before);
    println!("{lanes} idle lanes: {:.1} KiB each", grown as f64 / 60.0);
    pool.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// How long a request of one MiB takes to its lane, where 64 lanes have histories of one MiB.
async fn routing() -> Outcome<()> {
    let pool = pool(4, 16).await?;
    let text = "x".repeat(1 << 20);
    let begin = |number: usize| Message::user(format!("{text}{number}"));
    for number in 0..63 {
        pool.generate(&GenerateRequest::new([begin(number)]))
            .await?;
    }
    // The last one goes on, and is found among the 63 that begin in the same way.
    let go_on = GenerateRequest::new([begin(31), Message::assistant("ok"), Message::user("on")]);
    let started = Instant::now();
    let turn = pool.start(&go_on, pool.turn_options()).await?;
    let took = started.elapsed();
    println!(
        "1 MiB to its warm lane among 63 of 1 MiB: {took:?} (found: {})",
        turn.is_hit()
    );
    turn.await?;
    let small = GenerateRequest::user("small");
    let started = Instant::now();
    let turn = pool.start(&small, pool.turn_options()).await?;
    println!(
        "a small one to a session that is opened for it: {:?}",
        started.elapsed()
    );
    turn.await?;
    pool.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Conversations of fifty turns each, at once.
async fn throughput() -> Outcome<()> {
    for (processes, lanes, callers) in [
        (1, 1, 1),
        (1, 16, 16),
        (4, 16, 64),
        (4, 16, 256),
        (4, 64, 256),
    ] {
        let pool = pool(processes, lanes).await?;
        let started = Instant::now();
        let callers: Vec<_> = (0..callers)
            .map(|caller| tokio::spawn(converse(Arc::clone(&pool), caller)))
            .collect();
        let count = callers.len();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await??);
        }
        let took = started.elapsed().as_secs_f64();
        times.sort();
        let (turns, metrics) = (times.len(), pool.metrics());
        println!(
            "{processes} x {lanes} lanes, {count} callers: {:.0} turns/s, p50 {:?}, p99 {:?}, hits {}, misses {}",
            turns as f64 / took,
            times[turns / 2],
            times[turns * 99 / 100],
            metrics.hits,
            metrics.misses,
        );
        pool.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

async fn converse(pool: Arc<Pool>, caller: usize) -> Outcome<Vec<Duration>> {
    let mut request = GenerateRequest::new([Message::system("Be brief.")]);
    let mut times = Vec::new();
    for turn in 0..50 {
        request
            .messages
            .push(Message::user(format!("{caller} {turn}")));
        let started = Instant::now();
        let answer = pool.generate(&request).await?;
        times.push(started.elapsed());
        request.messages.push(answer.to_message());
    }
    Ok(times)
}
