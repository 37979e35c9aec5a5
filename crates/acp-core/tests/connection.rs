//! What no transcript can show, because it is about an instant or about what a host can look up.

mod warm;

use std::time::Duration;

use acp_core::{
    Connection, ConnectionOptions, GenerateError, GenerateRequest, PermissionPolicy, Settle,
    TurnOptions,
};
use warm::{drain, start, warm};

fn hi() -> GenerateRequest {
    GenerateRequest::user("hi")
}

/// The methods of what was sent, without the answers.
fn methods(sent: &[serde_json::Value]) -> Vec<&str> {
    sent.iter()
        .filter_map(|line| line["method"].as_str())
        .collect()
}

#[test]
fn a_prompt_waits_a_moment_after_an_error() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let failed = connection
        .prompt(lane, &hi(), TurnOptions::default(), now)
        .unwrap();
    connection.handle_line(br#"{"id":3,"error":{"code":-32603,"message":"e"}}"#, now);
    drain(&mut connection, &mut seen);
    assert!(
        seen.turns[&failed][0].is_err(),
        "the caller is told at once"
    );

    connection
        .prompt(lane, &hi(), TurnOptions::default(), now)
        .unwrap();
    connection.handle_timeout(now + Duration::from_millis(99));
    drain(&mut connection, &mut seen);
    let prompts = |seen: &warm::Seen| {
        let methods = methods(&seen.sent);
        methods
            .iter()
            .filter(|method| **method == "session/prompt")
            .count()
    };
    assert_eq!(prompts(&seen), 1);
    connection.handle_timeout(now + Duration::from_millis(100));
    drain(&mut connection, &mut seen);
    assert_eq!(prompts(&seen), 2);
}

#[test]
fn the_first_reason_for_a_cancel_is_the_one_that_counts() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let options = TurnOptions::default().deadline(Duration::from_secs(1));
    let turn = connection.prompt(lane, &hi(), options, now).unwrap();
    connection.handle_timeout(now + Duration::from_secs(1));
    connection.cancel(turn, now + Duration::from_secs(2));
    connection.handle_line(br#"{"id":3,"result":{"stopReason":"cancelled"}}"#, now);
    drain(&mut connection, &mut seen);
    let error = seen.turns[&turn][0].as_ref().unwrap_err();
    assert_eq!(error.kind(), "deadline_exceeded");
    let cancels = methods(&seen.sent);
    let cancels = cancels.iter().filter(|method| **method == "session/cancel");
    assert_eq!(cancels.count(), 1);
}

