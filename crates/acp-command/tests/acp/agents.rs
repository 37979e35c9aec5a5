//! Agents that are known by name: `acp agents`, and how one is found.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use acp_core::split_command;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Script, Test, acp, run, run_with_input};

pub(crate) const TESTS: &[Test] = &[
    ("agents::list", list),
    ("agents::json", as_json),
    ("agents::files", files),
    ("agents::name_before_program", name_before_program),
    ("agents::what_to_do", what_to_do),
    ("agents::bad_files", bad_files),
    ("agents::variables_and_state", variables_and_state),
    ("agents::login", login),
];

/// An agent that says this.
fn saying(text: &str) -> Script {
    Script::ready(&format!(
        r#"
{{"say":"{text}"}}
{{"reply":"prompt","result":{{"stopReason":"end_turn"}}}}
"#
    ))
}

/// An agents file in which this agent has a name.
fn entry(name: &str, script: &Script) -> String {
    let command = split_command(&script.agent()).unwrap();
    format!("[{name}]\ncommand = {command:?}\n")
}

fn write(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// A program that goes on as this agent if its arguments are these.
fn program(dir: &TempDir, name: &str, arguments: &str, script: &Script) -> PathBuf {
    let text = format!(
        "#!/bin/sh\n[ \"$*\" = \"{arguments}\" ] || exit 9\nexec {}\n",
        script.agent()
    );
    let path = write(dir, name, &text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn with_path<'a>(command: &'a mut Command, dir: &Path) -> &'a mut Command {
    command.env("PATH", format!("{}:/bin:/usr/bin", dir.display()))
}

fn list() {
    let dir = tempfile::tempdir().unwrap();
    let gemini = program(&dir, "gemini", "", &saying(""));
    let ended = run(acp(&["agents"]).env("PATH", dir.path()));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    let of_agent = |name: &str| {
        let mut lines = ended.stdout.lines();
        lines.find(|line| line.starts_with(&format!("{name} ")));
        let rest = lines.take_while(|line| line.starts_with(' '));
        let rows = rest.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>()
    };
    let rows = of_agent("gemini");
    assert_eq!(rows[0], "command gemini --acp");
    assert_eq!(rows[1], format!("program {}", gemini.display()));
    assert!(rows[2].starts_with("verified gemini-cli "), "{rows:?}");
    let rows = of_agent("goose");
    assert_eq!(
        rows[..3],
        ["command goose acp", "program not in PATH", "verified no"]
    );
    for name in ["claude", "codex", "opencode"] {
        assert_eq!(of_agent(name)[1], "program not in PATH");
    }
    // Some of them only.
    let ended = run(acp(&["agents", "goose", "codex"]).env("PATH", dir.path()));
    let names: Vec<_> = ended
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["codex", "goose"]);
    run(&mut acp(&["agents", "gooose"]))
        .expect(2, "")
        .tells(&["`gooose`", "goose, "]);
}

fn as_json() {
    let dir = tempfile::tempdir().unwrap();
    let secret = "a-secret-value-0815";
    let file = format!(
        "[mine]\ncommand = ['/no/such/mine', 'token={secret}']\nstate = 'fresh-session'\nenv = {{ MINE = '{secret}' }}"
    );
    let file = write(&dir, "agents.toml", &file);
    let args = ["agents", "--agents", file.to_str().unwrap(), "mine"];
    for more in [&["--json"][..], &["--format", "json"]] {
        let ended = run(&mut acp(&[&args[..], more].concat()));
        assert_eq!(
            ended.json(),
            json!([{
                "name": "mine",
                "command": ["/no/such/mine", "token=[masked]"],
                "path": null,
                "title": null,
                "install": null,
                "login": null,
                "docs": null,
                "verified": null,
                "notes": null,
                "env": ["MINE"],
                "state": "fresh-session",
            }])
        );
    }
    let ended = run(&mut acp(&args));
    assert!(!ended.stdout.contains(secret), "{ended:?}");
    let ended = run(&mut acp(&["agents", "--json"]));
    let value = ended.json();
    let names: Vec<_> = value
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert!(names.contains(&&Value::from("opencode")), "{names:?}");
}

/// Each file comes before the one below it, and all before what is built in.
fn files() {
    let dir = tempfile::tempdir().unwrap();
    let [by_flag, by_variable, by_xdg, at_home] =
        ["flag", "variable", "xdg", "home"].map(|name| (name, saying(name)));
    let file = |(name, script): &(&str, Script), path: &str| {
        let text = entry("gemini", script) + &entry(&format!("only-{name}"), script);
        write(&dir, path, &text)
    };
    let flag = file(&by_flag, "flag.toml");
    let variable = file(&by_variable, "variable.toml");
    let xdg = file(&by_xdg, "xdg/acp/agents.toml");
    file(&at_home, "home/.config/acp/agents.toml");

    let mut command = acp(&["ask", "--agent", "gemini", "hi"]);
    command
        .env("HOME", dir.path().join("home"))
        .env_remove("XDG_CONFIG_HOME");
    run(&mut command).expect(0, "home\n");
    // What is not absolute is no place.
    run(command.env("XDG_CONFIG_HOME", "xdg")).expect(0, "home\n");
    let xdg = xdg.parent().unwrap().parent().unwrap();
    run(command.env("XDG_CONFIG_HOME", xdg)).expect(0, "xdg\n");
    run(command.env("ACP_AGENTS", "")).expect(0, "xdg\n");
    run(command.env("ACP_AGENTS", &variable)).expect(0, "variable\n");
    command.args(["--agents", flag.to_str().unwrap()]);
    run(&mut command).expect(0, "flag\n");

    // The variable for the agent takes a name, too; and only one of the files is read.
    let mut command = acp(&["ask", "hi"]);
    command.env("ACP_AGENTS", &variable);
    run(command.env("ACP_AGENT", "only-variable")).expect(0, "variable\n");
    command.args(["--agents", flag.to_str().unwrap()]);
    run(&mut command)
        .expect(3, "")
        .tells(&["no agent of the name `only-variable`"]);
}

