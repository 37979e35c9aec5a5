//! `acp ask`, and what all commands share.

use serde_json::json;

use crate::support::{Script, Test, acp, acp_with, run, run_with_input};

pub(crate) const TESTS: &[Test] = &[
    ("ask::demo_agent", demo_agent),
    ("ask::json", as_json),
    ("ask::prompt_from_stdin", prompt_from_stdin),
    (
        "ask::prompts_that_cannot_be_sent",
        prompts_that_cannot_be_sent,
    ),
    ("ask::missing_program", missing_program),
    (
        "ask::command_lines_that_cannot_work",
        command_lines_that_cannot_work,
    ),
    ("ask::flag_before_variable", flag_before_variable),
    ("ask::agent_dies_in_the_turn", agent_dies_in_the_turn),
    ("ask::agent_dies_at_start", agent_dies_at_start),
    ("ask::tail_with_every_failure", tail_with_every_failure),
    ("ask::permission_policies", permission_policies),
    ("ask::mode", mode),
    ("ask::time_limits", time_limits),
    ("ask::cut_answer", cut_answer),
    ("ask::bytes_of_a_pipe", bytes_of_a_pipe),
    ("ask::stdout_closed_early", stdout_closed_early),
    ("ask::agent_that_would_stay", agent_that_would_stay),
    ("ask::colour", colour),
    ("ask::trace", trace),
    ("completions", completions),
    ("help_and_version", help_and_version),
];

fn demo_agent() {
    let ended = run(&mut acp(&["ask", "hello there"]));
    ended.expect(0, "You said: hello there\n").tells(&[
        "built-in demo agent",
        "--agent",
        "ACP_AGENT",
    ]);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    // An empty variable is none.
    run(acp(&["ask", "hi"]).env("ACP_AGENT", "")).expect(0, "You said: hi\n");
}

/// The file holds both directions in order, and no secret.
fn trace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wire.jsonl");
    let path = file.to_str().unwrap();
    let secret = "sk-abcdefghijklmnopqrstuv";
    let answer = format!("You said: {secret}\n");
    run(&mut acp(&["ask", "--trace", path, secret])).expect(0, &answer);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(secret), "{text}");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let directions: Vec<&str> = lines[..4]
        .iter()
        .map(|l| l["dir"].as_str().unwrap())
        .collect();
    assert_eq!(directions, ["c2a", "a2c", "c2a", "a2c"]);
    assert!(lines.iter().all(|line| line["t_ms"].is_f64()));
    let first: serde_json::Value =
        serde_json::from_str(lines[0]["line"].as_str().unwrap()).unwrap();
    assert_eq!(first["method"], "initialize");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o077, 0);
    let missing = dir.path().join("no/such/dir");
    run(&mut acp(&[
        "ask",
        "--trace",
        missing.to_str().unwrap(),
        "hi",
    ]))
    .expect(2, "");
}

fn as_json() {
    let script = Script::ready(
        r#"
{"say":"thinking","kind":"agent_thought_chunk"}
{"say":["Hel","lo"]}
{"reply":"prompt","result":{"stopReason":"end_turn","usage":{"totalTokens":7}}}
"#,
    );
    let ended = run(&mut acp_with(&script, &["ask", "--format", "json", "hi"]));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let mut value = ended.json();
    let timings = value.as_object_mut().unwrap().remove("timings").unwrap();
    assert_eq!(
        value,
        json!({
            "agent": {"name": "scripted", "version": "2.1"},
            "content": "Hello",
            "dropped": {"thoughts": 1},
            "repairs": [],
            "resumed": false,
            "resume_error": null,
            "session_id": "s1",
            "stop_reason": "end_turn",
            "usage": {"totalTokens": 7},
        })
    );
    let timing = |name: &str| timings[name].as_f64().unwrap();
    assert_eq!(timings.as_object().unwrap().len(), 4, "{timings}");
    assert!(timing("initialize_ms") > 0.0 && timing("session_ms") > 0.0);
    assert!(0.0 < timing("first_text_ms") && timing("first_text_ms") <= timing("turn_ms"));
}

fn prompt_from_stdin() {
    run_with_input(&mut acp(&["ask", "-"]), "from a pipe é".as_bytes())
        .expect(0, "You said: from a pipe é\n");
}

fn prompts_that_cannot_be_sent() {
    run_with_input(&mut acp(&["ask", "-"]), b" \n")
        .expect(2, "")
        .tells(&["the question is empty"]);
    run_with_input(&mut acp(&["ask", "-"]), b"\xff")
        .expect(2, "")
        .tells(&["cannot read standard input", "UTF-8"]);
    run(&mut acp(&["ask", ""])).expect(2, "");
}

