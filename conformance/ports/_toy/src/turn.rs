//! What a turn comes to, without any I/O.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::mutant::{Mutant, broken};
use crate::output::Output;
use crate::reply::{Form, Said};
use crate::tools::Extras;

/// One `generate`, from the call to its answer.
pub struct Turn {
    pub seq: Value,
    pub messages: Vec<Value>,
    /// What the request has beside them.
    pub extras: Extras,
    /// What the reply is to be, where that is more than text.
    pub form: Option<Form>,
    /// How often it was asked for once more.
    pub repairs: u64,
    pub deadline: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    pub ends_at: Option<Instant>,
    pub idle_at: Option<Instant>,
    /// Once a cancel for it is on its way.
    pub cancel: Option<Cancel>,
}

/// A cancel that the agent has been told of.
pub struct Cancel {
    /// The kind of error the turn will be.
    pub kind: &'static str,
    /// When to tell the agent once more, if it goes on.
    pub again_at: Option<Instant>,
    /// Whether anything came from the session since.
    pub goes_on: bool,
}

/// A response of the agent.
pub enum Reply {
    Result(Value),
    Error(Value),
    Invalid,
}

/// An error as the driver protocol has it: its kind and its other fields.
pub type Failure = (&'static str, Map<String, Value>);

/// What a turn comes to when its prompt has been answered.
pub fn settle(
    turn: &Turn,
    output: &Output,
    reply: Reply,
    allow_empty: bool,
) -> Result<Value, Failure> {
    if let Some(cancel) = &turn.cancel
        && !broken(Mutant::CancelTrustsAnswer)
    {
        return Err((cancel.kind, Map::new()));
    }
    let result = match reply {
        Reply::Result(result) => result,
        Reply::Error(error) => return Err(rejected("session/prompt", &error, &[])),
        Reply::Invalid => return Err(invalid("session/prompt")),
    };
    let usage = &result["usage"];
    if broken(Mutant::UsageMustBeWhole) && usage.is_object() && usage["outputTokens"].is_null() {
        return Err(invalid("session/prompt"));
    }
    let mut reason = match result["stopReason"].as_str() {
        Some(reason) => reason,
        None if broken(Mutant::MissingStopReasonIsEndTurn) => "end_turn",
        None => "",
    };
    if broken(Mutant::StopReasonIgnored) {
        reason = "end_turn";
    }
    let text = output.text();
    match reason {
        "end_turn" if text.is_empty() && !broken(Mutant::EmptyTurnIsAnswer) => {
            if !allow_empty || broken(Mutant::EmptyTurnNeverAllowed) {
                return Err(("empty_turn", fields(json!({"dropped": output.dropped()}))));
            }
        }
        "end_turn" => {}
        "max_tokens" | "max_turn_requests" if !broken(Mutant::LimitsAreErrors) => {}
        "refusal" => return Err(("refused", Map::new())),
        "cancelled" if broken(Mutant::CancelledByAgentIsAnswer) => {}
        "cancelled" => return Err(("cancelled", Map::new())),
        _ if broken(Mutant::UnknownStopReasonIsAnswer) => {}
        _ => {
            let found = json!({"stop_reason": result["stopReason"]});
            return Err(("unknown_stop_reason", fields(found)));
        }
    }
    let text = if broken(Mutant::TextTrimmed) {
        text.trim()
    } else {
        &text
    };
    let mut answer = json!({
        "content": text,
        "messages": output.messages(),
        "stop_reason": reason,
        "dropped": output.dropped(),
    });
    if let Some(said) = said(turn, text) {
        let said = said.map_err(|fault| {
            let repairs = turn.repairs;
            let found = json!({"fault": fault, "repairs": repairs});
            ("malformed_reply", fields(found))
        })?;
        if !said.is_plain {
            answer["messages"] = json!([]);
        }
        answer["content"] = said.content.into();
        answer["tool_calls"] = said.calls.into();
        answer["repairs"] = match broken(Mutant::RepairsNotCounted) {
            true => json!(0),
            false => json!(turn.repairs),
        };
    }
    Ok(answer)
}

/// Whether the reply so far is not what was asked for.
pub fn has_fault(turn: &Turn, output: &Output) -> bool {
    said(turn, &output.text()).is_some_and(|said| said.is_err())
}

/// What a reply says that was to be more than text. Nothing at all is no reply.
fn said(turn: &Turn, text: &str) -> Option<Result<Said, String>> {
    let form = turn.form.as_ref().filter(|_| !text.is_empty())?;
    Some(form.read(text))
}

/// An error answer of the agent, kept as it is.
pub fn rejected(method: &str, error: &Value, auth_methods: &[Value]) -> Failure {
    let message = match error["message"].as_str() {
        Some(message) => message.to_owned(),
        None if broken(Mutant::ErrorMessageRequired) => return invalid(method),
        None => format!("the agent rejected {method}"),
    };
    if error["code"] == -32000 && !broken(Mutant::AuthIsRejected) {
        let methods = if broken(Mutant::AuthMethodsDropped) {
            &[]
        } else {
            auth_methods
        };
        return (
            "auth_required",
            fields(json!({"methods": methods, "message": message})),
        );
    }
    let data = if broken(Mutant::ErrorDataDropped) {
        &Value::Null
    } else {
        &error["data"]
    };
    let all = json!({"method": method, "code": error["code"], "message": message, "data": data});
    ("rejected", fields(all))
}

/// An answer that is no valid response to `method`.
pub fn invalid(method: &str) -> Failure {
    (
        "invalid_response",
        fields(json!({"method": method, "detail": "a member is missing or of the wrong type"})),
    )
}

/// The members of an object, for the fields of an error.
pub fn fields(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value {
        map
    } else {
        Map::new()
    }
}
