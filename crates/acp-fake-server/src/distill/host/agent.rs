//! What the agent wrote, and how the calls return.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{Phase, Play, Purpose};
use crate::distill::permission::Decision;
use crate::distill::steps::Line;
use crate::distill::turns::{Lane, rejected};
use crate::distill::wire::{Message, same_id, session_of};
use crate::distill::{Read, chunk};

impl Play<'_> {
    pub(super) fn agent(&mut self, read: &Read, after: &[Read]) {
        if self.phase == Phase::Failed {
            return;
        }
        match &read.message {
            Message::Response { id, answer } => self.response(read.line, id, answer),
            Message::Request { id, method, params } => {
                self.ask(id, method, params.as_ref(), after);
            }
            Message::Notification { params, .. } => {
                let mut steps = std::mem::take(&mut self.steps);
                self.script.tell(&mut steps, read);
                self.steps = steps;
                self.take_text(params.as_ref());
            }
            Message::Noise => {
                let mut steps = std::mem::take(&mut self.steps);
                self.script.tell(&mut steps, read);
                self.steps = steps;
            }
        }
    }

    /// Adds the text of an update to the answer that it belongs to.
    fn take_text(&mut self, params: Option<&Value>) {
        let Some(params) = params else { return };
        let update = &params["update"];
        if update["sessionUpdate"] != "agent_message_chunk" {
            return;
        }
        let Some(text) = chunk(update).or_else(|| update["content"]["text"].as_str()) else {
            return;
        };
        let text = self.script.cleaner.text(text);
        let session = session_of(params).map(|id| self.script.cleaner.session(id));
        let lane = session.and_then(|session| self.lanes.get_mut(&session));
        match lane.and_then(Lane::running) {
            Some(turn) if !turn.cancelled => turn.text.push_str(&text),
            Some(_) => {}
            None => self.unread = true,
        }
    }

    fn response(&mut self, line: u32, id: &Value, answer: &Result<Value, Value>) {
        let found = self.requests.iter().rposition(|it| same_id(&it.id, id));
        let Some(request) = found.map(|index| self.requests.remove(index)) else {
            let message = "an answer is left out: nothing that is played was asked";
            return self.script.note(line, message);
        };
        if let Purpose::Prompt { session } = &request.purpose {
            return self.answered(session, id, answer);
        }
        if request.purpose != Purpose::None {
            if let Some(session) = answer.as_ref().ok().and_then(session_of) {
                // It has its name from now on, also in this answer.
                self.script.cleaner.session(session);
            }
            let reply = self.script.reply(&request.label, &request.id, id, answer);
            self.steps.push(reply);
        }
        match (request.purpose, answer) {
            (Purpose::None | Purpose::Prompt { .. }, _) => {}
            (Purpose::Initialize, Ok(result)) if result["protocolVersion"] == 1 => {
                self.phase = Phase::Initialized;
            }
            (Purpose::Initialize, Ok(_)) => self.fail(json!({"kind": "protocol_version"})),
            (Purpose::Initialize, Err(error)) => self.fail(rejected(error)),
            (Purpose::Open { call }, answer) => self.opened(&call, answer),
            (Purpose::Mode { session }, _) => self.is_open(&session),
        }
    }

    fn opened(&mut self, call: &str, answer: &Result<Value, Value>) {
        let result = match answer {
            Ok(result) => result,
            Err(error) if call == "load" => return self.fail(rejected(error)),
            Err(error) => {
                self.opening.retain(|it| it != call);
                let error = rejected(error);
                return self
                    .steps
                    .push(Line::new("returns", call).with("err", error));
            }
        };
        let session = session_of(result).unwrap_or_default();
        let session = self.script.cleaner.session(session);
        let lane = Lane {
            call: call.to_owned(),
            turns: VecDeque::new(),
            has_mode: false,
        };
        self.lanes.insert(session.clone(), lane);
        if self.mode.is_none() {
            self.is_open(&session);
        }
    }

    /// The call that opened the session returns.
    fn is_open(&mut self, session: &str) {
        let Some(lane) = self.lanes.get(session) else {
            return;
        };
        self.opening.retain(|call| *call != lane.call);
        let step = Line::new("returns", lane.call.as_str());
        self.steps.push(step.with(
            "ok",
            json!({"session_id": {"$oneof": ["$absent", session]}}),
        ));
        self.phase = Phase::Open;
    }

    /// The call of `load` returns, and with it everything ends.
    fn fail(&mut self, error: Value) {
        self.steps.push(Line::new("want_eof", true));
        self.steps
            .push(Line::new("returns", "load").with("err", error));
        self.closed();
        self.phase = Phase::Failed;
    }

    /// The agent has answered a prompt.
    fn answered(&mut self, session: &str, id: &Value, answer: &Result<Value, Value>) {
        let Some(lane) = self.lanes.get_mut(session) else {
            return;
        };
        // Most often it is the prompt of the turn that runs.
        let mut answers = Some((id.clone(), answer.clone()));
        if let Some(turn) = lane.turns.iter_mut().skip(1).find(|it| same_id(&it.id, id)) {
            turn.early = answers.take();
        }
        while let Some((id, answer)) = answers
            && let Some(turn) = self
                .lanes
                .get_mut(session)
                .and_then(|it| it.turns.pop_front())
        {
            let reply = self.script.reply(&turn.prompt, &turn.id, &id, &answer);
            self.steps.push(reply);
            let returns = turn.returns(&answer);
            if returns.to_string().contains("\"empty_turn\"") {
                self.script.needs.insert("model_source");
            }
            self.steps.push(returns);
            // The next one's turn has come.
            let next = self.lanes.get_mut(session).and_then(Lane::running);
            answers = next.and_then(|turn| {
                let step = Line::new("want", "session/prompt");
                let step = step.with("params", json!({"sessionId": session}));
                self.steps.push(step.with("as", turn.prompt.as_str()));
                turn.early.take()
            });
        }
    }

    fn ask(&mut self, id: &Value, method: &str, params: Option<&Value>, after: &[Read]) {
        let is_permission = method == "session/request_permission";
        let label = self
            .script
            .label(if is_permission { "perm" } else { "ask" });
        let step = self.script.ask(id, method, params, &label);
        self.steps.push(step);
        let answer = Line::new("want_reply", label.as_str());
        if !is_permission {
            // The client declares nothing that an agent could ask for.
            let error = json!({"code": -32601});
            return self.steps.push(answer.with("error", error));
        }
        let id_of = params.and_then(session_of);
        let session = id_of.map(|id| self.script.cleaner.session(id));
        let session = session.unwrap_or_default();
        let lane = self.lanes.get_mut(&session);
        let cancelled = lane.and_then(Lane::running).is_some_and(|it| it.cancelled);
        let decision = if cancelled {
            Decision::Cancelled
        } else {
            let cleaner = &mut self.script.cleaner;
            // The client is to choose by what it is offered.
            let decision = match Decision::find(id, id_of, after) {
                Decision::Select(option) => {
                    let option = cleaner.id("optionId", &option.into());
                    Decision::Select(option.as_str().unwrap_or_default().to_owned())
                }
                other => other,
            };
            let options = params.map_or(Value::Null, |params| cleaner.value(&params["options"]));
            self.asked.push((options, decision.clone()));
            decision
        };
        match decision {
            Decision::Never => self.undecided.push((session, label)),
            decision => self.steps.push(answer.with("result", decision.result())),
        }
    }
}
