//! The page about the pool shows a program that runs, and what a lane costs is what the page about scale says.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use acp_core::GenerateRequest;
use acp_core::tokio::Pool;
use libtest_mimic::Trial;

use super::{agents, load, trial};

#[path = "../../examples/pool.rs"]
#[expect(dead_code, reason = "its `main` is not called")]
mod example;

/// The argument with which this program measures, in a process of its own.
pub const MEASURE: &str = "--measure-lanes";
/// The most that an idle lane may cost on our side, in KiB.
const MOST_PER_LANE: usize = 64;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("the_example_finds_its_sessions", example_runs),
        trial(
            "the_page_about_the_pool_shows_the_example",
            page_shows_example,
        ),
        trial("an_idle_lane_costs_little", lanes_are_small),
    ]
}

async fn example_runs() {
    let (answers, metrics) = example::serve(load(&[])).await.unwrap();
    assert_eq!(answers, ["ok", "ok"]);
    assert_eq!((metrics.hits, metrics.misses), (3, 2));
}

async fn page_shows_example() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/pool.md")).unwrap();
    let example = fs::read_to_string(here.join("examples/pool.rs")).unwrap();
    // All but the comment at its beginning, which is about where it is.
    let (_, program) = example.split_once("\n\n").unwrap();
    assert!(page.contains(program), "docs/pool.md has an old program");
}

async fn lanes_are_small() {
    let mut measure = Command::new(env::current_exe().unwrap());
    let output = measure.arg(MEASURE).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let grown: usize = text.trim().parse().unwrap();
    assert!(grown <= MOST_PER_LANE * 60, "60 lanes cost {grown} KiB");
}

/// Prints what 60 idle lanes cost beside four, in KiB.
pub async fn measure() {
    let options = agents(&[]).processes(4..=4).lanes_per_process(16).warm(0);
    let pool = Pool::load(options).await.unwrap();
    let mut before = 0;
    for key in 0..64 {
        if key == 4 {
            before = resident();
        }
        let request = GenerateRequest::user(format!("{key}"));
        pool.generate_for(&key.to_string(), &request).await.unwrap();
    }
    assert_eq!(pool.metrics().lanes_idle, 64);
    println!("{}", resident().saturating_sub(before));
    pool.shutdown(std::time::Duration::from_secs(5)).await;
}

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.unwrap().split_whitespace();
    words
        .take(1)
        .map(|word| word.parse::<usize>().unwrap())
        .sum()
}