fn missing_program() {
    let args = ["ask", "--agent", "no-such-agent --acp", "hi"];
    run(acp(&args).env("PATH", "/no/such/place"))
        .expect(3, "")
        .tells(&["`no-such-agent`", "PATH, which is /no/such/place"]);
    let ended = run(&mut acp(&[
        "ask",
        "--format=json",
        "--agent=no-such-agent",
        "hi",
    ]));
    let error = &ended.json()["error"];
    assert_eq!(ended.code, Some(3));
    assert_eq!(error["kind"], "spawn_failed");
    assert_eq!(error["program"], "no-such-agent");
}

fn command_lines_that_cannot_work() {
    for (args, told) in [
        (
            &["ask", "--agent", "agent 'open", "hi"][..],
            "a quote that is not closed",
        ),
        (&["ask", "--agent", "", "hi"], "the command is empty"),
        (&["ask", "--cwd", "/no/such/dir", "hi"], "/no/such/dir"),
        (
            &["ask", "--deadline", "soon", "hi"],
            "500ms, 30s, 5m or off",
        ),
        (&["ask", "--permission", "ask", "hi"], "first-allow"),
        (&["ask"], "PROMPT"),
        (&["frobnicate"], "frobnicate"),
        (&[], "Usage"),
    ] {
        run(&mut acp(args)).expect(2, "").tells(&[told]);
    }
    let ended = run(&mut acp(&[
        "ask",
        "--format=json",
        "--agent=agent 'open",
        "hi",
    ]));
    assert_eq!(ended.code, Some(2));
    assert_eq!(ended.json()["error"]["kind"], "invalid_options");
}

