//! Processes and sessions that fail under load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use acp_core::GenerateRequest;
use acp_core::tokio::Pool;
use libtest_mimic::Trial;

use super::scripts::is_running;
use super::{agents, assert_at_rest, process, threaded, trial, usage, wait_for};

pub fn trials() -> Vec<Trial> {
    vec![
        threaded("deaths_under_load_end_turns_and_nothing_else", deaths),
        trial("an_agent_that_dies_at_once_does_not_spin", dies_at_once),
        trial(
            "an_agent_without_sessions_is_an_error_of_each_caller",
            no_sessions,
        ),
        trial("a_process_in_which_sessions_pile_up_is_replaced", worn_out),
    ]
}

async fn deaths() {
    let options = agents(&[]).processes(4..=4).lanes_per_process(16);
    let pool = Arc::new(Pool::load(options).await.unwrap());
    let callers: Vec<_> = (0..200_usize)
        .map(|caller| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                let mut served = BTreeSet::new();
                let (mut answers, mut lost) = (0_u64, 0_u64);
                for turn in 0..10 {
                    // Every twentieth prompt is the end of its process, spread over the turns after the first.
                    let dies = caller % 2 == 0 && turn == 1 + caller / 2 % 9;
                    let text = if dies { "die" } else { "live, tell" };
                    let request = GenerateRequest::user(format!("<{caller}> {text}"));
                    let ended = match caller % 2 {
                        0 => {
                            pool.generate_for(&format!("k{}", caller % 10), &request)
                                .await
                        }
                        _ => pool.generate(&request).await,
                    };
                    match ended {
                        Ok(answer) => {
                            assert!(!dies);
                            assert_eq!(answer.content, format!("user: <{caller}> {text}"));
                            served.insert(process(&answer));
                            answers += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), "agent_exited", "{error}");
                            lost += 1;
                        }
                    }
                }
                (served, answers, lost)
            })
        })
        .collect();
    let (mut processes, mut answers, mut lost) = (BTreeSet::new(), 0, 0);
    for caller in callers {
        let of_caller = caller.await.unwrap();
        processes.extend(of_caller.0);
        answers += of_caller.1;
        lost += of_caller.2;
    }
    assert_eq!(answers + lost, 2000);
    // It recovers, by itself and to the full.
    wait_for(&pool, "the fewest processes", |metrics| {
        metrics.processes == 4 && metrics.lanes_opening == 0
    })
    .await;
    let answer = pool.generate(&GenerateRequest::user("x")).await.unwrap();
    processes.insert(process(&answer));
    let metrics = pool.metrics();
    // A process takes at most what its 16 lanes were at with it, and 100 turns were the end of theirs.
    assert!(lost >= 100, "{metrics:?}");
    assert!(metrics.restarts * 16 >= lost, "{metrics:?}");
    assert!(
        metrics.processes_started >= 4 + metrics.restarts,
        "{metrics:?}"
    );
    assert_eq!(metrics.answered, answers + 1);
    assert!(answers > 500, "{metrics:?}");
    assert_at_rest(&metrics);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
    assert!(!processes.into_iter().any(is_running));
}

async fn dies_at_once() {
    let error = Pool::load(agents(&["no-session"])).await.unwrap_err();
    assert_eq!(error.kind(), "agent_exited");

    let pool = Pool::load(agents(&[]).processes(1..=1)).await.unwrap();
    for _ in 0..6 {
        let error = pool
            .generate(&GenerateRequest::user("die"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), "agent_exited");
    }
    let metrics = pool.metrics();
    // One for each of the turns, and the one that is on its way.
    assert!(metrics.processes_started <= 7, "{metrics:?}");
    assert_eq!(metrics.restarts, 6);
    // Those who wait for the end of the pause are served.
    let answer = pool.generate(&GenerateRequest::user("x")).await.unwrap();
    assert_eq!(answer.content, "ok");
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn no_sessions() {
    let error = Pool::load(agents(&["refuses"])).await.unwrap_err();
    assert_eq!(error.kind(), "rejected");
    assert!(error.to_string().contains("no more sessions"), "{error}");
}

async fn worn_out() {
    let load = super::load(&["no-close"]).max_given_up_sessions(8);
    let options = acp_core::tokio::PoolOptions::new(load);
    let options = options.processes(2..=2).lanes_per_process(4).warm(0);
    let pool = Arc::new(Pool::load(options).await.unwrap());
    let callers: Vec<_> = (0..16)
        .map(|caller| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                for turn in 0..20 {
                    let request = GenerateRequest::user(format!("{caller} {turn}"));
                    let answer = pool.generate(&request).await.unwrap();
                    let open = usage(&answer, "open").as_u64().unwrap();
                    // Those in use, and those of no use.
                    assert!(open <= 4 + 8, "{open}");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let metrics = pool.metrics();
    assert_eq!((metrics.answered, metrics.failed), (320, 0), "{metrics:?}");
    assert!(metrics.restarts >= 20, "{metrics:?}");
    assert_at_rest(&metrics);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}
