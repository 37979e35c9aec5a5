//! The binary as a person or a foreign test suite uses it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_acp-fake-server");

const HEADER: &str = r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":["X-1"]}"#;
const INIT: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;

fn transcript(steps: &[&str]) -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b.jsonl");
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("{HEADER}\n{}\n", steps.join("\n"))).unwrap();
    (root, path)
}

fn start(arguments: &[&Path]) -> Child {
    Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Plays `steps` against a client that writes `input` and closes.
fn play(steps: &[&str], input: &str) -> Output {
    let (_root, path) = transcript(steps);
    let mut child = start(&[Path::new("play"), &path]);
    // The agent may have ended before it read anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn play_is_the_agent_and_exits_0_at_the_end() {
    let steps = [
        r#"{"call":"load"}"#,
        r#"{"want":"initialize","as":"i"}"#,
        r#"{"stderr":"log"}"#,
        r#"{"reply":"i","result":{}}"#,
        r#"{"returns":"load","ok":{}}"#,
    ];
    let output = play(&steps, &format!("junk\n{INIT}\n"));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "\
        {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}\n\
        {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n"
    );
    assert_eq!(text(&output.stderr), "log");
    let idle = play(&steps, "");
    assert_eq!(idle.status.code(), Some(1), "a client that does nothing");
    assert!(text(&idle.stderr).contains("closed the agent's input"));
}

