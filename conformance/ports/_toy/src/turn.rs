//! What goes into one turn and what comes out of it, without any I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::mutant::{Mutant, broken};

/// One `generate`, from the call to its answer.
pub struct Turn {
    pub seq: Value,
    pub prompt: String,
    pub deadline: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    pub ends_at: Option<Instant>,
    pub idle_at: Option<Instant>,
    /// The kind of error this turn will be, once a cancel for it is on its way.
    pub cancelled_as: Option<&'static str>,
}

/// What a session has said since its last prompt.
#[derive(Default)]
pub struct Output {
    pub text: String,
    dropped: BTreeMap<&'static str, u64>,
}

/// The kinds of update that protocol version 1 has besides those that are told apart.
const OTHER_KINDS: &[&str] = &[
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "session_info_update",
    "usage_update",
];

/// A response of the agent.
pub enum Reply {
    Result(Value),
    Error(Value),
    Invalid,
}

/// How a permission request is answered.
#[derive(Clone, Copy)]
pub enum Policy {
    FirstAllow,
    AllowOnce,
    Reject,
}

/// An error as the driver protocol has it: its kind and its other fields.
pub type Failure = (&'static str, Map<String, Value>);

impl Output {
    /// Takes the text that counts: `agent_message_chunk`, type `text`, and nothing else. The rest is
    /// counted.
    pub fn add(&mut self, update: &Value) {
        let (left_out, counts) = match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => ("non_text", true),
            "agent_thought_chunk" => ("thoughts", broken(Mutant::ThoughtsAreText)),
            "user_message_chunk" => ("user_messages", broken(Mutant::EchoIsText)),
            "tool_call" | "tool_call_update" => ("tool_calls", false),
            "plan" => ("plans", false),
            kind if OTHER_KINDS.contains(&kind) => ("other", false),
            _ => ("unknown", broken(Mutant::AnyUpdateIsText)),
        };
        let is_text = update["content"]["type"] == "text" || broken(Mutant::AnyContentIsText);
        match update["content"]["text"].as_str() {
            Some(text) if counts && is_text => self.text.push_str(text),
            _ => *self.dropped.entry(left_out).or_default() += 1,
        }
    }

    fn dropped(&self) -> Value {
        if broken(Mutant::DroppedNotCounted) {
            json!({})
        } else {
            json!(self.dropped)
        }
    }
}

/// What a turn comes to when its prompt has been answered.
pub fn settle(
    turn: &Turn,
    output: &Output,
    reply: Reply,
    allow_empty: bool,
) -> Result<Value, Failure> {
    if let Some(kind) = turn.cancelled_as
        && !broken(Mutant::CancelTrustsAnswer)
    {
        return Err((kind, Map::new()));
    }
    let result = match reply {
        Reply::Result(result) => result,
        Reply::Error(error) => return Err(rejected("session/prompt", &error, &[])),
        Reply::Invalid => return Err(invalid("session/prompt")),
    };
    let mut reason = match result["stopReason"].as_str() {
        Some(reason) => reason,
        None if broken(Mutant::MissingStopReasonIsEndTurn) => "end_turn",
        None => "",
    };
    if broken(Mutant::StopReasonIgnored) {
        reason = "end_turn";
    }
    match reason {
        "end_turn" if output.text.is_empty() && !broken(Mutant::EmptyTurnIsAnswer) => {
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
        output.text.trim()
    } else {
        &output.text
    };
    Ok(json!({"content": text, "stop_reason": reason, "dropped": output.dropped()}))
}

/// An error answer of the agent, kept as it is.
pub fn rejected(method: &str, error: &Value, auth_methods: &[Value]) -> Failure {
    let message = &error["message"];
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

/// The text of the prompt for a request: every message, then the line that names the current one.
pub fn render(messages: &Value) -> String {
    let messages = messages.as_array().map_or(&[][..], Vec::as_slice);
    let mut lines = Vec::new();
    let mut question = None;
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        let text = content(&message["content"]);
        if text.is_empty() && !broken(Mutant::EmptyMessagesKept) {
            continue;
        }
        lines.push(format!("{role}: {text}"));
        let keeps_first = broken(Mutant::MarkerNamesFirstQuestion) && question.is_some();
        if (role == "user" && !keeps_first) || broken(Mutant::MarkerNamesLastMessage) {
            question = Some(text);
        }
    }
    if let Some(question) = question
        && !broken(Mutant::NoMarker)
    {
        lines.push(format!("SUPERSEDES-ALL-PRIOR: {question}"));
    }
    lines.join("\n")
}

/// The option to select, by its kind; `None` is the outcome `cancelled`.
pub fn choose(policy: Policy, options: &Value) -> Option<Value> {
    let options = options.as_array()?;
    let policy = if broken(Mutant::PolicyIgnored) {
        Policy::FirstAllow
    } else {
        policy
    };
    let of_kind = |kind: &str| options.iter().find(|option| option["kind"] == kind);
    let is_allow =
        |option: &&Value| option["kind"] == "allow_once" || option["kind"] == "allow_always";
    let first_allow = || options.iter().find(is_allow);
    let mut chosen = match policy {
        Policy::FirstAllow => first_allow(),
        Policy::AllowOnce => of_kind("allow_once").or_else(first_allow),
        Policy::Reject => of_kind("reject_once").or_else(|| of_kind("reject_always")),
    };
    if broken(Mutant::FirstOptionWhatever) || broken(Mutant::RejectionSelected) && chosen.is_none()
    {
        chosen = options.first();
    }
    let member = if broken(Mutant::KindAsOptionId) {
        "kind"
    } else {
        "optionId"
    };
    chosen.map(|option| option[member].clone())
}

fn content(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let separator = if broken(Mutant::PartsJoinedByLineBreak) {
                "\n"
            } else {
                ""
            };
            parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect::<Vec<_>>()
                .join(separator)
        }
        _ => String::new(),
    };
    if broken(Mutant::LineBreaksFlattened) {
        text.replace('\n', " ")
    } else {
        text
    }
}
