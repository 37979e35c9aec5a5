//! Small agents that need no transcript. They refuse what a [`Profile`] says; all are strict if it is not
//! told.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::message::{self, Body, prompt_text, session_of, text_chunk};
use crate::pattern::shorten;
use crate::profile::{Busy, OnCancel, Profile, Reaction};
use crate::stale;
use crate::strict::{Gate, Refusal};

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
    /// Does what the prompt says: with `go slow` in it, begins to answer and goes on until it is
    /// cancelled; with `use a tool`, asks for permission; otherwise answers as [`Builtin::Echo`].
    Obedient,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Builtin; 4] = [
        Builtin::Echo,
        Builtin::Stale,
        Builtin::Hanging,
        Builtin::Obedient,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Builtin::Echo => "echo",
            Builtin::Stale => "stale",
            Builtin::Hanging => "hanging",
            Builtin::Obedient => "obedient",
        }
    }
}

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client closed the agent's input, and no turn was running.
    Idle,
    /// The client closed the agent's input while a turn was running.
    MidTurn,
    /// The agent does not survive what the client wrote, and exits with this code.
    Exit(i32),
}

/// Serves one client until the end of `reader`, as the strict agent does.
///
/// # Errors
///
/// Those of `reader` and `writer`; a client that no longer reads is one.
pub fn serve(agent: Builtin, reader: impl BufRead, writer: impl Write) -> io::Result<()> {
    serve_as(agent, Profile::default(), reader, writer).map(drop)
}

/// Serves one client as an agent with this profile does, until the end of `reader` or the agent's own.
///
/// # Errors
///
/// Those of `reader` and `writer`; a client that no longer reads is one.
pub fn serve_as(
    agent: Builtin,
    profile: Profile,
    reader: impl BufRead,
    writer: impl Write,
) -> io::Result<End> {
    let mut server = Server {
        agent,
        writer,
        gate: Gate::new(profile.clone()),
        profile,
        sessions: BTreeMap::new(),
        running: Vec::new(),
        queue: VecDeque::new(),
        asked: 0,
    };
    for line in reader.split(b'\n') {
        if let Some(code) = server.handle(&line?)? {
            return Ok(End::Exit(code));
        }
    }
    Ok(if server.running.is_empty() {
        End::Idle
    } else {
        End::MidTurn
    })
}

struct Server<W> {
    agent: Builtin,
    writer: W,
    gate: Gate,
    profile: Profile,
    /// The texts of the prompts of each session.
    sessions: BTreeMap<String, Vec<String>>,
    /// Turns that have begun and not ended.
    running: Vec<Turn>,
    /// Prompts that wait for the end of a turn in their session.
    queue: VecDeque<Prompt>,
    /// How many permission requests were sent.
    asked: u64,
}

struct Prompt {
    id: Value,
    session: String,
    text: String,
}

struct Turn {
    id: Value,
    session: String,
    /// The id of the permission request that is open.
    ask: Option<Value>,
}

impl<W: Write> Server<W> {
    /// Gives an exit code if this is the agent's end.
    fn handle(&mut self, line: &[u8]) -> io::Result<Option<i32>> {
        let incoming = match self.gate.admit(line) {
            Ok(incoming) => incoming,
            Err(Refusal::Answer { line, .. }) => return self.write(&line).map(|()| None),
            Err(Refusal::Ignored) => return Ok(None),
            Err(Refusal::Exit(code)) => return Ok(Some(code)),
        };
        match incoming.body {
            Body::Request { id, method, params } if method == "session/prompt" => {
                self.prompt(id, params.as_ref())?;
            }
            Body::Request { id, method, params } => {
                let answer = self.answer(&method, params.as_ref());
                self.gate.answered(&method, params.as_ref(), &answer);
                self.write(&message::response(&id, &answer))?;
            }
            Body::Notification { method, params } if method == "session/cancel" => {
                self.cancel(session_of(params.as_ref()).unwrap_or_default())?;
            }
            Body::Response { id, answer } => self.permitted(&id, answer)?,
            // Notifications that are unknown, and what is no message, want no answer.
            Body::Notification { .. } | Body::Other => {}
        }
        Ok(None)
    }