fn flag_before_variable() {
    let script = Script::ready(
        r#"
{"say":"scripted"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#,
    );
    run(&mut acp_with(&script, &["ask", "hi"])).expect(0, "scripted\n");
    let args = ["ask", "--agent", &script.agent(), "hi"];
    run(acp(&args).env("ACP_AGENT", "no-such-agent")).expect(0, "scripted\n");
}

fn agent_dies_in_the_turn() {
    let script = Script::ready(
        r#"
{"say":"half an ans"}
{"stderr":"panic: out of cheese\n"}
{"exit":7}
"#,
    );
    let ended = run(&mut acp_with(&script, &["ask", "hi"]));
    ended.expect(1, "half an ans\n").tells(&[
        "error:",
        "exited with status 7",
        "panic: out of cheese",
    ]);
    assert_eq!(
        ended.stderr.matches("out of cheese").count(),
        1,
        "{ended:?}"
    );
    let ended = run(&mut acp_with(&script, &["ask", "--format", "json", "hi"]));
    assert_eq!((ended.code, &*ended.stderr), (Some(1), ""), "{ended:?}");
    let error = &ended.json()["error"];
    assert_eq!(error["kind"], "agent_exited");
    assert_eq!(error["exit_code"], 7);
    assert_eq!(error["partial"], "half an ans");
    assert_eq!(error["stderr_tail"], "panic: out of cheese\n");
}

fn agent_dies_at_start() {
    let script = Script::new(&[r#"
{"want":"initialize","as":"init"}
{"stderr":"cannot find module\n"}
{"exit":1}
"#]);
    run(&mut acp_with(&script, &["ask", "hi"]))
        .expect(3, "")
        .tells(&["exited with status 1", "cannot find module"]);
}

fn tail_with_every_failure() {
    let script = Script::ready(
        r#"
{"stderr":"quota is used up\n"}
{"reply":"prompt","error":{"code":-32603,"message":"Internal error"}}
{"want_eof":true}
{"stderr":"bye\n"}
"#,
    );
    run(&mut acp_with(&script, &["ask", "hi"]))
        .expect(1, "")
        .tells(&["Internal error", "quota is used up\nbye"]);
    let ended = run(&mut acp_with(&script, &["ask", "--format", "json", "hi"]));
    assert_eq!(
        ended.json()["error"]["stderr_tail"],
        "quota is used up\nbye\n"
    );
}

fn permission_policies() {
    for (policy, option) in [
        ("first-allow", "allow_always"),
        ("allow-once", "allow_once"),
        ("reject", "reject_once"),
    ] {
        let script = Script::ready(&format!(
            r#"
{{"ask_permission":["reject_once","allow_always","allow_once"],"as":"ask"}}
{{"want_reply":"ask","result":{{"outcome":{{"outcome":"selected","optionId":"{option}"}}}}}}
{{"say":"done"}}
{{"reply":"prompt","result":{{"stopReason":"end_turn"}}}}
"#
        ));
        run(&mut acp_with(
            &script,
            &["ask", "--permission", policy, "hi"],
        ))
        .expect(0, "done\n");
    }
}

fn mode() {
    let set_mode =
        r#"{"want":"session/set_mode","params":{"sessionId":"s1","modeId":"plan"},"as":"mode"}"#;
    let script = Script::new(&[
        crate::support::READY,
        set_mode,
        r#"
{"reply":"mode","result":{}}
{"want":"session/prompt","as":"prompt"}
{"say":"planned"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#,
    ]);
    run(&mut acp_with(&script, &["ask", "--mode", "plan", "hi"])).expect(0, "planned\n");
    let script = Script::new(&[
        crate::support::READY,
        set_mode,
        r#"{"reply":"mode","error":{"code":-32602,"message":"no such mode"}}"#,
    ]);
    run(&mut acp_with(&script, &["ask", "--mode", "plan", "hi"]))
        .expect(3, "")
        .tells(&["no such mode"]);
}

fn time_limits() {
    let silent = Script::ready(
        r#"
{"say":"one moment"}
{"want_note":"session/cancel","params":{"sessionId":"s1"}}
{"reply":"prompt","result":{"stopReason":"cancelled"}}
"#,
    );
    for (flag, told) in [
        (
            "--idle-timeout=100ms",
            "nothing came from the agent for 100ms",
        ),
        ("--deadline=100ms", "did not end within 100ms"),
    ] {
        run(&mut acp_with(&silent, &["ask", flag, "hi"]))
            .expect(1, "one moment\n")
            .tells(&[told]);
    }
    let mute = Script::new(&[r#"
{"want":"initialize","as":"init"}
{"want_eof":true}
"#]);
    run(&mut acp_with(
        &mute,
        &["ask", "--startup-timeout=100ms", "hi"],
    ))
    .expect(3, "")
    .tells(&["did not answer `initialize` within 100ms"]);
}

fn cut_answer() {
    let script = Script::ready(
        r#"
{"say":"and then"}
{"reply":"prompt","result":{"stopReason":"max_tokens"}}
"#,
    );
    run(&mut acp_with(&script, &["ask", "hi"]))
        .expect(0, "and then\n")
        .tells(&["`max_tokens`"]);
}

fn bytes_of_a_pipe() {
    let script = Script::ready(
        r#"
{"say":["\u001b[31","mred\u0007\n"]}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#,
    );
    // No newline is added to one, and nothing is taken out of what is not a terminal.
    run(&mut acp_with(&script, &["ask", "hi"])).expect(0, "\x1b[31mred\x07\n");
}

fn stdout_closed_early() {
    let script = Script::ready(
        r#"
{"say":"nobody reads this"}
{"want_note":"session/cancel","params":{"sessionId":"s1"}}
{"reply":"prompt","result":{"stopReason":"cancelled"}}
"#,
    );
    // The turn ends only if it is cancelled.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = run(acp_with(&script, &["ask", "hi"]).stdout(writer));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert!(!script.is_running());
}

fn agent_that_would_stay() {
    let script = Script::ready(
        r#"
{"linger":"eof"}
{"say":"done"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want_eof":true}
"#,
    );
    run(&mut acp_with(&script, &["ask", "hi"])).expect(0, "done\n");
    assert!(!script.is_running());
}

fn colour() {
    let args = ["ask", "--agent=no-such-agent", "hi"];
    let escapes = |args: &[&str], force: bool| {
        let mut command = acp(args);
        if force {
            command.env("CLICOLOR_FORCE", "1");
        }
        run(&mut command).stderr.contains('\x1b')
    };
    assert!(!escapes(&args, false));
    assert!(escapes(&args, true));
    assert!(!escapes(&["--no-color", args[0], args[1], args[2]], true));
    assert!(!escapes(&[args[0], "--no-color", args[1], args[2]], true));
}

fn completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = run(&mut acp(&["completions", shell]));
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{shell}");
        for offered in ["idle-timeout", "resume-or-new", "agents"] {
            assert!(ended.stdout.contains(offered), "{offered} for {shell}");
        }
        assert!(!ended.stdout.contains("demo-agent"), "{shell}");
    }
    run(&mut acp(&["completions", "dos"])).expect(2, "");
}

fn help_and_version() {
    let version = concat!("acp ", env!("CARGO_PKG_VERSION"), "\n");
    run(&mut acp(&["--version"])).expect(0, version);
    let ended = run(&mut acp(&["--help"]));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    for text in ["Examples:", "Exit codes:", "130", "acp ask --agent"] {
        assert!(
            ended.stdout.contains(text),
            "no {text:?} in {}",
            ended.stdout
        );
    }
    assert!(!ended.stdout.contains("demo-agent"));
}
