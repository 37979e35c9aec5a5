//! Who may do what: the answer to `session/request_permission`.
//!
//! An agent that asks and gets no answer hangs for ever, so every request is answered exactly once. An
//! answer names an offered `optionId` verbatim and is chosen by `kind`, never by name or place alone.
//! Source: ACP v1, Tool Calls, "Requesting Permission".

use serde::Serialize;
use serde_json::Value;

/// How permission requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PermissionPolicy {
    /// The first option whose kind starts with `allow`, in the agent's order. Some agents put
    /// `allow_always` first, which switches off their asking for the rest of the session;
    /// [`AllowOnce`](PermissionPolicy::AllowOnce) does not.
    #[default]
    FirstAllow,
    /// `allow_once`; only where it is not offered, another option whose kind starts with `allow`.
    AllowOnce,
    /// `reject_once`; only where it is not offered, another option whose kind starts with `reject`.
    Reject,
    /// The host is asked for each one, and [`PermissionPolicy::Reject`] answers when it does not.
    Ask,
}

/// What to do with a request that offers several options of the kind `allow_once`: such options are not
/// degrees of one permission but a question ("which of these?"), to which the first is a blind answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChoicePolicy {
    /// Nothing else than the [`PermissionPolicy`] says.
    #[default]
    First,
    /// Refuse, as [`PermissionPolicy::Reject`] does.
    Reject,
}

