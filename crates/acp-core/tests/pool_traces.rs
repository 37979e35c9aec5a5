//! What the pool tells whoever listens, who is a guest.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_core::tokio::{Pool, PoolOptions};
use acp_core::{GenerateRequest, Message};
use tracing::field::{Field, Visit};

mod scripts;

use scripts::{ANSWER_ALL, HANDSHAKE, script};

// Both listen, each on its own thread: where nobody does, a callsite may be switched off for all.

#[test]
fn turns_and_processes_are_told() {
    let listener = Listener::default();
    let told = Arc::clone(&listener.told);
    tracing::subscriber::with_default(listener, talk);
    let told = told.lock().unwrap();
    let hits: Vec<_> = told.iter().filter_map(|event| event.get("hit")).collect();
    assert_eq!(hits, ["false", "true"]);
    let is = |message: &str| told.iter().any(|event| event["message"] == message);
    assert!(is("started") && is("turned away"), "{told:?}");
    // Keys may be secrets.
    assert!(!format!("{told:?}").contains("tenant"));
}

#[test]
fn a_listener_that_panics_ends_no_turn() {
    let listener = Listener {
        panics: true,
        ..Listener::default()
    };
    tracing::subscriber::with_default(listener, talk);
}

/// Two turns of one conversation, and a caller who comes too late.
fn talk() {
    let options = PoolOptions::new(script(&[HANDSHAKE, ANSWER_ALL]));
    let options = options.processes(1..=1).lanes_per_process(1).warm(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let pool = Pool::load(options).await.unwrap();
        let mut request = GenerateRequest::user("one");
        for _ in 0..2 {
            let answer = pool.generate_for("tenant", &request).await.unwrap();
            request
                .messages
                .extend([answer.to_message(), Message::user("and?")]);
        }
        assert!(pool.shutdown(Duration::from_secs(5)).await);
        let late = pool.generate(&request).await;
        assert_eq!(late.unwrap_err().kind(), "closed");
    });
}

#[derive(Default)]
struct Listener {
    told: Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>,
    panics: bool,
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "acp_core::pool"
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        assert!(!self.panics, "a listener of the host's");
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.told.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
