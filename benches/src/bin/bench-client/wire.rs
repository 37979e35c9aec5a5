//! The protocol by hand, for the floors: what somebody would write who needs one session, trusts the agent and wants
//! it fast. Nothing is validated, bounded, timed or kept for diagnostics.

use std::{
    borrow::Cow,
    env,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Result;

/// Bytes that are read at once.
pub const BUFFER: usize = 64 * 1024;

/// Starts the agent. Its standard error is not looked at.
pub fn start(agent: &[String]) -> Result<(Child, ChildStdin, ChildStdout)> {
    let (program, args) = agent.split_first().ok_or("no agent")?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let input = child.stdin.take().ok_or("no standard input")?;
    let output = child.stdout.take().ok_or("no standard output")?;
    Ok((child, input, output))
}

pub fn initialize(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":1,"clientCapabilities":{{}}}}}}"#
    ) + "\n"
}

pub fn new_session(id: u64) -> Result<String> {
    let cwd = serde_json::to_string(&env::current_dir()?)?;
    Ok(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/new","params":{{"cwd":{cwd},"mcpServers":[]}}}}"#
    ) + "\n")
}

pub fn prompt(id: u64, session: &str, text: &str) -> Result<String> {
    let text = serde_json::to_string(text)?;
    Ok(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":{text}}}]}}}}"#
    ) + "\n")
}

/// The `sessionId` of an answer to `session/new`.
pub fn session_of(result: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct NewSession {
        #[serde(rename = "sessionId")]
        session_id: String,
    }
    Ok(serde_json::from_str::<NewSession>(result)?.session_id)
}

/// What a line of the agent asks of its reader.
pub enum Line<'a> {
    /// Nothing; if it was text of the answer it has been appended.
    Update,
    /// The end of the call that runs, with its result.
    Response(&'a str),
    /// A permission request: this is the answer.
    Permission(String),
}

/// Reads a line, and appends to `text` what of the answer is in it.
pub fn read_line<'a>(line: &'a str, text: &mut String) -> Result<Line<'a>> {
    let message: Message<'_> = serde_json::from_str(line)?;
    match (message.method.as_deref(), message.id, message.result) {
        (Some("session/update"), ..) => {
            let update = message.params.and_then(|params| params.update);
            if let Some(update) = update
                && update.kind == "agent_message_chunk"
            {
                let content: Content<'_> = serde_json::from_str(update.content.get())?;
                text.push_str(&content.text);
            }
            Ok(Line::Update)
        }
        (Some("session/request_permission"), Some(id), _) => {
            let options = message.params.and_then(|params| params.options);
            let options = options.unwrap_or_default();
            let allow = options.iter().find(|option| option.kind == "allow_once");
            let allow = allow.ok_or("nothing is allowed")?;
            Ok(Line::Permission(
                format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{"outcome":{{"outcome":"selected","optionId":"{}"}}}}}}"#,
                    id.get(),
                    allow.id
                ) + "\n",
            ))
        }
        (None, Some(_), Some(result)) => Ok(Line::Response(result.get())),
        _ => Err(format!("what is this? {line}").into()),
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    update: Option<Update<'a>>,
    #[serde(borrow)]
    options: Option<Vec<PermissionOption<'a>>>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    kind: Cow<'a, str>,
    #[serde(borrow, default = "null")]
    content: &'a RawValue,
}

fn null() -> &'static RawValue {
    RawValue::NULL
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct PermissionOption<'a> {
    #[serde(borrow, rename = "optionId")]
    id: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}
