//! An agent that is the fake one with one thing broken.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use acp_conformance::agent_check::Verdict;

use acp_fake_server::{
    Profile,
    agents::{Builtin, serve_as},
};
use serde_json::{Value, json};

/// What is broken, the check that sees it, and what that says.
pub const FAULTS: [(&str, &str, Verdict, &str); 29] = [
    (
        "other-version",
        "initialize/version",
        Verdict::Wrong,
        "version 2",
    ),
    (
        "no-session-id",
        "session/new",
        Verdict::Wrong,
        "no session id",
    ),
    (
        "refuses-sessions",
        "session/new",
        Verdict::Wrong,
        "error -32603",
    ),
    (
        "one-session-id",
        "session/unique-ids",
        Verdict::Wrong,
        "the same id",
    ),
    (
        "takes-any-method",
        "message/unknown-method",
        Verdict::Wrong,
        "answered",
    ),
    (
        "takes-any-method",
        "message/unknown-extension",
        Verdict::Differs,
        "answered",
    ),
    (
        "numbers-string-ids",
        "message/string-id",
        Verdict::Wrong,
        "another id",
    ),
    (
        "rounds-ids",
        "message/large-id",
        Verdict::Wrong,
        "another id",
    ),
    (
        "no-stop-reason",
        "turn/answer",
        Verdict::Wrong,
        "no stop reason",
    ),
    (
        "no-stop-reason",
        "turn/permission-reject",
        Verdict::Wrong,
        "no stop reason",
    ),
    (
        "no-text",
        "turn/answer",
        Verdict::Differs,
        "end_turn, no text",
    ),
    ("fails-turns", "turn/answer", Verdict::Wrong, "error -32603"),
    ("fails-turns", "turn/second", Verdict::Wrong, "error -32603"),
    (
        "fails-turns",
        "turn/after-cancel",
        Verdict::Wrong,
        "error -32603",
    ),
    ("fails-turns", "turn/cancel", Verdict::Wrong, "error -32603"),
    (
        "always-cancelled",
        "turn/cancel-idle",
        Verdict::Wrong,
        "cancelled",
    ),
    ("never-cancelled", "turn/cancel", Verdict::Wrong, "end_turn"),
    (
        "one-option-id",
        "turn/permission-options",
        Verdict::Wrong,
        "allow_once, an id that is there twice",
    ),
    ("chatty", "wire/output", Verdict::Wrong, "faults"),
    ("no-jsonrpc", "wire/envelope", Verdict::Wrong, "faults"),
    ("unknown-update", "wire/schema", Verdict::Wrong, "faults"),
    ("reads-files", "wire/capabilities", Verdict::Wrong, "faults"),
    (
        "loads-nothing",
        "session/load",
        Verdict::Wrong,
        "replays nothing",
    ),
    (
        "loads-one-side",
        "session/load",
        Verdict::Wrong,
        "replays one side only",
    ),
    (
        "loads-late",
        "session/load",
        Verdict::Wrong,
        "answers before the end of the replay",
    ),
    (
        "long-line",
        "session/new",
        Verdict::Wrong,
        "a line of more than 8 MiB",
    ),
    ("long-line", "wire/output", Verdict::Wrong, "faults"),
    (
        "escapes",
        "shutdown/eof",
        Verdict::Differs,
        "ends, leaves 1",
    ),
    (
        "escapes-with-a-pipe",
        "shutdown/term",
        Verdict::Differs,
        "ends, leaves 1",
    ),
];

