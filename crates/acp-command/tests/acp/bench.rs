//! `acp bench`. What it measures is not looked at, only that it does, and whom it leaves behind.

use std::fs;
use std::path::Path;
use std::process::Command;

use acp_fake_server::agents::Builtin;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{READY, Running, Script, Test, acp, acp_with, builtin, run, until};

pub(crate) const TESTS: &[Test] = &[
    ("bench::table", table),
    ("bench::json_and_chart", json_and_chart),
    ("bench::policies", policies),
    ("bench::mode_of_the_agent", mode_of_the_agent),
    (
        "bench::what_was_measured_before_a_failure",
        what_was_measured_before_a_failure,
    ),
    (
        "bench::agent_that_does_not_start",
        agent_that_does_not_start,
    ),
    ("bench::impossible_options", impossible_options),
    ("bench::ctrl_c", ctrl_c),
];

/// The command, with few samples and one of the fake server's agents.
fn bench(agent: Builtin, dir: &Path, args: &[&str]) -> Command {
    let mut command = acp(&["bench", "--turns=2", "--sizes=17,1K"]);
    command
        .args(args)
        .arg("--cwd")
        .arg(dir)
        .env("ACP_AGENT", builtin(agent));
    command
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

fn table() {
    let dir = tempfile::tempdir().unwrap();
    let ended = run(&mut bench(Builtin::Echo, dir.path(), &[]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // The conclusion is wrapped wherever the numbers let it.
    let words = ended.stdout.split_whitespace().collect::<Vec<_>>();
    has(
        &words.join(" "),
        &["start-up:", "ACP itself makes no agent faster"],
    );
    has(
        &ended.stdout,
        &[
            "agent  acp-fake-server-echo",
            "prompts of 17 bytes",
            "prompts of 1 KiB",
            "cold, to the answer",
            "warm, verified-delta",
            "demo agent, cold",
        ],
    );
    // Bars and colours are for terminals.
    assert!(!ended.stdout.contains(['█', '▏', '\u{1b}']), "{ended:?}");
    ended.tells(&["Measuring with prompts of 1 KiB."]);
}

fn json_and_chart() {
    let dir = tempfile::tempdir().unwrap();
    let (json, svg) = (dir.path().join("b.json"), dir.path().join("b.svg"));
    let files = [json.to_str().unwrap(), svg.to_str().unwrap()];
    let args = ["--format=json", "--json", files[0], "--svg", files[1]];
    let ended = run(&mut bench(Builtin::Stale, dir.path(), &args));
    ended.tells(&["Measuring"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    let kept: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(kept, report);

    assert_eq!(report["samples"], 2);
    assert_eq!(report["states"], json!(["verified-delta"]));
    let name = &report["agent"]["implementation"]["name"];
    assert_eq!(name, "acp-fake-server-stale");
    for subject in ["agent", "demo_agent"] {
        let sizes = report[subject]["sizes"].as_array().unwrap();
        let bytes: Vec<&Value> = sizes.iter().map(|size| &size["bytes"]).collect();
        assert_eq!(bytes, [17, 1024]);
        for size in sizes {
            for (samples, len) in [
                (&size["cold"]["answer_ms"], 2),
                (&size["cold"]["initialize_ms"], 2),
                (&size["cold"]["session_ms"], 2),
                (&size["cold"]["turn_ms"], 2),
                (&size["cold"]["close_ms"], 2),
                (&size["warm"][0]["first_turn_ms"], 1),
                (&size["warm"][0]["turn_ms"], 2),
            ] {
                let all = samples["samples"].as_array().unwrap();
                assert_eq!(all.len(), len, "{size}");
                for spread in ["min", "median", "p90"] {
                    assert!(samples[spread].is_number(), "{size}");
                }
            }
        }
    }
    has(
        report["conclusion"].as_str().unwrap(),
        &["ACP itself makes no agent faster"],
    );
    has(
        &fs::read_to_string(svg).unwrap(),
        &[
            "<svg ",
            "acp-fake-server-stale",
            "prompts of 1 KiB",
            "</svg>",
        ],
    );
}

fn policies() {
    let dir = tempfile::tempdir().unwrap();
    let all = ["full-request", "fresh-session", "verified-delta"];
    for args in [
        ["--state", "all"],
        ["--policy", "full_request,fresh-session,all"],
    ] {
        let args = ["--format=json", args[0], args[1]];
        // This one asks for permission in every turn.
        let report = run(&mut bench(Builtin::Hanging, dir.path(), &args)).json();
        assert_eq!(report["states"], json!(all));
        for size in report["agent"]["sizes"].as_array().unwrap() {
            let warm = size["warm"].as_array().unwrap();
            let states: Vec<&Value> = warm.iter().map(|warm| &warm["state"]).collect();
            assert_eq!(states, all);
        }
    }
}

fn mode_of_the_agent() {
    let prompt = |id: u32| {
        format!(
            r#"
{{"want":"session/prompt","as":"prompt{id}"}}
{{"say":"ok"}}
{{"reply":"prompt{id}","result":{{"stopReason":"end_turn"}}}}
"#
        )
    };
    let mode = r#"
{"want":"session/set_mode","params":{"sessionId":"s1","modeId":"ask"},"as":"mode"}
{"reply":"mode","result":{}}
"#;
    let script = Script::new(&[READY, mode, &prompt(1), &prompt(2)]);
    let args = ["bench", "--mode=ask", "--turns=1", "--sizes=17"];
    let args = [&args[..], &["--state=full-request"]].concat();
    let ended = run(&mut acp_with(&script, &args));
    // The demo agent has no modes, and is asked for none.
    assert_eq!(ended.code, Some(0), "{ended:?}");
    has(&ended.stdout, &["agent  scripted 2.1", "demo agent, cold"]);
}

/// An agent that answers one prompt and refuses the second in its session.
fn refusing() -> Script {
    Script::ready(
        r#"
{"say":"ok"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want":"session/prompt","as":"prompt2"}
{"stderr":"out of credit\n"}
{"reply":"prompt2","error":{"code":-32603,"message":"no more"}}
{"want_eof":true}
"#,
    )
}

fn what_was_measured_before_a_failure() {
    let script = refusing();
    let args = ["bench", "--state=full-request", "--sizes=17"];
    let ended = run(&mut acp_with(&script, &args));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    // The cold start and the first warm prompt were well.
    has(
        &ended.stdout,
        &["cold, to the answer", "warm, full-request"],
    );
    ended.tells(&["error: ", "no more", "out of credit"]);

    let args = [&args[..], &["--format=json"]].concat();
    let ended = run(&mut acp_with(&script, &args));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = ended.json();
    assert_eq!(report["error"]["kind"], "rejected");
    let size = &report["agent"]["sizes"][0];
    let samples = |samples: &Value| samples["samples"].as_array().map_or(0, Vec::len);
    assert_eq!(samples(&size["cold"]["answer_ms"]), 1);
    assert_eq!(samples(&size["warm"][0]["first_turn_ms"]), 1);
    assert_eq!(size["warm"][0]["turn_ms"], Value::Null);
    assert_eq!(report["conclusion"], Value::Null);
    assert!(!script.is_running());
}

fn agent_that_does_not_start() {
    let mut command = acp(&["bench", "--agent", "/nowhere/at-all"]);
    run(&mut command).expect(3, "").tells(&["error: "]);
    let mut command = acp(&["bench", "--agent", "/nowhere/at-all", "--format=json"]);
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.json()["error"]["kind"], "spawn_failed");
}

fn impossible_options() {
    // What cannot be kept is not measured first.
    let ended = run(&mut acp(&["bench", "--svg", "/nowhere/at-all.svg"]));
    ended
        .expect(2, "")
        .tells(&["/nowhere/at-all.svg cannot be written"]);
    for args in [
        ["--turns", "0"],
        ["--sizes", "17,huge"],
        ["--state", "warm"],
    ] {
        run(&mut acp(&[&["bench"], &args[..]].concat())).expect(2, "");
    }
}

/// How many processes have this working directory; one that waits to be reaped has none.
fn processes_in(dir: &Path) -> usize {
    let dir = dir.canonicalize().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok())
        .filter(|cwd| *cwd == dir)
        .count()
}

fn ctrl_c() {
    for signals in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        // The first of three warm agents begins to answer and does not end.
        let script = Script::ready(
            r#"
{"say":"once upon"}
{"want_note":"session/cancel","params":{"sessionId":"s1"}}
{"reply":"prompt","result":{"stopReason":"cancelled"}}
{"want_eof":true}
"#,
        );
        let mut command = acp_with(&script, &["bench", "--state=all", "--sizes=17", "--cwd"]);
        let running = Running::start(command.arg(dir.path()));
        running.stderr.wait_for("Measuring");
        assert!(
            processes_in(dir.path()) >= 6,
            "three agents, three demo agents"
        );
        running.signal(Signal::SIGINT);
        if signals == 2 {
            running.stderr.wait_for("ing the ");
            running.signal(Signal::SIGINT);
        }
        assert_eq!(running.end().code, Some(130));
        // After a SIGKILL the system takes a moment to carry it out.
        until(|| (processes_in(dir.path()) == 0).then_some(()));
    }
}
