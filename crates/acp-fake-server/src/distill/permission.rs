//! How the recorded client answered permission requests, as the options of `load`.

use serde_json::{Map, Value, json};

use super::wire::{Message, same_id, session_of};
use super::{Read, Side};

/// What became of one permission request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    /// This option was taken.
    Select(String),
    /// It was answered, and nothing was allowed.
    Cancelled,
    /// Nothing was decided before the turn was cancelled or the recording ended.
    Never,
}

impl Decision {
    /// What became of the request `id` of `session`, of which `after` is what came later.
    pub(super) fn find(id: &Value, session: Option<&str>, after: &[Read]) -> Decision {
        for read in after {
            match (read.from, &read.message) {
                (Side::Client, Message::Response { id: other, answer }) if same_id(id, other) => {
                    let outcome = answer.as_ref().map(|result| &result["outcome"]);
                    let chosen = outcome
                        .ok()
                        .and_then(|outcome| outcome["optionId"].as_str());
                    return match chosen {
                        Some(option) => Decision::Select(option.to_owned()),
                        None => Decision::Cancelled,
                    };
                }
                (Side::Client, Message::Notification { method, params })
                    if method == "session/cancel"
                        && session.is_some()
                        && params.as_ref().and_then(session_of) == session =>
                {
                    return Decision::Never;
                }
                // The number was given to another request, so this one has been forgotten.
                (Side::Agent, Message::Request { id: other, .. }) if id == other => break,
                _ => {}
            }
        }
        Decision::Never
    }

    /// The `result` that the client answers with.
    pub(super) fn result(&self) -> Value {
        match self {
            Decision::Select(option) => {
                json!({"outcome": {"outcome": "selected", "optionId": super::steps::literal(option)}})
            }
            Decision::Cancelled | Decision::Never => {
                json!({"outcome": {"outcome": "cancelled", "optionId": "$absent"}})
            }
        }
    }
}

/// The arguments of `load` with which a client decides in the same way, and the capability they need.
pub(super) fn load_args(asked: &[(Value, Decision)]) -> (Map<String, Value>, Option<&'static str>) {
    let mut args = Map::new();
    if asked.is_empty() {
        return (args, None);
    }
    for policy in ["first_allow", "allow_once", "reject"] {
        let is_its = |(options, decision): &(Value, Decision)| decide(policy, options) == *decision;
        if asked.iter().all(is_its) {
            args.insert("permission".to_owned(), policy.into());
            return (args, Some("permission"));
        }
    }
    let answers: Vec<Value> = asked
        .iter()
        .map(|(_, decision)| match decision {
            Decision::Select(option) => option.as_str().into(),
            Decision::Cancelled => json!({"cancelled": true}),
            Decision::Never => json!({"never": true}),
        })
        .collect();
    args.insert("permission".to_owned(), "ask".into());
    args.insert("permission_answers".to_owned(), answers.into());
    (args, Some("permission_callback"))
}

/// What `policy` makes of `options`.
fn decide(policy: &str, options: &Value) -> Decision {
    let (exact, family) = match policy {
        "first_allow" => ("allow", "allow"),
        "allow_once" => ("allow_once", "allow"),
        _ => ("reject_once", "reject"),
    };
    let find = |kind: &str| {
        let mut options = options.as_array().into_iter().flatten();
        options.find(|option| {
            let found = option["kind"].as_str();
            found.is_some_and(|found| found.starts_with(kind))
        })
    };
    let option = find(exact).or_else(|| find(family));
    match option.and_then(|option| option["optionId"].as_str()) {
        Some(option) => Decision::Select(option.to_owned()),
        None => Decision::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Value {
        json!([
            {"optionId": "no", "kind": "reject_once"},
            {"optionId": "always", "kind": "allow_always"},
            {"optionId": "once", "kind": "allow_once"},
        ])
    }

    fn select(option: &str) -> Decision {
        Decision::Select(option.to_owned())
    }

    #[test]
    fn a_policy_is_found_where_one_explains_all_answers() {
        for (answers, policy, needs) in [
            (vec![select("always")], "first_allow", "permission"),
            (
                vec![select("once"), select("once")],
                "allow_once",
                "permission",
            ),
            (vec![select("no")], "reject", "permission"),
            (
                vec![select("once"), select("no")],
                "ask",
                "permission_callback",
            ),
            (vec![Decision::Never], "ask", "permission_callback"),
            (vec![Decision::Cancelled], "ask", "permission_callback"),
        ] {
            let asked: Vec<_> = answers.into_iter().map(|it| (options(), it)).collect();
            let (args, need) = load_args(&asked);
            assert_eq!(
                (args["permission"].as_str(), need),
                (Some(policy), Some(needs))
            );
        }
        assert_eq!(load_args(&[]), (Map::new(), None));
        assert_eq!(decide("first_allow", &json!([])), Decision::Cancelled);
    }

    #[test]
    fn what_was_decided_is_found_after_the_request() {
        let read = |from, text: &str| Read {
            line: 1,
            from,
            bytes: text.as_bytes().to_vec(),
            message: Message::read(text.as_bytes()),
        };
        let yes = r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#;
        let cancel = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
        let again = r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission"}"#;
        let find = |after: &[Read]| Decision::find(&json!(1), Some("s"), after);
        assert_eq!(find(&[read(Side::Client, yes)]), select("y"));
        let cancelled = [read(Side::Client, cancel), read(Side::Client, yes)];
        assert_eq!(find(&cancelled), Decision::Never);
        let forgotten = [read(Side::Agent, again), read(Side::Client, yes)];
        assert_eq!(find(&forgotten), Decision::Never);
        assert_eq!(find(&[]), Decision::Never);
    }
}
