//! `acp inspect`.

use serde_json::json;

use crate::support::{Script, Test, acp_with, run};

pub(crate) const TESTS: &[Test] = &[
    ("inspect::text", as_text),
    ("inspect::json", as_json),
    ("inspect::login_required", login_required),
    ("inspect::no_answer_to_initialize", no_answer_to_initialize),
];

const INITIALIZE: &str = r#"
{"want":"initialize","params":{"protocolVersion":1,"clientInfo":{"name":"acp"}},"as":"init"}
{"reply":"init","result":{"protocolVersion":1,"agentInfo":{"name":"scripted","version":"2.1"},"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":false}},"authMethods":[{"id":"oauth","name":"Log in","description":"In the browser"},{"id":"key","name":"API key"}]}}
{"want":"session/new","params":{"cwd":"$abspath","mcpServers":[]},"as":"new"}
"#;

const SESSION: &str = r#"
{"reply":"new","result":{"sessionId":"s1","modes":{"currentModeId":"code","availableModes":[{"id":"code","name":"Code"},{"id":"plan","name":"Plan"}]},"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"m1","options":[{"value":"m1","name":"One"},{"value":"m2","name":"Two"}]}]}}
{"want_eof":true}
"#;

const REFUSED: &str = r#"
{"stderr":"no credentials in the keyring\n"}
{"reply":"new","error":{"code":-32000,"message":"Authentication required"}}
{"want_eof":true}
"#;

fn as_text() {
    let script = Script::new(&[INITIALIZE, SESSION]);
    let ended = run(&mut acp_with(&script, &["inspect"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let rows: Vec<String> = ended
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|row| !row.starts_with("initialize ") && !row.starts_with("session "))
        .collect();
    assert_eq!(
        rows,
        [
            "agent scripted 2.1",
            "protocol ACP version 1",
            "sessions load",
            "MCP servers stdio",
            "capabilities loadSession",
            "promptCapabilities.image",
            "auth methods oauth Log in: In the browser",
            "key API key",
            "modes code (current) Code",
            "plan Plan",
            "config options model = m1 Model: (m1, m2)",
        ]
    );
    assert_eq!(ended.stdout.lines().count(), rows.len() + 2);
    // A time is never shown without what it means.
    ended.tells(&[
        "the agent's own start-up",
        "ACP itself makes no agent faster",
    ]);
}

fn as_json() {
    let script = Script::new(&[INITIALIZE, SESSION]);
    let ended = run(&mut acp_with(&script, &["inspect", "--format", "json"]));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let mut value = ended.json();
    let timings = value.as_object_mut().unwrap().remove("timings").unwrap();
    assert_eq!(
        value,
        json!({
            "agent": {"name": "scripted", "version": "2.1"},
            "protocol_version": 1,
            "capabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false},
            },
            "sessions": {
                "load": true, "resume": false, "close": false, "additional_directories": false,
            },
            "mcp": {"stdio": true, "http": false, "sse": false},
            "auth_methods": [
                {"id": "oauth", "name": "Log in", "description": "In the browser"},
                {"id": "key", "name": "API key", "description": ""},
            ],
            "session": {
                "session_id": "s1",
                "resumed": false,
                "resume_error": null,
                "modes": {
                    "currentModeId": "code",
                    "availableModes": [
                        {"id": "code", "name": "Code"},
                        {"id": "plan", "name": "Plan"},
                    ],
                },
                "config_options": [{
                    "id": "model", "name": "Model", "type": "select", "currentValue": "m1",
                    "options": [{"value": "m1", "name": "One"}, {"value": "m2", "name": "Two"}],
                }],
            },
        })
    );
    assert!(timings["initialize_ms"].as_f64().unwrap() > 0.0);
    assert!(timings["session_ms"].as_f64().unwrap() > 0.0);
}

fn login_required() {
    let script = Script::new(&[INITIALIZE, REFUSED]);
    let ended = run(&mut acp_with(&script, &["inspect"]));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    for shown in ["scripted 2.1", "loadSession", "oauth", "initialize "] {
        assert!(ended.stdout.contains(shown), "no {shown:?} in {ended:?}");
    }
    for absent in ["session   ", "modes"] {
        assert!(!ended.stdout.contains(absent), "{absent:?} in {ended:?}");
    }
    ended.tells(&[
        "Authentication required",
        "Log in with the agent's own program",
        "oauth: Log in: In the browser",
        "no credentials in the keyring",
    ]);
    let ended = run(&mut acp_with(&script, &["inspect", "--format", "json"]));
    assert_eq!((ended.code, &*ended.stderr), (Some(3), ""), "{ended:?}");
    let value = ended.json();
    assert_eq!(value["error"]["kind"], "auth_required");
    assert_eq!(value["error"]["methods"], json!(["oauth", "key"]));
    assert_eq!(value["agent"]["name"], "scripted");
    assert_eq!(value["session"], json!(null));
    assert_eq!(value["timings"]["session_ms"], json!(null));
    assert!(value["timings"]["initialize_ms"].as_f64().unwrap() > 0.0);
}

fn no_answer_to_initialize() {
    let script = Script::new(&[r#"
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":2}}
{"want_eof":true}
"#]);
    run(&mut acp_with(&script, &["inspect"]))
        .expect(3, "")
        .tells(&["protocol version 1", "`2`"]);
    let ended = run(&mut acp_with(&script, &["inspect", "--format", "json"]));
    assert_eq!(ended.code, Some(3));
    assert_eq!(
        ended.json(),
        json!({"error": {
            "kind": "protocol_version",
            "message": ended.json()["error"]["message"],
            "answered": 2,
        }})
    );
}
