//! The arguments of `load` and `generate` as the library's options.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use acp_core::{
    ChoicePolicy, LoadOptions, McpServer, PermissionDecision, PermissionPolicy, Resume, Settle,
    StatePolicy, TurnOptions,
};
use serde_json::Value;

/// The options of a `load`, or the argument that the library does not have.
pub fn load_options(args: &Value) -> Result<LoadOptions, String> {
    let words = args["command"].as_array().into_iter().flatten();
    let mut options = LoadOptions::new(words.filter_map(Value::as_str));
    for (name, value) in args["env"].as_object().into_iter().flatten() {
        options = options.env(name, value.as_str().unwrap_or_default());
    }
    if let Some(cwd) = args["cwd"].as_str() {
        options = options.cwd(cwd);
    }
    if let Some(mode) = args["mode"].as_str() {
        options = options.mode(mode);
    }
    if let Some(required) = args["mode_required"].as_bool() {
        options = options.mode_required(required);
    }
    if let Some(method) = args["authenticate"].as_str() {
        options = options.authenticate(method);
    }
    if let Some(restart) = args["restart"].as_bool() {
        options = options.restart(restart);
    }
    if let Some(allow) = args["allow_empty_turn"].as_bool() {
        options = options.allow_empty_turn(allow);
    }
    if let Some(open) = args["spare_session"].as_bool() {
        options = options.spare_session(open);
    }
    if let Some(most) = args["max_given_up_sessions"].as_u64() {
        options = options.max_given_up_sessions(usize::try_from(most).unwrap_or(usize::MAX));
    }
    if let Some(most) = args["max_repairs"].as_u64() {
        options = options.max_repairs(u32::try_from(most).unwrap_or(u32::MAX));
    }
    if let Some(allow) = args["native_tools"].as_bool() {
        options = options.native_tools(allow);
    }
    if let Some(bytes) = args["max_line_bytes"].as_u64() {
        options = options.max_line_len(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    for option in args["config_options"].as_array().into_iter().flatten() {
        let id = option["id"].as_str().unwrap_or_default();
        options = match (&option["value"], option["value"].as_bool()) {
            (_, Some(on)) => options.config_option(id, on),
            (value, None) => options.config_option(id, value.as_str().unwrap_or_default()),
        };
    }
    for server in args["mcp_servers"].as_array().into_iter().flatten() {
        options = options.mcp_server(McpServer::from_value(server)?);
    }
    for path in args["additional_directories"]
        .as_array()
        .into_iter()
        .flatten()
    {
        options = options.additional_directory(path.as_str().unwrap_or_default());
    }
    if let Some(id) = args["resume_session"]["session_id"].as_str() {
        options = options.resume(if args["resume_session"]["required"] == true {
            Resume::required(id)
        } else {
            Resume::or_new(id)
        });
    }
    options = policies(options, args)?;
    Ok(limits(options, args))
}

fn policies(mut options: LoadOptions, args: &Value) -> Result<LoadOptions, String> {
    options = match args["permission"].as_str() {
        None => options,
        Some("first_allow") => options.permission(PermissionPolicy::FirstAllow),
        Some("allow_once") => options.permission(PermissionPolicy::AllowOnce),
        Some("reject") => options.permission(PermissionPolicy::Reject),
        Some("ask") => options.ask_permission(host(&args["permission_answers"])),
        Some(other) => return Err(format!("permission {other}")),
    };
    options = match args["choices"].as_str() {
        None => options,
        Some("first") => options.choices(ChoicePolicy::First),
        Some("reject") => options.choices(ChoicePolicy::Reject),
        Some(other) => return Err(format!("choices {other}")),
    };
    options = match args["state"].as_str() {
        None => options,
        Some("full_request") => options.state(StatePolicy::FullRequest),
        Some("fresh_session") => options.state(StatePolicy::FreshSession),
        Some("verified_delta") => options.state(StatePolicy::VerifiedDelta),
        Some(other) => return Err(format!("state {other}")),
    };
    options = match args["settle"].as_str() {
        None => options,
        Some("adaptive") => options.settle(Settle::Adaptive),
        Some("always") => options.settle(Settle::Always),
        Some("never") => options.settle(Settle::Never),
        Some(other) => return Err(format!("settle {other}")),
    };
    if let Some(answers) = args["request_answers"].as_object().cloned() {
        options = options.on_request(move |method, _| answers.get(method).cloned());
    }
    Ok(options)
}

fn limits(mut options: LoadOptions, args: &Value) -> LoadOptions {
    if let Some(limit) = millis(args, "startup_timeout_ms") {
        options = options.startup_timeout(limit);
    }
    if let Some(limit) = millis(args, "cancel_grace_ms") {
        options = options.cancel_grace(limit);
    }
    if let Some(limit) = millis(args, "permission_timeout_ms") {
        options = options.permission_timeout(limit);
    }
    if let Some(limit) = millis(args, "idle_timeout_ms") {
        options = options.idle_timeout(limit);
    }
    if let Some(limit) = millis(args, "deadline_ms") {
        options = options.deadline(limit);
    }
    options
}

/// A turn's own limits.
pub fn turn_options(mut options: TurnOptions, args: &Value) -> TurnOptions {
    if let Some(limit) = millis(args, "idle_timeout_ms") {
        options = options.idle_timeout(limit);
    }
    if let Some(limit) = millis(args, "deadline_ms") {
        options = options.deadline(limit);
    }
    options
}

/// A host that answers permission requests by a list.
fn host(
    answers: &Value,
) -> impl Fn(&acp_core::PermissionRequest) -> PermissionDecision + Send + Sync + use<> {
    let answers: VecDeque<Value> = answers.as_array().cloned().unwrap_or_default().into();
    let answers = Mutex::new(answers);
    move |_| {
        let next = answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        match next {
            Some(Value::String(id)) => PermissionDecision::Select(id),
            Some(value) if value["cancelled"] == true => PermissionDecision::Cancelled,
            Some(value) if value["never"] == true => loop {
                thread::park();
            },
            _ => panic!("the host's function panics"),
        }
    }
}

/// A limit that is given: a time, or nothing for 0, which is off.
fn millis(args: &Value, name: &str) -> Option<Option<Duration>> {
    let millis = args[name].as_u64()?;
    Some((millis > 0).then(|| Duration::from_millis(millis)))
}
