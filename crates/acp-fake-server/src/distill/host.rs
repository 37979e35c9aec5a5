//! Both sides: what the agent wrote, around the calls that make a client write what was recorded.

mod agent;
mod infer;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::permission::{Decision, load_args};
use super::steps::{Line, Steps};
use super::turns::{Lane, Turn};
use super::wire::{Message, session_of};
use super::{End, Process, Read, Script, Side, params_wanted};
use infer::{planned_mode, prompt_text};

/// Adds the steps of a process, or a note on why there are none.
pub(super) fn add(script: &mut Script, process: &Process) {
    let number = script.processes + 1;
    let first = process.reads.first().map_or(1, |read| read.line);
    let mode = planned_mode(&process.reads);
    let mut play = Play {
        mode,
        number,
        steps: Steps::default(),
        phase: Phase::Start,
        load_at: 0,
        asked: Vec::new(),
        undecided: Vec::new(),
        requests: Vec::new(),
        lanes: BTreeMap::new(),
        opening: Vec::new(),
        unread: false,
        script,
    };
    play.begin();
    for (index, read) in process.reads.iter().enumerate() {
        match read.from {
            Side::Client => play.client(read),
            _ => play.agent(read, &process.reads[index + 1..]),
        }
    }
    let ended = play.end(process.end.as_ref());
    let steps = play.steps;
    match ended {
        Ok(()) => {
            script.processes = number;
            script.steps.append(steps);
        }
        Err(why) => script.note(first, format_args!("this process is left out: {why}")),
    }
}

/// How far the start has come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The process is there.
    Start,
    /// `initialize` was sent, and then `session/new`.
    Initializing,
    Initialized,
    Opening,
    /// There is a session.
    Open,
    /// The start has failed.
    Failed,
}

/// What a request of the client was for.
#[derive(Debug, Clone, PartialEq)]
enum Purpose {
    Initialize,
    Open {
        call: String,
    },
    Mode {
        session: String,
    },
    Prompt {
        session: String,
    },
    /// It is no part of the transcript.
    None,
}

#[derive(Debug)]
struct Request {
    id: Value,
    label: String,
    purpose: Purpose,
}

struct Play<'s> {
    script: &'s mut Script,
    steps: Steps,
    number: u32,
    phase: Phase,
    /// Where the `load` stands, whose options are known only at the end.
    load_at: usize,
    /// The mode in which every session is to be.
    mode: Option<String>,
    /// The options and the outcome of each permission request that the host decides upon.
    asked: Vec<(Value, Decision)>,
    /// The labels of those that are not decided, with their sessions.
    undecided: Vec<(String, String)>,
    requests: Vec<Request>,
    lanes: BTreeMap<String, Lane>,
    /// The calls of `lane` that have not returned.
    opening: Vec<String>,
    /// Whether text may be on its way that belongs to no turn, and must not meet the next one.
    unread: bool,
}

