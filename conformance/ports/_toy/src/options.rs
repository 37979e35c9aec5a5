//! What the host asks for in `load`.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::permission::{Choices, Policy};
use crate::turn::fields;

/// How long a cancelled turn may go on before its session is given up.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// How often a reply with a fault is asked for once more.
const MAX_REPAIRS: u64 = 2;

/// How long the host may think about a permission.
const PERMISSION_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Options {
    pub cwd: PathBuf,
    pub mode: Option<String>,
    pub mode_required: bool,
    pub authenticate: Option<String>,
    pub restart: bool,
    pub policy: Policy,
    pub choices: Choices,
    /// What the host will say when it is asked about a permission, in this order.
    pub permission_answers: VecDeque<Value>,
    pub permission_timeout: Option<Duration>,
    /// The results of the vendors' own requests, by method.
    pub request_answers: Map<String, Value>,
    pub settle: Settle,
    pub startup_timeout: Option<Duration>,
    pub deadline: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    pub cancel_grace: Option<Duration>,
    pub allow_empty_turn: bool,
    pub state: State,
    /// Whether the next session is opened ahead.
    pub spare: bool,
    pub max_given_up_sessions: Option<usize>,
    /// How often a reply that is not in the form that was asked for is asked for once more.
    pub max_repairs: u64,
    pub resume: Option<Resume>,
    /// Objects with `id` and `value`.
    pub config_options: Vec<Value>,
    pub mcp_servers: Vec<Value>,
    pub directories: Vec<Value>,
    /// Whether the agent may use its own tools in a turn with those of the host.
    pub native_tools: bool,
}

/// A session of before that the first lane goes on with.
#[derive(Clone)]
pub struct Resume {
    pub session_id: String,
    /// Whether a new one will not do.
    pub required: bool,
}

/// What of a request goes out, and into which session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// All of it, always into the same one.
    Full,
    /// All of it, into one that was never used.
    Fresh,
    /// What is new, where the rest is there already. Otherwise as `Fresh`.
    Delta,
}

/// When the client waits for text that comes after the answer to its prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    Never,
    Always,
    /// Where the answer is empty, and with an agent that has been late before.
    Adaptive,
}

impl Options {
    pub fn read(args: &Value, cwd: PathBuf) -> Options {
        let answers = args["permission_answers"].as_array();
        Options {
            cwd,
            mode: text(args, "mode"),
            mode_required: args["mode_required"] != false,
            authenticate: text(args, "authenticate"),
            restart: args["restart"] == true,
            policy: match args["permission"].as_str() {
                Some("allow_once") => Policy::AllowOnce,
                Some("reject") => Policy::Reject,
                Some("ask") => Policy::Ask,
                _ => Policy::FirstAllow,
            },
            choices: match args["choices"].as_str() {
                Some("reject") => Choices::Reject,
                _ => Choices::First,
            },
            permission_answers: answers.into_iter().flatten().cloned().collect(),
            permission_timeout: limit(args, "permission_timeout_ms")
                .unwrap_or(Some(PERMISSION_TIMEOUT)),
            request_answers: fields(args["request_answers"].clone()),
            settle: match args["settle"].as_str() {
                Some("never") => Settle::Never,
                Some("always") => Settle::Always,
                _ => Settle::Adaptive,
            },
            startup_timeout: limit(args, "startup_timeout_ms").flatten(),
            deadline: limit(args, "deadline_ms").flatten(),
            idle_timeout: limit(args, "idle_timeout_ms").flatten(),
            cancel_grace: limit(args, "cancel_grace_ms").unwrap_or(Some(CANCEL_GRACE)),
            allow_empty_turn: args["allow_empty_turn"] == true,
            state: match args["state"].as_str() {
                Some("fresh_session") => State::Fresh,
                Some("verified_delta") => State::Delta,
                _ => State::Full,
            },
            spare: args["spare_session"] != false,
            max_given_up_sessions: args["max_given_up_sessions"]
                .as_u64()
                .map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            max_repairs: args["max_repairs"].as_u64().unwrap_or(MAX_REPAIRS),
            native_tools: args["native_tools"] == true,
            resume: Resume::read(&args["resume_session"]),
            config_options: items(args, "config_options"),
            mcp_servers: items(args, "mcp_servers"),
            directories: items(args, "additional_directories"),
        }
    }
}

impl Resume {
    fn read(value: &Value) -> Option<Resume> {
        Some(Resume {
            session_id: value["session_id"].as_str()?.to_owned(),
            required: value["required"] == true,
        })
    }
}

/// A time limit of the driver protocol: absent keeps the default, and 0 is no limit.
pub fn limit(args: &Value, name: &str) -> Option<Option<Duration>> {
    let millis = args[name].as_u64()?;
    Some((millis > 0).then(|| Duration::from_millis(millis)))
}

fn items(args: &Value, name: &str) -> Vec<Value> {
    args[name].as_array().cloned().unwrap_or_default()
}

fn text(args: &Value, name: &str) -> Option<String> {
    args[name].as_str().map(str::to_owned)
}
