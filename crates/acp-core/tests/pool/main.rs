//! The pool over real processes, at up to 64 lanes. Its rules without processes are in `src/pool/tests`.
//!
//! The agent is this program too, so that the tests need no other to be built first.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a trial fails, and trials wait for other processes"
)]

mod agent;
mod bounds;
mod deaths;
mod docs;
mod fairness;
mod isolation;
#[path = "../scripts/mod.rs"]
mod scripts;

use std::env;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;
use std::time::{Duration, Instant};

use acp_core::tokio::{Pool, PoolMetrics, PoolOptions};
use acp_core::{GenerateRequest, GenerateResponse, LoadOptions, Message};
use libtest_mimic::{Arguments, Failed, Trial};

/// The argument that makes an agent of this program; its ways follow.
const AGENT: &str = "--be-the-agent";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [be, ways @ ..] = words.as_slice()
        && be == AGENT
    {
        agent::serve(ways).unwrap();
        return ExitCode::SUCCESS;
    }
    if words == [docs::MEASURE] {
        let measured = in_runtime(tokio::runtime::Builder::new_current_thread(), docs::measure);
        return ExitCode::from(u8::from(measured.is_err()));
    }
    let trials = [
        isolation::trials(),
        fairness::trials(),
        bounds::trials(),
        deaths::trials(),
        docs::trials(),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.concat_all()).exit_code()
}

trait ConcatAll {
    fn concat_all(self) -> Vec<Trial>;
}

impl<const N: usize> ConcatAll for [Vec<Trial>; N] {
    fn concat_all(self) -> Vec<Trial> {
        self.into_iter().flatten().collect()
    }
}

/// A trial in a runtime of its own, of one thread.
fn trial<F: Future<Output = ()> + 'static>(name: &str, run: fn() -> F) -> Trial {
    Trial::test(name, move || {
        in_runtime(tokio::runtime::Builder::new_current_thread(), run)
    })
}

/// A trial in a runtime of two threads.
fn threaded<F: Future<Output = ()> + 'static>(name: &str, run: fn() -> F) -> Trial {
    let runtime = || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2);
        runtime
    };
    Trial::test(name, move || in_runtime(runtime(), run))
}

fn in_runtime<F: Future<Output = ()>>(
    mut runtime: tokio::runtime::Builder,
    run: fn() -> F,
) -> Result<(), Failed> {
    let runtime = runtime.enable_all().build()?;
    let limit = Duration::from_secs(60);
    let ended = runtime.block_on(async { tokio::time::timeout(limit, run()).await });
    ended.map_err(|_| "it did not end".into())
}

/// Options for a pool of agents of this kind.
fn agents(ways: &[&str]) -> PoolOptions {
    PoolOptions::new(load(ways))
}

fn load(ways: &[&str]) -> LoadOptions {
    let program = env::current_exe().unwrap().into_os_string();
    let program = program.into_string().unwrap();
    let words = [&program, AGENT];
    let words = words.into_iter().chain(ways.iter().copied());
    LoadOptions::new(words)
        .env_remove("RUST_LOG")
        .eof_grace(Duration::from_millis(500))
        .term_grace(Duration::from_millis(500))
}

/// A conversation as a stateless caller has it.
#[derive(Clone)]
struct Talk {
    request: GenerateRequest,
}

impl Talk {
    fn new(system: &str) -> Self {
        let request = GenerateRequest::new([Message::system(system)]);
        Self { request }
    }

    /// The request for the next turn.
    fn ask(&mut self, text: impl Into<String>) -> &GenerateRequest {
        self.request.messages.push(Message::user(text));
        &self.request
    }

    fn note(&mut self, answer: &GenerateResponse) {
        self.request.messages.push(answer.to_message());
    }
}

/// What the agent says of itself in its answer.
fn usage<'a>(answer: &'a GenerateResponse, name: &str) -> &'a serde_json::Value {
    &answer.usage.as_ref().unwrap()[name]
}

fn session(answer: &GenerateResponse) -> String {
    usage(answer, "session").as_str().unwrap().to_owned()
}

/// The process that gave this answer.
fn process(answer: &GenerateResponse) -> u32 {
    let session = session(answer);
    session.split_once('-').unwrap().0.parse().unwrap()
}

/// Polls a future once, so that it has begun.
async fn begin<F: Future + Unpin>(mut future: F) -> F {
    poll_fn(|context| {
        let polled = pin!(&mut future).poll(context);
        assert!(polled.is_pending());
        Poll::Ready(())
    })
    .await;
    future
}

/// Waits for something that other processes do.
async fn wait_for(pool: &Pool, what: &str, is_so: impl Fn(&PoolMetrics) -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let metrics = pool.metrics();
        if is_so(&metrics) {
            return;
        }
        assert!(Instant::now() < end, "{what} did not come: {metrics:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Every turn that was begun has ended, and nothing is held.
fn assert_at_rest(metrics: &PoolMetrics) {
    assert_eq!(
        metrics.hits + metrics.misses,
        metrics.answered + metrics.failed,
        "{metrics:?}"
    );
    assert_eq!((metrics.lanes_busy, metrics.queued), (0, 0), "{metrics:?}");
}
