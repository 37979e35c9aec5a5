//! Whoever listens to the wire is a guest.

mod warm;

use std::time::Duration;

use acp_core::{ConnectionOptions, GenerateRequest, TurnOptions};
use warm::{drain, start, warm};

#[test]
fn a_subscriber_that_panics_ends_no_turn() {
    struct Panics;

    impl tracing::Subscriber for Panics {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            panic!("a subscriber of the host's");
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    tracing::subscriber::with_default(Panics, || {
        let now = start();
        let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
        let options = TurnOptions::default().allow_empty(true);
        let turn = connection
            .prompt(lane, &GenerateRequest::user("hi"), options, now)
            .unwrap();
        connection.handle_line(br#"{"id":3,"result":{"stopReason":"end_turn"}}"#, now);
        connection.handle_timeout(now + Duration::from_secs(3));
        drain(&mut connection, &mut seen);
        assert!(seen.turns[&turn][0].is_ok());
    });
}