/// The same for what real agents do.
pub const FAULTS_OF_PROFILES: [(&str, &str, Verdict, &str); 15] = [
    (
        "python-sdk",
        "initialize/unknown-version",
        Verdict::Wrong,
        "version 99",
    ),
    (
        "gemini",
        "initialize/no-version",
        Verdict::Differs,
        "error -32603",
    ),
    (
        "gemini",
        "session/relative-cwd",
        Verdict::Differs,
        "error -32603",
    ),
    (
        "gemini",
        "session/no-mcp-servers",
        Verdict::Differs,
        "error -32603",
    ),
    (
        "opencode",
        "session/unknown",
        Verdict::Differs,
        "error -32602",
    ),
    (
        "python-sdk",
        "session/set-mode-unknown",
        Verdict::Differs,
        "answered",
    ),
    (
        "codex",
        "message/unknown-notification",
        Verdict::Wrong,
        "error -32601 without id",
    ),
    (
        "codex",
        "message/unknown-extension-notification",
        Verdict::Wrong,
        "error -32601 without id",
    ),
    (
        "codex",
        "message/garbage",
        Verdict::Wrong,
        "error -32700 without id",
    ),
    ("codex", "message/invalid-utf-8", Verdict::Died, "died"),
    (
        "codex",
        "turn/busy",
        Verdict::Timeout,
        "queues; the second is never answered",
    ),
    (
        "typescript-sdk",
        "turn/permission-cancel",
        Verdict::Wrong,
        "end_turn",
    ),
    ("codex", "shutdown/eof", Verdict::Differs, "stays"),
    ("gemini", "shutdown/eof-mid-turn", Verdict::Differs, "stays"),
    ("codex", "shutdown/term", Verdict::Differs, "ends, leaves 1"),
];

/// Leaves a process behind that is in no process group of the agent's, if that is what is broken, and adds its
/// id to the file.
pub fn escape(how: &str, pids: Option<&Path>) -> io::Result<()> {
    let mut command = Command::new("sleep");
    command.arg("1000").process_group(0);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    match how {
        "escapes" => command.stdout(Stdio::null()),
        // Its environment is another, and it has the agent's standard output.
        "escapes-with-a-pipe" => command.env_clear(),
        _ => return Ok(()),
    };
    let child = command.spawn()?;
    if let Some(pids) = pids {
        let mut file = File::options().append(true).create(true).open(pids)?;
        writeln!(file, "{}", child.id())?;
    }
    Ok(())
}

/// What becomes of each line that the fake agent writes.
type Break = fn(Value) -> Vec<Value>;

/// Serves standard input and output, broken in this way.
pub fn serve(how: &str) -> io::Result<()> {
    let (_, breaks) = BREAKS
        .into_iter()
        .find(|(name, _)| *name == how)
        .ok_or_else(|| io::Error::other(format!("nothing is broken by {how:?}")))?;
    let writer = Broken {
        line: Vec::new(),
        breaks,
    };
    let reader = io::stdin().lock();
    serve_as(Builtin::Obedient, Profile::default(), reader, writer).map(drop)
}

