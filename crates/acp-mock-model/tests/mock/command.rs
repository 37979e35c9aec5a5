//! The program.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::client::{Answer, Api, Client};

/// Ends the process with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_acp-mock-model"))
}

#[test]
fn it_serves_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.jsonl");
    let mut command = program();
    command.args(["--script", "echo", "--log"]).arg(&log);
    let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut url = String::new();
    let stdout = child.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut url).unwrap();
    let mut client = Client::at(url.trim_end());
    let api = Api::Messages;
    let reply = client.post(api.path(false), &api.body("hi", None, false));
    assert_eq!(api.answer(&reply, false), Answer::Text("MOCK: hi".into()));
    let log = std::fs::read_to_string(log).unwrap();
    let line: Value = serde_json::from_str(log.strip_suffix('\n').unwrap()).unwrap();
    assert_eq!(line["path"], "/v1/messages?beta=true");
    assert_eq!(line["body"]["messages"][0]["content"], "hi");
}

#[test]
fn it_says_what_is_wrong_with_its_command_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, want) in [
        (&["--script", "parrot"][..], "there are echo, obey, slow"),
        (&["--port", &port], "error: port"),
        (
            &["--log", "/no/such/directory/log"],
            "/no/such/directory/log: ",
        ),
    ] {
        let output = program().args(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(want), "{stderr}");
    }
}

#[test]
fn it_helps() {
    let output = program().arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for name in acp_mock_model::Script::NAMES {
        assert!(
            help.contains(&format!("{name}:")) || help.contains(&format!("{name},")),
            "{name}"
        );
    }
}
