//! Comparing what came with what a step wants.

use serde_json::Value;

use super::{Fault, Outcome, Process};
use crate::fixture::{Expected, Verb};
use crate::message::{Body, Incoming};
use crate::pattern::{Captures, Difference, Pattern, brief, shorten};

/// Why a step fails; a [`super::Mismatch`] without its place.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) message: String,
    pub(super) path: Option<String>,
    pub(super) want: Option<String>,
    pub(super) got: Option<String>,
}

impl Failure {
    pub(super) fn client(message: String) -> Failure {
        Failure {
            fault: Fault::Client,
            message,
            path: None,
            want: None,
            got: None,
        }
    }

    pub(super) fn got(self, got: String) -> Failure {
        Failure {
            got: Some(got),
            ..self
        }
    }

    fn differs(message: String, difference: Difference) -> Failure {
        Failure {
            fault: Fault::Client,
            message,
            path: Some(difference.path),
            want: Some(difference.want),
            got: Some(difference.got),
        }
    }
}

/// What a step wants, as a noun phrase.
pub(super) fn wanted(verb: &Verb) -> String {
    match verb {
        Verb::Want { method, .. } => format!("the request {method}"),
        Verb::WantNote { method, .. } => format!("the notification {method}"),
        Verb::WantReply { label, .. } => format!("the answer to {label:?}"),
        Verb::WantEof => "the end of the agent's input".to_owned(),
        Verb::Returns { label, .. } => format!("the end of the call {label:?}"),
        other => other.name().to_owned(),
    }
}

/// Whether `incoming`, the next line from the client, is what `verb` wants.
pub(super) fn line(
    verb: &Verb,
    incoming: &Incoming,
    process: &Process,
    captures: &mut Captures,
) -> Result<(), Box<Failure>> {
    let wants = wanted(verb);
    let got = || shorten(&incoming.text);
    if let Some(problem) = &incoming.problem {
        let message = format!("{wants} was wanted, and {problem}");
        return Err(Box::new(Failure::client(message).got(got())));
    }
    let other = || {
        let failure = Failure::client(format!("{wants} was wanted, and something else came"));
        Err(Box::new(failure.got(got())))
    };
    let message = || format!("{wants} was wanted, and it is different");
    match (verb, &incoming.body) {
        (
            Verb::Want {
                method: want,
                params: pattern,
                ..
            },
            Body::Request { id, method, params },
        ) if want == method => {
            if process.used.contains(&id.to_string()) {
                let message = format!("{wants} was wanted, and its id {id} was used before");
                return Err(Box::new(Failure::client(message).got(got())));
            }
            check(
                pattern.as_ref(),
                params.as_ref(),
                "$.params",
                captures,
                message,
            )
        }
        (
            Verb::WantNote {
                method: want,
                params: pattern,
            },
            Body::Notification { method, params },
        ) if want == method => check(
            pattern.as_ref(),
            params.as_ref(),
            "$.params",
            captures,
            message,
        ),
        (
            Verb::WantReply {
                label,
                answer: expected,
            },
            Body::Response { id, answer },
        ) => {
            let asked = process.asks.get(label);
            if asked != Some(id) {
                let difference = Difference {
                    path: "$.id".to_owned(),
                    want: asked.map_or_else(|| "nothing".to_owned(), Value::to_string),
                    got: id.to_string(),
                };
                return Err(Box::new(Failure::differs(message(), difference)));
            }
            match (expected, answer) {
                (Expected::Ok(pattern) | Expected::Either { ok: pattern, .. }, Ok(value)) => {
                    check(Some(pattern), Some(value), "$.result", captures, message)
                }
                (Expected::Err(pattern) | Expected::Either { err: pattern, .. }, Err(value)) => {
                    check(Some(pattern), Some(value), "$.error", captures, message)
                }
                (Expected::Ok(_), Err(_)) => {
                    let failure =
                        Failure::client(format!("{wants} was wanted, and it is an error"));
                    Err(Box::new(failure.got(got())))
                }
                (Expected::Err(_), Ok(_)) => {
                    let failure =
                        Failure::client(format!("{wants} was wanted, and it is no error"));
                    Err(Box::new(failure.got(got())))
                }
            }
        }
        _ => other(),
    }
}

/// Whether the call `label` ended as `expected`.
pub(super) fn outcome(
    label: &str,
    expected: &Expected,
    outcome: &Outcome,
    captures: &mut Captures,
) -> Result<(), Box<Failure>> {
    let message = || format!("the call {label:?} ended differently");
    match (expected, outcome) {
        (Expected::Ok(pattern) | Expected::Either { ok: pattern, .. }, Outcome::Ok(value)) => {
            check(Some(pattern), Some(value), "$.ok", captures, message)
        }
        (Expected::Err(pattern) | Expected::Either { err: pattern, .. }, Outcome::Err(value)) => {
            check(Some(pattern), Some(value), "$.err", captures, message)
        }
        (expected, outcome) => {
            let shown = |kind, pattern: &Pattern| format!("{kind} {}", brief(pattern.source()));
            let want = match expected {
                Expected::Ok(pattern) => shown("ok", pattern),
                Expected::Err(pattern) => shown("err", pattern),
                Expected::Either { ok, err } => {
                    format!("{} or {}", shown("ok", ok), shown("err", err))
                }
            };
            Err(Box::new(Failure {
                want: Some(want),
                ..Failure::client(message()).got(outcome.to_string())
            }))
        }
    }
}

fn check(
    pattern: Option<&Pattern>,
    value: Option<&Value>,
    path: &str,
    captures: &mut Captures,
    message: impl Fn() -> String,
) -> Result<(), Box<Failure>> {
    let Some(pattern) = pattern else {
        return Ok(());
    };
    pattern
        .check(value, path, captures)
        .map_err(|difference| Box::new(Failure::differs(message(), difference)))
}