/// The names, and what they break. A string is written as a line that is no message.
const BREAKS: [(&str, Break); 28] = [
    ("nothing", |line| vec![line]),
    ("silent", |_| Vec::new()),
    ("refuses-initialize", |line| {
        vec![
            json!({"jsonrpc": "2.0", "id": line["id"], "error": {"code": -32603, "message": "no"}}),
        ]
    }),
    ("other-version", |line| {
        set(line, "/result/protocolVersion", json!(2))
    }),
    ("no-session-id", |line| {
        set(line, "/result/sessionId", Value::Null)
    }),
    ("one-session-id", |line| {
        set(line, "/result/sessionId", json!("s1"))
    }),
    ("refuses-sessions", |line| {
        fail(line, "/result/sessionId", -32603)
    }),
    ("wants-login", |line| {
        fail(line, "/result/sessionId", -32000)
    }),
    ("takes-any-method", |line| {
        match line.pointer("/error/code") {
            Some(code) if *code == -32601 => {
                vec![json!({"jsonrpc": "2.0", "id": line["id"], "result": {}})]
            }
            _ => vec![line],
        }
    }),
    ("numbers-string-ids", |line| {
        match line.get("id").is_some_and(Value::is_string) {
            true => set(line, "/id", json!(1)),
            false => vec![line],
        }
    }),
    ("rounds-ids", |line| match line["id"].as_u64() {
        Some(id) if id > 1 << 52 => set(line, "/id", json!(id + 1)),
        _ => vec![line],
    }),
    ("no-stop-reason", |line| {
        set(line, "/result/stopReason", Value::Null)
    }),
    ("no-text", |line| {
        match line.pointer("/params/update/sessionUpdate") {
            Some(kind) if kind == "agent_message_chunk" => Vec::new(),
            _ => vec![line],
        }
    }),
    ("fails-turns", |line| {
        fail(line, "/result/stopReason", -32603)
    }),
    ("never-cancelled", |line| {
        match line.pointer("/result/stopReason") {
            Some(reason) if reason == "cancelled" => {
                set(line, "/result/stopReason", json!("end_turn"))
            }
            _ => vec![line],
        }
    }),
    ("always-cancelled", |line| {
        set(line, "/result/stopReason", json!("cancelled"))
    }),
    ("one-option-id", |line| {
        let line = set(line, "/params/options/0/optionId", json!("a")).remove(0);
        set(line, "/params/options/1/optionId", json!("a"))
    }),
    ("long-line", |line| {
        match line.pointer("/result/sessionId") {
            Some(_) => vec![json!("x".repeat(9 << 20))],
            None => vec![line],
        }
    }),
    // What these break is done before: see `escape`.
    ("escapes", |line| vec![line]),
    ("escapes-with-a-pipe", |line| vec![line]),
    ("chatty", |line| {
        vec![json!("Listening on standard input"), line]
    }),
    ("no-jsonrpc", |line| set(line, "/jsonrpc", json!("1.0"))),
    ("unknown-update", |line| {
        set(line, "/params/update/sessionUpdate", json!("sigh"))
    }),
    ("loads", |line| load(line, &["user", "agent"], &[])),
    ("loads-nothing", |line| load(line, &[], &[])),
    ("loads-one-side", |line| load(line, &["agent"], &[])),
    ("loads-late", |line| load(line, &["user"], &["agent"])),
    ("reads-files", |line| {
        let params = json!({"sessionId": "s1", "path": "/etc/hostname"});
        let ask =
            json!({"jsonrpc": "2.0", "id": 99, "method": "fs/read_text_file", "params": params});
        match line.pointer("/result/stopReason") {
            Some(_) => vec![ask, line],
            None => vec![line],
        }
    }),
];

/// The line with another value at `pointer`, if it has any there; null takes the member away.
fn set(mut line: Value, pointer: &str, value: Value) -> Vec<Value> {
    if let Some(place) = line.pointer_mut(pointer) {
        *place = value;
    }
    vec![line]
}

/// The line with an error in place of a result that has something at `pointer`.
fn fail(line: Value, pointer: &str, code: i32) -> Vec<Value> {
    match line.pointer(pointer) {
        Some(_) => {
            let error = json!({"code": code, "message": "Broken"});
            vec![json!({"jsonrpc": "2.0", "id": line["id"], "error": error})]
        }
        None => vec![line],
    }
}

/// The line as one of an agent that loads sessions, and replays this much before and after its answer.
fn load(line: Value, before: &[&str], after: &[&str]) -> Vec<Value> {
    let refused = line.pointer("/error/message");
    if refused.is_none_or(|message| message != "Method not found: session/load") {
        return set(line, "/result/agentCapabilities/loadSession", json!(true));
    }
    let replay = |side: &&str| {
        let content = json!({"type": "text", "text": "hello"});
        let update = json!({"sessionUpdate": format!("{side}_message_chunk"), "content": content});
        let params = json!({"sessionId": "s1", "update": update});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
    };
    let answer = json!({"jsonrpc": "2.0", "id": line["id"], "result": {}});
    let before = before.iter().map(replay);
    before
        .chain([answer])
        .chain(after.iter().map(replay))
        .collect()
}

struct Broken {
    line: Vec<u8>,
    breaks: Break,
}

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = serde_json::from_slice(&std::mem::take(&mut self.line))?;
            for line in (self.breaks)(line) {
                match line.as_str() {
                    Some(noise) => writeln!(io::stdout(), "{noise}")?,
                    None => writeln!(io::stdout(), "{line}")?,
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}
