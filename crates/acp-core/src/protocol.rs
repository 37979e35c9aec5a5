//! The ACP v1 types this client uses: read leniently, written strictly.
//!
//! Reading: null and absent mean the same, a value of the wrong type means "not there", unknown
//! members are skipped. Only what a rule depends on can fail. Source of all shapes: the ACP v1 schema.

mod outgoing;
mod session;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::text::without_lone_surrogates;
pub use outgoing::ConfigValue;
pub(crate) use outgoing::{
    AuthenticateRequest, CancelNotification, CloseSessionRequest, ContentBlock, InitializeRequest,
    PromptRequest, SessionRequest, SetConfigOptionRequest, SetSessionModeRequest,
};
pub use session::SessionInfo;
pub(crate) use session::{is_about_session, read_old_session, read_session};

/// The protocol version this client speaks.
pub const PROTOCOL_VERSION: u16 = 1;

/// Method names, as on the wire.
pub(crate) mod method {
    pub(crate) const INITIALIZE: &str = "initialize";
    pub(crate) const AUTHENTICATE: &str = "authenticate";
    pub(crate) const SESSION_NEW: &str = "session/new";
    pub(crate) const SESSION_LOAD: &str = "session/load";
    pub(crate) const SESSION_RESUME: &str = "session/resume";
    pub(crate) const SESSION_CLOSE: &str = "session/close";
    pub(crate) const SESSION_SET_MODE: &str = "session/set_mode";
    pub(crate) const SESSION_SET_CONFIG_OPTION: &str = "session/set_config_option";
    pub(crate) const SESSION_PROMPT: &str = "session/prompt";
    pub(crate) const SESSION_CANCEL: &str = "session/cancel";
    pub(crate) const SESSION_UPDATE: &str = "session/update";
    pub(crate) const REQUEST_PERMISSION: &str = "session/request_permission";
}

/// Name and version of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Implementation {
    /// For programs.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Implementation {
    /// A program of this name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
        }
    }
}

/// A way to log in that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthMethod {
    /// What `authenticate` takes, unless [`is_terminal`](AuthMethod::is_terminal).
    pub id: String,
    /// For people.
    pub name: String,
    /// For people; empty if there is none.
    pub description: String,
    /// Whether it is a login at a terminal: another run of the agent's program, and not for `authenticate`.
    pub is_terminal: bool,
}

/// What the agent said of itself in `initialize`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct AgentInfo {
    /// Its name and version, if it gave them.
    pub implementation: Option<Implementation>,
    /// Content it takes in prompts beyond text and resource links.
    pub prompt: PromptCapabilities,
    /// Whether it has `session/load`.
    pub load_session: bool,
    /// Whether it has `session/resume`.
    pub resume_session: bool,
    /// Whether it has `session/close`.
    pub close_session: bool,
    /// Whether sessions can have directories besides their `cwd`.
    pub additional_directories: bool,
    /// MCP servers that it can connect to, beyond processes.
    pub mcp: McpCapabilities,
    /// Ways to log in.
    pub auth_methods: Vec<AuthMethod>,
    /// Its whole `agentCapabilities`, as it came; null if there was none.
    pub capabilities: Value,
}

/// Content an agent takes in prompts beyond text and resource links.
///
/// Source: ACP v1 `PromptCapabilities`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptCapabilities {
    /// `image` blocks.
    pub image: bool,
    /// `audio` blocks.
    pub audio: bool,
    /// `resource` blocks.
    pub embedded_context: bool,
}

/// MCP servers that an agent can connect to, beyond processes that it starts.
///
/// Source: ACP v1 `McpCapabilities`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpCapabilities {
    /// Those behind streamable HTTP.
    pub http: bool,
    /// Those behind HTTP with server-sent events.
    pub sse: bool,
}

