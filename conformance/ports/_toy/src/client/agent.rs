//! What the agent tells and answers.

use serde_json::{Value, json};

use super::{Client, Lane, Pending};
use crate::line::{Line, Message};
use crate::mutant::{Mutant, broken};
use crate::turn::{Reply, Turn, fields, rejected};

impl Client {
    /// One line of the agent. What is no message is passed over.
    pub fn handle_line(&mut self, line: &[u8]) {
        let message = match Line::read(line) {
            Line::Message(message) if self.is_copy(&message) => {
                return self.handle_noise(&message.text);
            }
            Line::Message(message) => message.value,
            Line::Blank => return,
            Line::Noise(text) => return self.handle_noise(&text),
        };
        self.heard = true;
        // The two ends count their ids apart, so only the method tells a request from a response.
        let id_is_ours = message["id"]
            .as_u64()
            .is_some_and(|id| self.pending.contains_key(&id));
        match message["method"].as_str() {
            Some(method) if !(broken(Mutant::IdBeforeMethod) && id_is_ours) => {
                match message.get("id") {
                    Some(id) => self.handle_request(method, id, &message["params"]),
                    None if method == "session/update" => self.handle_update(&message["params"]),
                    None if broken(Mutant::UnknownNotificationIsFatal) => self.handle_end(),
                    None if broken(Mutant::NotificationAnswered) => {
                        let error = json!({"code": -32601, "message": "method not found"});
                        self.respond(&Value::Null, json!({"error": error}));
                    }
                    None if broken(Mutant::CancelledRequestAnsweredAgain)
                        && method == "$/cancel_request" =>
                    {
                        let error = json!({"code": -32800, "message": "request cancelled"});
                        self.respond(&message["params"]["requestId"], json!({"error": error}));
                    }
                    None => {}
                }
            }
            _ => self.handle_response(&message),
        }
    }

    /// Whether this is the second of a message and its copy in a log: the one in a line of its own, the
    /// other right before or after it, behind some words.
    fn is_copy(&mut self, message: &Message) -> bool {
        let ignored = broken(if message.is_alone {
            Mutant::CopyBeforeCounts
        } else {
            Mutant::CopyAfterCounts
        });
        let is_copy = self.last.take().is_some_and(|last| {
            last.text == message.text && last.is_alone != message.is_alone && !ignored
        });
        if !is_copy {
            self.last = Some(message.clone());
        }
        is_copy
    }

    /// A line that was too long to be read.
    pub fn handle_long_line(&mut self) {
        self.handle_noise("(a line that was too long)");
    }

    fn handle_noise(&mut self, text: &str) {
        if broken(Mutant::NoiseIsFatal) {
            return self.handle_end();
        }
        if !self.heard {
            self.noise.push_str(text);
            self.noise.push('\n');
        }
        self.count("noise");
    }

    /// The agent closed its output: it is gone, or as good as gone.
    pub fn handle_end(&mut self) {
        if self.over.is_none() && !broken(Mutant::EndOfOutputIgnored) {
            let mut found = self.process.post_mortem();
            found["stderr_tail"] = self.last_words(&found["stderr_tail"]);
            self.finish(("agent_exited", fields(found)));
        }
    }

    /// The end of standard error, after what an agent that never spoke the protocol wrote instead.
    pub(super) fn last_words(&self, stderr: &Value) -> Value {
        let noise = if self.heard || broken(Mutant::NoiseNotShown) {
            ""
        } else {
            &self.noise
        };
        format!("{noise}{}", stderr.as_str().unwrap_or_default()).into()
    }

    /// Counts what came on the connection and belongs to no session, for each turn that runs.
    pub(super) fn count(&mut self, name: &'static str) {
        let running = |lane: &&mut Lane| lane.running.is_some();
        for lane in self.lanes.values_mut().filter(running) {
            lane.output.count(name);
        }
    }

    pub(super) fn lane_of(&self, session: Option<&str>) -> Option<String> {
        let is_it = |lane: &Lane| {
            lane.session.is_some()
                && (lane.session.as_deref() == session || broken(Mutant::AnySessionCounts))
        };
        let found = self.lanes.iter().find(|(_, lane)| is_it(lane));
        found.map(|(name, _)| name.clone())
    }

