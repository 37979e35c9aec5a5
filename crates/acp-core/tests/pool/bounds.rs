//! What the pool holds, and that it lets go of it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use acp_core::tokio::{Pool, PoolOptions};
use acp_core::{GenerateRequest, StatePolicy, TurnEvent};
use libtest_mimic::Trial;

use super::scripts::is_running;
use super::{Talk, agents, begin, load, process, session, trial, usage, wait_for};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("options_that_cannot_work_are_refused", refused),
        trial("sessions_are_opened_ahead", warm),
        trial("what_is_idle_for_too_long_is_ended", ttl),
        trial("a_turn_streams_what_happens", streams),
        trial("a_shutdown_lets_turns_end", drain),
        trial("a_shutdown_ends_what_does_not_end", cut_off),
        trial("a_pool_that_is_dropped_leaves_nothing", dropped),
        trial("a_runtime_that_ends_ends_its_pool", runtime_ends),
    ]
}

async fn refused() {
    for options in [
        agents(&[]).state(StatePolicy::FullRequest),
        agents(&[]).processes(0..=0),
        agents(&[]).processes(RangeInclusive::new(3, 2)),
        agents(&[]).lanes_per_process(0),
    ] {
        let error = Pool::load(options).await.unwrap_err();
        assert_eq!(error.kind(), "invalid_options", "{error}");
    }
    // The default of one lane is not the default of a pool.
    let pool = PoolOptions::new(load(&[]).state(StatePolicy::FullRequest));
    Pool::load(pool)
        .await
        .unwrap()
        .shutdown(Duration::ZERO)
        .await;
}