/// The answer to `initialize`: the version as it came, and the rest.
pub(crate) fn read_initialize(result: &RawValue) -> Result<(Value, AgentInfo), String> {
    let value = read_object(result)?;
    let version = value["protocolVersion"].clone();
    let capabilities = value["agentCapabilities"].clone();
    let prompt = &capabilities["promptCapabilities"];
    let yes = |value: &Value| value.as_bool().unwrap_or(false);
    // An empty object stands for support: ACP v1, `SessionCapabilities`.
    let of_session = |name: &str| capabilities["sessionCapabilities"][name].is_object();
    let info = AgentInfo {
        implementation: read_implementation(&value["agentInfo"]),
        prompt: PromptCapabilities {
            image: yes(&prompt["image"]),
            audio: yes(&prompt["audio"]),
            embedded_context: yes(&prompt["embeddedContext"]),
        },
        load_session: yes(&capabilities["loadSession"]),
        resume_session: of_session("resume"),
        close_session: of_session("close"),
        additional_directories: of_session("additionalDirectories"),
        mcp: McpCapabilities {
            http: yes(&capabilities["mcpCapabilities"]["http"]),
            sse: yes(&capabilities["mcpCapabilities"]["sse"]),
        },
        auth_methods: read_auth_methods(&value["authMethods"]),
        capabilities,
    };
    Ok((bounded_value(version), info))
}

/// The answer to `session/prompt`.
#[derive(Debug, PartialEq)]
pub(crate) struct PromptResult {
    /// `stopReason` as it came; null if there was none.
    pub(crate) stop_reason: Value,
    pub(crate) usage: Option<Value>,
}

/// Reads it as far as it goes: `{}` and null are answers without a stop reason.
pub(crate) fn read_prompt_result(result: &RawValue) -> PromptResult {
    let value = read_value(result);
    PromptResult {
        stop_reason: bounded_value(value["stopReason"].clone()),
        usage: value.get("usage").filter(|usage| !usage.is_null()).cloned(),
    }
}

/// A JSON-RPC error object.
#[derive(Debug, PartialEq)]
pub(crate) struct ErrorObject {
    pub(crate) code: i64,
    /// Empty if there was none; other values than text as JSON.
    pub(crate) message: String,
    pub(crate) data: Value,
}

/// An error's words beyond this many characters are cut: they are for people, and are searched for secrets.
const MAX_ERROR_TEXT: usize = 16 * 1024;
/// The data of a longer error, in bytes, is kept as the beginning of its text.
const MAX_ERROR_DATA: usize = 64 * 1024;

/// Reads an error object. Without an integer as its `code` it says nothing that a caller could act on,
/// and is no valid response (JSON-RPC 2.0 section 5.1); everything else may be missing.
pub(crate) fn read_error(error: &RawValue) -> Result<ErrorObject, String> {
    let value = read_value(error);
    let code = value["code"].as_i64().ok_or_else(|| {
        let shown = bounded(value.to_string());
        format!("its error has no `code` that is an integer: {shown}")
    })?;
    Ok(ErrorObject {
        code,
        message: match &value["message"] {
            Value::String(text) => cut(text.clone(), MAX_ERROR_TEXT),
            Value::Null => String::new(),
            other => bounded(other.to_string()),
        },
        data: match &value["data"] {
            data if error.get().len() > MAX_ERROR_DATA => {
                Value::String(cut(data.to_string(), MAX_ERROR_TEXT))
            }
            data => data.clone(),
        },
    })
}

/// `session/update`, as far as every update goes.
#[derive(Deserialize)]
pub(crate) struct UpdateParams<'a> {
    #[serde(borrow, rename = "sessionId")]
    pub(crate) session_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) update: Update<'a>,
}

#[derive(Deserialize)]
pub(crate) struct Update<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow, rename = "messageId")]
    pub(crate) message_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "toolCallId")]
    pub(crate) tool_call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) status: Option<&'a RawValue>,
}

/// A content block, as far as text goes.
#[derive(Deserialize)]
pub(crate) struct TextBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    /// Raw, because some text is only read by [`crate::text`].
    #[serde(borrow)]
    pub(crate) text: Option<&'a RawValue>,
}

/// A whole value. What no JSON reader takes reads as null: numbers beyond any range, and nothing else
/// that has come this far.
pub(crate) fn read_value(raw: &RawValue) -> Value {
    serde_json::from_str(&without_lone_surrogates(raw.get())).unwrap_or_default()
}

