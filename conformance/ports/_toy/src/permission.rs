//! Which option of a permission request is selected.

use serde_json::{Value, json};

use crate::mutant::{Mutant, broken};

/// How a permission request is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    FirstAllow,
    AllowOnce,
    Reject,
    /// The host is asked.
    Ask,
}

/// What to do when several options allow once, so that the agent asks for a choice rather than for a
/// permission.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Choices {
    First,
    Reject,
}

/// The outcome that selects the option `id`, or `cancelled` where there is none.
pub fn outcome(id: Option<Value>) -> Value {
    match id {
        Some(id) if broken(Mutant::FlatOutcome) => json!({"outcome": "selected", "optionId": id}),
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

/// The id of the option to select, by its kind; `None` is the outcome `cancelled`.
pub fn choose(policy: Policy, choices: Choices, options: &Value) -> Option<Value> {
    let is_option = |option: &&Value| option["optionId"].is_string();
    let list: Vec<&Value> = options.as_array()?.iter().filter(is_option).collect();
    let of_kind = |kind: &str| list.iter().find(|option| option["kind"] == kind);
    let is_allow =
        |option: &&&Value| option["kind"] == "allow_once" || option["kind"] == "allow_always";
    let first_allow = || list.iter().find(is_allow);
    let ways = list.iter().filter(|option| option["kind"] == "allow_once");
    let policy = match policy {
        _ if broken(Mutant::PolicyIgnored) => Policy::FirstAllow,
        _ if choices == Choices::Reject && ways.count() > 1 && !broken(Mutant::ChoicesIgnored) => {
            Policy::Reject
        }
        policy => policy,
    };
    let mut chosen = match policy {
        Policy::FirstAllow => first_allow(),
        Policy::AllowOnce => of_kind("allow_once").or_else(first_allow),
        // A host that does not answer as it should has not allowed anything.
        Policy::Reject | Policy::Ask => of_kind("reject_once").or_else(|| of_kind("reject_always")),
    };
    if broken(Mutant::FirstOptionWhatever) || broken(Mutant::RejectionSelected) && chosen.is_none()
    {
        chosen = list.first();
    }
    let member = if broken(Mutant::KindAsOptionId) {
        "kind"
    } else {
        "optionId"
    };
    chosen.map(|option| option[member].clone())
}
