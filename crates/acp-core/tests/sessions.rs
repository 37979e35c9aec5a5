//! Sessions that are given up: who may still ask in them, and which ids may come again.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

mod warm;

use std::time::{Duration, Instant};

use acp_core::{
    Connection, ConnectionOptions, Event, GenerateError, GenerateRequest, LaneId, LoadError,
    Output, PermissionDecision, PermissionPolicy, TurnOptions,
};
use serde_json::{Value, json};
use warm::{Seen, drain, start, warm};

/// Closes a lane and opens another one, whose session has this id. Whether it was taken.
fn next_session(
    connection: &mut Connection,
    seen: &mut Seen,
    id: &str,
    now: Instant,
) -> Option<LaneId> {
    let lane = connection.open_lane(now);
    drain(connection, seen);
    let request = &seen.sent.last().unwrap()["id"];
    let answer = json!({"jsonrpc": "2.0", "id": request, "result": {"sessionId": id}});
    connection.handle_line(answer.to_string().as_bytes(), now);
    drain(connection, seen);
    seen.opened.contains(&lane).then_some(lane)
}

/// What a permission request in this session is answered.
fn asks(connection: &mut Connection, seen: &mut Seen, session: &str, now: Instant) -> Value {
    let options = json!([{"optionId": "a", "name": "a", "kind": "allow_once"}]);
    let params = json!({"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": options});
    let request = json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params});
    connection.handle_line(request.to_string().as_bytes(), now);
    drain(connection, seen);
    seen.sent.last().unwrap()["result"]["outcome"]["outcome"].clone()
}

#[test]
fn nothing_is_allowed_in_any_session_that_was_given_up() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    assert_eq!(asks(&mut connection, &mut seen, "s1", now), "selected");
    connection.close_lane(lane, now);
    for id in ["s2", "s3"] {
        let lane = next_session(&mut connection, &mut seen, id, now).unwrap();
        connection.close_lane(lane, now);
    }
    for id in ["s1", "s2", "s3"] {
        assert_eq!(
            asks(&mut connection, &mut seen, id, now),
            "cancelled",
            "{id}"
        );
    }
}

#[test]
fn an_id_may_come_again_unless_a_cancel_was_ignored_in_its_session() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    connection.close_lane(lane, now);
    let lane = next_session(&mut connection, &mut seen, "s2", now).unwrap();
    connection.close_lane(lane, now);
    // The agent uses the first id again, and then the second is still a session that was given up.
    let again = next_session(&mut connection, &mut seen, "s1", now).unwrap();
    assert_eq!(asks(&mut connection, &mut seen, "s1", now), "selected");
    assert_eq!(asks(&mut connection, &mut seen, "s2", now), "cancelled");

    let turn = connection
        .prompt(
            again,
            &GenerateRequest::user("hi"),
            TurnOptions::default(),
            now,
        )
        .unwrap();
    connection.cancel(turn, now);
    connection.handle_timeout(now + Duration::from_secs(60));
    connection.close_lane(again, now);
    assert!(next_session(&mut connection, &mut seen, "s1", now).is_none());
}

#[test]
fn a_vendor_s_request_is_handed_over_only_where_the_host_wants_it() {
    let now = start();
    let handed_over = |forward: bool, method: &str| {
        let mut options = ConnectionOptions::new("/w");
        options.forward_requests = forward;
        let mut connection = Connection::new(options, now);
        let line = json!({"jsonrpc": "2.0", "id": 7, "method": method});
        connection.handle_line(line.to_string().as_bytes(), now);
        let (mut events, mut answers) = (0, 0);
        loop {
            match connection.poll_output() {
                Output::Event(Event::RequestReceived(..)) => events += 1,
                Output::Send(line) => {
                    let line: Value = serde_json::from_slice(&line).unwrap();
                    answers += usize::from(line["error"]["code"] == -32601);
                }
                Output::Wait(_) => return (events, answers),
                _ => {}
            }
        }
    };
    assert_eq!(handed_over(true, "_x/y"), (1, 0));
    assert_eq!(handed_over(false, "_x/y"), (0, 1));
    assert_eq!(handed_over(true, "fs/read_text_file"), (0, 1));
    assert_eq!(handed_over(false, "fs/read_text_file"), (0, 1));
}

