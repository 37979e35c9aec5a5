//! Small agents that need no transcript. All are strict: they refuse what agents in the field refuse.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::message::{self, Body, prompt_text, session_of, text_chunk};
use crate::pattern::shorten;
use crate::stale;
use crate::strict::Gate;

/// Which agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// Answers at once with what the user said last, in several chunks among updates that are not
    /// part of the answer.
    Echo,
    /// Answers the first question it remembers, unless the prompt names another; see
    /// [`crate::stale`].
    Stale,
    /// Asks for permission and says nothing until it is answered or cancelled.
    Hanging,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Builtin; 3] = [Builtin::Echo, Builtin::Stale, Builtin::Hanging];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Builtin::Echo => "echo",
            Builtin::Stale => "stale",
            Builtin::Hanging => "hanging",
        }
    }
}

/// Serves one client until the end of `reader`.
///
/// # Errors
///
/// Those of `reader` and `writer`; a client that no longer reads is one.
pub fn serve(agent: Builtin, reader: impl BufRead, writer: impl Write) -> io::Result<()> {
    let mut server = Server {
        agent,
        writer,
        gate: Gate::default(),
        sessions: BTreeMap::new(),
        waiting: BTreeMap::new(),
        next_ask: 0,
    };
    for line in reader.split(b'\n') {
        server.handle(&line?)?;
    }
    Ok(())
}

struct Server<W> {
    agent: Builtin,
    writer: W,
    gate: Gate,
    /// The texts of the prompts of each session.
    sessions: BTreeMap<String, Vec<String>>,
    /// Prompts that wait for the answer to a permission request, by its id.
    waiting: BTreeMap<u64, Prompt>,
    next_ask: u64,
}

struct Prompt {
    id: Value,
    session: String,
}

impl<W: Write> Server<W> {
    fn handle(&mut self, line: &[u8]) -> io::Result<()> {
        let incoming = match self.gate.admit(line) {
            Ok(incoming) => incoming,
            Err(refusal) => return self.write(&refusal.to_line()),
        };
        match incoming.body {
            Body::Request { id, method, params } => {
                if method == "session/prompt" {
                    return self.prompt(id, params.as_ref());
                }
                let answer = self.answer(&method);
                self.gate.answered(&method, params.as_ref(), &answer);
                self.write(&message::response(&id, &answer))
            }
            Body::Notification { method, params } if method == "session/cancel" => {
                self.cancel(session_of(params.as_ref()).unwrap_or_default())
            }
            Body::Response { id, answer } => self.permitted(&id, answer),
            // Notifications that are unknown, and what is no message, want no answer.
            Body::Notification { .. } | Body::Other => Ok(()),
        }
    }

    fn answer(&mut self, method: &str) -> Result<Value, Value> {
        match method {
            "initialize" => Ok(json!({
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": false},
                "agentInfo": {
                    "name": format!("acp-fake-server-{}", self.agent.name()),
                    "version": env!("CARGO_PKG_VERSION"),
                },
                "authMethods": [],
            })),
            "session/new" => {
                let session = format!("s{}", self.sessions.len() + 1);
                self.sessions.insert(session.clone(), Vec::new());
                Ok(json!({"sessionId": session}))
            }
            _ => Err(json!({"code": -32601, "message": format!("Method not found: {method}")})),
        }
    }

    fn prompt(&mut self, id: Value, params: Option<&Value>) -> io::Result<()> {
        let session = session_of(params).unwrap_or_default().to_owned();
        let Some(prompts) = self.sessions.get_mut(&session) else {
            let error = json!({"code": -32602, "message": "Invalid params: sessionId is missing"});
            return self.write(&message::response(&id, &Err(error)));
        };
        prompts.push(prompt_text(params));
        let answer = match self.agent {
            Builtin::Echo => echo(prompts),
            Builtin::Stale => format!("answer to: {}", stale_question(prompts)),
            Builtin::Hanging => return self.ask(Prompt { id, session }),
        };
        self.say(&session, &answer)?;
        self.end(&id, "end_turn")
    }

