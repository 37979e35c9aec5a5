//! The agent's side alone: every request of the recorded client that an agent takes is wanted.

use serde_json::{Value, json};

use super::steps::{Line, Steps};
use super::wire::{Message, same_id, session_of};
use super::{Process, Read, Script, Side, params_wanted};
use crate::strict::Gate;

/// Requests that may be about a session which another process has handed out.
const STORED: [&str; 4] = [
    "session/load",
    "session/resume",
    "session/fork",
    "session/delete",
];

/// Adds the steps of the first process that answers anything; one process is all that is played.
pub(super) fn add(script: &mut Script, process: &Process) {
    let first = process.reads.first().map_or(1, |read| read.line);
    if script.processes > 0 {
        let message = "this process is left out: one process is played alone";
        return script.note(first, message);
    }
    let mut play = Play {
        steps: Steps::default(),
        gate: Gate::default(),
        requests: Vec::new(),
        asked: Vec::new(),
        script,
    };
    for read in &process.reads {
        match read.from {
            Side::Client => play.client(read),
            _ => play.agent(read),
        }
    }
    let mut steps = play.steps;
    if steps.len() == 0 {
        return script.note(first, "this process is left out: nothing was said in it");
    }
    steps.push(match &process.end {
        Some(end) if end.is_known => {
            if let Some(note) = &end.note {
                script.note(end.line, note);
            }
            end.step.clone()
        }
        _ => Line::new("want_eof", true),
    });
    script.processes = 1;
    script.steps.append(steps);
}

struct Play<'s> {
    script: &'s mut Script,
    steps: Steps,
    /// What the player refuses of its own accord, and answers.
    gate: Gate,
    requests: Vec<Request>,
    /// The agent's requests that wait for an answer.
    asked: Vec<(Value, String)>,
}

struct Request {
    id: Value,
    label: String,
    method: String,
    params: Value,
}

impl Play<'_> {
    fn client(&mut self, read: &Read) {
        if self.gate.admit(&read.bytes).is_err() {
            let message = "what the client wrote is left out: the player refuses it on its own";
            return self.script.note(read.line, message);
        }
        match &read.message {
            Message::Request { id, method, params } => {
                let params = params.clone().unwrap_or(Value::Null);
                let label = self.script.label("r");
                // Which stored session is opened is for the client to choose.
                let wanted = match session_of(&params) {
                    Some(_) if STORED.contains(&&**method) => json!({}),
                    _ => params_wanted(&mut self.script.cleaner, method, &params),
                };
                let step = Line::new("want", self.script.cleaner.masked(method));
                let step = match wanted.as_object() {
                    Some(members) if members.is_empty() => step,
                    _ => step.with("params", wanted),
                };
                self.steps.push(step.with("as", label.as_str()));
                self.requests.push(Request {
                    id: id.clone(),
                    label,
                    method: method.clone(),
                    params,
                });
            }
            Message::Notification { method, params } => {
                let step = Line::new("want_note", self.script.cleaner.masked(method));
                let session = params.as_ref().and_then(session_of);
                let session = session.and_then(|id| self.script.cleaner.known_session(id));
                self.steps.push(match session {
                    Some(session) => step.with("params", json!({"sessionId": session})),
                    None => step,
                });
            }
            Message::Response { id, answer } => {
                let Some(index) = self.asked.iter().position(|(asked, _)| asked == id) else {
                    let message = "an answer is left out: the agent had not asked";
                    return self.script.note(read.line, message);
                };
                let (_, label) = self.asked.remove(index);
                let step = Line::new("want_reply", label);
                self.steps.push(match answer {
                    Ok(_) => step.with("result", "$any"),
                    Err(_) => step.with("error", "$object"),
                });
            }
            Message::Noise => {
                let message = "what the client wrote is left out: it is no message";
                self.script.note(read.line, message);
            }
        }
    }

    fn agent(&mut self, read: &Read) {
        match &read.message {
            Message::Response { id, answer } => {
                let asked = self.requests.iter().rposition(|it| same_id(&it.id, id));
                let Some(request) = asked.map(|index| self.requests.remove(index)) else {
                    let message = "an answer is left out: nothing that is played was asked";
                    return self.script.note(read.line, message);
                };
                if let Some(session) = answer.as_ref().ok().and_then(session_of) {
                    // It has its name from now on, also in this answer.
                    self.script.cleaner.session(session);
                }
                let reply = self.script.reply(&request.label, &request.id, id, answer);
                self.steps.push(reply);
                self.gate
                    .answered(&request.method, Some(&request.params), answer);
            }
            Message::Request { id, method, params } => {
                let label = self.script.label("a");
                let step = self.script.ask(id, method, params.as_ref(), &label);
                self.steps.push(step);
                self.asked.push((id.clone(), label));
            }
            Message::Notification { .. } | Message::Noise => {
                let mut steps = std::mem::take(&mut self.steps);
                self.script.tell(&mut steps, read);
                self.steps = steps;
            }
        }
    }
}