#[test]
fn play_takes_bad_input_as_the_agent_that_it_is_told_to_be() {
    let (_root, path) = transcript(&[r#"{"want":"initialize"}"#]);
    for (like, input, code, stdout) in [
        ("gemini", format!("junk\n[]\n{INIT}\n"), 0, ""),
        ("typescript-sdk", format!("[]\n{INIT}\n"), 0, ""),
        ("python-sdk", format!("[]\n{INIT}\n"), 1, ""),
        (
            "codex",
            format!("junk\n{INIT}\n"),
            0,
            "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}\n",
        ),
    ] {
        let mut child = start(&[Path::new("play"), Path::new("--as"), Path::new(like), &path]);
        // The agent may have ended before it read everything.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{like}: {output:?}");
        assert_eq!(text(&output.stdout), stdout, "{like}");
    }
}

#[test]
fn play_says_what_the_client_did_differently_and_exits_1() {
    let output = play(
        &[r#"{"want":"initialize","params":{"protocolVersion":2}}"#],
        INIT,
    );
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stderr);
    assert!(
        shown.contains("a/b.jsonl:2: the request initialize was wanted"),
        "{shown}"
    );
    assert!(
        shown.contains("path: $.params.protocolVersion\n  want: 2\n  got:  1"),
        "{shown}"
    );
}

#[test]
fn play_ends_as_the_transcript_says() {
    let output = play(&[r#"{"raw":"x"}"#, r#"{"exit":7}"#], "");
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(7), "x")
    );
    for (name, number) in [
        ("SIGTERM", 15),
        ("SIGKILL", 9),
        ("SIGSEGV", 11),
        ("SIGHUP", 1),
    ] {
        let output = play(&[&format!(r#"{{"signal":"{name}"}}"#)], "");
        assert_eq!(output.status.signal(), Some(number), "{name}");
    }
    let output = play(
        &[r#"{"want_eof":true}"#, r#"{"raw":"bye"}"#, r#"{"exit":3}"#],
        "",
    );
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(3), "bye")
    );
}

#[test]
fn play_keeps_time_while_it_listens() {
    let steps = [
        r#"{"delay_ms":50,"note":"the client writes meanwhile"}"#,
        r#"{"want":"initialize","as":"i"}"#,
        r#"{"reply":"i","result":1}"#,
    ];
    let started = std::time::Instant::now();
    let output = play(&steps, &format!("{INIT}\n"));
    assert!(started.elapsed().as_millis() >= 50);
    assert_eq!(
        text(&output.stdout),
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":1}\n"
    );
}

#[test]
fn play_can_close_its_output_and_live_on() {
    let (_root, path) = transcript(&[
        r#"{"raw":"x\n"}"#,
        r#"{"close_stdout":true}"#,
        r#"{"want_eof":true}"#,
        r#"{"exit":4}"#,
    ]);
    let mut child = start(&[Path::new("play"), &path]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "x");
    assert!(lines.next().is_none(), "the output has ended");
    assert!(
        child.try_wait().unwrap().is_none(),
        "and the process has not"
    );
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn play_lingers_until_it_is_killed() {
    let (_root, path) = transcript(&[
        r#"{"linger":"term"}"#,
        r#"{"raw":"x\n"}"#,
        r#"{"want_eof":true}"#,
        r#"{"raw":"y\n"}"#,
    ]);
    let mut child = start(&[Path::new("play"), &path]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "x");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    drop(child.stdin.take());
    assert_eq!(
        lines.next().unwrap().unwrap(),
        "y",
        "after SIGTERM and the end of the input"
    );
    // A process that ended would close its output.
    let (tell, told) = mpsc::channel();
    let reader = thread::spawn(move || tell.send(lines.next().is_none()));
    assert!(
        told.recv_timeout(Duration::from_millis(200)).is_err(),
        "it has ended"
    );
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(reader.join().unwrap(), Ok(()));
}

#[test]
fn play_of_a_faulty_transcript_exits_2() {
    let output = play(&[r#"{"wnat":"x"}"#], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("a/b.jsonl:2: no verb"));
}

#[test]
fn output_that_cannot_be_written_is_no_success() {
    let (_root, path) = transcript(&[r#"{"raw":"x"}"#]);
    for arguments in [
        ["play", path.to_str().unwrap()],
        ["check", path.to_str().unwrap()],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(PROGRAM)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(full)
            .output()
            .unwrap();
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {shown}");
        assert!(shown.starts_with("acp-fake-server: "), "{shown}");
    }
    // A reader that has gone away is none of the agent's faults.
    let mut child = start(&[Path::new("play"), &path]);
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_wrong_decides_though_nobody_reads_it() {
    let (_root, path) = transcript(&[r#"{"wnat":"x"}"#]);
    for (arguments, code) in [
        (["play", path.to_str().unwrap()], 2),
        (["check", "none"], 1),
    ] {
        // Nobody reads this pipe, and the other end of it is gone.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(PROGRAM)
            .args(arguments)
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

fn check(paths: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM)
        .arg("check")
        .args(paths)
        .output()
        .unwrap();
    (
        output.status.code(),
        text(&output.stderr) + &text(&output.stdout),
    )
}

#[test]
fn check_prints_each_fault_and_a_summary() {
    let (root, path) = transcript(&[r#"{"note":"fine"}"#]);
    let good = (Some(0), "1 checked, 0 with faults\n".to_owned());
    assert_eq!(check(&[&path]), good);
    assert_eq!(check(&[root.path()]), good);

    fs::write(root.path().join("a/c.jsonl"), HEADER).unwrap();
    fs::write(
        root.path().join("a/d.jsonl"),
        format!("{}\n{{}}\n{{}}\n", HEADER.replace("a/b", "a/d")),
    )
    .unwrap();
    let (code, shown) = check(&[root.path()]);
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].ends_with(
            "a/c.jsonl:1: the id \"a/b\" is not the end of the path: such a file is named a/b.jsonl"
        ),
        "{shown}"
    );
    assert!(
        lines[1].ends_with("a/d.jsonl:2: no verb among the keys []"),
        "{shown}"
    );
    assert!(
        lines[2].ends_with("a/d.jsonl:3: no verb among the keys []"),
        "{shown}"
    );
    assert_eq!(lines[3..], ["3 checked, 2 with faults"]);
}

#[test]
fn check_reads_nothing_that_has_no_end() {
    let root = tempfile::tempdir().unwrap();
    let pipe = root.path().join("pipe.jsonl");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [&pipe, Path::new("/dev/zero")] {
        let (code, shown) = check(&[path]);
        assert_eq!(code, Some(1));
        let want = format!(
            "{}:1: cannot be read: it is not a regular file\n",
            path.display()
        );
        assert!(shown.starts_with(&want), "{shown}");
    }
}

#[test]
fn check_takes_a_path_from_within_the_area() {
    let (root, path) = transcript(&[r#"{"use":"p"}"#]);
    fs::create_dir(root.path().join("_prelude")).unwrap();
    fs::write(root.path().join("_prelude/p.jsonl"), r#"{"prelude":"p"}"#).unwrap();
    for (directory, path) in [
        (path.parent().unwrap(), "b.jsonl"),
        (root.path(), "a/b.jsonl"),
    ] {
        let mut check = Command::new(PROGRAM);
        let output = check
            .args(["check", path])
            .current_dir(directory)
            .output()
            .unwrap();
        assert_eq!(text(&output.stdout), "1 checked, 0 with faults\n", "{path}");
    }
}

#[test]
fn check_of_nothing_is_no_success() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(check(&[root.path()]).0, Some(1));
    assert_eq!(check(&[&root.path().join("none")]).0, Some(1));
    assert_eq!(check(&[]).0, Some(2));
}

#[test]
fn the_agents_are_there_by_name() {
    for name in ["echo", "stale", "hanging"] {
        let mut child = start(&[Path::new("agent"), Path::new(name)]);
        writeln!(child.stdin.take().unwrap(), "{INIT}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains(&format!("acp-fake-server-{name}")));
    }
    let output = Command::new(PROGRAM)
        .args(["agent", "nobody"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("echo, stale, hanging"));
}
