//! What agents in the field refuse, and how.
//!
//! A fake that accepts anything teaches a client bad habits. See "The strict agent" in
//! `spec/transcript-format.md`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::message::{self, Body, Incoming, NoMessage, session_of};
use crate::pattern::is_absolute;

/// What clients may ask of agents in version 1 of the protocol, drafts of it included.
const REQUESTS: [&str; 14] = [
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "session/delete",
    "session/close",
    "session/prompt",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
];

/// Requests that open a session, or are about one that another process may have handed out.
const OPENING: [&str; 5] = [
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/delete",
];

/// What one agent process knows about its client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    initialized: bool,
    sessions: BTreeSet<String>,
}

/// Why a line is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The id of the request, null where there is none.
    pub(crate) id: Value,
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Gate {
    /// Reads a line from the client, or refuses it.
    pub(crate) fn admit(&mut self, line: &[u8]) -> Result<Incoming, Refusal> {
        let incoming = Incoming::read(line).map_err(|error| {
            let (code, message) = match error {
                NoMessage::NotJson => (-32700, "Parse error"),
                NoMessage::NotJsonRpc => (-32600, "Invalid request: no JSON-RPC 2.0 message"),
            };
            Refusal {
                id: Value::Null,
                code,
                message: message.to_owned(),
            }
        })?;
        if let Body::Request { id, method, params } = &incoming.body {
            self.check(method, params.as_ref())
                .map_err(|(code, message)| Refusal {
                    id: id.clone(),
                    code,
                    message,
                })?;
        }
        Ok(incoming)
    }

    /// Takes note of what the agent answered to a request.
    pub(crate) fn answered(
        &mut self,
        method: &str,
        params: Option<&Value>,
        answer: &Result<Value, Value>,
    ) {
        let Ok(result) = answer else { return };
        let session = match method {
            "session/new" | "session/fork" => session_of(Some(result)),
            "session/load" | "session/resume" => session_of(params),
            _ => None,
        };
        self.sessions.extend(session.map(str::to_owned));
    }

    fn check(&mut self, method: &str, params: Option<&Value>) -> Result<(), (i32, String)> {
        let invalid = |what: &str| Err((-32602, format!("Invalid params: {what}")));
        let param = |name: &str| params.and_then(|params| params.get(name));
        if method == "initialize" {
            if !param("protocolVersion").is_some_and(|v| v.is_u64() || v.is_i64()) {
                return invalid("protocolVersion must be an integer");
            }
            self.initialized = true;
            return Ok(());
        }
        if !self.initialized {
            return Err((
                -32600,
                format!("Invalid request: {method} before initialize"),
            ));
        }
        if !method.starts_with('_') && !REQUESTS.contains(&method) {
            return Err((-32601, format!("Method not found: {method}")));
        }
        if ["session/new", "session/load", "session/resume"].contains(&method) {
            if !param("cwd")
                .and_then(Value::as_str)
                .is_some_and(is_absolute)
            {
                return invalid("cwd must be an absolute path");
            }
            if !param("mcpServers").is_some_and(Value::is_array) {
                return invalid("mcpServers must be an array");
            }
        }
        if REQUESTS.contains(&method)
            && !OPENING.contains(&method)
            && let Some(session) = session_of(params)
            && !self.sessions.contains(session)
        {
            return Err((-32002, format!("Resource not found: {session}")));
        }
        Ok(())
    }
}