    /// Writes `text` in several chunks, among updates that are not part of it.
    fn say(&mut self, session: &str, text: &str) -> io::Result<()> {
        let thought = json!({
            "sessionUpdate": "agent_thought_chunk",
            "content": {"type": "text", "text": "I shall say it back."},
        });
        self.update(session, &thought)?;
        for word in text.split_inclusive(' ') {
            self.update(session, &text_chunk(word))?;
        }
        let usage = json!({"sessionUpdate": "usage_update", "used": text.len(), "size": 100_000});
        self.update(session, &usage)
    }

    fn ask(&mut self, prompt: Prompt) -> io::Result<()> {
        let option = |kind: &str, name| json!({"optionId": kind, "name": name, "kind": kind});
        let params = json!({
            "sessionId": prompt.session,
            "toolCall": {"toolCallId": format!("t{}", self.next_ask), "title": "Answer you"},
            "options": [option("allow_once", "Allow"), option("reject_once", "Reject")],
        });
        let id = json!(self.next_ask);
        self.waiting.insert(self.next_ask, prompt);
        self.next_ask += 1;
        self.write(&message::request(
            &id,
            "session/request_permission",
            Some(&params),
        ))
    }

    fn permitted(&mut self, id: &Value, answer: Result<Value, Value>) -> io::Result<()> {
        let Some(prompt) = id.as_u64().and_then(|id| self.waiting.remove(&id)) else {
            return Ok(());
        };
        let outcome = answer.unwrap_or_default();
        match outcome.pointer("/outcome/optionId").and_then(Value::as_str) {
            Some(option) => {
                self.say(&prompt.session, &format!("The answer was {option}."))?;
                self.end(&prompt.id, "end_turn")
            }
            None => self.end(&prompt.id, "cancelled"),
        }
    }

    fn cancel(&mut self, session: &str) -> io::Result<()> {
        let cancelled: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, prompt)| prompt.session == session)
            .map(|(ask, _)| *ask)
            .collect();
        for prompt in cancelled
            .into_iter()
            .filter_map(|ask| self.waiting.remove(&ask))
            .collect::<Vec<_>>()
        {
            self.end(&prompt.id, "cancelled")?;
        }
        Ok(())
    }

    fn end(&mut self, id: &Value, stop_reason: &str) -> io::Result<()> {
        self.write(&message::response(
            id,
            &Ok(json!({"stopReason": stop_reason})),
        ))
    }

    fn update(&mut self, session: &str, update: &Value) -> io::Result<()> {
        self.write(&message::update(&json!(session), update))
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.writer.write_all(line)?;
        self.writer.write_all(b"\n")?;
        self.writer.flush()
    }
}

fn echo(prompts: &[String]) -> String {
    let newest = prompts.last().map_or("", String::as_str);
    let named = newest
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(stale::MARKER));
    let said = named
        .or_else(|| questions(newest).last().copied())
        .unwrap_or_default();
    format!("You said: {}", shorten(said))
}

fn stale_question(prompts: &[String]) -> String {
    let known: Vec<&str> = prompts
        .iter()
        .flat_map(|prompt| questions(prompt))
        .collect();
    match stale::question(&known, prompts) {
        Ok(question) => question.to_owned(),
        Err(named) => named.unwrap_or_default(),
    }
}

/// What the user says in a prompt: the `user: ` lines of a rendered conversation, or all of it.
fn questions(prompt: &str) -> Vec<&str> {
    let said = prompt
        .lines()
        .filter_map(|line| line.strip_prefix("user: "));
    let said: Vec<&str> = said.filter(|text| !text.is_empty()).collect();
    if said.is_empty() && !prompt.is_empty() {
        vec![prompt]
    } else {
        said
    }
}

#[cfg(test)]
mod tests;