async fn warm() {
    let options = agents(&[]).processes(2..=2).lanes_per_process(4).warm(3);
    let pool = Pool::load(options).await.unwrap();
    for round in 1..=2 {
        wait_for(&pool, "warm lanes", |metrics| metrics.lanes_warm >= 3).await;
        wait_for(&pool, "processes", |metrics| metrics.processes == 2).await;
        let ask = GenerateRequest::user("x");
        let turn = pool.start(&ask, pool.turn_options()).await.unwrap();
        assert_eq!((turn.queue_time(), turn.is_hit()), (Duration::ZERO, false));
        turn.await.unwrap();
        assert_eq!(pool.metrics().lanes_idle, round);
    }
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn ttl() {
    let options = agents(&[]).processes(1..=3).lanes_per_process(2).warm(1);
    let options = options.idle_ttl(Duration::from_millis(50));
    let pool = Arc::new(Pool::load(options).await.unwrap());
    let hangs = GenerateRequest::user("hang");
    let mut turns = Vec::new();
    for _ in 0..6 {
        turns.push(pool.start(&hangs, pool.turn_options()).await.unwrap());
    }
    assert_eq!(pool.metrics().processes, 3);
    drop(turns);
    wait_for(&pool, "the end of what is idle", |metrics| {
        (metrics.processes, metrics.lanes_idle, metrics.lanes_warm) == (1, 0, 1)
    })
    .await;
    let mut talk = Talk::new("");
    let first = pool.generate(talk.ask("x")).await.unwrap();
    talk.note(&first);
    wait_for(&pool, "the end of its lane", |metrics| {
        metrics.lanes_idle == 0
    })
    .await;
    // The conversation goes on elsewhere, as a whole.
    let second = pool.generate(talk.ask("y, tell")).await.unwrap();
    assert_ne!(session(&second), session(&first));
    assert!(second.content.contains("ok"), "{}", second.content);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn streams() {
    let pool = Pool::load(agents(&[]).processes(1..=1)).await.unwrap();
    let options = pool.turn_options().events(true);
    let request = GenerateRequest::user("tell");
    let mut turn = pool.start(&request, options).await.unwrap();
    let mut text = String::new();
    while let Some(event) = turn.next_event().await {
        if let TurnEvent::Text(piece) = event {
            text += &piece;
        }
    }
    // With the end of the events the lane is free, whatever becomes of the turn.
    assert_eq!(pool.metrics().lanes_busy, 0);
    assert!(turn.next_event().await.is_none());
    let answer = turn.await.unwrap();
    assert_eq!((&*answer.content, &*text), ("user: tell", "user: tell"));
    assert_eq!(usage(&answer, "held"), 1);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn drain() {
    let options = agents(&[]).processes(1..=1).lanes_per_process(1);
    let pool = Pool::load(options).await.unwrap();
    let (hang, ask) = (GenerateRequest::user("hang"), GenerateRequest::user("x"));
    let running = pool.start(&hang, pool.turn_options()).await.unwrap();
    let queued = begin(Box::pin(pool.generate(&ask))).await;
    let shutdown = begin(Box::pin(pool.shutdown(Duration::from_secs(30)))).await;
    assert_eq!(pool.generate(&ask).await.unwrap_err().kind(), "closed");
    running.cancel();
    let (running, queued, drained) = tokio::join!(running, queued, shutdown);
    assert_eq!(running.unwrap_err().kind(), "cancelled");
    assert_eq!(queued.unwrap().content, "ok");
    assert!(drained);
    assert_eq!(pool.metrics().processes, 0);
    assert!(pool.shutdown(Duration::ZERO).await);
}

async fn cut_off() {
    let options = agents(&[]).processes(1..=1).lanes_per_process(1);
    let pool = Pool::load(options).await.unwrap();
    let answer = pool.generate(&GenerateRequest::user("x")).await.unwrap();
    let (hang, ask) = (GenerateRequest::user("hang"), GenerateRequest::user("x"));
    let running = pool.start(&hang, pool.turn_options()).await.unwrap();
    let queued = begin(Box::pin(pool.generate(&ask))).await;
    assert!(!pool.shutdown(Duration::from_millis(20)).await);
    assert_eq!(running.await.unwrap_err().kind(), "closed");
    assert_eq!(queued.await.unwrap_err().kind(), "closed");
    assert!(!is_running(process(&answer)));
}

async fn dropped() {
    let pool = Pool::load(agents(&[]).processes(1..=1)).await.unwrap();
    let answer = pool.generate(&GenerateRequest::user("x")).await.unwrap();
    let hang = GenerateRequest::user("hang");
    let running = pool.start(&hang, pool.turn_options()).await.unwrap();
    drop(pool);
    assert_eq!(running.await.unwrap_err().kind(), "closed");
    let process = process(&answer);
    let gone = move || super::scripts::wait_for("its end", || (!is_running(process)).then_some(()));
    tokio::task::spawn_blocking(gone).await.unwrap();
}

async fn runtime_ends() {
    for shuts_down in [false, true] {
        let mut first = tokio::runtime::Builder::new_multi_thread();
        let first = first.worker_threads(1).enable_all().build().unwrap();
        let options = agents(&[]).processes(1..=1).lanes_per_process(1);
        let pool = first.spawn(Pool::load(options)).await.unwrap().unwrap();
        let answer = pool.generate(&GenerateRequest::user("x")).await.unwrap();
        let (hang, ask) = (GenerateRequest::user("hang"), GenerateRequest::user("x"));
        let running = pool.start(&hang, pool.turn_options()).await.unwrap();
        let queued = begin(Box::pin(pool.generate(&ask))).await;
        let limit = Duration::from_secs(60);
        let shutdown = Box::pin(pool.shutdown(limit));
        let shutdown = match shuts_down {
            true => begin(shutdown).await,
            false => shutdown,
        };
        first.shutdown_background();
        assert_eq!(running.await.unwrap_err().kind(), "closed");
        assert_eq!(queued.await.unwrap_err().kind(), "closed");
        assert_eq!(pool.generate(&ask).await.unwrap_err().kind(), "closed");
        shutdown.await;
        let process = process(&answer);
        let gone =
            move || super::scripts::wait_for("its end", || (!is_running(process)).then_some(()));
        tokio::task::spawn_blocking(gone).await.unwrap();
    }
}