impl Refusal {
    /// The line that refuses.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let error = json!({"code": self.code, "message": self.message});
        message::response(&self.id, &Err(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_table_is_refused_and_its_neighbour_is_not() {
        let open = [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
        ];
        // What the client wrote before, the line, and the code and id of the refusal.
        type Case<'a> = (&'a [&'a str], &'a str, Result<(), (i32, Value)>);
        let cases: [Case<'_>; 23] = [
            (&[], "not json", Err((-32700, json!(null)))),
            (
                &[],
                "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
                Err((-32700, json!(null))),
            ),
            (&[], "", Err((-32700, json!(null)))),
            (&[], "42", Err((-32600, json!(null)))),
            (&[], "[]", Err((-32600, json!(null)))),
            (
                &[],
                r#"{"id":1,"method":"initialize"}"#,
                Err((-32600, json!(null))),
            ),
            (
                &[],
                r#"{"jsonrpc":"1.0","id":1,"method":"initialize"}"#,
                Err((-32600, json!(null))),
            ),
            (
                &[],
                r#"{"jsonrpc":"2.0","method":"session/cancel"}"#,
                Ok(()),
            ),
            (&[], open[1], Err((-32600, json!(1)))),
            (
                &[],
                r#"{"jsonrpc":"2.0","id":"a","method":"_x"}"#,
                Err((-32600, json!("a"))),
            ),
            (&[], open[0], Ok(())),
            (
                &[],
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1"}}"#,
                Err((-32602, json!(1))),
            ),
            (
                &[],
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
                Err((-32602, json!(1))),
            ),
            (&open[..1], open[1], Ok(())),
            (
                &open[..1],
                r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"w","mcpServers":[]}}"#,
                Err((-32602, json!(1))),
            ),
            (
                &open[..1],
                r#"{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","mcpServers":[]}}"#,
                Err((-32602, json!(1))),
            ),
            (
                &open[..1],
                r#"{"jsonrpc":"2.0","id":1,"method":"session/resume","params":{"sessionId":"s","cwd":"/w"}}"#,
                Err((-32602, json!(1))),
            ),
            (
                &open[..1],
                r#"{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}"#,
                Ok(()),
            ),
            (
                &open,
                r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1"}}"#,
                Ok(()),
            ),
            (
                &open,
                r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s2"}}"#,
                Err((-32002, json!(2))),
            ),
            (
                &open,
                r#"{"jsonrpc":"2.0","id":2,"method":"session/set_mode","params":{"sessionId":"s2","modeId":"m"}}"#,
                Err((-32002, json!(2))),
            ),
            (
                &open,
                r#"{"jsonrpc":"2.0","id":2,"method":"nope"}"#,
                Err((-32601, json!(2))),
            ),
            (
                &open,
                r#"{"jsonrpc":"2.0","id":2,"method":"_nope"}"#,
                Ok(()),
            ),
        ];
        for (before, line, want) in cases {
            let mut gate = Gate::default();
            for line in before {
                gate.admit(line.as_bytes()).unwrap();
            }
            if before.len() == 2 {
                gate.answered("session/new", None, &Ok(json!({"sessionId": "s1"})));
            }
            let got = gate
                .admit(line.as_bytes())
                .map(drop)
                .map_err(|r| (r.code, r.id));
            assert_eq!(got, want, "{line}");
        }
    }

    #[test]
    fn only_good_answers_hand_out_sessions() {
        let prompt =
            br#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1"}}"#;
        let params = json!({"sessionId": "s1"});
        for (method, answer, opens) in [
            ("session/new", Ok(json!({"sessionId": "s1"})), true),
            ("session/new", Err(json!({"sessionId": "s1"})), false),
            ("session/load", Ok(json!(null)), true),
            ("session/resume", Ok(json!({})), true),
            ("session/load", Err(json!({})), false),
            ("session/set_mode", Ok(json!({"sessionId": "s1"})), false),
        ] {
            let mut gate = Gate {
                initialized: true,
                ..Gate::default()
            };
            gate.answered(method, Some(&params), &answer);
            assert_eq!(gate.admit(prompt).is_ok(), opens, "{method} {answer:?}");
        }
    }

    #[test]
    fn a_refusal_is_an_error_response() {
        let refusal = Gate::default().admit(b"{").unwrap_err();
        let line: Value = serde_json::from_slice(&refusal.to_line()).unwrap();
        assert_eq!(
            line,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}})
        );
    }
}
