//! What agents in the field refuse, and how.
//!
//! A fake that accepts anything teaches a client bad habits. See "The strict agent" in
//! `spec/transcript-format.md`. What is refused, and with what, is in the [`Profile`].

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::message::{self, Body, Incoming, session_of};
use crate::pattern::is_absolute;
use crate::profile::{Profile, Reaction};

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
pub(crate) const OPENING: [&str; 5] = [
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/delete",
];

/// What clients may tell agents.
const NOTIFICATIONS: [&str; 2] = ["session/cancel", "$/cancel_request"];

/// What one agent process knows about its client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    profile: Profile,
    initialized: bool,
    sessions: BTreeSet<String>,
}

/// What becomes of a line that is not let in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refusal {
    /// This line is the answer.
    Answer {
        line: Vec<u8>,
        /// For people.
        why: String,
    },
    /// There is no answer.
    Ignored,
    /// The process ends with this exit code.
    Exit(i32),
}

impl Refusal {
    /// For people.
    pub(crate) fn why(&self) -> &str {
        match self {
            Refusal::Answer { why, .. } => why,
            Refusal::Ignored => "it is ignored",
            Refusal::Exit(_) => "it is the agent's end",
        }
    }
}

/// A line that is not let in: how its profile takes it, its id and what it is about.
struct Refused<'a> {
    reaction: &'a Reaction,
    id: Option<Value>,
    subject: String,
}

impl Gate {
    pub(crate) fn new(profile: Profile) -> Gate {
        Gate {
            profile,
            ..Gate::default()
        }
    }

    /// Reads a line from the client, or refuses it.
    pub(crate) fn admit(&mut self, line: &[u8]) -> Result<Incoming, Refusal> {
        let incoming = self.read(line)?;
        let refused = match &incoming.body {
            Body::Request { id, method, params } => {
                let refused = self.check(method, params.as_ref());
                refused.map(|(reaction, subject)| Refused {
                    reaction,
                    id: Some(id.clone()),
                    subject,
                })
            }
            Body::Notification { method, .. } if !NOTIFICATIONS.contains(&method.as_str()) => {
                Some(Refused {
                    reaction: &self.profile.input.unknown_notification,
                    id: None,
                    subject: method.clone(),
                })
            }
            _ => None,
        };
        match refused.and_then(Refused::refusal) {
            // A notification that is ignored is still one that a transcript can want.
            Some(Refusal::Ignored) if matches!(incoming.body, Body::Notification { .. }) => {
                Ok(incoming)
            }
            Some(refusal) => Err(refusal),
            None => {
                self.initialized |= matches!(&incoming.body, Body::Request { method, .. } if method == "initialize");
                Ok(incoming)
            }
        }
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

    /// Reads the envelope.
    fn read(&self, line: &[u8]) -> Result<Incoming, Refusal> {
        let input = &self.profile.input;
        let reaction = match Incoming::read(line) {
            Ok(incoming) => return Ok(incoming),
            Err(_) => match serde_json::from_slice(line) {
                Ok(Value::Object(mut members)) => {
                    if input.no_jsonrpc == Reaction::Accept {
                        members.insert("jsonrpc".to_owned(), json!("2.0"));
                        let mended = Value::Object(members).to_string();
                        if let Ok(incoming) = Incoming::read(mended.as_bytes()) {
                            return Ok(incoming);
                        }
                    }
                    &input.no_jsonrpc
                }
                Ok(Value::Array(_)) => &input.array,
                Ok(_) => &input.scalar,
                Err(_) if line.is_empty() => &input.empty_line,
                Err(_) if std::str::from_utf8(line).is_err() => &input.invalid_utf8,
                Err(_) => &input.garbage,
            },
        };
        let refused = Refused {
            reaction,
            id: None,
            subject: String::new(),
        };
        // What cannot be read cannot be accepted either.
        Err(refused.refusal().unwrap_or(Refusal::Ignored))
    }

    /// How this agent takes a request that some agent refuses, and what it is about.
    fn check<'p>(&'p self, method: &str, params: Option<&Value>) -> Option<(&'p Reaction, String)> {
        let input = &self.profile.input;
        let param = |name: &str| params.and_then(|params| params.get(name));
        // What an agent accepts, its next rule may still refuse.
        let refused = |is_bad: bool, reaction: &'p Reaction| {
            (is_bad && *reaction != Reaction::Accept).then(|| (reaction, method.to_owned()))
        };
        if method == "initialize" {
            let version = param("protocolVersion");
            let is_integer = version.is_some_and(|v| v.is_u64() || v.is_i64());
            return refused(!is_integer, &input.no_version);
        }
        let opens = ["session/new", "session/load", "session/resume"].contains(&method);
        let cwd = param("cwd").and_then(Value::as_str);
        let is_known = REQUESTS.contains(&method);
        let is_extension = method.starts_with('_');
        let session = session_of(params).filter(|session| {
            is_known && !OPENING.contains(&method) && !self.sessions.contains(*session)
        });
        refused(!self.initialized, &input.before_initialize)
            .or_else(|| refused(is_extension, &input.extension))
            .or_else(|| refused(!is_known && !is_extension, &input.unknown_method))
            .or_else(|| refused(opens && !cwd.is_some_and(is_absolute), &input.relative_cwd))
            .or_else(|| {
                let is_bad = opens && !param("mcpServers").is_some_and(Value::is_array);
                refused(is_bad, &input.no_mcp_servers)
            })
            .or_else(|| {
                let looks = opens && input.missing_cwd != Reaction::Accept;
                let is_bad = looks && !cwd.is_some_and(|cwd| Path::new(cwd).is_dir());
                refused(is_bad, &input.missing_cwd)
            })
            .or_else(|| {
                let session = session?.to_owned();
                refused(true, &input.unknown_session).map(|(reaction, _)| (reaction, session))
            })
    }
}

