//! What holds for any agent at all, on the engine alone.

mod warm;

use std::time::Duration;

use acp_core::{
    Connection, ConnectionOptions, ExitInfo, GenerateRequest, Output, PermissionDecision,
    PermissionPolicy, TurnOptions,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use warm::{Seen, drain, start, warm};

fn say(text: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": {
        "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}
    }}})
    .to_string()
}

proptest! {
    /// However the bytes are cut, the answer is the same, to the byte.
    #[test]
    fn any_split_of_the_bytes_gives_the_same_answer(
        texts in prop::collection::vec("\\PC{0,20}", 1..5),
        crlf: bool,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let now = start();
        let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
        let turn = connection
            .prompt(lane, &GenerateRequest::user("hi"), TurnOptions::default().allow_empty(true), now)
            .unwrap();
        let newline = if crlf { "\r\n" } else { "\n" };
        let mut stream = String::new();
        for text in &texts {
            stream += &say(text);
            stream += newline;
        }
        stream += r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#;
        stream += newline;
        let bytes = stream.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut from = 0;
        for cut in cuts {
            connection.handle_bytes(&bytes[from..cut], now);
            from = cut;
        }
        drain(&mut connection, &mut seen);
        // An empty answer waits for late text first.
        connection.handle_timeout(now + Duration::from_secs(10));
        drain(&mut connection, &mut seen);
        let results = &seen.turns[&turn];
        prop_assert_eq!(results.len(), 1);
        prop_assert_eq!(&results[0].as_ref().unwrap().content, &texts.concat());
    }

    /// Whatever the agent sends and whatever the host does meanwhile: nothing panics, every call ends
    /// exactly once, and every request of the agent is answered exactly once with its own id.
    #[test]
    fn any_agent_at_all_leaves_nothing_open(
        steps in prop::collection::vec(step(), 0..60),
        ask: bool,
        close: bool,
    ) {
        let mut now = start();
        let mut options = ConnectionOptions::new("/w");
        options.mode = ask.then(|| "plan".to_owned());
        if ask {
            options.permission = PermissionPolicy::Ask;
        }
        let mut seen = Seen::default();
        let mut connection = Connection::new(options, now);
        let mut lanes = vec![connection.open_lane(now)];
        let mut turns = Vec::new();
        let mut requests = Vec::new();
        let limits = TurnOptions::default()
            .idle_timeout(Duration::from_secs(5))
            .deadline(Duration::from_secs(20));
        for step in steps {
            match step {
                Step::Line(line) => {
                    if connection.is_open() && let Some(id) = request_id(&line) {
                        requests.push(id);
                    }
                    connection.handle_bytes(line.as_bytes(), now);
                    connection.handle_bytes(b"\n", now);
                }
                Step::Bytes(bytes) => {
                    connection.handle_bytes(&bytes, now);
                    connection.handle_bytes(b"\n", now);
                }
                Step::Stderr(bytes) => connection.handle_stderr(&bytes),
                Step::OpenLane => lanes.push(connection.open_lane(now)),
                Step::CloseLane(lane) => connection.close_lane(*lane.get(&lanes), now),
                Step::Prompt(lane) => {
                    let lane = *lane.get(&lanes);
                    let request = GenerateRequest::user("hi");
                    turns.extend(connection.prompt(lane, &request, limits, now));
                }
                Step::Cancel(turn) => {
                    if !turns.is_empty() {
                        connection.cancel(*turn.get(&turns), now);
                    }
                }
                Step::Decide(id) => {
                    if !seen.asked.is_empty() {
                        let id = *id.get(&seen.asked);
                        let decision = PermissionDecision::Select("a".into());
                        connection.answer_permission(id, decision, now);
                    }
                }
                Step::Wait(seconds) => {
                    now += Duration::from_secs(seconds);
                    connection.handle_timeout(now);
                }
            }
            drain(&mut connection, &mut seen);
        }
        // Time alone ends every turn and every request that the host was asked about.
        for _ in 0..100 {
            now += Duration::from_secs(30);
            connection.handle_timeout(now);
            drain(&mut connection, &mut seen);
        }
        for turn in &turns {
            prop_assert_eq!(seen.turns.get(turn).map_or(0, Vec::len), 1, "{:?}", turn);
        }
        for lane in &lanes {
            prop_assert_eq!(seen.lanes_ended.get(lane).copied(), Some(1), "{:?}", lane);
        }
        let mut answered: Vec<Value> = seen
            .sent
            .iter()
            .filter(|line| line.get("method").is_none())
            .map(|line| line["id"].clone())
            .collect();
        let key = |id: &Value| id.to_string();
        answered.sort_by_key(key);
        requests.sort_by_key(key);
        prop_assert_eq!(answered, requests);
        if close {
            connection.close(now);
        } else {
            connection.handle_eof(ExitInfo::code(1), now);
        }
        drain(&mut connection, &mut seen);
        prop_assert!(turns.iter().all(|turn| seen.turns[turn].len() == 1));
        prop_assert!(matches!(connection.poll_output(), Output::Wait(None)));
    }

    /// Any bytes are some frame, or noise.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let now = start();
        let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
        let turn = connection
            .prompt(lane, &GenerateRequest::user("hi"), TurnOptions::default(), now)
            .unwrap();
        connection.handle_bytes(&bytes, now);
        connection.handle_eof(ExitInfo::default(), now);
        drain(&mut connection, &mut seen);
        prop_assert_eq!(seen.turns[&turn].len(), 1);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Line(String),
    Bytes(Vec<u8>),
    Stderr(Vec<u8>),
    OpenLane,
    CloseLane(prop::sample::Selector),
    Prompt(prop::sample::Selector),
    Cancel(prop::sample::Selector),
    Decide(prop::sample::Selector),
    Wait(u64),
}

