//! An agent that shows what its sessions hold. It shares no code with the library.
//!
//! The usage of an answer names the session, and says how many prompts it holds and how many sessions are open. The
//! last line of a prompt says what becomes of it: `tell` is answered by everything that the session holds, `die` is
//! the end of the process, `hang` waits for its cancel, and anything else is answered by `ok`.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::process;

use serde_json::{Value, json};

/// Serves the client on standard input and output. `no-close` keeps every session, `no-session` exits when it is
/// asked for one, and `refuses` answers that with an error.
pub fn serve(ways: &[String]) -> io::Result<()> {
    let is = |way: &str| ways.iter().any(|given| given == way);
    let mut agent = Agent::default();
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let session = message["params"]["sessionId"].as_str().unwrap_or_default();
        let id = &message["id"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                let capabilities = match is("no-close") {
                    true => json!({}),
                    false => json!({"sessionCapabilities": {"close": {}}}),
                };
                answer(
                    id,
                    &json!({"protocolVersion": 1, "agentCapabilities": capabilities}),
                )?;
            }
            "session/new" if is("no-session") => process::exit(4),
            "session/new" if is("refuses") => {
                let error = json!({"code": -32603, "message": "no more sessions"});
                write(&json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
            }
            "session/new" => {
                agent.opened += 1;
                let session = format!("{}-{}", process::id(), agent.opened);
                agent.sessions.insert(session.clone(), Vec::new());
                answer(id, &json!({"sessionId": session}))?;
            }
            "session/close" => {
                agent.sessions.remove(session);
                answer(id, &json!({}))?;
            }
            "session/prompt" => agent.prompt(id, session, &message["params"]["prompt"])?,
            "session/cancel" => {
                if let Some(id) = agent.hanging.remove(session) {
                    answer(&id, &json!({"stopReason": "cancelled"}))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[derive(Default)]
struct Agent {
    opened: usize,
    /// The prompts of each session.
    sessions: BTreeMap<String, Vec<String>>,
    /// The requests that wait for their cancel.
    hanging: BTreeMap<String, Value>,
}

impl Agent {
    fn prompt(&mut self, id: &Value, session: &str, prompt: &Value) -> io::Result<()> {
        let blocks = prompt.as_array().into_iter().flatten();
        let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
        let open = self.sessions.len();
        let held = self.sessions.get_mut(session).expect("a session of ours");
        held.push(text);
        let last = held.last().and_then(|text| text.lines().last());
        let last = last.unwrap_or_default();
        let said = if last.contains("die") {
            process::exit(3);
        } else if last.contains("hang") {
            self.hanging.insert(session.to_owned(), id.clone());
            return say(session, "one ");
        } else if last.contains("tell") {
            held.join(" ")
        } else {
            "ok".to_owned()
        };
        say(session, &said)?;
        let usage = json!({"session": session, "held": held.len(), "open": open});
        answer(id, &json!({"stopReason": "end_turn", "usage": usage}))
    }
}

fn say(session: &str, text: &str) -> io::Result<()> {
    let content = json!({"type": "text", "text": text});
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
    let params = json!({"sessionId": session, "update": update});
    write(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn answer(id: &Value, result: &Value) -> io::Result<()> {
    write(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn write(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}