    fn answer(&mut self, method: &str, params: Option<&Value>) -> Result<Value, Value> {
        match method {
            "initialize" => Ok(json!({
                "protocolVersion": self.version(params),
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
            "session/set_mode" => match &self.profile.input.unknown_mode {
                Reaction::Refuse { code, message, .. } => {
                    Err(json!({"code": code, "message": message}))
                }
                Reaction::Answer { result } => Ok(result.clone()),
                Reaction::Accept | Reaction::Ignore | Reaction::Exit { .. } => Ok(json!({})),
            },
            _ => Err(json!({"code": -32601, "message": format!("Method not found: {method}")})),
        }
    }

    /// The protocol version that `initialize` is answered with.
    fn version(&self, params: Option<&Value>) -> Value {
        let input = &self.profile.input;
        match params.and_then(|params| params.get("protocolVersion")) {
            Some(asked) if *asked == 1 || input.echoes_unknown_version => asked.clone(),
            _ => json!(input.latest_version),
        }
    }

    fn prompt(&mut self, id: Value, params: Option<&Value>) -> io::Result<()> {
        let session = session_of(params).unwrap_or_default().to_owned();
        if session.is_empty() {
            let error = json!({"code": -32602, "message": "Invalid params: sessionId is missing"});
            return self.write(&message::response(&id, &Err(error)));
        }
        let prompt = Prompt {
            id,
            session,
            text: prompt_text(params),
        };
        if self
            .running
            .iter()
            .any(|turn| turn.session == prompt.session)
        {
            match self.profile.turn.busy.clone() {
                Busy::Queue { .. } => {
                    self.queue.push_back(prompt);
                    return Ok(());
                }
                Busy::Cancel => self.end_all(&prompt.session, &Ok(stopped("cancelled")))?,
                Busy::Fail { code, message } => {
                    let error = json!({"code": code, "message": message});
                    self.end_all(&prompt.session, &Err(error))?;
                }
                Busy::Both => {}
            }
        }
        self.begin(prompt)
    }

    fn begin(&mut self, prompt: Prompt) -> io::Result<()> {
        let Prompt { id, session, text } = prompt;
        let prompts = self.sessions.entry(session.clone()).or_default();
        prompts.push(text);
        let text = prompts.last().map_or("", String::as_str);
        let says = |what| self.agent == Builtin::Obedient && text.contains(what);
        let (slow, tool) = (says("go slow"), says("use a tool"));
        let answer = match self.agent {
            Builtin::Echo | Builtin::Obedient => echo(prompts),
            Builtin::Stale => format!("answer to: {}", stale_question(prompts)),
            Builtin::Hanging => String::new(),
        };
        if self.agent == Builtin::Hanging || tool {
            return self.ask(id, session);
        }
        if slow {
            self.update(&session, &text_chunk("one "))?;
            self.running.push(Turn {
                id,
                session,
                ask: None,
            });
            return Ok(());
        }
        self.say(&session, &answer)?;
        self.end(&id, &Ok(stopped("end_turn")))
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

    fn ask(&mut self, id: Value, session: String) -> io::Result<()> {
        let option = |kind: &String| {
            let name = kind.replace('_', " ");
            json!({"optionId": kind, "name": name, "kind": kind})
        };
        let options: Vec<Value> = self.profile.turn.options.iter().map(option).collect();
        let params = json!({
            "sessionId": session,
            "toolCall": {"toolCallId": format!("t{}", self.asked), "title": "Answer you"},
            "options": options,
        });
        let ask = if self.profile.turn.string_ids {
            json!(format!("0d3b7f1e-5c1a-4a5e-9c1d-{:012x}", self.asked))
        } else {
            json!(self.asked)
        };
        self.asked += 1;
        let request = message::request(&ask, "session/request_permission", Some(&params));
        self.running.push(Turn {
            id,
            session,
            ask: Some(ask),
        });
        self.write(&request)
    }

    fn permitted(&mut self, id: &Value, answer: Result<Value, Value>) -> io::Result<()> {
        let asks = |turn: &Turn| turn.ask.as_ref() == Some(id);
        let Some(index) = self.running.iter().position(asks) else {
            return Ok(());
        };
        let turn = self.running.remove(index);
        let outcome = answer.unwrap_or_default();
        let reason = match outcome.pointer("/outcome/optionId").and_then(Value::as_str) {
            Some(option) => {
                self.say(&turn.session, &format!("The answer was {option}."))?;
                match option.starts_with("reject") {
                    true => self.profile.turn.rejected.clone(),
                    false => "end_turn".to_owned(),
                }
            }
            None => "cancelled".to_owned(),
        };
        self.end(&turn.id, &Ok(stopped(&reason)))?;
        self.go_on(&turn.session)
    }

    fn cancel(&mut self, session: &str) -> io::Result<()> {
        let busy = self.profile.turn.busy.clone();
        if let Busy::Queue { on_cancel } = busy
            && on_cancel != OnCancel::Run
        {
            let queue = std::mem::take(&mut self.queue);
            let (of_session, others) = queue
                .into_iter()
                .partition::<VecDeque<Prompt>, _>(|prompt| prompt.session == session);
            self.queue = others;
            self.end_all(session, &Ok(stopped("cancelled")))?;
            if on_cancel == OnCancel::Cancel {
                for prompt in of_session {
                    self.end(&prompt.id, &Ok(stopped("cancelled")))?;
                }
            }
            return Ok(());
        }
        self.end_all(session, &Ok(stopped("cancelled")))?;
        self.go_on(session)
    }

    /// Ends all turns of the session. One that asks and is cancelled ends as the profile says.
    fn end_all(&mut self, session: &str, answer: &Result<Value, Value>) -> io::Result<()> {
        let running = std::mem::take(&mut self.running);
        let (ended, others) = running
            .into_iter()
            .partition::<Vec<Turn>, _>(|turn| turn.session == session);
        self.running = others;
        for turn in ended {
            let asking = Ok(stopped(&self.profile.turn.cancelled_asking));
            let answer = if turn.ask.is_some() && answer.is_ok() {
                &asking
            } else {
                answer
            };
            self.end(&turn.id, answer)?;
        }
        Ok(())
    }

    /// Begins what waited for the end of a turn in this session, up to the first that does not end at
    /// once.
    fn go_on(&mut self, session: &str) -> io::Result<()> {
        while !self.running.iter().any(|turn| turn.session == session) {
            let waits = |prompt: &Prompt| prompt.session == session;
            let Some(next) = self.queue.iter().position(waits) else {
                break;
            };
            if let Some(prompt) = self.queue.remove(next) {
                self.begin(prompt)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, id: &Value, answer: &Result<Value, Value>) -> io::Result<()> {
        self.write(&message::response(id, answer))
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

fn stopped(reason: &str) -> Value {
    json!({"stopReason": reason})
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