#[test]
fn the_time_that_the_host_takes_is_none_of_the_agent_s() {
    let now = start();
    let at = |seconds| now + Duration::from_secs(seconds);
    let mut options = ConnectionOptions::new("/w");
    options.permission = PermissionPolicy::Ask;
    let (mut connection, lane, mut seen) = warm(options, now);
    let limits = TurnOptions::default().idle_timeout(Duration::from_secs(5));
    let turn = connection
        .prompt(lane, &GenerateRequest::user("hi"), limits, now)
        .unwrap();
    let options = json!([{"optionId": "no", "kind": "reject_once"}]);
    for id in 0..2 {
        let params = json!({"sessionId": "s1", "options": options});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params});
        connection.handle_line(request.to_string().as_bytes(), now);
    }
    drain(&mut connection, &mut seen);
    connection.handle_timeout(at(20));
    for id in seen.asked.clone() {
        connection.answer_permission(id, PermissionDecision::Select("no".to_owned()), at(20));
    }
    connection.handle_timeout(at(24));
    drain(&mut connection, &mut seen);
    let cancelled = |seen: &Seen| {
        seen.sent
            .iter()
            .any(|line| line["method"] == "session/cancel")
    };
    assert!(!cancelled(&seen), "its five seconds begin with the answer");
    connection.handle_line(br#"{"id":3,"result":{"stopReason":"end_turn"}}"#, at(24));
    connection.handle_timeout(at(30));
    drain(&mut connection, &mut seen);
    let Err(GenerateError::EmptyTurn { dropped, .. }) = &seen.turns[&turn][0] else {
        panic!("{:?}", seen.turns);
    };
    assert_eq!(dropped.refused_permissions, 2);

    // And they end five seconds after it.
    connection
        .prompt(lane, &GenerateRequest::user("hi"), limits, at(40))
        .unwrap();
    assert_eq!(asks_host(&mut connection, &mut seen, at(40)), 3);
    let asked = *seen.asked.last().unwrap();
    connection.answer_permission(asked, PermissionDecision::Cancelled, at(60));
    connection.handle_timeout(at(64));
    drain(&mut connection, &mut seen);
    assert!(!cancelled(&seen));
    connection.handle_timeout(at(65));
    drain(&mut connection, &mut seen);
    assert!(cancelled(&seen));
}

/// Asks the host once more. How often it has been asked.
fn asks_host(connection: &mut Connection, seen: &mut Seen, now: Instant) -> usize {
    let params = json!({"sessionId": "s1", "options": []});
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": params});
    connection.handle_line(request.to_string().as_bytes(), now);
    drain(connection, seen);
    seen.asked.len()
}

#[test]
fn the_clock_of_silence_begins_anew_when_the_last_tool_is_done() {
    let now = start();
    let at = |seconds| now + Duration::from_secs(seconds);
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let limits = TurnOptions::default().idle_timeout(Duration::from_secs(5));
    connection
        .prompt(lane, &GenerateRequest::user("hi"), limits, now)
        .unwrap();
    let mut tool = |status: &str, seconds: u64| {
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "status": status});
        let params = json!({"sessionId": "s1", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        connection.handle_line(line.to_string().as_bytes(), at(seconds));
        // Timers are late: the one of the turn is not looked at before.
        for second in seconds..seconds + 20 {
            connection.handle_timeout(at(second));
            drain(&mut connection, &mut seen);
            if seen
                .sent
                .iter()
                .any(|line| line["method"] == "session/cancel")
            {
                return Some(second);
            }
        }
        None
    };
    assert_eq!(tool("in_progress", 0), None, "a tool may take its time");
    assert_eq!(tool("completed", 20), Some(25));
}

#[test]
fn a_lane_that_gives_its_session_up_takes_nothing_from_another() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let other = next_session(&mut connection, &mut seen, "s2", now).unwrap();
    let request = GenerateRequest::user("hi");
    let options = TurnOptions::default().allow_empty(true);
    let ignored = connection.prompt(lane, &request, options, now).unwrap();
    let answered = connection.prompt(other, &request, options, now).unwrap();
    connection.cancel(ignored, now);
    connection.handle_timeout(now + Duration::from_secs(10));
    drain(&mut connection, &mut seen);
    assert!(seen.turns.contains_key(&ignored));
    // The answer to the turn that was given up is nobody's, and the other is the other's.
    for id in [4, 5] {
        let line = format!(r#"{{"id":{id},"result":{{"stopReason":"end_turn"}}}}"#);
        connection.handle_line(line.as_bytes(), now);
    }
    connection.handle_timeout(now + Duration::from_secs(20));
    drain(&mut connection, &mut seen);
    assert!(seen.turns[&answered][0].is_ok());
    assert_eq!(seen.turns[&ignored].len(), 1);
}