impl Play<'_> {
    fn begin(&mut self) {
        if self.number > 1 {
            self.steps.push(Line::new("process", self.number));
        }
        self.load_at = self.steps.len();
        self.steps.push(Line::new("call", "load"));
    }

    fn client(&mut self, read: &Read) {
        match &read.message {
            Message::Request { id, method, params } => {
                let params = params.clone().unwrap_or(Value::Null);
                let (label, purpose) = self.request(read.line, id, method, &params);
                self.requests.push(Request {
                    id: id.clone(),
                    label,
                    purpose,
                });
            }
            Message::Notification { method, params } => {
                let session = params.as_ref().and_then(session_of);
                let session = session.map(|id| self.script.cleaner.session(id));
                if method != "session/cancel" || !self.cancel(session.as_deref()) {
                    let message = format!("{method} is left out: no turn runs that it is for");
                    self.script.note(read.line, message);
                }
            }
            // What the agent asked was answered where it was asked.
            Message::Response { .. } => {}
            Message::Noise => {
                let message = "what the client wrote is left out: it is no message";
                self.script.note(read.line, message);
            }
        }
    }

    /// Takes a request, or says why not.
    fn request(
        &mut self,
        line: u32,
        id: &Value,
        method: &str,
        params: &Value,
    ) -> (String, Purpose) {
        let taken = match (method, self.phase) {
            (_, Phase::Failed) => Err("the start has failed"),
            ("initialize", Phase::Start) => Ok(self.initialize(params)),
            ("initialize", _) => Err("a client does so once"),
            ("session/new", Phase::Initialized | Phase::Open) => self.open(params),
            ("session/set_mode", Phase::Opening | Phase::Open) => self.set_mode(params),
            ("session/prompt", Phase::Open) => self.prompt(id, params),
            (_, Phase::Start) => Err("initialize comes first"),
            _ => Err("no operation of the driver protocol leads to it"),
        };
        taken.unwrap_or_else(|why| {
            let message = format!("{method} and its answer are left out: {why}");
            self.script.note(line, message);
            (String::new(), Purpose::None)
        })
    }

    fn initialize(&mut self, params: &Value) -> (String, Purpose) {
        self.phase = Phase::Initializing;
        self.want("initialize", params, "init");
        ("init".to_owned(), Purpose::Initialize)
    }

    fn open(&mut self, params: &Value) -> Result<(String, Purpose), &'static str> {
        let cwd = params["cwd"].as_str().unwrap_or_default();
        if !crate::pattern::is_absolute(cwd) || !params["mcpServers"].is_array() {
            return Err("no client sends such a cwd or such mcpServers");
        }
        let call = if self.phase == Phase::Initialized {
            self.phase = Phase::Opening;
            "load".to_owned()
        } else {
            self.synchronize();
            let call = self.script.label("lane");
            let lane = json!({"lane": call});
            self.script.needs.insert("lanes");
            let step = Line::new("call", "lane").with("args", lane);
            self.steps.push(step.with("as", call.as_str()));
            self.opening.push(call.clone());
            call
        };
        let label = self.script.label("new");
        self.want("session/new", params, &label);
        Ok((label, Purpose::Open { call }))
    }

    fn set_mode(&mut self, params: &Value) -> Result<(String, Purpose), &'static str> {
        let session = session_of(params).unwrap_or_default();
        let session = self.script.cleaner.session(session);
        let mode = params["modeId"].as_str();
        let lane = self.lanes.get_mut(&session);
        match lane.filter(|lane| !lane.has_mode) {
            Some(lane) if mode.is_some() && mode == self.mode.as_deref() => lane.has_mode = true,
            _ => return Err("a client sets one mode, when a session is new"),
        }
        let label = self.script.label("mode");
        self.want("session/set_mode", params, &label);
        Ok((label, Purpose::Mode { session }))
    }

    fn prompt(&mut self, id: &Value, params: &Value) -> Result<(String, Purpose), &'static str> {
        let session = session_of(params).unwrap_or_default();
        let session = self.script.cleaner.session(session);
        if !self.lanes.contains_key(&session) {
            return Err("there is no such session");
        }
        let text = prompt_text(params);
        if text.is_empty() {
            return Err("it has no text");
        }
        let text = self.script.cleaner.text(&text);
        let call = self.script.label("g");
        let prompt = self.script.label("p");
        self.synchronize();
        let mut args = json!({"messages": [{"role": "user", "content": text}]});
        if let Some(lane) = self.lane_name(&session) {
            args["lane"] = lane.into();
        }
        let step = Line::new("call", "generate").with("args", args);
        self.steps.push(step.with("as", call.as_str()));
        let turn = Turn {
            call,
            prompt: prompt.clone(),
            id: id.clone(),
            text: String::new(),
            cancelled: false,
            early: None,
        };
        let lane = self.lanes.get_mut(&session);
        let waits = lane.is_some_and(|lane| {
            lane.turns.push_back(turn);
            lane.turns.len() > 1
        });
        if !waits {
            self.want("session/prompt", params, &prompt);
        }
        Ok((prompt, Purpose::Prompt { session }))
    }

    /// Whether there was a turn to cancel.
    fn cancel(&mut self, session: Option<&str>) -> bool {
        let lane = session.and_then(|session| self.lanes.get_mut(session));
        let Some(turn) = lane.and_then(Lane::running).filter(|turn| !turn.cancelled) else {
            return false;
        };
        turn.cancelled = true;
        let call = turn.call.clone();
        let session = session.unwrap_or_default();
        self.script.needs.insert("cancel");
        // What was sent before is read before, and what the host thinks about has reached it.
        self.steps.push(Line::new("fence", true));
        let label = self.script.label("cancel");
        let step = Line::new("call", "cancel").with("args", json!({"call": call}));
        self.steps.push(step.with("as", label.as_str()));
        let params = json!({"sessionId": session});
        let undecided = self.take_undecided(Some(session));
        if undecided.is_empty() {
            let step = Line::new("want_note", "session/cancel");
            self.steps.push(step.with("params", params));
        } else {
            let mut any = vec![json!({"want_note": "session/cancel", "params": params})];
            any.extend(
                undecided
                    .iter()
                    .map(|label| json!({"want_reply": label, "result": Decision::Never.result()})),
            );
            self.steps.push(Line::new("any_order", any));
        }
        self.steps
            .push(Line::new("returns", label).with("ok", json!({})));
        true
    }

    fn end(&mut self, end: Option<&End>) -> Result<(), &'static str> {
        let idle = self.phase == Phase::Open && self.ended("").is_empty();
        // An agent that nothing is asked of and that closes its output was most likely told to end.
        let end = end.filter(|end| self.phase != Phase::Failed && (end.is_known || !idle));
        let exited = end.is_some();
        if let Some(end) = end {
            self.steps.push(end.step.clone());
            if let Some(note) = &end.note {
                self.script.note(end.line, note);
            }
        }
        match self.phase {
            Phase::Start => return Err("no client sends initialize in it"),
            Phase::Failed => {}
            Phase::Open if exited => {
                for returns in self.ended("agent_exited") {
                    self.steps.push(returns);
                }
                self.closed();
            }
            Phase::Open => self.close(),
            _ if exited => {
                let error = json!({"kind": "agent_exited"});
                self.steps
                    .push(Line::new("returns", "load").with("err", error));
                self.closed();
            }
            _ => return Err("no session is opened in it"),
        }
        let (mut args, needs) = load_args(&self.asked);
        self.script.needs.extend(needs);
        let is_set = self.lanes.values().any(|lane| lane.has_mode);
        if let Some(mode) = self.mode.as_ref().filter(|_| is_set) {
            let mode = self.script.cleaner.id("modeId", &mode.as_str().into());
            args.insert("mode".to_owned(), mode);
            self.script.needs.insert("mode");
        }
        if !args.is_empty() {
            let step = Line::new("call", "load").with("args", args);
            self.steps.replace(self.load_at, step);
        }
        Ok(())
    }

    /// The host closes an agent that runs.
    fn close(&mut self) {
        if !self.undecided.is_empty() {
            self.steps.push(Line::new("fence", true));
        }
        self.steps.push(Line::new("call", "close"));
        for label in self.take_undecided(None) {
            let step = Line::new("want_reply", label);
            self.steps
                .push(step.with("result", Decision::Never.result()));
        }
        self.steps.push(Line::new("want_eof", true));
        let returns = Line::new("returns", "close").with("ok", json!({}));
        let ends = self.ended("closed");
        let mut ends: Vec<Value> = ends.iter().map(Line::to_value).collect();
        if ends.is_empty() {
            self.steps.push(returns);
        } else {
            ends.push(returns.to_value());
            self.steps.push(Line::new("any_order", ends));
        }
    }

    /// The steps with which all calls return that the end of the agent fails.
    fn ended(&self, kind: &str) -> Vec<Line> {
        let lanes = self.opening.iter();
        let lanes = lanes
            .map(|call| Line::new("returns", call.as_str()).with("err", json!({"kind": kind})));
        let turns = self.lanes.values().flat_map(|lane| &lane.turns);
        lanes.chain(turns.map(|turn| turn.ended(kind))).collect()
    }

    /// The host closes an agent that is gone.
    fn closed(&mut self) {
        self.steps.push(Line::new("call", "close"));
        self.steps
            .push(Line::new("returns", "close").with("ok", json!({})));
    }

    fn want(&mut self, method: &str, params: &Value, label: &str) {
        let params = params_wanted(&mut self.script.cleaner, method, params);
        let step = Line::new("want", method).with("params", params);
        self.steps.push(step.with("as", label));
    }

    /// Waits until the client has read what no turn is to get.
    fn synchronize(&mut self) {
        if std::mem::take(&mut self.unread) {
            self.steps.push(Line::new("fence", true));
        }
    }

    /// The labels of the permission requests, of this session or of all, that nobody has decided.
    fn take_undecided(&mut self, session: Option<&str>) -> Vec<String> {
        let is_meant = |(of, _): &mut (String, String)| session.is_none_or(|it| it == of);
        self.undecided
            .extract_if(.., is_meant)
            .map(|(_, label)| label)
            .collect()
    }

    fn lane_name(&self, session: &str) -> Option<String> {
        let lane = self.lanes.get(session)?;
        (lane.call != "load").then(|| lane.call.clone())
    }
}
