//! No text of one caller reaches another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use acp_core::StatePolicy;
use acp_core::tokio::{Pool, PoolOptions};
use libtest_mimic::Trial;

use super::{Talk, agents, assert_at_rest, session, threaded, usage};

pub fn trials() -> Vec<Trial> {
    vec![
        threaded("conversations_go_on_where_they_were", conversations_go_on),
        threaded(
            "more_callers_than_lanes_see_only_their_own",
            more_than_lanes,
        ),
        threaded("fresh_sessions_see_only_one_request", fresh_sessions),
        threaded("keys_never_share_a_lane", keys_never_share),
        threaded(
            "tenants_of_one_text_share_within_their_key",
            same_text_same_key,
        ),
    ]
}

/// The markers in a text.
fn markers(text: &str) -> BTreeSet<&str> {
    let parts = text.split('<').skip(1);
    parts
        .filter_map(|part| part.split_once('>'))
        .map(|(marker, _)| marker)
        .collect()
}

/// Conversations of five turns at once, each with its marker in all that it says; every answer is all that the
/// session holds.
async fn talk(pool: &Arc<Pool>, callers: usize) {
    let talks: Vec<_> = (0..callers)
        .map(|number| {
            let pool = Arc::clone(pool);
            tokio::spawn(async move {
                let marker = format!("c{number}");
                // All begin in the same way, and every third has a key that it shares with some others.
                let mut talk = Talk::new("Be brief.");
                for turn in 0..5 {
                    let question = format!("<{marker}> turn {turn}, tell");
                    let request = talk.ask(&question).clone();
                    let answer = match number % 3 {
                        0 => {
                            pool.generate_for(&format!("k{}", number % 12), &request)
                                .await
                        }
                        _ => pool.generate(&request).await,
                    };
                    let answer = answer.unwrap();
                    let seen = markers(&answer.content);
                    assert_eq!(seen, BTreeSet::from([&*marker]), "{}", answer.content);
                    assert!(answer.content.contains(&question));
                    assert!(usage(&answer, "open").as_u64().unwrap() <= 16);
                    talk.note(&answer);
                }
            })
        })
        .collect();
    for talk in talks {
        talk.await.unwrap();
    }
}

fn options() -> PoolOptions {
    agents(&[]).processes(4..=4).lanes_per_process(16).warm(0)
}

async fn conversations_go_on() {
    let pool = Arc::new(Pool::load(options()).await.unwrap());
    talk(&pool, 64).await;
    let metrics = pool.metrics();
    assert_eq!((metrics.hits, metrics.misses), (64 * 4, 64), "{metrics:?}");
    assert_eq!(metrics.sessions_opened, 64);
    assert_eq!(metrics.lanes_idle, 64);
    assert_at_rest(&metrics);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn more_than_lanes() {
    let pool = Arc::new(Pool::load(options()).await.unwrap());
    talk(&pool, 160).await;
    let metrics = pool.metrics();
    assert_eq!(metrics.answered, 160 * 5, "{metrics:?}");
    assert_at_rest(&metrics);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

async fn fresh_sessions() {
    let options = options().state(StatePolicy::FreshSession).warm(4);
    let pool = Arc::new(Pool::load(options).await.unwrap());
    talk(&pool, 80).await;
    let metrics = pool.metrics();
    assert_eq!((metrics.hits, metrics.answered), (0, 400), "{metrics:?}");
    assert_at_rest(&metrics);
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}

/// The sessions that served each key, when all keys have the same conversations.
async fn sessions_of_keys() -> (BTreeMap<Option<String>, BTreeSet<String>>, u64) {
    let options = agents(&[]).processes(2..=2).lanes_per_process(4);
    let pool = Arc::new(Pool::load(options).await.unwrap());
    let mut sessions: BTreeMap<Option<String>, BTreeSet<String>> = BTreeMap::new();
    for _ in 0..20 {
        let talks: Vec<_> = [None, Some("a"), Some("b"), Some("c"), Some("")]
            .into_iter()
            .map(|key| {
                let pool = Arc::clone(&pool);
                tokio::spawn(async move {
                    let (mut talk, mut served) = (Talk::new("Be brief."), BTreeSet::new());
                    for _ in 0..3 {
                        let request = talk.ask("and?").clone();
                        let answer = match key {
                            Some(key) => pool.generate_for(key, &request).await.unwrap(),
                            None => pool.generate(&request).await.unwrap(),
                        };
                        served.insert(session(&answer));
                        talk.note(&answer);
                    }
                    (key.map(str::to_owned), served)
                })
            })
            .collect();
        for talk in talks {
            let (key, served) = talk.await.unwrap();
            sessions.entry(key).or_default().extend(served);
        }
    }
    let hits = pool.metrics().hits;
    assert!(pool.shutdown(Duration::from_secs(5)).await);
    (sessions, hits)
}

async fn keys_never_share() {
    let (sessions, hits) = sessions_of_keys().await;
    let mut owners: BTreeMap<&String, &Option<String>> = BTreeMap::new();
    for (key, served) in &sessions {
        for session in served {
            let other = owners.insert(session, key);
            assert_eq!(other, None, "{key:?} was served by a session of {other:?}");
        }
    }
    assert!(hits > 0);
}

/// Two callers of one key that say the same are one conversation as far as anybody can tell, so the one goes on
/// with the session of the other.
async fn same_text_same_key() {
    let pool = Pool::load(agents(&[]).processes(1..=1)).await.unwrap();
    let mut talk = Talk::new("Be brief.");
    let first = pool.generate_for("a", talk.ask("one")).await.unwrap();
    talk.note(&first);
    let mut other = talk.clone();
    let second = pool.generate_for("a", talk.ask("two")).await.unwrap();
    assert_eq!(session(&second), session(&first));
    assert_eq!(usage(&second, "held"), 2);
    // The session has gone on, so what branches off needs another one.
    let branch = pool.generate_for("a", other.ask("three")).await.unwrap();
    assert_ne!(session(&branch), session(&first));
    assert_eq!(usage(&branch, "held"), 1);
    let metrics = pool.metrics();
    assert_eq!((metrics.hits, metrics.misses), (1, 2));
    assert!(pool.shutdown(Duration::from_secs(5)).await);
}
