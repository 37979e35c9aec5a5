mod hidden;

use std::path::Path;

use serde_json::{Value, json};

use super::{Options, distill};
use crate::fixture::Fixture;
use crate::recording::Recording;

const INIT: [(&str, &str); 2] = [
    (
        "c2a",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#,
    ),
    (
        "a2c",
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"acme","version":"1.2"}}}"#,
    ),
];

const NEW: [(&str, &str); 2] = [
    (
        "c2a",
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/srv/job","mcpServers":[]}}"#,
    ),
    (
        "a2c",
        r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"0f0f-0f0f"}}"#,
    ),
];

fn prompt(id: u32, text: &str) -> (&'static str, String) {
    let params = json!({"sessionId": "0f0f-0f0f", "prompt": [{"type": "text", "text": text}]});
    let message = json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params});
    ("c2a", message.to_string())
}

fn agent(message: Value) -> (&'static str, String) {
    let mut message = message;
    message["jsonrpc"] = "2.0".into();
    ("a2c", message.to_string())
}

fn client(message: Value) -> (&'static str, String) {
    ("c2a", agent(message).1)
}

fn chunk(text: &str) -> (&'static str, String) {
    let update =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    let params = json!({"sessionId": "0f0f-0f0f", "update": update});
    agent(json!({"method": "session/update", "params": params}))
}

fn done(id: u32, reason: &str) -> (&'static str, String) {
    agent(json!({"id": id, "result": {"stopReason": reason}}))
}

fn opened() -> Vec<(&'static str, String)> {
    let lines = INIT.into_iter().chain(NEW);
    lines.map(|(dir, line)| (dir, line.to_owned())).collect()
}

/// A recording of these lines, and of what `end` says of the process.
fn recording(lines: &[(&str, String)], end: &[Value]) -> Recording {
    let lines = lines
        .iter()
        .map(|(dir, line)| json!({"t_ms": 1, "dir": dir, "line": line}));
    let text: String = lines
        .chain(end.iter().cloned())
        .map(|line| format!("{line}\n"))
        .collect();
    Recording::parse(Path::new("r.jsonl"), &text).unwrap()
}

/// The steps of the transcript, which can be read, and the notes.
fn steps(recording: &Recording, options: Options) -> (Vec<String>, Vec<String>) {
    let options = Options {
        id: "recorded/acme".to_owned(),
        ..options
    };
    let distilled = distill(recording, &options).unwrap();
    let path = Path::new("recorded/acme.jsonl");
    let fixture = Fixture::parse(path, &distilled.text, &mut |_| None);
    assert!(fixture.is_ok(), "{fixture:?}\n{}", distilled.text);
    let lines = distilled.text.lines().map(str::to_owned).collect();
    let notes = distilled.notes.iter().map(ToString::to_string).collect();
    (lines, notes)
}

fn both(lines: &[(&str, String)]) -> Vec<String> {
    steps(&recording(lines, &[]), Options::default()).0
}