impl Refused<'_> {
    /// `None` if the line is to be let in.
    fn refusal(self) -> Option<Refusal> {
        let answer = |answer: &Result<Value, Value>, without_id: bool| {
            let id = self
                .id
                .clone()
                .or(if without_id { None } else { Some(Value::Null) });
            let why = match answer {
                Ok(result) => result.to_string(),
                Err(error) => format!(
                    "{} ({})",
                    error["message"].as_str().unwrap_or_default(),
                    error["code"]
                ),
            };
            let line = message::answer(id.as_ref(), answer);
            Refusal::Answer { line, why }
        };
        Some(match self.reaction {
            Reaction::Accept => return None,
            Reaction::Ignore => Refusal::Ignored,
            Reaction::Exit { code } => Refusal::Exit(*code),
            Reaction::Answer { result } => answer(&Ok(result.clone()), false),
            Reaction::Refuse {
                code,
                message,
                without_id,
            } => {
                let message = message.replace("{}", &self.subject);
                answer(&Err(json!({"code": code, "message": message})), *without_id)
            }
        })
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
        type Case<'a> = (&'a [&'a str], &'a str, Result<(), (i64, Value)>);
        let cases: [Case<'_>; 23] = [
            (&[], "not json", Err((-32700, json!(null)))),
            (
                &[],
                "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
                Err((-32700, json!(null))),
            ),
            (&[], "{", Err((-32700, json!(null)))),
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
            let got = gate.admit(line.as_bytes()).map(drop).map_err(|refusal| {
                let Refusal::Answer { line, .. } = refusal else {
                    panic!("{refusal:?}")
                };
                let line: Value = serde_json::from_slice(&line).unwrap();
                let code = line["error"]["code"].as_i64().unwrap();
                (code, line["id"].clone())
            });
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
        let line =
            br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
        let why = "Parse error (-32700)".to_owned();
        assert_eq!(
            refusal,
            Refusal::Answer {
                line: line.to_vec(),
                why
            }
        );
    }

    #[test]
    fn a_gate_does_as_its_profile_says() {
        let mut profile = Profile::default();
        let input = &mut profile.input;
        input.array = Reaction::Exit { code: 3 };
        input.scalar = Reaction::Ignore;
        input.no_jsonrpc = Reaction::Accept;
        input.before_initialize = Reaction::Accept;
        input.extension = Reaction::Answer {
            result: Value::Null,
        };
        input.garbage = Reaction::Accept;
        input.missing_cwd = input.relative_cwd.clone();
        let without_id = Reaction::Refuse {
            code: -32601,
            message: "no {}".to_owned(),
            without_id: true,
        };
        input.unknown_notification = without_id;
        let mut gate = Gate::new(profile);
        let mut admit = |line: &[u8]| gate.admit(line).map(drop);
        let answer = |line: &str, why: &str| {
            let (line, why) = (line.as_bytes().to_vec(), why.to_owned());
            Err(Refusal::Answer { line, why })
        };
        assert_eq!(admit(b"[]"), Err(Refusal::Exit(3)));
        assert_eq!(admit(b"42"), Err(Refusal::Ignored));
        assert_eq!(admit(b""), Err(Refusal::Ignored), "also of the strict one");
        assert_eq!(admit(b"garbage"), Err(Refusal::Ignored));
        assert_eq!(admit(br#"{"id":1,"method":"session/list"}"#), Ok(()));
        assert_eq!(
            admit(br#"{"jsonrpc":"2.0","id":2,"method":"_x"}"#),
            answer(r#"{"jsonrpc":"2.0","id":2,"result":null}"#, "null")
        );
        assert_eq!(
            admit(br#"{"jsonrpc":"2.0","method":"x/y"}"#),
            answer(
                r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no x/y"}}"#,
                "no x/y (-32601)"
            )
        );
        let new = |cwd: &str| {
            let params = json!({"cwd": cwd, "mcpServers": []});
            json!({"jsonrpc": "2.0", "id": 3, "method": "session/new", "params": params})
        };
        assert!(admit(new("/no/such/directory").to_string().as_bytes()).is_err());
        assert_eq!(admit(new("/").to_string().as_bytes()), Ok(()));
    }
}