fn name_before_program() {
    let dir = tempfile::tempdir().unwrap();
    let script = saying("named");
    let gemini = program(&dir, "gemini", "--acp", &script);
    run(with_path(
        &mut acp(&["ask", "--agent", "gemini", "hi"]),
        dir.path(),
    ))
    .expect(0, "named\n");
    // A path, or more than a word, is a command line.
    for agent in [gemini.to_str().unwrap(), "gemini --other"] {
        run(with_path(
            &mut acp(&["ask", "--agent", agent, "hi"]),
            dir.path(),
        ))
        .expect(3, "")
        .tells(&["exited with status 9"]);
    }
    // What is no name is a program.
    program(&dir, "my-agent", "", &script);
    run(with_path(
        &mut acp(&["ask", "--agent", "my-agent", "hi"]),
        dir.path(),
    ))
    .expect(0, "named\n");
}

fn what_to_do() {
    let run_without = |args: &[&str]| {
        run(acp(args).env("PATH", "/no/such/place"))
            .expect(3, "")
            .stderr
            .clone()
    };
    let told = |agent: &str| run_without(&["ask", "--agent", agent, "hi"]);
    let install = "To install gemini: npm install -g @google/gemini-cli";
    assert!(told("gemini").contains(install));
    assert!(run_without(&["bench", "--agent", "gemini"]).contains(install));
    assert!(told("gemni").contains("no agent of the name `gemni` either; `acp agents` lists them"));
    for other in ["gemini --acp", "/no/such/gemini"] {
        let told = told(other);
        assert!(
            !told.contains("install") && !told.contains("acp agents"),
            "{told}"
        );
    }
}

fn bad_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(&dir, "my.toml", "[gemini]\n\ncomand = ['x']\n");
    let path = file.to_str().unwrap();
    for args in [
        &["ask", "--agent", "gemini", "hi"][..],
        &["agents"],
        &["inspect", "--agent", "x"],
    ] {
        run(acp(args).env("ACP_AGENTS", path))
            .expect(2, "")
            .tells(&[&format!("{path}:3: "), "comand"]);
    }
    let missing = dir.path().join("none.toml");
    run(acp(&["agents"]).env("ACP_AGENTS", &missing))
        .expect(2, "")
        .tells(&[missing.to_str().unwrap(), "cannot be read"]);
    // Where no name is looked up the file does not matter.
    let script = saying("started");
    run(acp(&["ask", "--agent", &script.agent(), "hi"]).env("ACP_AGENTS", path))
        .expect(0, "started\n");
}

fn variables_and_state() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::ready(
        r#"
{"say":"one"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":{"$re":"(?s)first.*one.*second\nSUPERSEDES"}}]},"as":"prompt2"}
{"say":"two"}
{"reply":"prompt2","result":{"stopReason":"end_turn"}}
{"want_eof":true}
"#,
    );
    let secret = "0815-and-a-secret";
    let text = format!(
        "#!/bin/sh\n[ \"$MY_TOKEN\" = {secret} ] || exit 9\nexec {}\n",
        script.agent()
    );
    let agent = write(&dir, "agent", &text);
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "[mine]\ncommand = [{agent:?}]\nenv = {{ MY_TOKEN = '{secret}' }}\nstate = 'full-request'\n"
    );
    let file = write(&dir, "agents.toml", &text);
    let args = [
        "chat",
        "--agents",
        file.to_str().unwrap(),
        "--agent",
        "mine",
    ];
    run_with_input(&mut acp(&args), b"first\nsecond").expect(0, "one\ntwo\n");
    // The command line comes first: with the default policy the second prompt is not that one.
    let args = [&args[..], &["--state", "fresh-session"]].concat();
    let ended = run_with_input(&mut acp(&args), b"first\nsecond");
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

fn login() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::new(&[r#"
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":1,"authMethods":[{"id":"key","name":"API key"}]}}
{"want":"session/new","as":"new"}
{"reply":"new","error":{"code":-32000,"message":"Authentication required"}}
{"want_eof":true}
"#]);
    let text = entry("mine", &script) + "login = 'mine login'\n";
    let file = write(&dir, "agents.toml", &text);
    for command in [&["ask", "hi"][..], &["chat"], &["inspect"]] {
        let args = [command, &["--agent", "mine"]].concat();
        let ended = run(acp(&args).env("ACP_AGENTS", &file));
        assert_eq!(ended.code, Some(3), "{ended:?}");
        ended.tells(&["key: API key", "To log in to mine: mine login"]);
    }
}
