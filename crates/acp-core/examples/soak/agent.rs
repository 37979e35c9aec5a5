//! The agent: it echoes, streams until it is cancelled, or dies, as the prompt says.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Serves standard input until it ends.
pub fn serve() {
    let (lines, inbox) = mpsc::channel::<Value>();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Some(message) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else {
                return;
            };
            if lines.send(message).is_err() {
                return;
            }
        }
    });
    let mut sessions = 0;
    // Prompts that stream until they are cancelled, by session.
    let mut slow: HashMap<String, Value> = HashMap::new();
    loop {
        let message = match inbox.recv_timeout(Duration::from_millis(1)) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                for session in slow.keys() {
                    say(session, ".");
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let (id, params) = (message["id"].clone(), &message["params"]);
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str() {
            Some("initialize") => answer(&id, json!({"protocolVersion": 1})),
            Some("session/new") => {
                sessions += 1;
                answer(&id, json!({"sessionId": format!("s{sessions}")}));
            }
            Some("session/prompt") => {
                let text = params["prompt"][0]["text"].as_str().unwrap_or_default();
                let question = text
                    .rsplit_once("SUPERSEDES-ALL-PRIOR: ")
                    .map_or("", |(_, q)| q);
                if question.starts_with("slow") {
                    slow.insert(session, id);
                } else if let Some(how) = question.strip_prefix("die ") {
                    die(&session, how);
                } else {
                    say(&session, "echo ");
                    say(&session, question);
                    answer(&id, json!({"stopReason": "end_turn"}));
                }
            }
            Some("session/cancel") => {
                if let Some(id) = slow.remove(&session) {
                    answer(&id, json!({"stopReason": "cancelled"}));
                }
            }
            _ => {}
        }
    }
}

/// Says something first, then exits well, exits badly, or is killed.
fn die(session: &str, how: &str) -> ! {
    let (chunks, end) = how.split_once(' ').unwrap_or((how, "0"));
    for _ in 0..chunks.parse().unwrap_or(0) {
        say(session, "last words ");
    }
    match end {
        "0" => std::process::exit(0),
        "1" => std::process::exit(7),
        _ => std::process::abort(),
    }
}

fn say(session: &str, text: &str) {
    write(
        &json!({"jsonrpc": "2.0", "method": "session/update", "params": {
            "sessionId": session,
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}},
        }}),
    );
}

fn answer(id: &Value, result: Value) {
    write(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn write(message: &Value) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{message}")
        .and_then(|()| out.flush())
        .is_err()
    {
        // Nobody reads: the client is gone.
        std::process::exit(0);
    }
}
