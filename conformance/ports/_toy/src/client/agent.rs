//! What the agent asks, tells and answers.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Client, Lane, Pending};
use crate::mutant::{Mutant, broken};
use crate::turn::{Reply, choose, rejected};

impl Client {
    /// Every request is answered at once: in a turn, between turns, and for sessions we do not know.
    pub(super) fn handle_request(&mut self, method: &str, id: &Value, params: &Value) {
        let mut id = id.clone();
        if broken(Mutant::StringIdAsNumber)
            && let Some(number) = id.as_str().and_then(|id| id.parse::<u64>().ok())
        {
            id = json!(number);
        }
        if broken(Mutant::RequestIdNotEchoed) {
            id = json!(self.next_id);
        }
        if broken(Mutant::ZeroIsNoId) && id == 0 {
            return;
        }
        let answer = match method {
            "session/request_permission" => self
                .permission_outcome(params)
                .map(|result| json!({"result": result})),
            _ if broken(Mutant::UnknownRequestIgnored) => None,
            _ if broken(Mutant::UnknownRequestIsSuccess) => Some(json!({"result": {}})),
            _ => Some(
                json!({"error": {"code": -32601, "message": format!("method not found: {method}")}}),
            ),
        };
        if let Some(mut answer) = answer {
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = id;
            self.process.send(&answer);
        }
    }

    /// The result for a permission request. Only mutants leave one unanswered.
    fn permission_outcome(&mut self, params: &Value) -> Option<Value> {
        let session = params["sessionId"].as_str();
        let lane = self
            .lanes
            .values()
            .find(|lane| lane.session.as_deref() == session);
        let turn = lane.and_then(|lane| lane.running.as_ref());
        let options = &params["options"];
        if broken(Mutant::PermissionNeedsKnownSession) && lane.is_none()
            || broken(Mutant::PermissionNeedsTurn) && turn.is_none()
            || broken(Mutant::NothingOfferedUnanswered) && *options == json!([])
        {
            return None;
        }
        if broken(Mutant::UnknownOptionKindIsFatal)
            && options
                .as_array()?
                .iter()
                .any(|option| option["kind"].is_null())
        {
            return None;
        }
        let cancelled = turn.is_some_and(|turn| turn.cancelled_as.is_some());
        let refuses = cancelled && !broken(Mutant::PermissionAfterCancelAllowed);
        Some(
            match choose(self.options.policy, options).filter(|_| !refuses) {
                Some(option) if broken(Mutant::FlatOutcome) => {
                    json!({"outcome": "selected", "optionId": option})
                }
                Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option}}),
                None => json!({"outcome": {"outcome": "cancelled"}}),
            },
        )
    }

    pub(super) fn handle_update(&mut self, params: &Value) {
        let session = params["sessionId"].as_str();
        let is_it = |lane: &&mut Lane| {
            lane.session.is_some()
                && (lane.session.as_deref() == session || broken(Mutant::AnySessionCounts))
        };
        let Some(lane) = self.lanes.values_mut().find(is_it) else {
            if broken(Mutant::EarlyUpdateIsFatal) {
                self.handle_end();
            }
            return;
        };
        lane.output.add(&params["update"]);
        if let Some(turn) = &mut lane.running
            && turn.cancelled_as.is_none()
            && !broken(Mutant::IdleNotRestarted)
        {
            turn.idle_at = turn.idle_timeout.map(|idle| Instant::now() + idle);
        }
        if broken(Mutant::OddUpdateIsFatal) && params["update"]["sessionUpdate"].is_null() {
            self.handle_end();
        }
    }

    pub(super) fn handle_response(&mut self, message: &Value) {
        let Some(pending) = message["id"]
            .as_u64()
            .and_then(|id| self.pending.remove(&id))
        else {
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
        let error = message.get("error").filter(|error| !error.is_null());
        let reply = match (message.get("result"), error) {
            (Some(result), None) => Reply::Result(result.clone()),
            (None, Some(error)) if error["code"].is_i64() => Reply::Error(error.clone()),
            _ if broken(Mutant::MalformedAnswerIsFatal) => return self.handle_end(),
            _ => Reply::Invalid,
        };
        match pending {
            Pending::Initialize => self.initialized(reply),
            Pending::NewSession(lane) => self.session_opened(&lane, reply),
            Pending::SetMode(lane) => match reply {
                Reply::Error(error) if !broken(Mutant::ModeErrorIgnored) => {
                    self.lane_failed(
                        &lane,
                        rejected("session/set_mode", &error, &self.auth_methods),
                    );
                }
                _ => self.lane_opened(&lane),
            },
            Pending::Prompt(lane) => self.turn_ended(&lane, reply),
        }
    }
}
