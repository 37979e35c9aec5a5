//! Nobody waits for those who want more than their share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_core::GenerateRequest;
use acp_core::tokio::Pool;
use libtest_mimic::Trial;

use super::{agents, assert_at_rest, begin, trial, wait_for};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("one_with_a_thousand_turns_starves_nobody", greedy),
        trial("a_full_queue_is_busy", busy),
        trial("who_stops_waiting_leaves_the_queue", leaving),
    ]
}

async fn greedy() {
    let lanes = 4;
    let options = agents(&[])
        .processes(1..=1)
        .lanes_per_process(lanes)
        .queue(2000);
    let pool = Arc::new(Pool::load(options).await.unwrap());
    // Whose turns were begun, in order.
    let begun = Arc::new(Mutex::new(Vec::new()));
    let turn = |key: &'static str, number: usize| {
        let (pool, begun) = (Arc::clone(&pool), Arc::clone(&begun));
        tokio::spawn(async move {
            let request = GenerateRequest::user(format!("{key} {number}"));
            let turn = pool
                .start_for(key, &request, pool.turn_options())
                .await
                .unwrap();
            begun.lock().unwrap().push(key);
            turn.await.unwrap();
        })
    };
    let greedy: Vec<_> = (0..1000).map(|number| turn("greedy", number)).collect();
    wait_for(&pool, "a queue", |metrics| metrics.queued > 900).await;
    let before = begun.lock().unwrap().len();
    let modest: Vec<_> = ["a", "b", "c"]
        .map(|key| turn(key, 0))
        .into_iter()
        .collect();
    for turn in modest {
        turn.await.unwrap();
    }
    let order = begun.lock().unwrap()[before..].to_vec();
    let place = |key| order.iter().position(|begun| *begun == key).unwrap();
    let last = ["a", "b", "c"].map(place).into_iter().max().unwrap();
    // Each waits for one turn of every other key at most, besides those whose lanes were given when it came.
    assert!(last < 2 * lanes + 4, "{last} turns were begun before");
    assert!(pool.metrics().queued > 0);
    for turn in greedy {
        turn.await.unwrap();
    }
    let metrics = pool.metrics();
    assert_eq!(metrics.answered, 1003);
    assert!(
        metrics.waited > 900 && metrics.wait_max > Duration::ZERO,
        "{metrics:?}"
    );
    assert_at_rest(&metrics);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn busy() {
    let options = agents(&[]).processes(1..=1).lanes_per_process(1).queue(2);
    let pool = Pool::load(options).await.unwrap();
    let hangs = GenerateRequest::user("hang");
    let running = pool.start(&hangs, pool.turn_options()).await.unwrap();
    let ask = GenerateRequest::user("x");
    let first = begin(Box::pin(pool.generate(&ask))).await;
    let second = begin(Box::pin(pool.generate_for("k", &ask))).await;
    let error = pool.generate_for("other", &ask).await.unwrap_err();
    assert_eq!(error.kind(), "busy");
    assert_eq!(error.to_string(), "2 turns already wait");
    drop(first);
    let third = begin(Box::pin(pool.generate_for("other", &ask))).await;
    assert_eq!(pool.metrics().busy, 1);
    drop(running);
    assert_eq!(second.await.unwrap().content, "ok");
    assert_eq!(third.await.unwrap().content, "ok");
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn leaving() {
    let options = agents(&[]).processes(1..=1).lanes_per_process(2);
    let pool = Pool::load(options).await.unwrap();
    let hangs = GenerateRequest::user("hang");
    let ask = GenerateRequest::user("x");
    for _ in 0..50 {
        let first = pool.start(&hangs, pool.turn_options()).await.unwrap();
        let second = pool
            .start_for("k", &hangs, pool.turn_options())
            .await
            .unwrap();
        let waiting = begin(Box::pin(pool.generate(&ask))).await;
        let leaves = begin(Box::pin(pool.generate_for("l", &ask))).await;
        assert_eq!(pool.metrics().queued, 2);
        drop(leaves);
        assert_eq!(pool.metrics().queued, 1);
        // One that is dropped gives its lane back when the agent has confirmed the cancel; one that leaves when it
        // has its lane already gives it back too.
        drop(second);
        drop(waiting);
        first.cancel();
        assert_eq!(first.await.unwrap_err().kind(), "cancelled");
    }
    wait_for(&pool, "the end of all", |metrics| metrics.lanes_busy == 0).await;
    let metrics = pool.metrics();
    assert_eq!((metrics.failed, metrics.answered), (100, 0), "{metrics:?}");
    assert_eq!((metrics.restarts, metrics.processes), (0, 1));
    assert_at_rest(&metrics);
    assert_eq!(pool.generate(&ask).await.unwrap().content, "ok");
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}
