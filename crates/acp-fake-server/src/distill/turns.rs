//! The turns of a lane, and what a client makes of their ends.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::steps::Line;

/// The turns of one session: the first runs, the others wait for it.
#[derive(Debug)]
pub(super) struct Lane {
    /// The label of the call that opened it: `load`, or the name of the lane.
    pub(super) call: String,
    pub(super) turns: VecDeque<Turn>,
    /// Whether its mode was set.
    pub(super) has_mode: bool,
}

/// One call of `generate`.
#[derive(Debug)]
pub(super) struct Turn {
    /// The label of the call.
    pub(super) call: String,
    /// The label of the request, and its id in the recording.
    pub(super) prompt: String,
    pub(super) id: Value,
    /// The answer text so far.
    pub(super) text: String,
    pub(super) cancelled: bool,
    /// The id and the answer, where the agent answered before a client in good order had asked.
    pub(super) early: Option<(Value, Result<Value, Value>)>,
}

impl Lane {
    /// The turn that runs.
    pub(super) fn running(&mut self) -> Option<&mut Turn> {
        self.turns.front_mut()
    }
}

impl Turn {
    /// The step with which the call returns when the agent has answered.
    pub(super) fn returns(&self, answer: &Result<Value, Value>) -> Line {
        let step = Line::new("returns", self.call.as_str());
        let err = |error: Value| step.clone().with("err", error);
        if self.cancelled {
            return err(json!({"kind": "cancelled"}));
        }
        let result = match answer {
            Ok(result) => result,
            Err(error) => return step.with("err", rejected(error)),
        };
        match result["stopReason"].as_str() {
            Some("end_turn") if self.text.is_empty() => err(json!({"kind": "empty_turn"})),
            Some(reason @ ("end_turn" | "max_tokens" | "max_turn_requests")) => {
                let mut ok = json!({"content": super::steps::literal(&self.text)});
                // The end that every turn is to have is no news, and not every port tells it.
                if reason != "end_turn" {
                    ok["stop_reason"] = json!(reason);
                }
                step.with("ok", ok)
            }
            Some("refusal") => err(json!({"kind": "refused"})),
            Some("cancelled") => err(json!({"kind": "cancelled"})),
            _ => err(json!({"kind": "unknown_stop_reason"})),
        }
    }

    /// The step with which it returns when the agent ends, or is closed.
    pub(super) fn ended(&self, kind: &str) -> Line {
        let kind = if self.cancelled { "cancelled" } else { kind };
        Line::new("returns", self.call.as_str()).with("err", json!({"kind": kind}))
    }
}

/// What a client makes of an error answer.
pub(super) fn rejected(error: &Value) -> Value {
    match error["code"].as_i64() {
        Some(-32000) => json!({"kind": "auth_required"}),
        Some(code) => json!({"kind": "rejected", "code": code}),
        None => json!({"kind": "invalid_response"}),
    }
}
