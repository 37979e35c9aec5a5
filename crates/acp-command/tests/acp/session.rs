//! What a session is given: `--resume`, `--config`, `--mcp`, `--add-dir` and `--authenticate`.

use std::fs;

use serde_json::{Value, json};

use crate::support::{READY, Script, Test, acp_with, run, run_with_input};

pub(crate) const TESTS: &[Test] = &[
    ("session::resume", resume),
    ("session::resume_that_fails", resume_that_fails),
    ("session::resume_and_state", resume_and_state),
    ("session::chat_that_goes_on", chat_that_goes_on),
    ("session::config", config),
    ("session::mcp", mcp),
    ("session::mcp_that_cannot_work", mcp_that_cannot_work),
    ("session::add_dir", add_dir),
    ("session::authenticate", authenticate),
    ("session::inspect", inspect),
];

const CAN_RESUME: &str = r#"
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{},"close":{},"additionalDirectories":{}},"mcpCapabilities":{"http":true}}}}
"#;

const RESUMED: &str = r#"
{"want":"session/resume","params":{"sessionId":"old","cwd":"$abspath","mcpServers":[]},"as":"old"}
{"reply":"old","result":{}}
"#;

const ANSWER: &str = r#"
{"say":"as before","session":"old"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#;

fn prompt(session: &str) -> String {
    format!(r#"{{"want":"session/prompt","params":{{"sessionId":"{session}"}},"as":"prompt"}}"#)
}

fn resume() {
    let script = Script::new(&[CAN_RESUME, RESUMED, &prompt("old"), ANSWER]);
    for flag in ["--resume", "--resume-or-new"] {
        let ended = run(&mut acp_with(&script, &["ask", flag, "old", "hi"]));
        ended.expect(0, "as before\n");
        assert_eq!(ended.stderr, "");
    }
    let args = ["ask", "--resume", "old", "--format", "json", "hi"];
    let value = run(&mut acp_with(&script, &args)).json();
    assert_eq!(
        (
            &value["session_id"],
            &value["resumed"],
            &value["resume_error"]
        ),
        (&json!("old"), &json!(true), &json!(null))
    );
}

fn resume_that_fails() {
    let refused = r#"
{"want":"session/resume","as":"old"}
{"reply":"old","error":{"code":-32002,"message":"Resource not found: old"}}
"#;
    let script = Script::new(&[CAN_RESUME, refused, r#"{"want_eof":true}"#]);
    run(&mut acp_with(&script, &["ask", "--resume", "old", "hi"]))
        .expect(3, "")
        .tells(&["Resource not found: old"]);
    let new = r#"
{"want":"session/new","as":"new"}
{"reply":"new","result":{"sessionId":"s1"}}
{"want":"session/prompt","params":{"sessionId":"s1"},"as":"prompt"}
{"say":"anew"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#;
    let script = Script::new(&[CAN_RESUME, refused, new]);
    let args = ["ask", "--resume-or-new", "old", "hi"];
    run(&mut acp_with(&script, &args))
        .expect(0, "anew\n")
        .tells(&["so this is a new one", "Resource not found: old"]);
    let args = ["ask", "--resume-or-new", "old", "--format", "json", "hi"];
    let value = run(&mut acp_with(&script, &args)).json();
    assert_eq!(
        (&value["session_id"], &value["resumed"]),
        (&json!("s1"), &json!(false))
    );
    assert!(
        value["resume_error"]
            .as_str()
            .unwrap()
            .contains("not found")
    );

    // An agent that cannot go on with any.
    let script = Script::ready("");
    run(&mut acp_with(&script, &["ask", "--resume", "old", "hi"]))
        .expect(2, "")
        .tells(&["can neither resume nor load"]);
    // As when a variable of the shell is empty.
    run(&mut acp_with(&script, &["ask", "--resume", "", "hi"])).expect(2, "");
    let args = ["ask", "--resume", "a", "--resume-or-new", "b", "hi"];
    run(&mut acp_with(&script, &args))
        .expect(2, "")
        .tells(&["cannot be used with"]);
}

fn resume_and_state() {
    let script = Script::new(&[CAN_RESUME, RESUMED, &prompt("old"), ANSWER]);
    let with = |state: &str| {
        run(&mut acp_with(
            &script,
            &["ask", "--resume", "old", "--state", state, "hi"],
        ))
    };
    with("full-request").expect(0, "as before\n");
    with("verified-delta")
        .expect(2, "")
        .tells(&["must be the full request"]);
}

fn chat_that_goes_on() {
    let second = r#"
{"want":"session/prompt","params":{"sessionId":"old","prompt":[{"type":"text","text":{"$re":"(?s)one.*as before.*two\nSUPERSEDES"}}]},"as":"prompt2"}
{"say":"as ever","session":"old"}
{"reply":"prompt2","result":{"stopReason":"end_turn"}}
{"want":"session/close","params":{"sessionId":"old"},"as":"close"}
{"reply":"close","result":{}}
{"want_eof":true}
"#;
    let script = Script::new(&[CAN_RESUME, RESUMED, &prompt("old"), ANSWER, second]);
    let args = ["chat", "--resume", "old"];
    run_with_input(&mut acp_with(&script, &args), b"one\ntwo\n").expect(0, "as before\nas ever\n");
}

fn config() {
    let options = r#"[{"id":"model","name":"Model","type":"select","currentValue":"m1","options":[{"value":"m1","name":"One"},{"value":"true","name":"True"}]},{"id":"fast","name":"Fast","type":"boolean","currentValue":false}]"#;
    let mut steps = format!(
        r#"
{{"want":"initialize","as":"init"}}
{{"reply":"init","result":{{"protocolVersion":1}}}}
{{"want":"session/new","as":"new"}}
{{"reply":"new","result":{{"sessionId":"s1","configOptions":{options}}}}}
"#
    );
    for set in [
        r#""configId":"model","value":"m1""#,
        r#""configId":"fast","type":"boolean","value":true"#,
        r#""configId":"model","value":"true""#,
    ] {
        steps += &format!(
            r#"
{{"want":"session/set_config_option","params":{{"sessionId":"s1",{set}}},"as":"set"}}
{{"reply":"set","result":{{"configOptions":{options}}}}}
"#
        );
    }
    let end = r#"
{"say":"set"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#;
    let script = Script::new(&[&steps, &prompt("s1"), end]);
    let settings = [
        "--config",
        "model=m1",
        "--config",
        "fast=true",
        "--config=model=\"true\"",
    ];
    let args = [&["ask"][..], &settings, &["hi"]].concat();
    run(&mut acp_with(&script, &args)).expect(0, "set\n");

    run(&mut acp_with(&script, &["ask", "--config", "none=x", "hi"]))
        .expect(2, "")
        .tells(&["`none`", "model, fast"]);
    let value = run(&mut acp_with(
        &script,
        &[&["inspect", "--format=json"], &settings[..]].concat(),
    ))
    .json();
    assert_eq!(
        value["session"]["config_options"][1]["id"], "fast",
        "{value}"
    );
    run(&mut acp_with(&script, &["ask", "--config", "model", "hi"]))
        .expect(2, "")
        .tells(&["ID=VALUE", "acp inspect"]);
}

fn mcp() {
    let dir = tempfile::tempdir().unwrap();
    let secret = "t0p-secret-value";
    let files = [
        json!({"mcpServers": {"shell": {"command": "sh", "args": ["-c", "cat"], "env": {"PLAIN": "${MCP_PLAIN}"}}}}),
        json!({"mcpServers": {"web": {"url": "https://example.org/mcp", "headers": {"X-Pass": secret}}}}),
    ];
    let paths = ["a.json", "b.json"].map(|name| dir.path().join(name));
    for (path, file) in paths.iter().zip(&files) {
        fs::write(path, file.to_string()).unwrap();
    }
    let steps = format!(
        r#"
{{"want":"session/new","params":{{"cwd":"$abspath","mcpServers":[
{{"name":"shell","command":"$abspath","args":["-c","cat"],"env":[{{"name":"PLAIN","value":"a value of it"}}]}},
{{"name":"web","type":"http","url":"https://example.org/mcp","headers":[{{"name":"X-Pass","value":"{secret}"}}]}}
]}},"as":"new"}}"#
    )
    .replace('\n', "");
    let end = format!(
        r#"
{{"reply":"new","result":{{"sessionId":"s1"}}}}
{}
{{"say":"thinking of {secret}","kind":"agent_thought_chunk"}}
{{"say":"with servers"}}
{{"reply":"prompt","result":{{"stopReason":"end_turn"}}}}
"#,
        prompt("s1")
    );
    let script = Script::new(&[CAN_RESUME, &steps, &end]);
    let trace = dir.path().join("trace");
    let [a, b] = paths.each_ref().map(|path| path.to_str().unwrap());
    let args = [
        "ask",
        "-v",
        "--mcp",
        a,
        "--mcp",
        b,
        "--trace",
        trace.to_str().unwrap(),
        "hi",
    ];
    let ended = run(acp_with(&script, &args).env("MCP_PLAIN", "a value of it"));
    ended
        .expect(0, "with servers\n")
        .tells(&["thought: thinking of [masked]"]);
    let trace = fs::read_to_string(trace).unwrap();
    assert!(
        trace.contains("X-Pass") && !trace.contains(secret),
        "{trace}"
    );
}

fn mcp_that_cannot_work() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mcp.json");
    let file = path.to_str().unwrap();
    let script = Script::ready("");
    let mut command = acp_with(&script, &["ask", "--mcp", file, "hi"]);
    run(&mut command)
        .expect(2, "")
        .tells(&[file, "cannot be read"]);
    for (text, told) in [
        (
            "{\n  \"mcpServers\": {,}\n}",
            format!("{file}:2: it is not JSON"),
        ),
        (
            r#"{"mcpServers":{"a":{"command":"no-such-program"}}}"#,
            format!("{file}: mcpServers.a.command: there is no program `no-such-program`"),
        ),
        (
            r#"{"mcpServers":{"a":{"url":"https://${NO_SUCH_VARIABLE}"}}}"#,
            "`NO_SUCH_VARIABLE` is not set".to_owned(),
        ),
    ] {
        fs::write(&path, text).unwrap();
        run(&mut command).expect(2, "").tells(&[&told]);
    }
    // The agent takes no servers of this kind.
    fs::write(&path, r#"{"mcpServers":{"a":{"url":"https://a"}}}"#).unwrap();
    run(&mut command).expect(2, "").tells(&["`a`", "http"]);
}

fn add_dir() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let new = format!(
        r#"
{{"want":"session/new","params":{{"cwd":"$abspath","additionalDirectories":["{path}"]}},"as":"new"}}
{{"reply":"new","result":{{"sessionId":"s1"}}}}
{}
{{"say":"both"}}
{{"reply":"prompt","result":{{"stopReason":"end_turn"}}}}
"#,
        prompt("s1")
    );
    let script = Script::new(&[CAN_RESUME, &new]);
    run(&mut acp_with(&script, &["ask", "--add-dir", path, "hi"])).expect(0, "both\n");
    let script = Script::ready("");
    run(&mut acp_with(
        &script,
        &["ask", "--add-dir", "/no/such/dir", "hi"],
    ))
    .expect(2, "")
    .tells(&["/no/such/dir is no directory"]);
    run(&mut acp_with(&script, &["ask", "--add-dir", path, "hi"]))
        .expect(2, "")
        .tells(&["director"]);
}

fn authenticate() {
    let script = Script::new(&[
        r#"
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":1,"authMethods":[{"id":"key","name":"API key"}]}}
{"want":"session/new","as":"new"}
{"reply":"new","error":{"code":-32000,"message":"Authentication required"}}
{"want":"authenticate","params":{"methodId":"key"},"as":"auth"}
{"reply":"auth","result":{}}
{"want":"session/new","as":"new"}
{"reply":"new","result":{"sessionId":"s1"}}
"#,
        &prompt("s1"),
        r#"
{"say":"let in"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#,
    ]);
    run(&mut acp_with(
        &script,
        &["ask", "--authenticate", "key", "hi"],
    ))
    .expect(0, "let in\n");
}

fn inspect() {
    let script = Script::new(&[CAN_RESUME, RESUMED]);
    let args = ["inspect", "--resume", "old"];
    let ended = run(&mut acp_with(&script, &args));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let rows: Vec<String> = ended
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for row in [
        "sessions resume, close, additional directories",
        "MCP servers stdio, http",
    ] {
        assert!(rows.iter().any(|it| it == row), "no {row:?} in {rows:?}");
    }
    assert!(
        rows.iter()
            .any(|row| row.starts_with("session old (resumed), open after ")),
        "{rows:?}"
    );
    let value: Value = run(&mut acp_with(
        &script,
        &[&args[..], &["--format", "json"]].concat(),
    ))
    .json();
    assert_eq!(value["sessions"]["resume"], true);
    assert_eq!(value["sessions"]["load"], false);
    assert_eq!(
        value["mcp"],
        json!({"stdio": true, "http": true, "sse": false})
    );
    assert_eq!(value["session"]["resumed"], true);
    // A script that is not asked to resume anything does not play.
    assert_eq!(run(&mut acp_with(&script, &["inspect"])).code, Some(3));
    let script = Script::new(&[READY]);
    run(&mut acp_with(&script, &args)).tells(&["can neither resume nor load"]);
}
