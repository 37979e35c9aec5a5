//! An engine without a driver, and what it has said.

use std::collections::HashMap;
use std::time::Instant;

use acp_core::{
    Connection, ConnectionOptions, Event, GenerateError, GenerateResponse, LaneId, Output, TurnId,
};
use serde_json::Value;

/// What the engine has said so far.
#[derive(Default)]
pub struct Seen {
    pub sent: Vec<Value>,
    pub opened: Vec<LaneId>,
    pub lanes_ended: HashMap<LaneId, u32>,
    pub turns: HashMap<TurnId, Vec<Result<GenerateResponse, GenerateError>>>,
    pub asked: Vec<acp_core::PermissionId>,
}

/// Takes everything that the engine has to say.
pub fn drain(connection: &mut Connection, seen: &mut Seen) {
    loop {
        match connection.poll_output() {
            Output::Send(line) => {
                assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
                seen.sent
                    .push(serde_json::from_slice(&line).expect("a line is JSON"));
            }
            Output::Event(Event::LaneOpened(lane)) => {
                seen.opened.push(lane);
                *seen.lanes_ended.entry(lane).or_default() += 1;
            }
            Output::Event(Event::LaneFailed(lane, _)) => {
                *seen.lanes_ended.entry(lane).or_default() += 1;
            }
            Output::Event(Event::TurnEnded(turn, result)) => {
                seen.turns.entry(turn).or_default().push(*result);
            }
            Output::Event(Event::PermissionAsked(id, _)) => seen.asked.push(id),
            Output::Event(_) => {}
            Output::Wait(_) => return,
            other => panic!("{other:?}"),
        }
    }
}

/// Where virtual time begins.
pub fn start() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant cannot be made otherwise"
    )]
    Instant::now()
}

/// A warm connection with one lane.
pub fn warm(options: ConnectionOptions, now: Instant) -> (Connection, LaneId, Seen) {
    let mut seen = Seen::default();
    let mut connection = Connection::new(options, now);
    let lane = connection.open_lane(now);
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#,
    ] {
        connection.handle_line(line.as_bytes(), now);
        drain(&mut connection, &mut seen);
    }
    assert_eq!(seen.opened, [lane]);
    (connection, lane, seen)
}