#[test]
fn each_turn_counts_what_came_while_it_ran() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let stray = [
        "noise",
        r#"{"method":"session/update","params":{"sessionId":"s9","update":{"sessionUpdate":"plan"}}}"#,
        r#"{"id":1,"method":"fs/read_text_file","params":{"sessionId":"s1"}}"#,
    ];
    let options = TurnOptions::default().allow_empty(true);
    for (id, times) in [(3, 1), (4, 2), (5, 0)] {
        // What comes between turns is no turn's.
        for line in stray {
            connection.handle_line(line.as_bytes(), now);
        }
        let turn = connection
            .prompt(lane, &GenerateRequest::user("hi"), options, now)
            .unwrap();
        for line in stray.iter().cycle().take(3 * times) {
            connection.handle_line(line.as_bytes(), now);
        }
        let line = format!(r#"{{"id":{id},"result":{{"stopReason":"end_turn"}}}}"#);
        connection.handle_line(line.as_bytes(), now);
        connection.handle_timeout(now + Duration::from_secs(1));
        drain(&mut connection, &mut seen);
        let dropped = &seen.turns[&turn][0].as_ref().unwrap().dropped;
        let counts = [dropped.noise, dropped.other_sessions, dropped.requests];
        assert_eq!(counts, [times as u64; 3]);
    }
}

#[test]
fn nothing_is_due_after_a_turn_that_a_refusal_ended_at_once() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let options = TurnOptions::default()
        .idle_timeout(Duration::from_secs(60))
        .deadline(Duration::from_secs(3600));
    let turn = connection
        .prompt(lane, &GenerateRequest::user("hi"), options, now)
        .unwrap();
    connection.handle_line(br#"{"id":3,"result":{"stopReason":"refusal"}}"#, now);
    drain(&mut connection, &mut seen);
    // A refusal without text is no answer that may be late.
    assert_eq!(seen.turns[&turn][0].as_ref().unwrap_err().kind(), "refused");
    assert!(matches!(connection.poll_output(), Output::Wait(None)));
}

#[test]
fn a_lane_takes_turns_once_it_is_open() {
    let now = start();
    let mut connection = Connection::new(ConnectionOptions::new("/w"), now);
    let lane = connection.open_lane(now);
    let request = GenerateRequest::user("hi");
    for line in [
        r#"{"id":1,"result":{"protocolVersion":1}}"#,
        r#"{"id":2,"result":{"sessionId":"s1"}}"#,
    ] {
        let early = connection.prompt(lane, &request, TurnOptions::default(), now);
        assert_eq!(early.unwrap_err().kind(), "invalid_options");
        connection.handle_line(line.as_bytes(), now);
    }
    assert!(
        connection
            .prompt(lane, &request, TurnOptions::default(), now)
            .is_ok()
    );
}

#[test]
fn a_start_that_takes_too_long_names_what_it_waited_for() {
    let now = start();
    let waited_for = |answers: &[&str]| {
        let mut options = ConnectionOptions::new("/w");
        options.mode = Some("plan".to_owned());
        let mut connection = Connection::new(options, now);
        connection.open_lane(now);
        for line in answers {
            connection.handle_line(line.as_bytes(), now);
        }
        connection.handle_timeout(now + Duration::from_secs(120));
        loop {
            match connection.poll_output() {
                Output::Event(Event::LaneFailed(_, LoadError::StartupTimeout { method, .. })) => {
                    return method;
                }
                Output::Wait(_) => panic!("it does not fail"),
                _ => {}
            }
        }
    };
    let initialized = r#"{"id":1,"result":{"protocolVersion":1}}"#;
    let opened = r#"{"id":2,"result":{"sessionId":"s1"}}"#;
    assert_eq!(waited_for(&[]), "initialize");
    assert_eq!(waited_for(&[initialized]), "session/new");
    assert_eq!(waited_for(&[initialized, opened]), "session/set_mode");
}
