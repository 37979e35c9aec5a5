//! What is shown beside the answer, and answers in JSON.

use std::fs;

use serde_json::json;

use crate::support::{Script, Test, acp_with, run, run_with_input};

pub(crate) const TESTS: &[Test] = &[
    ("events::verbose", verbose),
    ("events::not_verbose", not_verbose),
    ("events::chat", chat),
    ("events::json", as_json),
    ("events::json_of_calls", json_of_calls),
    ("events::json_schema", json_schema),
    ("events::json_that_never_comes", json_that_never_comes),
];

const TURN: &str = r#"
{"say":"Let me look.\nHm","kind":"agent_thought_chunk"}
{"update":{"sessionUpdate":"plan","entries":[{"content":"look","priority":"high","status":"in_progress"}]}}
{"update":{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Read notes.txt","kind":"read","status":"pending"}}
{"ask_permission":["allow_once","reject_once"],"as":"ask"}
{"want_reply":"ask","result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}
{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}}
{"say":"It says "}
{"update":{"sessionUpdate":"usage_update","used":10,"size":100}}
{"say":"hello."}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#;

fn verbose() {
    let script = Script::ready(TURN);
    for flag in ["-v", "--verbose", "--events"] {
        let ended = run(&mut acp_with(&script, &["ask", flag, "hi"]));
        ended.expect(0, "It says hello.\n");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let mut at = 0;
        for line in [
            "session: s1",
            "thought: Let me look.",
            "thought: Hm",
            "plan: [>] look",
            "tool: Read notes.txt (read)",
            "permission: ",
            "permission: ",
            "tool: Read notes.txt: completed",
            "context: 10 of 100 tokens",
        ] {
            let rest = lines[at..].iter().position(|it| it.starts_with(line));
            at += rest.unwrap_or_else(|| panic!("no {line:?} after {at} in {lines:?}")) + 1;
        }
        assert_eq!(at, lines.len(), "{lines:?}");
        assert!(ended.stderr.contains("(allow_once)"), "{ended:?}");
    }
    // Standard output stays what it is for programs.
    let ended = run(&mut acp_with(
        &script,
        &["ask", "-v", "--format=json", "hi"],
    ));
    assert_eq!(ended.json()["content"], "It says hello.");
    ended.tells(&["tool: Read notes.txt"]);
}

fn not_verbose() {
    let ended = run(&mut acp_with(&Script::ready(TURN), &["ask", "hi"]));
    ended.expect(0, "It says hello.\n");
    assert_eq!(ended.stderr, "");
}

fn chat() {
    let steps = [
        TURN,
        r#"{"want":"session/new","as":"spare"}"#,
        r#"{"want_eof":true}"#,
    ];
    let script = Script::ready(&steps.join("\n"));
    run_with_input(&mut acp_with(&script, &["chat", "-v"]), b"hi\n")
        .expect(0, "It says hello.\n")
        .tells(&[
            "session: s1",
            "thought: Hm",
            "tool: Read notes.txt: completed",
        ]);
}

/// What is wrong with a reply is told to the agent, and to a person.
fn as_json() {
    let script = Script::ready(
        r#"
{"say":"I had rather not"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":{"$re":"cannot be used.*not JSON"}}]},"as":"repair"}
{"say":["{\"content\":","\"{\\\"a\\\":1}\"}"]}
{"reply":"repair","result":{"stopReason":"end_turn"}}
"#,
    );
    run(&mut acp_with(&script, &["ask", "--json", "hi"]))
        .expect(0, "{\"a\":1}\n")
        .tells(&["is asked for once more", "not JSON"]);
    let ended = run(&mut acp_with(
        &script,
        &["ask", "--json", "--format=json", "hi"],
    ));
    let value = ended.json();
    assert_eq!(value["content"], "{\"a\":1}");
    assert_eq!(value["repairs"].as_array().unwrap().len(), 1, "{value}");
}

/// Without tools to call, what looks like a call is data like any other.
fn json_of_calls() {
    let script = Script::ready(
        r#"
{"say":"{\"tool_calls\":[{\"function\":{\"name\":\"add\",\"arguments\":{}}}]}"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#,
    );
    let data = "{\"tool_calls\":[{\"function\":{\"name\":\"add\",\"arguments\":{}}}]}";
    run(&mut acp_with(&script, &["ask", "--json", "hi"])).expect(0, &format!("{data}\n"));
    let ended = run(&mut acp_with(
        &script,
        &["ask", "--json", "--format=json", "hi"],
    ));
    assert_eq!(ended.json()["content"], data);
}

fn json_schema() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("schema.json");
    let file = path.to_str().unwrap();
    let script = Script::new(&[
        crate::support::READY,
        r#"{"want":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":{"$re":"(?s)json_schema.*a-name-of-mine"}}]},"as":"prompt"}"#,
        r#"
{"say":"{\"a-name-of-mine\":2}"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#,
    ]);
    let mut command = acp_with(&script, &["ask", "--json-schema", file, "hi"]);
    run(&mut command)
        .expect(2, "")
        .tells(&[file, "cannot be read"]);
    for (text, told) in [
        ("\n{", ":2: it is not JSON"),
        ("true", "JSON Schema, which is an object"),
    ] {
        fs::write(&path, text).unwrap();
        run(&mut command).expect(2, "").tells(&[file, told]);
    }
    let schema = json!({"type": "object", "properties": {"a-name-of-mine": {"type": "integer"}}});
    fs::write(&path, schema.to_string()).unwrap();
    run(&mut command).expect(0, "{\"a-name-of-mine\":2}\n");
    run(&mut acp_with(
        &script,
        &["ask", "--json", "--json-schema", file, "hi"],
    ))
    .expect(2, "")
    .tells(&["cannot be used with"]);
}

fn json_that_never_comes() {
    let mut steps = String::new();
    for label in ["prompt", "prompt1", "prompt2"] {
        if label != "prompt" {
            steps += &format!(r#"{{"want":"session/prompt","as":"{label}"}}"#);
            steps.push('\n');
        }
        steps += &format!(
            r#"
{{"say":"I had rather not"}}
{{"reply":"{label}","result":{{"stopReason":"end_turn"}}}}
"#
        );
    }
    steps += "{\"want_eof\":true}\n";
    let script = Script::ready(&steps);
    let ended = run(&mut acp_with(&script, &["ask", "--json", "hi"]));
    ended.expect(1, "").tells(&["it is not JSON"]);
    assert_eq!(ended.stderr.matches("once more").count(), 2, "{ended:?}");
    let ended = run(&mut acp_with(
        &script,
        &["ask", "--json", "--format=json", "hi"],
    ));
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json()["error"]["kind"], "malformed_reply");
}
