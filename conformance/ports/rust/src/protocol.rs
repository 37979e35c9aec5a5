//! The driver protocol, as far as both drivers have it in common.

use std::collections::HashMap;

use acp_core::{GenerateResponse, MessageSpan};
use serde::Deserialize;
use serde_json::{Value, json};

/// Everything this library can do, which is everything there is.
const CAPABILITIES: [&str; 31] = [
    "cancel",
    "lanes",
    "cancel_grace",
    "process",
    "mode",
    "permission",
    "startup_timeout",
    "idle_timeout",
    "deadline",
    "parts",
    "allow_empty_turn",
    "dropped",
    "stderr_tail",
    "is_alive",
    "settle",
    "authenticate",
    "lenient_mode",
    "restart",
    "max_line",
    "permission_callback",
    "choices",
    "request_hook",
    "messages",
    "model_source",
    "state",
    "max_given_up_sessions",
    "tools",
    "resume_session",
    "config_options",
    "mcp_servers",
    "additional_directories",
];

/// One line of the harness.
#[derive(Deserialize)]
pub struct Request {
    pub seq: Value,
    pub op: String,
    pub args: Value,
}

/// The answer to `hello`.
pub fn greeting(port: &str) -> Value {
    json!({
        "protocol": 1,
        "port": {"name": port, "language": "rust", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": CAPABILITIES,
    })
}

/// The answer to `generate`.
pub fn answered(response: &GenerateResponse) -> Value {
    json!({
        "content": response.content,
        "stop_reason": response.stop_reason.as_str(),
        "usage": response.usage,
        "dropped": response.dropped.nonzero().collect::<HashMap<_, _>>(),
        "messages": messages(response),
        "tool_calls": response.tool_calls,
        "repairs": response.repairs.len(),
    })
}

fn messages(response: &GenerateResponse) -> Vec<Value> {
    let message = |span: &MessageSpan| {
        let text = &response.content[span.range.clone()];
        json!({"message_id": span.message_id, "text": text})
    };
    response.messages.iter().map(message).collect()
}

/// The lane that an operation is about.
pub fn lane_name(args: &Value) -> String {
    args["lane"].as_str().unwrap_or("main").to_owned()
}
