//! Whatever the agent sends and the host does: no panic, and every turn ends exactly once.

#![no_main]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use acp_core::{
    Connection, ConnectionOptions, Event, ExitInfo, GenerateRequest, LaneId, Output,
    PermissionDecision, PermissionPolicy, TurnId, TurnOptions,
};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
enum Step {
    Bytes(Vec<u8>),
    /// A response to one of our requests.
    Result(u8, Vec<u8>),
    Known(u8),
    Stderr(Vec<u8>),
    OpenLane,
    CloseLane(u8),
    Prompt(u8),
    Cancel(u8),
    Decide(u8),
    Wait(u8),
}

const KNOWN: [&str; 12] = [
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#,
    r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"result":{"sessionId":"s2"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#,
    r#"{"jsonrpc":"2.0","id":4,"result":{"stopReason":"cancelled"}}"#,
    r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"login"}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"t","status":"pending"}}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"current_mode_update","currentModeId":"m"}}}"#,
    r#"{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"a","kind":"allow_once"}]}}"#,
    r#"{"jsonrpc":"2.0","id":0,"method":"_vendor/x","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":5,"result":{}}"#,
];

fuzz_target!(|steps: Vec<Step>| {
    let mut now = Instant::now();
    let mut options = ConnectionOptions::new("/w");
    options.permission = PermissionPolicy::Ask;
    options.forward_requests = true;
    options.mode = (steps.len() % 2 == 0).then(|| "m".to_owned());
    let mut connection = Connection::new(options, now);
    let mut lanes = vec![connection.open_lane(now)];
    let mut turns: Vec<TurnId> = Vec::new();
    let mut seen = Seen::default();
    let limits = TurnOptions::default()
        .idle_timeout(Duration::from_secs(5))
        .deadline(Duration::from_secs(50));
    for step in steps {
        match step {
            Step::Bytes(bytes) => connection.handle_bytes(&bytes, now),
            Step::Result(id, body) => {
                let body = String::from_utf8_lossy(&body);
                let line = format!("{{\"id\":{},\"result\":{body}}}\n", id % 16);
                connection.handle_bytes(line.as_bytes(), now);
            }
            Step::Known(which) => {
                let line = KNOWN[usize::from(which) % KNOWN.len()];
                connection.handle_bytes(line.as_bytes(), now);
                connection.handle_bytes(b"\n", now);
            }
            Step::Stderr(bytes) => connection.handle_stderr(&bytes),
            Step::OpenLane => lanes.push(connection.open_lane(now)),
            Step::CloseLane(lane) => connection.close_lane(pick(&lanes, lane), now),
            Step::Prompt(lane) => {
                let request = GenerateRequest::user("hi");
                turns.extend(connection.prompt(pick(&lanes, lane), &request, limits, now));
            }
            Step::Cancel(turn) if !turns.is_empty() => {
                connection.cancel(turns[usize::from(turn) % turns.len()], now);
            }
            Step::Decide(id) if !seen.asked.is_empty() => {
                let id = seen.asked[usize::from(id) % seen.asked.len()];
                connection.answer_permission(id, PermissionDecision::Select("a".into()), now);
            }
            Step::Cancel(_) | Step::Decide(_) => {}
            Step::Wait(seconds) => {
                now += Duration::from_secs(seconds.into());
                connection.handle_timeout(now);
            }
        }
        seen.drain(&mut connection);
    }
    connection.handle_eof(ExitInfo::code(1), now);
    seen.drain(&mut connection);
    for turn in turns {
        assert_eq!(seen.ended.get(&turn), Some(&1), "{turn:?}");
    }
    assert!(matches!(connection.poll_output(), Output::Wait(None)));
});

fn pick(lanes: &[LaneId], which: u8) -> LaneId {
    lanes[usize::from(which) % lanes.len()]
}

#[derive(Default)]
struct Seen {
    ended: HashMap<TurnId, u32>,
    asked: Vec<acp_core::PermissionId>,
}

impl Seen {
    fn drain(&mut self, connection: &mut Connection) {
        loop {
            match connection.poll_output() {
                Output::Send(line) => {
                    let whole = line.iter().position(|&byte| byte == b'\n') == Some(line.len() - 1);
                    assert!(whole && serde_json::from_slice::<serde_json::Value>(&line).is_ok());
                }
                Output::Event(Event::TurnEnded(turn, _)) => {
                    *self.ended.entry(turn).or_default() += 1;
                }
                Output::Event(Event::PermissionAsked(id, _)) => self.asked.push(id),
                Output::Wait(_) => return,
                _ => {}
            }
        }
    }
}
