//! Drivers that break one rule of the driver protocol each, and one that breaks none.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// Answers requests on the standard streams until the end of the input, in the given role.
pub fn drive(role: &str) -> ExitCode {
    eprintln!("free text");
    if role == "exits-at-once" {
        return ExitCode::from(3);
    }
    let mut agent = None;
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let op = request["op"].as_str().unwrap();
        let seq = &request["seq"];
        match (role, op) {
            ("never-answers-hello", _) | ("never-loads", "load") | ("never-answers-bye", "bye") => {
                continue;
            }
            ("exits-in-load", "load") => return ExitCode::from(3),
            ("prints-garbage", "load") => println!("Loading model…"),
            ("answers-what-was-not-asked", "load") => answer(&json!(99), &json!({"ok": {}})),
            _ => {}
        }
        let body = match (role, op) {
            (_, "hello") => json!({"ok": greeting(role)}),
            ("reports-a-crash", "load") => json!({"crash": "panicked"}),
            ("unsupported", "load") => json!({"unsupported": "load"}),
            ("unknown-kind", "load") => json!({"err": {"kind": "sad", "message": "m"}}),
            ("always-wrong", _) => json!({"ok": {"session_id": "s1", "content": "42"}}),
            (_, "load") => {
                let (loaded, answer) = Agent::load(&request["args"], role);
                agent = Some(loaded);
                answer
            }
            (_, "close") => {
                if role != "leaves-the-agent" {
                    agent.take().unwrap().close(role);
                }
                json!({"ok": {}})
            }
            _ => json!({"ok": {}}),
        };
        answer(seq, &body);
        if role == "answers-twice" {
            answer(seq, &body);
        }
        match (role, op) {
            // Not even at the end of its input.
            ("never-exits", "bye") => loop {
                thread::sleep(Duration::from_secs(3600));
            },
            ("exits-1-at-the-end", "bye") => return ExitCode::from(1),
            (_, "bye") => return ExitCode::SUCCESS,
            _ => {}
        }
    }
    ExitCode::SUCCESS
}

fn greeting(role: &str) -> Value {
    let name = if role == "other-name" {
        "somebody"
    } else {
        "liar"
    };
    let capability = if role == "unknown-capability" {
        "telepathy"
    } else {
        "cancel"
    };
    json!({
        "protocol": if role == "newer-protocol" { 2 } else { 1 },
        "port": {"name": name, "language": "rust", "version": "0"},
        "capabilities": [capability],
    })
}

fn answer(seq: &Value, body: &Value) {
    let mut line = body.clone();
    line["seq"] = seq.clone();
    println!("{line}");
}

struct Agent {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Agent {
    /// An agent, and what is answered to `load`: its own error, or that it is ready.
    fn load(args: &Value, role: &str) -> (Agent, Value) {
        let command: Vec<&str> = args["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part.as_str().unwrap())
            .collect();
        let env = args["env"].as_object().unwrap().iter();
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .envs(env.map(|(key, value)| (key, value.as_str().unwrap())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut agent = Agent {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        let initialized = agent.ask(1, "initialize", json!({"protocolVersion": 1}));
        if initialized.get("error").is_some() {
            let error = json!({"err": {"kind": "rejected", "message": "m"}});
            return (agent, error);
        }
        let servers = match role {
            "invalid-to-the-schema" => json!([{"name": "no command"}]),
            _ => json!([]),
        };
        agent.ask(2, "session/new", json!({"cwd": "/", "mcpServers": servers}));
        (agent, json!({"ok": {"session_id": "s1"}}))
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stdin, "{request}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn close(mut self, role: &str) {
        if role == "one-line-too-many" {
            let note = json!({"jsonrpc": "2.0", "method": "session/cancel",
                "params": {"sessionId": "s1"}});
            writeln!(self.stdin, "{note}").unwrap();
        }
        drop(self.stdin);
        self.child.wait().unwrap();
    }
}