/// One choice that the agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionOption {
    /// What is sent back, verbatim.
    pub option_id: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`; other kinds are seen in the
    /// field. Empty if the agent gave none.
    pub kind: String,
    /// For people.
    pub name: String,
}

/// A permission request, for a host that decides by itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PermissionRequest {
    /// The session it names, which may be one that the host does not know.
    pub session_id: String,
    /// The agent's `toolCall` object, as it came; null if there was none.
    pub tool_call: Value,
    /// The choices, in the agent's order, without those that carry no usable `optionId`.
    pub options: Vec<PermissionOption>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDecision {
    /// The option with this `optionId`, which must be one of those offered.
    Select(String),
    /// No choice was made: the turn is being cancelled, or nothing that is offered fits.
    Cancelled,
}

impl PermissionRequest {
    /// Reads the params of the request. Whatever is missing or odd is left out: only the options
    /// matter for an answer.
    pub(crate) fn from_params(params: &Value) -> Self {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let options = params["options"].as_array().map(Vec::as_slice);
        Self {
            session_id: text(params, "sessionId"),
            tool_call: params["toolCall"].clone(),
            options: options
                .unwrap_or_default()
                .iter()
                .filter_map(|option| {
                    Some(PermissionOption {
                        option_id: option["optionId"].as_str()?.to_owned(),
                        kind: text(option, "kind"),
                        name: text(option, "name"),
                    })
                })
                .collect(),
        }
    }

    /// About how many bytes it takes to keep it.
    pub(crate) fn size(&self) -> usize {
        let texts = |option: &PermissionOption| option.option_id.len() + option.name.len();
        self.tool_call.to_string().len() + self.options.iter().map(texts).sum::<usize>()
    }

    /// Whether it offers several options of the kind `allow_once`, see [`ChoicePolicy`].
    pub fn is_choice(&self) -> bool {
        let once = |option: &&PermissionOption| option.kind == "allow_once";
        self.options.iter().filter(once).count() > 1
    }

    /// Whether a decision refuses what was asked for.
    pub(crate) fn is_refused_by(&self, decision: &PermissionDecision) -> bool {
        match decision {
            PermissionDecision::Cancelled => true,
            PermissionDecision::Select(id) => self
                .options
                .iter()
                .any(|option| option.option_id == *id && option.kind.starts_with("reject")),
        }
    }

    /// The answer that a policy gives at once.
    pub(crate) fn decide(&self, policy: PermissionPolicy) -> PermissionDecision {
        let (exact, family) = match policy {
            PermissionPolicy::FirstAllow => ("", "allow"),
            PermissionPolicy::AllowOnce => ("allow_once", "allow"),
            PermissionPolicy::Reject | PermissionPolicy::Ask => ("reject_once", "reject"),
        };
        let find = |fits: &dyn Fn(&str) -> bool| {
            self.options
                .iter()
                .find(|option| fits(&option.kind))
                .map(|option| PermissionDecision::Select(option.option_id.clone()))
        };
        find(&|kind| kind == exact && !exact.is_empty())
            .or_else(|| find(&|kind| kind.starts_with(family)))
            .unwrap_or(PermissionDecision::Cancelled)
    }

    /// A host's decision where nothing is allowed.
    pub(crate) fn without_allowing(&self, decision: PermissionDecision) -> PermissionDecision {
        if self.is_refused_by(&decision) {
            decision
        } else {
            self.decide(PermissionPolicy::Reject)
        }
    }

    /// A host's decision, as far as it was offered; anything else is answered by the reject path,
    /// because a wrong `optionId` is undefined behaviour in the agent.
    pub(crate) fn checked(&self, decision: PermissionDecision) -> PermissionDecision {
        match decision {
            PermissionDecision::Select(id)
                if !self.options.iter().any(|option| option.option_id == id) =>
            {
                self.decide(PermissionPolicy::Reject)
            }
            decision => decision,
        }
    }
}

/// `RequestPermissionResponse`, whose outcome is nested one deeper than it looks.
#[derive(Serialize)]
pub(crate) struct PermissionResponse<'a> {
    outcome: PermissionOutcome<'a>,
}

#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum PermissionOutcome<'a> {
    Selected {
        #[serde(rename = "optionId")]
        option_id: &'a str,
    },
    Cancelled,
}

impl<'a> From<&'a PermissionDecision> for PermissionResponse<'a> {
    fn from(decision: &'a PermissionDecision) -> Self {
        Self {
            outcome: match decision {
                PermissionDecision::Select(id) => PermissionOutcome::Selected { option_id: id },
                PermissionDecision::Cancelled => PermissionOutcome::Cancelled,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(policy: PermissionPolicy, kinds: &[&str]) -> String {
        let options: Vec<Value> = kinds
            .iter()
            .enumerate()
            .map(|(i, kind)| json!({"optionId": format!("{kind}#{i}"), "kind": kind}))
            .collect();
        let request = PermissionRequest::from_params(&json!({ "options": options }));
        serde_json::to_string(&PermissionResponse::from(&request.decide(policy))).unwrap()
    }

    fn selected(id: &str) -> String {
        format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{id}"}}}}"#)
    }

    #[test]
    fn policies_choose_by_kind() {
        use PermissionPolicy::{AllowOnce, Ask, FirstAllow, Reject};
        let all = ["reject_always", "allow_always", "allow_once", "reject_once"];
        assert_eq!(answer(FirstAllow, &all), selected("allow_always#1"));
        assert_eq!(answer(AllowOnce, &all), selected("allow_once#2"));
        assert_eq!(answer(Reject, &all), selected("reject_once#3"));
        assert_eq!(answer(Ask, &all), selected("reject_once#3"));
        assert_eq!(
            answer(AllowOnce, &["allow_always"]),
            selected("allow_always#0")
        );
        assert_eq!(
            answer(Reject, &["reject_always"]),
            selected("reject_always#0")
        );
    }

    #[test]
    fn a_decision_refuses_unless_it_selects_an_option_that_does_not() {
        let options = json!([{"optionId": "a", "kind": "allow_once"}, {"optionId": "r", "kind": "reject_once"}]);
        let request = PermissionRequest::from_params(&json!({ "options": options }));
        let select = |id: &str| PermissionDecision::Select(id.to_owned());
        assert!(request.is_refused_by(&PermissionDecision::Cancelled));
        assert!(request.is_refused_by(&select("r")));
        assert!(!request.is_refused_by(&select("a")));
        assert!(!request.is_refused_by(&select("x")));
    }

    #[test]
    fn nothing_that_fits_is_cancelled() {
        let cancelled = r#"{"outcome":{"outcome":"cancelled"}}"#;
        for kinds in [&["reject_once"][..], &[], &[""], &["persist"]] {
            assert_eq!(answer(PermissionPolicy::FirstAllow, kinds), cancelled);
        }
        assert_eq!(answer(PermissionPolicy::Reject, &["allow_once"]), cancelled);
    }

    #[test]
    fn odd_requests_are_read_as_far_as_they_go() {
        let request = PermissionRequest::from_params(&json!({
            "toolCall": null,
            "options": [7, {"optionId": 1, "kind": "allow_once"}, {"optionId": "a", "kind": "allow_once"}],
        }));
        assert_eq!(request.options.len(), 1);
        assert_eq!(
            request.decide(PermissionPolicy::FirstAllow),
            PermissionDecision::Select("a".into())
        );
        assert!(
            PermissionRequest::from_params(&json!({"options": "x"}))
                .options
                .is_empty()
        );
    }

    #[test]
    fn an_option_that_was_not_offered_is_never_sent() {
        let request = PermissionRequest::from_params(
            &json!({"options": [{"optionId": "no", "kind": "reject_once"}]}),
        );
        assert_eq!(
            request.checked(PermissionDecision::Select("yes".into())),
            PermissionDecision::Select("no".into())
        );
    }
}
