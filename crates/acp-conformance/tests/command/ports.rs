//! How ports are found, set up, built and skipped.

use std::fs;

use serde_json::Value;

use super::{RIGHT, Setup};

#[test]
fn ports_are_found_by_name_and_built_before_they_run() {
    let setup = Setup::new(RIGHT);
    fs::rename(
        setup.path("ports/sh/driver.sh"),
        setup.path("ports/sh/source.sh"),
    )
    .unwrap();
    let toml = setup.path("ports/sh/port.toml");
    let text = fs::read_to_string(&toml).unwrap();
    fs::write(&toml, text + "build = ['cp', 'source.sh', 'driver.sh']\n").unwrap();
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 0, "{output}");

    let text = fs::read_to_string(&toml).unwrap();
    fs::write(&toml, text.replace("source.sh", "nothing.sh")).unwrap();
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("failed to build the driver of sh"),
        "{output}"
    );
}

#[test]
fn a_port_is_set_up_once_for_each_version() {
    let setup = Setup::new(RIGHT);
    let toml = setup.path("ports/sh/port.toml");
    let text = fs::read_to_string(&toml).unwrap();
    let commands =
        "requires = ['sh']\nsetup = [['sh', '-c', 'echo x >> fetched']]\nversion = '1'\n";
    fs::write(&toml, text.clone() + commands).unwrap();

    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("not set up; `acp-conformance setup sh --ports ports` fetches"),
        "{output}"
    );
    let (_, output) = setup.run(&["--port", "./ports/sh"]);
    let want = "not set up; `acp-conformance setup ./ports/sh` fetches";
    assert!(output.contains(want), "{output}");
    let mut of_xtask = setup.command(&["--port", "sh", "--ports", "ports"]);
    of_xtask.env("ACP_CONFORMANCE_ASKED_BY", "cargo xtask");
    let stderr = String::from_utf8(of_xtask.output().unwrap().stderr).unwrap();
    let want = "not set up; `cargo xtask conformance --setup sh` fetches";
    assert!(stderr.contains(want), "{stderr}");
    for (flag, want, fetched) in [
        (&[][..], "sh (1): set up in", "x\n"),
        (&[], "sh (1): is set up already", "x\n"),
        (&["--force"], "sh (1): set up in", "x\nx\n"),
    ] {
        let (code, output) = setup.run(&[&["setup", "sh", "--ports", "ports"], flag].concat());
        assert_eq!(code, 0, "{output}");
        assert!(output.contains(want), "{output}");
        let lines = fs::read_to_string(setup.path("ports/sh/fetched")).unwrap();
        assert_eq!(lines, fetched);
    }
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 0, "{output}");

    fs::write(&toml, text + &commands.replace("'1'", "'2'")).unwrap();
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("set up for another version"), "{output}");
}

#[test]
fn a_port_without_setup_is_said_to_need_none() {
    let setup = Setup::new(RIGHT);
    let toml = setup.path("ports/sh/port.toml");
    let text = fs::read_to_string(&toml).unwrap();
    for requires in ["", "requires = ['sh']\n"] {
        fs::write(&toml, text.clone() + requires).unwrap();
        for force in [&[][..], &["--force"]] {
            let (code, output) = setup.run(&[&["setup", "sh", "--ports", "ports"], force].concat());
            assert_eq!((code, output.as_str()), (0, "sh: needs no setup\n"));
        }
    }
}

#[test]
fn of_all_ports_those_that_cannot_run_are_skipped_for_all_to_see() {
    let setup = Setup::new(RIGHT);
    let lacking = "name = 'other'\nlanguage = 'l'\ntier = 'client'\ncommand = ['d']\n\
                   requires = ['no-such-tool']\nsetup = [['touch', 'ran']]\n";
    setup.write("ports/other/port.toml", lacking);
    let (code, output) = setup.run(&["--ports", "ports", "--events", "events.jsonl"]);
    assert_eq!(code, 0, "{output}");
    let want = "other: skipped, not in PATH: no-such-tool";
    assert!(output.contains(want), "{output}");
    let events = fs::read_to_string(setup.path("events.jsonl")).unwrap();
    assert!(!output.contains("setup all"), "it would not help: {output}");
    let can = lacking
        .replace("no-such-tool", "sh")
        .replace("'other'", "'third'");
    setup.write("ports/third/port.toml", &can);
    let (_, output) = setup.run(&["--ports", "ports"]);
    let advice = "`acp-conformance setup all --ports ports` sets up what was skipped";
    assert!(output.contains(advice), "{output}");
    fs::remove_dir_all(setup.path("ports/third")).unwrap();
    let header: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!(header["skipped"][0]["name"], "other");

    let (code, output) = setup.run(&["setup", "all", "--ports", "ports"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains(want), "{output}");
    let (code, output) = setup.run(&["--port", "other", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("install no-such-tool or put it in PATH"),
        "{output}"
    );
    assert!(!output.contains("acp-conformance setup"), "{output}");
    let (code, output) = setup.run(&["setup", "other", "--ports", "ports"]);
    assert_eq!(code, 1, "{output}");
    assert!(!setup.path("ports/other/ran").exists());
}
