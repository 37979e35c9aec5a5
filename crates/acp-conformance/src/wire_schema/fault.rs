//! What is wrong with a value, in few words: of a union the one branch that was meant.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde_json::Value;

/// The members by which the unions of ACP tell their branches apart.
const DISCRIMINATORS: [&str; 3] = ["sessionUpdate", "type", "outcome"];

/// How much of a description is shown, in characters.
const SHOWN: usize = 300;

/// Where it is wrong, as a JSON pointer, and how.
pub(super) fn describe(error: &ValidationError<'_>) -> (String, String) {
    let at = error.instance_path().to_string();
    let what = match error.kind() {
        ValidationErrorKind::Required { property } => format!("the member {property} is missing"),
        ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context } => {
            match meant(error, context) {
                Meant::Branch(error) => return describe(error),
                Meant::None { member, of } => return none(at, error.instance(), member, &of),
                Meant::Unclear => error.to_string(),
            }
        }
        _ => error.to_string(),
    };
    (at, what.chars().take(SHOWN).collect())
}

/// The branch of a union that a value is meant to be.
enum Meant<'e> {
    /// This one, and this is its first fault.
    Branch(&'e ValidationError<'static>),
    /// None: the discriminator has another value than any of these, or is missing.
    None {
        member: &'static str,
        of: Vec<String>,
    },
    /// There is nothing to tell it by.
    Unclear,
}

fn meant<'e>(
    union: &ValidationError<'_>,
    branches: &'e [Vec<ValidationError<'static>>],
) -> Meant<'e> {
    let at = union.instance_path().as_str();
    for member in DISCRIMINATORS {
        let other = |error: &&ValidationError<'_>| is_of_another(error, at, member);
        if !branches.iter().flatten().any(|error| other(&error)) {
            continue;
        }
        let mut left = branches
            .iter()
            .filter(|branch| !branch.iter().any(|error| other(&error)));
        return match (left.next().and_then(|branch| branch.first()), left.next()) {
            (Some(error), None) => Meant::Branch(error),
            (Some(_), Some(_)) => Meant::Unclear,
            (None, _) => Meant::None {
                member,
                of: {
                    let of_union = branches.iter().flatten().filter(other);
                    of_union.filter_map(expected).collect()
                },
            },
        };
    }
    // What may be null and is not: the other branch is meant.
    let is_other_type = |error: &ValidationError<'_>| {
        matches!(error.kind(), ValidationErrorKind::Type { .. })
            && error.instance_path().as_str() == at
    };
    let mut left = branches
        .iter()
        .filter(|branch| !branch.iter().any(is_other_type));
    match (left.next().and_then(|branch| branch.first()), left.next()) {
        (Some(error), None) => Meant::Branch(error),
        _ => Meant::Unclear,
    }
}

/// Whether the fault says that the value at `at` is of another branch: by another discriminator, or by none.
fn is_of_another(error: &ValidationError<'_>, at: &str, member: &str) -> bool {
    let path = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => {
            path.strip_prefix(at)
                .and_then(|rest| rest.strip_prefix('/'))
                == Some(member)
        }
        ValidationErrorKind::Required { property } => path == at && property == member,
        _ => false,
    }
}

/// The discriminator that the branch with this fault has.
fn expected(error: &ValidationError<'_>) -> Option<String> {
    match error.kind() {
        ValidationErrorKind::Constant { expected_value } => Some(expected_value.to_string()),
        _ => None,
    }
}

fn none(at: String, value: &Value, member: &str, of: &[String]) -> (String, String) {
    match value.get(member) {
        None => (at, format!("the member {member:?} is missing")),
        Some(value) => {
            let what = format!("{value} is none of {}", of.join(", "));
            let shown = what.chars().take(SHOWN).collect();
            (format!("{at}/{member}"), shown)
        }
    }
}
