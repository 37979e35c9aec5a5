//! Many sessions at once.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use acp_bench::{order::Outcome, usage};
use acp_core::{AcpAgent, GenerateError, GenerateRequest, Lane, LoadOptions, tokio as on_tokio};
use tokio::{runtime, task::JoinSet};

use crate::{Client as _, Result, floor::Floor, nanos};

const SCRIPT: &str = "bench echo";

/// Lanes of a few agents, each with a caller of its own.
pub fn of_lanes(agent: &[String], processes: usize, lanes: usize, count: usize) -> Result<Outcome> {
    let agents = (0..processes)
        .map(|_| AcpAgent::start(LoadOptions::new(agent)))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let mut lanes = agents
        .iter()
        .cycle()
        .take(lanes)
        .map(AcpAgent::lane)
        .collect::<std::result::Result<Vec<Lane>, _>>()?;
    let request = GenerateRequest::user(SCRIPT);
    let outcome = at_once(&mut lanes, |lane| {
        let mut text = 0;
        for _ in 0..count {
            text += lane.generate(&request)?.content.len();
        }
        Ok(text)
    });
    drop(lanes);
    outcome
}

/// The same on tokio, each lane with a task of its own.
pub fn of_lanes_on_tokio(
    agent: &[String],
    processes: usize,
    lanes: usize,
    count: usize,
) -> Result<Outcome> {
    let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut agents, mut open) = (Vec::new(), Vec::new());
        for _ in 0..processes {
            agents.push(on_tokio::AcpAgent::start(LoadOptions::new(agent)).await?);
        }
        for agent in agents.iter().cycle().take(lanes) {
            open.push(agent.lane().await?);
        }
        let cpu = usage::cpu_ns();
        let start = Instant::now();
        let mut callers = JoinSet::new();
        for lane in open {
            callers.spawn(async move {
                let request = GenerateRequest::user(SCRIPT);
                let mut text = 0;
                for _ in 0..count {
                    text += lane.generate(&request).await?.content.len();
                }
                Ok::<_, GenerateError>((lane, text as u64))
            });
        }
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        while let Some(caller) = callers.join_next().await {
            let (lane, text) = caller??;
            outcome.text_bytes += text;
            open.push(lane);
        }
        outcome.samples_ns.push(nanos(start.elapsed()));
        outcome.cpu_ns = usage::cpu_ns() - cpu;
        outcome.peak_rss = usage::peak_rss();
        for agent in agents {
            agent.close().await;
        }
        Ok(outcome)
    })
}

/// As many floors, each with an agent of its own.
pub fn of_floors(agent: &[String], floors: usize, count: usize) -> Result<Outcome> {
    let mut floors = (0..floors)
        .map(|_| Floor::open(agent))
        .collect::<Result<Vec<_>>>()?;
    let outcome = at_once(&mut floors, |floor| {
        let mut text = 0;
        floor.turns(SCRIPT, count, &mut |_, len| text += len)?;
        Ok(text)
    })?;
    for floor in floors {
        floor.close()?;
    }
    Ok(outcome)
}

/// Does the same with each, on a thread of its own, and measures the whole.
fn at_once<T: Send>(
    each: &mut [T],
    work: impl Fn(&mut T) -> Result<usize> + Sync,
) -> Result<Outcome> {
    let ready = Barrier::new(each.len());
    let text = AtomicU64::new(0);
    let cpu = usage::cpu_ns();
    let starts = thread::scope(|scope| {
        let threads: Vec<_> = each
            .iter_mut()
            .map(|one| {
                scope.spawn(|| {
                    ready.wait();
                    let start = Instant::now();
                    let len = work(one).map_err(|error| error.to_string())?;
                    text.fetch_add(len as u64, Ordering::Relaxed);
                    Ok::<_, String>(start)
                })
            })
            .collect();
        let start = |thread: thread::ScopedJoinHandle<'_, std::result::Result<Instant, String>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a caller panicked".into()))
        };
        threads
            .into_iter()
            .map(start)
            .collect::<std::result::Result<Vec<_>, _>>()
    })?;
    let first = starts.into_iter().min().ok_or("nobody to work")?;
    Ok(Outcome {
        samples_ns: vec![nanos(first.elapsed())],
        cpu_ns: usage::cpu_ns() - cpu,
        peak_rss: usage::peak_rss(),
        text_bytes: text.into_inner(),
        ..Outcome::default()
    })
}

/// What our side keeps for a session in which nothing happens.
pub fn idle(agent: &[String], count: usize) -> Result<Outcome> {
    let agent = AcpAgent::start(LoadOptions::new(agent))?;
    let first = agent.lane()?;
    first.generate(&GenerateRequest::user(SCRIPT))?;
    let before = usage::rss();
    let mut lanes = Vec::with_capacity(count);
    for _ in 0..count {
        lanes.push(agent.lane()?);
    }
    let grown = usage::rss().saturating_sub(before);
    Ok(Outcome {
        lane_bytes: grown / count.max(1) as u64,
        peak_rss: usage::peak_rss(),
        ..Outcome::default()
    })
}

/// The same on tokio.
pub fn idle_on_tokio(agent: &[String], count: usize) -> Result<Outcome> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let agent = on_tokio::AcpAgent::start(LoadOptions::new(agent)).await?;
        let first = agent.lane().await?;
        first.generate(&GenerateRequest::user(SCRIPT)).await?;
        let before = usage::rss();
        let mut lanes = Vec::with_capacity(count);
        for _ in 0..count {
            lanes.push(agent.lane().await?);
        }
        let grown = usage::rss().saturating_sub(before);
        agent.close().await;
        Ok(Outcome {
            lane_bytes: grown / count.max(1) as u64,
            peak_rss: usage::peak_rss(),
            ..Outcome::default()
        })
    })
}