#[test]
fn a_turn_becomes_a_turn_with_its_host() {
    let mut lines = opened();
    lines.extend([
        ("a2c", "log: 0f0f-0f0f in /srv/job".to_owned()),
        prompt(2, "hi"),
        chunk("Hel"),
        chunk("lo"),
        done(2, "end_turn"),
    ]);
    let want = [
        r#"{"fixture":"recorded/acme","format":1,"title":"The client has the conversation with acme 1.2 that was recorded","level":"must","covers":["TODO"],"source":"recorded acme 1.2"}"#,
        r#"{"call":"load"}"#,
        r#"{"want":"initialize","params":{"protocolVersion":1},"as":"init"}"#,
        r#"{"reply":"init","result":{"protocolVersion":1,"agentInfo":{"name":"acme","version":"1.2"}}}"#,
        r#"{"want":"session/new","params":{"cwd":"$abspath","mcpServers":[]},"as":"new1"}"#,
        r#"{"reply":"new1","result":{"sessionId":"s1"}}"#,
        r#"{"returns":"load","ok":{"session_id":{"$oneof":["$absent","s1"]}}}"#,
        r#"{"raw":"log: s1 in /project\n"}"#,
        r#"{"call":"generate","args":{"messages":[{"role":"user","content":"hi"}]},"as":"g1"}"#,
        r#"{"want":"session/prompt","params":{"sessionId":"s1"},"as":"p1"}"#,
        r#"{"say":["Hel","lo"]}"#,
        r#"{"reply":"p1","result":{"stopReason":"end_turn"}}"#,
        r#"{"returns":"g1","ok":{"content":"Hello"}}"#,
        r#"{"call":"close"}"#,
        r#"{"want_eof":true}"#,
        r#"{"returns":"close","ok":{}}"#,
    ];
    assert_eq!(both(&lines), want);
    let quiet = Options {
        drop_noise: true,
        ..Options::default()
    };
    let (lines, _) = steps(&recording(&lines, &[]), quiet);
    assert!(!lines.iter().any(|line| line.starts_with(r#"{"raw""#)));
}

#[test]
fn what_no_client_does_is_left_out_and_named() {
    let mut lines = opened();
    lines.extend([
        client(json!({"id": 7, "method": "session/list", "params": {}})),
        ("c2a", "garbage".to_owned()),
        agent(json!({"id": 7, "result": {"sessions": []}})),
        agent(json!({"id": 99, "result": {}})),
        client(json!({"method": "session/cancel", "params": {"sessionId": "0f0f-0f0f"}})),
    ]);
    let (lines, notes) = steps(&recording(&lines, &[]), Options::default());
    assert_eq!(lines.len(), 10, "{lines:?}");
    let want = [
        "r.jsonl:5: session/list and its answer are left out: no operation of the driver protocol leads to it",
        "r.jsonl:6: what the client wrote is left out: it is no message",
        "r.jsonl:8: an answer is left out: nothing that is played was asked",
        "r.jsonl:9: session/cancel is left out: no turn runs that it is for",
    ];
    assert_eq!(notes, want);
}

#[test]
fn a_cancel_ends_its_turn_and_answers_what_was_pending() {
    let mut lines = opened();
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let asked =
        json!({"sessionId": "0f0f-0f0f", "toolCall": {"toolCallId": "t"}, "options": options});
    lines.extend([
        prompt(2, "hi"),
        chunk("a"),
        agent(json!({"id": "x", "method": "session/request_permission", "params": asked})),
        client(json!({"method": "session/cancel", "params": {"sessionId": "0f0f-0f0f"}})),
        done(2, "end_turn"),
    ]);
    let lines = both(&lines);
    let text = lines.join("\n");
    assert!(text.contains(r#""needs":["cancel","permission_callback"]"#));
    assert!(text.contains(
        r#"{"call":"load","args":{"permission":"ask","permission_answers":[{"never":true}]}}"#
    ));
    assert!(text.contains(r#"{"any_order":[{"want_note":"session/cancel","params":{"sessionId":"s1"}},{"want_reply":"perm1""#));
    assert!(
        text.contains(r#"{"returns":"g1","err":{"kind":"cancelled"}}"#),
        "{text}"
    );
}

#[test]
fn a_prompt_into_a_busy_session_waits_for_the_turn_before_it() {
    let mut lines = opened();
    lines.extend([
        prompt(2, "first"),
        prompt(3, "second"),
        done(3, "cancelled"),
        chunk("a"),
        done(2, "end_turn"),
    ]);
    let lines = both(&lines);
    let want = [
        r#"{"call":"generate""#,
        r#"{"want":"session/prompt""#,
        r#"{"call":"generate""#,
        r#"{"say":"a"}"#,
        r#"{"reply":"p1""#,
        r#"{"returns":"g1""#,
        r#"{"want":"session/prompt""#,
    ];
    for (line, want) in lines[7..].iter().zip(want) {
        assert!(line.starts_with(want), "{lines:#?}");
    }
    assert_eq!(
        lines[14],
        r#"{"reply":"p2","result":{"stopReason":"cancelled"}}"#
    );
    assert_eq!(lines[15], r#"{"returns":"g2","err":{"kind":"cancelled"}}"#);
}

#[test]
fn the_end_of_the_agent_fails_what_runs() {
    let mut lines = opened();
    lines.extend([prompt(2, "hi"), chunk("a")]);
    let exits = recording(&lines, &[json!({"t_ms": 2, "exit": 3})]);
    let (text, _) = steps(&exits, Options::default());
    assert_eq!(text[10], r#"{"exit":3}"#);
    assert_eq!(
        text[11],
        r#"{"returns":"g1","err":{"kind":"agent_exited"}}"#
    );
    // Without more than the end of its output, that it did not answer shows that it has ended.
    let closes = |side: &str| json!({"t_ms": 2, "dir": side, "end": true});
    let (text, notes) = steps(&recording(&lines, &[closes("a2c")]), Options::default());
    assert_eq!(text[10], r#"{"exit":1}"#);
    assert_eq!(notes.len(), 1, "{notes:?}");
    let idle = recording(&opened(), &[closes("a2c")]);
    let (text, notes) = steps(&idle, Options::default());
    assert_eq!(text[8], r#"{"want_eof":true}"#);
    assert_eq!(notes.len(), 0, "{notes:?}");
    // Whoever closes the agent's input wants it to exit.
    let closed = recording(&lines, &[closes("c2a"), json!({"t_ms": 3, "exit": 0})]);
    let (text, _) = steps(&closed, Options::default());
    assert_eq!(
        text[12],
        r#"{"any_order":[{"returns":"g1","err":{"kind":"closed"}},{"returns":"close","ok":{}}]}"#
    );
}

#[test]
fn a_lane_that_never_opens_fails_with_the_agent() {
    let mut lines = opened();
    let again = NEW[0].1.replace("\"id\":1", "\"id\":9");
    lines.push(("c2a", again));
    let text = both(&lines);
    let ends = r#"{"any_order":[{"returns":"lane1","err":{"kind":"closed"}},{"returns":"close","ok":{}}]}"#;
    assert_eq!(text.last().unwrap(), ends);
}

#[test]
fn a_start_that_fails_is_all_that_is_played() {
    let lines: Vec<_> = INIT.into_iter().chain([NEW[0]]).collect();
    let mut lines: Vec<_> = lines
        .into_iter()
        .map(|(dir, line)| (dir, line.to_owned()))
        .collect();
    lines.push(agent(
        json!({"id": 1, "error": {"code": -32000, "message": "Log in"}}),
    ));
    lines.push(chunk("a"));
    let text = both(&lines);
    assert_eq!(text[6], r#"{"want_eof":true}"#);
    assert_eq!(
        text[7],
        r#"{"returns":"load","err":{"kind":"auth_required"}}"#
    );
    assert_eq!(text.len(), 10);
}

#[test]
fn the_question_of_a_model_source_is_asked_again() {
    let mut lines = opened();
    lines.extend([
        prompt(2, "user: a\nuser: b\nSUPERSEDES-ALL-PRIOR: b"),
        done(2, "max_tokens"),
    ]);
    let text = both(&lines);
    assert!(text[7].contains(r#""content":"b""#), "{}", text[7]);
}

#[test]
fn without_a_session_only_the_agent_can_be_played() {
    let lines: Vec<_> = [NEW[0], NEW[1], INIT[0], INIT[1]].into_iter().collect();
    let lines: Vec<_> = lines
        .into_iter()
        .map(|(dir, line)| (dir, line.to_owned()))
        .collect();
    let recording = recording(&lines, &[]);
    let error = distill(&recording, &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no client could be told to do this: r.jsonl:1: this process is left out: no session is opened in it"
    );
    let alone = Options {
        agent_only: true,
        ..Options::default()
    };
    let (text, notes) = steps(&recording, alone);
    assert_eq!(
        text[1],
        r#"{"want":"initialize","params":{"protocolVersion":1},"as":"r1"}"#
    );
    assert_eq!(text[3], r#"{"want_eof":true}"#);
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn a_mode_that_all_sessions_have_is_an_option_of_load() {
    let mut lines = opened();
    let modes = json!({"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}]});
    lines[3] = agent(json!({"id": 1, "result": {"sessionId": "0f0f-0f0f", "modes": modes}}));
    let params = json!({"sessionId": "0f0f-0f0f", "modeId": "b"});
    lines.push(client(
        json!({"id": 2, "method": "session/set_mode", "params": params}),
    ));
    lines.push(agent(json!({"id": 2, "result": {}})));
    let text = both(&lines);
    assert_eq!(text[1], r#"{"call":"load","args":{"mode":"b"}}"#);
    assert_eq!(
        text[8],
        r#"{"returns":"load","ok":{"session_id":{"$oneof":["$absent","s1"]}}}"#
    );
    // A mode that the agent does not offer is left out, because no client would ask for it.
    lines[3] = agent(json!({"id": 1, "result": {"sessionId": "0f0f-0f0f"}}));
    assert_eq!(both(&lines)[1], r#"{"call":"load"}"#);
}

#[test]
fn a_signal_that_no_step_sends_has_a_stand_in() {
    let mut lines = opened();
    lines.push(prompt(2, "hi"));
    for options in [
        Options::default(),
        Options {
            agent_only: true,
            ..Options::default()
        },
    ] {
        let killed = recording(&lines, &[json!({"t_ms": 2, "signal": "SIGPIPE"})]);
        let (lines, notes) = steps(&killed, options);
        assert!(
            lines.iter().any(|line| line == r#"{"signal":"SIGKILL"}"#),
            "{lines:?}"
        );
        assert_eq!(
            notes,
            [r#"r.jsonl:6: no step ends an agent by "SIGPIPE"; SIGKILL stands for it"#]
        );
    }
}

#[test]
fn gaps_are_named() {
    let text = concat!(
        "{\"dir\":\"a2c\",\"line\":\"{}\",\"cut\":9}\n",
        "{\"lost\":2}\n",
        "{\"dir\":\"c2a\",\"li"
    );
    let lines = opened();
    let lines = lines
        .iter()
        .map(|(dir, line)| json!({"dir": dir, "line": line}).to_string() + "\n");
    let text = lines.collect::<String>() + text;
    let (lines, notes) = steps(
        &Recording::parse(Path::new("r.jsonl"), &text).unwrap(),
        Options::default(),
    );
    assert_eq!(lines.len(), 10);
    let want = [
        "r.jsonl:5: this line is left out: it lacks its last 9 bytes",
        "r.jsonl:6: 2 records before this one could not be written",
        "r.jsonl:7: this line is left out: it was not written to its end",
    ];
    assert_eq!(notes, want);
}

#[test]
fn single_turns_can_be_kept() {
    let mut lines = opened();
    for id in [2, 3, 4] {
        lines.extend([
            prompt(id, &format!("question {id}")),
            chunk("a"),
            done(id, "end_turn"),
        ]);
    }
    let options = Options {
        turns: vec![2],
        ..Options::default()
    };
    let (lines, notes) = steps(&recording(&lines, &[]), options);
    assert_eq!(notes, [""; 0]);
    assert_eq!(lines.len(), 15, "{lines:#?}");
    assert!(lines[7].contains("question 3"), "{}", lines[7]);
}