fn read_object(result: &RawValue) -> Result<Value, String> {
    match read_value(result) {
        value @ Value::Object(_) => Ok(value),
        other => Err(format!(
            "it is not an object: {}",
            bounded(other.to_string())
        )),
    }
}

fn read_implementation(value: &Value) -> Option<Implementation> {
    Some(Implementation {
        name: value["name"].as_str()?.to_owned(),
        version: value["version"].as_str().unwrap_or_default().to_owned(),
    })
}

fn read_auth_methods(value: &Value) -> Vec<AuthMethod> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let methods = value.as_array().map(Vec::as_slice).unwrap_or_default();
    methods
        .iter()
        .filter_map(|method| {
            Some(AuthMethod {
                id: method["id"].as_str()?.to_owned(),
                name: text(&method["name"]),
                description: text(&method["description"]),
                is_terminal: method["type"] == "terminal",
            })
        })
        .collect()
}

/// An agent's value for an error, at most about 200 characters long.
fn bounded_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(bounded(text)),
        Value::Array(_) | Value::Object(_) => Value::String(bounded(value.to_string())),
        short => short,
    }
}

/// An agent's value for an error message: at most 200 characters.
fn bounded(text: String) -> String {
    cut(text, 200)
}

fn cut(mut text: String, limit: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(limit) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn capabilities_of_the_wrong_type_are_not_there() {
        for text in [
            r#"{"protocolVersion":1}"#,
            r#"{"protocolVersion":1,"agentCapabilities":null,"authMethods":null,"agentInfo":null}"#,
            r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":"true","promptCapabilities":null},"authMethods":[]}"#,
        ] {
            let (version, info) = read_initialize(raw(text)).unwrap();
            assert_eq!(version, 1);
            assert!(!info.load_session);
            assert_eq!(info.prompt, PromptCapabilities::default());
            assert_eq!(info.auth_methods, []);
        }
        assert!(read_initialize(raw("null")).is_err());
        assert_eq!(read_initialize(raw("{}")).unwrap().0, Value::Null);
    }

    #[test]
    fn prompt_results_are_read_as_far_as_they_go() {
        let reason = |text| read_prompt_result(raw(text)).stop_reason;
        assert_eq!(reason(r#"{"stopReason":"end_turn"}"#), "end_turn");
        for text in [r#"{"stopReason":null}"#, "{}", "null"] {
            assert_eq!(reason(text), Value::Null);
        }
        let long = format!(r#"{{"stopReason":["{}"]}}"#, "x".repeat(10_000));
        assert!(reason(&long).as_str().unwrap().len() < 300);
        let usage = read_prompt_result(raw(r#"{"usage":{"inputTokens":1,"outputTokens":null}}"#));
        assert_eq!(usage.usage.unwrap()["inputTokens"], 1);
        assert_eq!(read_prompt_result(raw(r#"{"usage":null}"#)).usage, None);
    }

    #[test]
    fn an_error_s_data_is_kept_whole_up_to_its_limit() {
        let error = |len: usize| {
            let text = format!(r#"{{"code":1,"data":["{}"]}}"#, "x".repeat(len));
            read_error(raw(&text)).unwrap().data
        };
        assert!(error(60 * 1024).is_array());
        assert_eq!(
            error(64 * 1024).as_str().map(|text| text.chars().count()),
            Some(16 * 1024 + 1)
        );
    }

    #[test]
    fn error_objects_of_any_shape_are_read() {
        let error = read_error(raw(r#"{"code":500,"message":42,"data":[1]}"#)).unwrap();
        assert_eq!((error.code, &*error.message), (500, "42"));
        assert_eq!(read_error(raw(r#"{"code":-32603}"#)).unwrap().message, "");
        for text in [r#"{"code":true}"#, r#"{"code":"1"}"#, "{}", "\"x\"", "[]"] {
            assert!(read_error(raw(text)).is_err(), "{text}");
        }
    }
}