/// Many agents speak of a session before they have said that it exists.
#[test]
fn what_is_said_of_a_session_before_it_is_known_is_not_lost() {
    let now = start();
    let (mut connection, _, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let lane = connection.open_lane(now);
    for line in [
        r#"{"method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"plan"}]}}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s9","update":{"sessionUpdate":"current_mode_update","currentModeId":"other"}}}"#,
        r#"{"id":3,"result":{"sessionId":"s2","modes":{"currentModeId":"code","availableModes":[{"id":"code"}]}}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"current_mode_update","currentModeId":"ask"}}}"#,
    ] {
        connection.handle_line(line.as_bytes(), now);
    }
    drain(&mut connection, &mut seen);
    let session = connection.session(lane).unwrap();
    assert_eq!(session.available_commands[0]["name"], "plan");
    assert_eq!(session.modes["currentModeId"], "ask");
    assert_eq!(session.mode_ids(), Some(vec!["code"]));
}

/// A session is given back only to an agent that says it can take it.
#[test]
fn a_lane_that_is_closed_closes_its_session_where_the_agent_can() {
    for (capabilities, closes) in [
        (r#"{"sessionCapabilities":{"close":{}}}"#, 1),
        (r#"{"sessionCapabilities":{"close":null}}"#, 0),
        ("{}", 0),
    ] {
        let now = start();
        let mut seen = warm::Seen::default();
        let mut connection = acp_core::Connection::new(ConnectionOptions::new("/w"), now);
        let lane = connection.open_lane(now);
        for line in [
            format!(
                r#"{{"id":1,"result":{{"protocolVersion":1,"agentCapabilities":{capabilities}}}}}"#
            ),
            r#"{"id":2,"result":{"sessionId":"s1"}}"#.to_owned(),
        ] {
            connection.handle_line(line.as_bytes(), now);
        }
        connection.close_lane(lane, now);
        drain(&mut connection, &mut seen);
        let methods = methods(&seen.sent);
        let sent = methods.iter().filter(|method| **method == "session/close");
        assert_eq!(sent.count(), closes, "{capabilities}");
    }
}

/// The lane is gone from the host's hands while its turn runs on: the session is given back all the same, and
/// what it still says never reaches a lane that is given the same id.
#[test]
fn a_lane_that_is_closed_over_a_turn_that_ignores_its_cancel_is_forgotten() {
    let now = start();
    let mut seen = warm::Seen::default();
    let mut connection = acp_core::Connection::new(ConnectionOptions::new("/w"), now);
    let lane = connection.open_lane(now);
    for line in [
        r#"{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}}}"#,
        r#"{"id":2,"result":{"sessionId":"s1"}}"#,
    ] {
        connection.handle_line(line.as_bytes(), now);
    }
    let turn = connection
        .prompt(lane, &hi(), TurnOptions::default(), now)
        .unwrap();
    connection.close_lane(lane, now);
    connection.handle_timeout(now + Duration::from_secs(60));
    drain(&mut connection, &mut seen);
    assert_eq!(
        seen.turns[&turn][0].as_ref().unwrap_err().kind(),
        "cancelled"
    );
    assert_eq!(methods(&seen.sent).last(), Some(&"session/close"));
    assert!(connection.session(lane).is_none());

    let next = connection.open_lane(now);
    connection.handle_line(br#"{"id":5,"result":{"sessionId":"s1"}}"#, now);
    drain(&mut connection, &mut seen);
    assert_eq!(seen.lanes_ended[&next], 1);
    assert!(
        !seen.opened.contains(&next),
        "the id of a session that was given up"
    );
}

/// JSON-RPC has an error for a line that is no message, but an agent that logs to its standard output would
/// take it for the answer to something else.
#[test]
fn noise_is_not_answered() {
    let now = start();
    let (mut connection, _, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let sent = seen.sent.len();
    for line in ["DEBUG retrying", "42", "[]", "{}", r#"{"half": "#, "null"] {
        connection.handle_line(line.as_bytes(), now);
        drain(&mut connection, &mut seen);
    }
    assert_eq!(seen.sent.len(), sent, "{:?}", seen.sent.last());
}

#[test]
fn diagnostics_part_what_came_where_and_keep_the_end_of_both() {
    let now = start();
    let heading = "(on standard output, and no ACP message)\n";
    let connection = || warm(ConnectionOptions::new("/w"), now).0;
    let mut noisy = connection();
    assert_eq!(noisy.diagnostics(), "");
    noisy.handle_line(b"banner", now);
    assert_eq!(noisy.diagnostics(), format!("{heading}banner\n"));

    for stderr in ["oops\n", "oops"] {
        let mut both = connection();
        both.handle_stderr(stderr.as_bytes());
        assert_eq!(both.diagnostics(), stderr);
        both.handle_line(b"banner", now);
        assert_eq!(both.diagnostics(), format!("oops\n{heading}banner\n"));
    }

    let mut much = connection();
    for _ in 0..10_000 {
        much.handle_stderr(b"0123456789abcde\n");
        much.handle_line(b"0123456789abcde", now);
    }
    let diagnostics = much.diagnostics();
    let (stderr, noise) = diagnostics.split_once(heading).unwrap();
    assert!(
        (7 * 1024..9 * 1024).contains(&stderr.len()),
        "{}",
        stderr.len()
    );
    assert!((1536..2560).contains(&noise.len()), "{}", noise.len());
}

#[test]
fn a_host_can_look_at_the_agent_and_at_the_text_so_far() {
    let now = start();
    let (mut connection, lane, _) = warm(ConnectionOptions::new("/w"), now);
    assert_eq!(connection.agent().implementation, None);
    let mut named = Connection::new(ConnectionOptions::new("/w"), now);
    let answer =
        r#"{"id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"1"}}}"#;
    named.handle_line(answer.as_bytes(), now);
    let agent = named.agent().implementation.clone();
    assert_eq!(agent.map(|agent| agent.name), Some("a".to_owned()));
    let turn = connection
        .prompt(lane, &hi(), TurnOptions::default(), now)
        .unwrap();
    assert_eq!(connection.turn_text(turn), Some(""));
    let update = r#"{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"He"}}}}"#;
    connection.handle_line(update.as_bytes(), now);
    assert_eq!(connection.turn_text(turn), Some("He"));
    assert_eq!(connection.running(lane), Some(turn));
    connection.handle_line(br#"{"id":3,"result":{"stopReason":"end_turn"}}"#, now);
    assert_eq!(connection.turn_text(turn), None);
    assert_eq!(connection.running(lane), None);
}

/// A line of the agent that is an update of this session.
fn update(session: &str, update: &serde_json::Value) -> String {
    let params = serde_json::json!({"sessionId": session, "update": update});
    serde_json::json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

fn say(text: &str) -> String {
    let content = serde_json::json!({"type": "text", "text": text});
    update(
        "s1",
        &serde_json::json!({"sessionUpdate": "agent_message_chunk", "content": content}),
    )
}

#[test]
fn lanes_that_want_a_login_at_once_share_one() {
    let now = start();
    let mut options = ConnectionOptions::new("/w");
    options.authenticate = Some("key".to_owned());
    let mut connection = Connection::new(options, now);
    let mut seen = warm::Seen::default();
    let lanes = [connection.open_lane(now), connection.open_lane(now)];
    for line in [
        r#"{"id":1,"result":{"protocolVersion":1,"authMethods":[{"id":"key","name":"k"}]}}"#,
        r#"{"id":2,"error":{"code":-32000,"message":"log in"}}"#,
        r#"{"id":3,"error":{"code":-32000,"message":"log in"}}"#,
        r#"{"id":4,"result":{}}"#,
        r#"{"id":5,"result":{"sessionId":"a"}}"#,
        r#"{"id":6,"result":{"sessionId":"b"}}"#,
    ] {
        connection.handle_line(line.as_bytes(), now);
        drain(&mut connection, &mut seen);
    }
    assert_eq!(seen.opened, lanes);
    let want = [
        "initialize",
        "session/new",
        "session/new",
        "authenticate",
        "session/new",
        "session/new",
    ];
    assert_eq!(methods(&seen.sent), want);
}

#[test]
fn an_error_of_the_agent_is_shown_without_the_secrets_in_it() {
    let now = start();
    let mut options = ConnectionOptions::new("/w");
    options.secrets.add("correct-horse-battery");
    let (mut connection, lane, mut seen) = warm(options, now);
    let turn = connection
        .prompt(lane, &hi(), TurnOptions::default(), now)
        .unwrap();
    let line = r#"{"id":3,"error":{"code":401,"message":"bad key correct-horse-battery","data":{"key":"correct-horse-battery"}}}"#;
    connection.handle_line(line.as_bytes(), now);
    drain(&mut connection, &mut seen);
    let Err(GenerateError::Rejected { error, .. }) = &seen.turns[&turn][0] else {
        panic!("{:?}", seen.turns);
    };
    for shown in [error.message.clone(), error.data.to_string()] {
        assert!(
            !shown.contains("battery") && shown.contains("key"),
            "{shown}"
        );
    }
}

#[test]
fn a_replay_before_the_first_turn_does_not_make_the_agent_late() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    connection.handle_line(say("old").as_bytes(), now);
    let mut ends_at_once = |id: u64| {
        let turn = connection
            .prompt(lane, &hi(), TurnOptions::default(), now)
            .unwrap();
        connection.handle_line(say("new").as_bytes(), now);
        let answer = format!(r#"{{"id":{id},"result":{{"stopReason":"end_turn"}}}}"#);
        connection.handle_line(answer.as_bytes(), now);
        drain(&mut connection, &mut seen);
        let ended = seen.turns.contains_key(&turn);
        // Whoever was late once is waited for from then on.
        connection.handle_timeout(now + Duration::from_secs(1));
        drain(&mut connection, &mut seen);
        connection.handle_line(say("late").as_bytes(), now);
        ended
    };
    assert!(ends_at_once(3));
    assert!(!ends_at_once(4));
}

#[test]
fn each_late_chunk_is_waited_for_anew_up_to_a_limit() {
    let now = start();
    let mut options = ConnectionOptions::new("/w");
    options.settle = Settle::Always;
    let (mut connection, lane, mut seen) = warm(options, now);
    let after = |ms| now + Duration::from_millis(ms);
    let mut run = |id: u64, texts: &[u64]| {
        let turn = connection
            .prompt(lane, &hi(), TurnOptions::default().allow_empty(true), now)
            .unwrap();
        let answer = format!(r#"{{"id":{id},"result":{{"stopReason":"end_turn"}}}}"#);
        connection.handle_line(answer.as_bytes(), now);
        for ms in 0..5000 {
            if texts.contains(&ms) {
                connection.handle_line(say("x").as_bytes(), after(ms));
            }
            connection.handle_timeout(after(ms));
            drain(&mut connection, &mut seen);
            if let Some(results) = seen.turns.get(&turn) {
                return (ms, results[0].as_ref().unwrap().content.clone());
            }
        }
        panic!("it does not end");
    };
    assert_eq!(run(3, &[]), (250, String::new()));
    assert_eq!(run(4, &[200, 300]), (550, "xx".to_owned()));
    let always: Vec<u64> = (0..100).map(|i| i * 100).collect();
    let (ended, text) = run(5, &always);
    assert_eq!((ended, text.len()), (2000, 21));
}

#[test]
fn early_updates_are_kept_while_a_session_is_being_opened_and_within_bounds() {
    let now = start();
    let commands = |text: &str| {
        let names = serde_json::json!([{"name": text}]);
        serde_json::json!({"sessionUpdate": "available_commands_update", "availableCommands": names})
    };
    let known = |len: usize, opening: bool| {
        let (mut connection, _, _) = warm(ConnectionOptions::new("/w"), now);
        let line = update("s2", &commands(&"x".repeat(len)));
        if !opening {
            connection.handle_line(line.as_bytes(), now);
        }
        let lane = connection.open_lane(now);
        if opening {
            connection.handle_line(line.as_bytes(), now);
        }
        connection.handle_line(br#"{"id":3,"result":{"sessionId":"s2"}}"#, now);
        connection
            .session(lane)
            .unwrap()
            .available_commands
            .is_array()
    };
    assert!(known(60 * 1024, true));
    assert!(!known(65 * 1024, true), "it is too long to be kept");
    assert!(!known(10, false), "no session was being opened");
}

#[test]
fn an_update_that_cannot_be_read_is_counted_for_the_turn_of_its_session() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let turn = connection
        .prompt(lane, &hi(), TurnOptions::default(), now)
        .unwrap();
    for params in [
        r#"{"sessionId":"s1","update":7}"#,
        r#"{"sessionId":"s1","update":{}}"#,
        r#"{"sessionId":"s2","update":7}"#,
        r#"{"update":{}}"#,
    ] {
        let line = format!(r#"{{"method":"session/update","params":{params}}}"#);
        connection.handle_line(line.as_bytes(), now);
    }
    connection.handle_line(say("x").as_bytes(), now);
    connection.handle_line(br#"{"id":3,"result":{"stopReason":"end_turn"}}"#, now);
    drain(&mut connection, &mut seen);
    assert_eq!(seen.turns[&turn][0].as_ref().unwrap().dropped.malformed, 2);
}

#[test]
fn a_copy_in_a_log_is_told_up_to_a_length() {
    let now = start();
    for (len, copies) in [(60 * 1024, 1), (65 * 1024, 2)] {
        let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
        let turn = connection
            .prompt(lane, &hi(), TurnOptions::default(), now)
            .unwrap();
        let line = say(&"x".repeat(len));
        connection.handle_line(line.as_bytes(), now);
        connection.handle_line(format!("DEBUG sent {line}").as_bytes(), now);
        connection.handle_line(br#"{"id":3,"result":{"stopReason":"end_turn"}}"#, now);
        drain(&mut connection, &mut seen);
        let content = &seen.turns[&turn][0].as_ref().unwrap().content;
        assert_eq!(content.len(), copies * len);
    }
}

#[test]
fn an_agent_that_opens_no_session_any_more_is_stuck() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let prompt = |connection: &mut Connection| {
        connection
            .prompt(lane, &hi(), TurnOptions::default(), now)
            .unwrap()
    };
    let ignored = prompt(&mut connection);
    connection.cancel(ignored, now);
    connection.handle_timeout(now + Duration::from_secs(60));
    assert!(!connection.is_stuck(), "it was not asked yet");
    prompt(&mut connection);
    connection.handle_line(br#"{"id":4,"error":{"code":-32603,"message":"no"}}"#, now);
    assert!(connection.is_stuck());
    prompt(&mut connection);
    connection.handle_line(br#"{"id":5,"result":{"sessionId":"s2"}}"#, now);
    assert!(!connection.is_stuck());
    drain(&mut connection, &mut seen);
}

#[test]
fn a_turn_that_runs_elsewhere_keeps_a_stuck_agent() {
    let now = start();
    let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
    let other = connection.open_lane(now);
    connection.handle_line(br#"{"id":3,"result":{"sessionId":"s2"}}"#, now);
    let options = TurnOptions::default();
    let ignored = connection.prompt(lane, &hi(), options, now).unwrap();
    connection.cancel(ignored, now);
    connection.handle_timeout(now + Duration::from_secs(60));
    connection.prompt(other, &hi(), options, now).unwrap();
    connection.prompt(lane, &hi(), options, now).unwrap();
    connection.handle_line(br#"{"id":6,"error":{"code":-32603,"message":"no"}}"#, now);
    assert!(!connection.is_stuck(), "it may still answer");
    connection.handle_line(br#"{"id":5,"result":{"stopReason":"end_turn"}}"#, now);
    connection.handle_timeout(now + Duration::from_secs(60));
    assert!(connection.is_stuck());
    drain(&mut connection, &mut seen);
}

#[test]
fn the_host_is_asked_about_so_many_permissions_at_once_and_no_more() {
    let now = start();
    let mut options = ConnectionOptions::new("/w");
    options.permission = PermissionPolicy::Ask;
    let (mut connection, _, mut seen) = warm(options, now);
    for id in 0..70 {
        let params = r#"{"sessionId":"s1","options":[{"optionId":"no","kind":"reject_once"}]}"#;
        let line =
            format!(r#"{{"id":{id},"method":"session/request_permission","params":{params}}}"#);
        connection.handle_line(line.as_bytes(), now);
    }
    drain(&mut connection, &mut seen);
    assert_eq!(seen.asked.len(), 64);
    let refused = seen
        .sent
        .iter()
        .filter(|line| line["result"]["outcome"]["optionId"] == "no");
    assert_eq!(refused.count(), 6);
}

#[test]
fn a_request_that_is_none_is_answered_as_one() {
    let now = start();
    let (mut connection, _, mut seen) = warm(ConnectionOptions::new("/w"), now);
    connection.handle_line(br#"{"jsonrpc":"2.0","id":"a","method":7}"#, now);
    drain(&mut connection, &mut seen);
    let answer = seen.sent.last().unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&"a".into(), &(-32600).into())
    );
}
