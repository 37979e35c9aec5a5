//! What no transcript can show, because it is about an instant or about what a host can look up.

mod warm;

use std::time::Duration;

use acp_core::{ConnectionOptions, GenerateRequest, TurnOptions};
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
    assert_eq!(connection.agent().capabilities, serde_json::Value::Null);
    let turn = connection
        .prompt(lane, &hi(), TurnOptions::default(), now)
        .unwrap();
    assert_eq!(connection.turn_text(turn), Some(""));
    let update = r#"{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"He"}}}}"#;
    connection.handle_line(update.as_bytes(), now);
    assert_eq!(connection.turn_text(turn), Some("He"));
    connection.handle_line(br#"{"id":3,"result":{"stopReason":"end_turn"}}"#, now);
    assert_eq!(connection.turn_text(turn), None);
}
