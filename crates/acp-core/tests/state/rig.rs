//! An agent that remembers, and a host with one lane.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests, outside of test functions; an instant to begin with cannot be had otherwise"
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use acp_core::{
    Connection, ConnectionOptions, Event, GenerateError, GenerateRequest, GenerateResponse, LaneId,
    Message, Output, StatePolicy, TurnId, TurnOptions, render_text,
};
use serde_json::{Value, json};

/// An agent with real sessions, which answers at once or when it is told to.
#[derive(Default)]
pub struct Agent {
    /// What each session was sent and has answered, as lines of a prompt.
    pub sessions: BTreeMap<String, Vec<String>>,
    /// The highest number of sessions that were open at once.
    pub most_open: usize,
    pub opened: usize,
    pub closes: bool,
    /// Whether it says that it can close sessions, and then does not.
    pub refuses_to_close: bool,
    /// Whether it does not even answer when it is to close one.
    pub ignores_close: bool,
    /// Whether it does not even answer when it is to open one.
    pub ignores_new: bool,
    /// Whether every session is called the same.
    pub one_name: bool,
    /// How the next prompts end; well, if nothing is said.
    pub outcomes: VecDeque<Outcome>,
    /// What the next prompts are answered by; by a number, if nothing is said.
    pub replies: VecDeque<String>,
    /// How the next sessions open; well, if nothing is said.
    pub openings: VecDeque<bool>,
    /// Lines on their way to the client.
    pub lines: VecDeque<String>,
    pub answers: usize,
    pub prompts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    Well,
    /// An error, after text.
    Error,
    Refusal,
    /// `end_turn` without text.
    Empty,
    /// `max_tokens`, with text.
    Cut,
}

impl Agent {
    pub fn take(&mut self, line: &[u8]) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let (id, params) = (&line["id"], &line["params"]);
        match line["method"].as_str().unwrap() {
            "session/new" if self.ignores_new => {}
            "session/close" if self.ignores_close => {}
            "session/close" if self.refuses_to_close => self.fail(id),
            "initialize" => {
                let close = if self.closes || self.refuses_to_close {
                    json!({"close": {}})
                } else {
                    json!({})
                };
                let capabilities = json!({"sessionCapabilities": close});
                self.answer(
                    id,
                    json!({"protocolVersion": 1, "agentCapabilities": capabilities}),
                );
            }
            "session/new" if self.openings.pop_front() == Some(false) => {
                self.fail(id);
            }
            "session/new" => {
                self.opened += 1;
                let number = if self.one_name { 0 } else { self.opened };
                let name = format!("s{number}");
                self.answer(id, json!({"sessionId": name}));
                self.sessions.insert(name, Vec::new());
                self.most_open = self.most_open.max(self.sessions.len());
            }
            "session/close" => {
                self.sessions
                    .remove(params["sessionId"].as_str().unwrap())
                    .unwrap();
                self.answer(id, json!({}));
            }
            "session/prompt" => self.prompt(id, params),
            method => panic!("{method}"),
        }
    }

    pub fn prompt(&mut self, id: &Value, params: &Value) {
        let session = params["sessionId"].as_str().unwrap().to_owned();
        let prompt = params["prompt"][0]["text"].as_str().unwrap().to_owned();
        self.prompts.push(prompt.clone());
        let held = self.sessions.get_mut(&session).unwrap();
        held.push(prompt);
        self.answers += 1;
        let number = || format!("answer {}", self.answers);
        let text = self.replies.pop_front().unwrap_or_else(number);
        let outcome = self.outcomes.pop_front().unwrap_or(Outcome::Well);
        if outcome != Outcome::Empty {
            held.push(format!("assistant: {text}"));
            let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
            let params = json!({"sessionId": session, "update": update});
            let chunk = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
            self.lines.push_back(chunk.to_string());
        }
        let reason = match outcome {
            Outcome::Error => return self.fail(id),
            Outcome::Refusal => "refusal",
            Outcome::Well | Outcome::Empty => "end_turn",
            Outcome::Cut => "max_tokens",
        };
        self.answer(id, json!({"stopReason": reason}));
    }

    pub fn answer(&mut self, id: &Value, result: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.lines.push_back(line.to_string());
    }

    pub fn fail(&mut self, id: &Value) {
        let error = json!({"code": -32603, "message": "e"});
        let line = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.lines.push_back(line.to_string());
    }
}

/// A host with one lane, and its agent.
pub struct Host {
    pub connection: Connection,
    pub agent: Agent,
    pub lane: LaneId,
    pub now: Instant,
    pub ended: BTreeMap<TurnId, Result<GenerateResponse, GenerateError>>,
}

impl Host {
    pub fn new(
        policy: StatePolicy,
        change: impl FnOnce(&mut ConnectionOptions),
        agent: Agent,
    ) -> Host {
        let now = Instant::now();
        let mut options = ConnectionOptions::new("/w");
        options.state = policy;
        change(&mut options);
        let mut connection = Connection::new(options, now);
        let lane = connection.open_lane(now);
        let ended = BTreeMap::new();
        let mut host = Host {
            connection,
            agent,
            lane,
            now,
            ended,
        };
        host.settle();
        host
    }

    /// Lets both sides talk until nothing is left to say, the time that it takes included.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            self.exchange();
            self.now += Duration::from_millis(300);
            self.connection.handle_timeout(self.now);
        }
    }

    /// Lets both sides talk until nothing is left to say at this instant.
    pub fn exchange(&mut self) {
        loop {
            match self.connection.poll_output() {
                Output::Send(line) => self.agent.take(&line),
                Output::Event(Event::TurnEnded(id, result)) => {
                    assert!(self.ended.insert(id, *result).is_none());
                }
                Output::Event(_) => {}
                Output::Wait(_) => match self.agent.lines.pop_front() {
                    Some(line) => self.connection.handle_line(line.as_bytes(), self.now),
                    None => return,
                },
                output => panic!("{output:?}"),
            }
        }
    }

    pub fn start(&mut self, request: &GenerateRequest) -> TurnId {
        let options = TurnOptions::default();
        self.connection
            .prompt(self.lane, request, options, self.now)
            .unwrap()
    }

    pub fn generate(&mut self, messages: &[Message]) -> Option<String> {
        let answer = self.ask(&GenerateRequest::new(messages));
        answer.map(|response| response.content).ok()
    }

    pub fn ask(&mut self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        let turn = self.start(request);
        self.settle();
        self.ended[&turn].clone()
    }

    /// The agent says something in the lane's session while no turn runs.
    pub fn hears(&mut self, text: &str) {
        let session = &self.connection.session(self.lane).unwrap().session_id;
        let content = json!({"type": "text", "text": text});
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        let params = json!({"sessionId": session, "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        self.connection
            .handle_line(line.to_string().as_bytes(), self.now);
    }

    /// What the lane's session holds, one message a line.
    pub fn held(&self) -> Vec<String> {
        let session = &self.connection.session(self.lane).unwrap().session_id;
        let held = self
            .agent
            .sessions
            .get(session)
            .cloned()
            .unwrap_or_default();
        held.iter()
            .flat_map(|text| text.split('\n'))
            .map(str::to_owned)
            .collect()
    }
}

/// What a host sees of a conversation, one message a line.
pub fn lines(messages: &[Message]) -> Vec<String> {
    let text = render_text(&GenerateRequest::new(messages));
    let (lines, _) = text.rsplit_once('\n').unwrap();
    lines.split('\n').map(str::to_owned).collect()
}

pub fn agent() -> Agent {
    Agent {
        closes: true,
        ..Agent::default()
    }
}