    fn handle_update(&mut self, params: &Value) {
        let update = &params["update"];
        let meta = &params["_meta"]["sessionId"];
        let session = if broken(Mutant::MetaIsRead) && meta.is_string() {
            meta
        } else {
            &params["sessionId"]
        };
        let Some(name) = self.lane_of(session.as_str()) else {
            if broken(Mutant::EarlyUpdateIsFatal) {
                self.handle_end();
            }
            if broken(Mutant::AnySessionKeepsTurn) {
                self.restart_idle("main");
            }
            return self.count("other_sessions");
        };
        let Some(lane) = self.lanes.get_mut(&name) else {
            return;
        };
        if let Some(replay) = &mut lane.replay {
            replay.go_on();
        }
        let is_message = update["sessionUpdate"] == "agent_message_chunk";
        let is_cancelled = |turn: &Turn| turn.cancel.is_some();
        if broken(Mutant::ToolsAfterCancelAreFatal)
            && !is_message
            && lane.running.as_ref().is_some_and(is_cancelled)
        {
            return self.handle_end();
        }
        match &mut lane.running {
            Some(turn) => {
                let cancelled = turn.cancel.as_mut().map(|cancel| cancel.goes_on = true);
                if cancelled.is_some() && is_message && !broken(Mutant::TextAfterCancelKept) {
                    lane.output.count("outside_turn");
                } else if lane.output.add(update) && lane.settling.is_some() {
                    lane.settle_again();
                    self.was_late = true;
                }
            }
            None => {
                if broken(Mutant::TextNotCleared) {
                    lane.output.add(update);
                }
                if is_message {
                    lane.outside_turn += u64::from(!broken(Mutant::LateTextNotCounted));
                    self.was_late |= lane.used && !broken(Mutant::LatenessForgotten);
                    if lane.used && !broken(Mutant::DeltaAfterLateText) {
                        // It holds what no request will.
                        lane.history = None;
                    }
                }
            }
        }
        self.restart_idle(&name);
        if broken(Mutant::OddUpdateIsFatal) && update["sessionUpdate"].is_null()
            || broken(Mutant::NullInUpdateIsFatal) && has_null(update)
        {
            self.handle_end();
        }
    }

    fn handle_response(&mut self, message: &Value) {
        let id = match &message["id"] {
            // Some agents answer the request 3 as "3".
            Value::String(text) if !broken(Mutant::AnswerIdMustBeNumber) => text.parse().ok(),
            id => id.as_u64(),
        };
        let id = if broken(Mutant::AnswersMatchedByOrder) {
            self.pending.keys().min().copied()
        } else {
            id
        };
        let pending = if broken(Mutant::SecondAnswerCounts) {
            id.and_then(|id| self.pending.get(&id).cloned())
        } else {
            id.and_then(|id| self.pending.remove(&id))
        };
        let Some(pending) = pending else {
            let fatal = if message["id"].is_null() {
                Mutant::NullIdIsFatal
            } else {
                Mutant::UnknownResponseIsFatal
            };
            if broken(fatal) {
                self.handle_end();
            }
            return;
        };
        let is_error = |error: &&Value| !error.is_null() || broken(Mutant::NullErrorIsError);
        let error = message.get("error").filter(is_error);
        let reply = match (message.get("result"), error) {
            (Some(result), None) => Reply::Result(result.clone()),
            (Some(result), Some(_)) if broken(Mutant::ErrorBesideResultIgnored) => {
                Reply::Result(result.clone())
            }
            (None, None) if broken(Mutant::EmptyAnswerIsAnswer) => {
                Reply::Result(json!({"stopReason": "end_turn"}))
            }
            (None, Some(error)) if error["code"].is_i64() => Reply::Error(error.clone()),
            (None, Some(error)) if broken(Mutant::ErrorCodeNotChecked) => {
                Reply::Error(error.clone())
            }
            _ if broken(Mutant::MalformedAnswerIsFatal) => return self.handle_end(),
            _ => Reply::Invalid,
        };
        match pending {
            Pending::Initialize => self.initialized(reply),
            Pending::Authenticate(lane) => self.authenticate_answered(&lane, reply),
            Pending::NewSession(lane) => self.session_opened(&lane, reply),
            Pending::SetMode(lane) => match reply {
                Reply::Error(error) if self.is_mode_required() => {
                    let failure = rejected("session/set_mode", &error, &self.auth_methods);
                    self.lane_failed(&lane, failure);
                }
                Reply::Result(Value::Null) if broken(Mutant::ModeAnswerMustBeObject) => {
                    self.handle_end();
                }
                _ if broken(Mutant::ConfigOptionsFirst) => self.lane_opened(&lane),
                _ => self.set_config(&lane, 0),
            },
            Pending::OldSession(lane, method) => self.old_session_answered(&lane, method, reply),
            Pending::SetConfig(lane, number) => self.config_answered(&lane, number, reply),
            Pending::Prompt(lane) => self.prompt_answered(&lane, reply),
            Pending::Spare(lane) => self.spare_answered(&lane, reply),
            Pending::LateSession => self.late_session_opened(reply),
            Pending::CloseSession(session, _) => self.close_answered(&session, &reply),
        }
    }
}

fn has_null(value: &Value) -> bool {
    let members = value.as_object().into_iter().flat_map(|all| all.values());
    members.into_iter().any(Value::is_null)
}