trait Get {
    fn get<'a, T>(&self, of: &'a [T]) -> &'a T;
}

impl Get for prop::sample::Selector {
    fn get<'a, T>(&self, of: &'a [T]) -> &'a T {
        self.select(of.iter())
    }
}

fn step() -> impl Strategy<Value = Step> {
    let selector = any::<prop::sample::Selector>;
    prop_oneof![
        12 => line().prop_map(Step::Line),
        1 => prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(Step::Bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::Stderr),
        1 => Just(Step::OpenLane),
        1 => selector().prop_map(Step::CloseLane),
        6 => selector().prop_map(Step::Prompt),
        2 => selector().prop_map(Step::Cancel),
        2 => selector().prop_map(Step::Decide),
        2 => (0..30u64).prop_map(Step::Wait),
    ]
}

/// Lines that an agent could send, in any order and with any of our ids.
fn line() -> impl Strategy<Value = String> {
    let session = prop::sample::select(vec!["s1", "s2", "s3", "unknown"]);
    let id = (1..12u64).prop_map(|id| json!(id));
    let result = prop::sample::select(vec![
        json!({"protocolVersion": 1}),
        json!({"protocolVersion": 1}),
        json!({"sessionId": "s1"}),
        json!({"sessionId": "s2"}),
        json!({"sessionId": "s3"}),
        json!({"stopReason": "end_turn"}),
        json!({"stopReason": "end_turn"}),
        json!({"stopReason": "cancelled"}),
        json!({"stopReason": "unheard_of"}),
        json!({}),
        json!(null),
    ]);
    let update = prop::sample::select(vec![
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}),
        json!({"sessionUpdate": "agent_message_chunk", "content": null}),
        json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "t"}}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "T", "status": "pending"}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"}),
        json!({"sessionUpdate": "unheard_of"}),
        json!({}),
    ]);
    let request_id = prop_oneof![
        (0..5i64).prop_map(|id| json!(id)),
        "[a-z]{1,4}".prop_map(|id| json!(id)),
        Just(json!(null)),
    ];
    let options =
        json!([{"optionId": "a", "kind": "allow_once"}, {"optionId": "r", "kind": "reject_once"}]);
    prop_oneof![
        6 => (id.clone(), result)
            .prop_map(|(id, result)| json!({"jsonrpc": "2.0", "id": id, "result": result})),
        1 => id.prop_map(|id| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "e"}})),
        6 => (session.clone(), update).prop_map(|(session, update)| json!({
            "jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": session, "update": update},
        })),
        3 => (request_id.clone(), session).prop_map(move |(id, session)| json!({
            "jsonrpc": "2.0", "id": id, "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": {"toolCallId": "t1"}, "options": options},
        })),
        1 => request_id.prop_map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "fs/read_text_file"})),
        1 => Just(json!({"jsonrpc": "2.0", "method": "_vendor/note"})),
    ]
    .prop_map(|line| line.to_string())
}

/// The id that a line wants answered, by the letter of JSON-RPC.
fn request_id(line: &str) -> Option<Value> {
    let line: Value = serde_json::from_str(line).ok()?;
    line.get("method")?;
    line.get("id").cloned()
}
