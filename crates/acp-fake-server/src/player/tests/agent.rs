//! Steps of the agent: its end, its messages, its bytes and its processes.

use super::*;

#[test]
fn the_end_of_input_comes_after_everything_unread() {
    let steps = [r#"{"want_eof":true}"#];
    assert_eq!(passes(&steps, &[Start, Eof(1)]), ["Exit(0)"]);
    assert_eq!(
        passes(&steps, &[Start, Gone(1)]),
        [""; 0],
        "what is gone cannot exit"
    );
    assert!(
        fails(&steps, &[Start, Line(INIT), Eof(1)])
            .got
            .unwrap()
            .contains("initialize")
    );
    assert!(waits(&steps, &[Start]).contains("the end of the agent's input"));

    let wanted = fails(&[r#"{"want":"initialize"}"#], &[Start, Eof(1)]);
    assert!(
        wanted
            .message
            .contains("closed the agent's input while the request initialize")
    );
}

#[test]
fn an_agent_exits_at_the_end_of_its_input_unless_it_lingers() {
    let steps = [
        r#"{"call":"close"}"#,
        r#"{"returns":"close","ok":{}}"#,
        r#"{"want_eof":true}"#,
    ];
    let (actions, _) = run(Role::Both, &steps, &[Start, Eof(1)]);
    assert_eq!(
        actions,
        ["call close close {}", "Exit(0)"],
        "before the client returns"
    );
    passes(&steps, &[Start, Eof(1), Ok("close", json!({}))]);

    for linger in [r#"{"linger":"eof"}"#, r#"{"linger":"term"}"#] {
        let steps = [linger, steps[0], steps[1], steps[2]];
        let (actions, _) = run(Role::Both, &steps, &[Start, Eof(1)]);
        assert!(actions[0].starts_with("Linger"));
        assert_eq!(actions[1..], ["call close close {}"]);
    }
    let own = [r#"{"want_eof":true}"#, r#"{"exit":3}"#];
    assert_eq!(
        passes(&own, &[Start, Eof(1)]),
        ["Exit(3)"],
        "the transcript comes first"
    );
    let late = [
        r#"{"want_eof":true}"#,
        r#"{"delay_ms":5,"note":"slow"}"#,
        r#"{"exit":3}"#,
    ];
    assert_eq!(
        passes(&late, &[Start, Eof(1), Elapsed]),
        ["delay 5ms", "Exit(3)"]
    );
}

#[test]
fn messages_to_the_client_are_written_as_lines() {
    let steps = ready(&[
        r#"{"tell":"_t"}"#,
        r#"{"say":["a","b"],"kind":"agent_thought_chunk","session":"s2","message_id":"m"}"#,
        r#"{"update":{"sessionUpdate":"x"},"invalid":"unknown kind"}"#,
        r#"{"ask_permission":["allow_once",{"optionId":"o"}],"as":"p","tool":{"t":1}}"#,
        r#"{"reply":"n","error":{"code":1},"id":"other"}"#,
    ]);
    let mut player = player(Role::Both, &steps);
    for input in opened(vec![]) {
        tell(&mut player, &input);
        drain(&mut player);
    }
    let lines: Vec<(String, Option<&str>, Option<&str>)> = player
        .log()
        .iter()
        .filter_map(|entry| match &entry.event {
            LogEvent::ToClient {
                line,
                answers,
                invalid,
                ..
            } => Some((
                String::from_utf8(line.clone()).unwrap(),
                answers.as_deref(),
                invalid.as_deref(),
            )),
            _ => None,
        })
        .collect();
    // Below the envelope the order of members depends on what else is built with serde_json.
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let chunk = |text: &str| {
        json!({
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": "s2", "update": {
                "sessionUpdate": "agent_thought_chunk",
                "content": {"type": "text", "text": text},
                "messageId": "m",
            }},
        })
    };
    assert_eq!(lines[0].1, Some("initialize"));
    let lines = &lines[2..];
    assert_eq!(lines[0].0, r#"{"jsonrpc":"2.0","method":"_t"}"#);
    assert_eq!(read(&lines[1].0), chunk("a"));
    assert_eq!(read(&lines[2].0), chunk("b"));
    assert_eq!(lines[3].2, Some("unknown kind"));
    assert_eq!(
        read(&lines[4].0)["params"],
        json!({
            "sessionId": "s1",
            "toolCall": {"t": 1},
            "options": [
                {"optionId": "allow_once", "name": "allow_once", "kind": "allow_once"},
                {"optionId": "o"},
            ],
        })
    );
    assert_eq!(
        lines[5].0,
        r#"{"jsonrpc":"2.0","id":"other","error":{"code":1}}"#
    );
    assert_eq!(lines[5].1, Some("session/new"));
}

#[test]
fn bytes_are_written_as_they_stand_and_as_they_are_cut() {
    let steps = [
        r#"{"raw":"\u00ff\u0000x","times":2}"#,
        r#"{"split":{"tell":"_t"},"at":[1,5]}"#,
        r#"{"split":{"tell":"_t"},"every":20}"#,
        r#"{"batch":[{"tell":"_a"},{"tell":"_b"}]}"#,
        r#"{"stderr":"e","times":3}"#,
    ];
    let mut player = player(Role::Both, &steps);
    player.handle(Input::Started);
    let mut commands = Vec::new();
    while let Action::Agent { command, .. } = player.poll() {
        commands.push(command);
    }
    let line = br#"{"jsonrpc":"2.0","method":"_t"}"#.as_slice();
    let line = [line, b"\n"].concat();
    let batch =
        b"{\"jsonrpc\":\"2.0\",\"method\":\"_a\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"_b\"}\n";
    assert_eq!(
        commands,
        [
            Command::Stdout(b"\xff\0x\xff\0x".to_vec()),
            Command::Stdout(line[..1].to_vec()),
            Command::Stdout(line[1..5].to_vec()),
            Command::Stdout(line[5..].to_vec()),
            Command::Stdout(line[..20].to_vec()),
            Command::Stdout(line[20..].to_vec()),
            Command::Stdout(batch.to_vec()),
            Command::Stderr(b"eee".to_vec()),
        ]
    );
    // The length of this line is known only when it is written.
    let beyond = fails(&[r#"{"split":{"ask":"_t"},"at":[500]}"#], &[Start]);
    assert_eq!(beyond.fault, Fault::Fixture);
    assert!(beyond.message.contains("cannot be cut at 500"), "{beyond}");
}

#[test]
fn the_process_does_what_it_is_told_once_it_runs() {
    let steps = [
        r#"{"stop_reading":true}"#,
        r#"{"stop_reading":false}"#,
        r#"{"grandchild":true}"#,
        r#"{"close_stdout":true}"#,
        r#"{"signal":"SIGKILL"}"#,
    ];
    assert!(waits(&steps, &[]).contains("the client to start the agent"));
    assert_eq!(
        passes(&steps, &[Start]),
        [
            "StopReading(true)",
            "StopReading(false)",
            "Grandchild",
            "CloseStdout",
            "Signal(Kill)",
        ]
    );
}

#[test]
fn what_reaches_an_agent_after_its_end_is_ignored() {
    let steps = [
        r#"{"call":"load"}"#,
        r#"{"exit":1}"#,
        r#"{"returns":"load","err":{}}"#,
    ];
    passes(
        &steps,
        &[
            Start,
            Line(INIT),
            Line("junk"),
            Eof(1),
            Gone(1),
            Err("load", json!({})),
        ],
    );
    let before = [
        r#"{"call":"load"}"#,
        r#"{"returns":"load","err":{}}"#,
        r#"{"exit":1}"#,
    ];
    let unread = fails(&before, &[Start, Line(INIT), Err("load", json!({}))]);
    assert_eq!(unread.message, "no step takes what the client wrote");
}

#[test]
fn a_second_process_starts_afresh_and_only_where_there_is_one() {
    let steps = [
        r#"{"want":"initialize","as":"i"}"#,
        r#"{"want_eof":true}"#,
        r#"{"process":2}"#,
        r#"{"want":"initialize","as":"i"}"#,
        r#"{"reply":"i","result":1}"#,
    ];
    let first = [Start, Line(INIT), Eof(1)];
    let both = first
        .into_iter()
        .chain([Start, LineTo(2, INIT)])
        .collect::<Vec<_>>();
    let actions = passes(&steps, &both);
    assert_eq!(actions[0], "Exit(0)");
    assert!(actions[1].starts_with("2: Stdout"), "{actions:?}");
    // The second starts before the first has ended.
    passes(&steps, &[Start, Line(INIT), Start, LineTo(2, INIT), Eof(1)]);
    assert!(waits(&steps, &[Start, Line(INIT), Start, LineTo(2, INIT)]).contains(":3:"));

    let third = [Start, Start, Start];
    assert!(fails(&steps, &third).message.contains("agent process 3"));
    assert!(
        fails(&[r#"{"note":"x"}"#], &[Start])
            .message
            .contains("the transcript has none")
    );
    assert_eq!(
        fails(&steps, &[Start, LineTo(2, INIT)]).fault,
        Fault::Fixture
    );
}

#[test]
fn a_process_that_is_still_there_holds_the_next_one_up() {
    let steps = [
        r#"{"want":"initialize"}"#,
        r#"{"process":2}"#,
        r#"{"want":"initialize"}"#,
    ];
    assert!(waits(&steps, &[Start, Line(INIT)]).contains("the end of agent process 1"));
    let left = fails(&steps, &[Start, Line(INIT), Line(NEW), Gone(1)]);
    assert_eq!(left.message, "no step takes what the client wrote");
}

#[test]
fn a_request_may_be_answered_in_one_of_two_ways() {
    let steps = [
        r#"{"ask":"_a","as":"x"}"#,
        r#"{"want_reply":"x","result":{"n":1},"error":{"code":-32602}}"#,
    ];
    let result = r#"{"jsonrpc":"2.0","id":0,"result":{"n":1}}"#;
    passes(&steps, &[Start, Line(result)]);
    let error = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"m"}}"#;
    passes(&steps, &[Start, Line(error)]);
    let other = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"m"}}"#;
    let failure = fails(&steps, &[Start, Line(other)]);
    assert_eq!(failure.path.as_deref(), Some("$.error.code"));
    let neither = r#"{"jsonrpc":"2.0","id":0,"result":{"n":2}}"#;
    let failure = fails(&steps, &[Start, Line(neither)]);
    assert_eq!(failure.path.as_deref(), Some("$.result.n"));
}

#[test]
fn a_client_may_complain_of_noise_and_of_nothing_else() {
    const COMPLAINT: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#;
    const OTHER: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}"#;
    let raw = |text: &str| json!({"raw": text}).to_string();
    let answer = r#"{"jsonrpc":"2.0","id":null,"error":{}}"#;
    for (text, said, passes) in [
        ("DEBUG\n".to_owned(), COMPLAINT, true),
        ("42\n".to_owned(), COMPLAINT, true),
        (format!("{answer}\n{{}}\n"), COMPLAINT, true),
        ("DEBUG\n".to_owned(), OTHER, false),
        (format!("{answer}\n\r\n"), COMPLAINT, true),
        (format!("{answer}\r\n{answer}\n"), COMPLAINT, false),
    ] {
        let raw = raw(&text);
        let steps = [raw.as_str(), r#"{"want":"initialize"}"#];
        let (_, end) = run(Role::Both, &steps, &[Start, Line(said), Line(INIT)]);
        assert_eq!(matches!(end, Action::Done), passes, "{text:?} {end:?}");
    }
}
