//! What a session was sent and has answered, and what of a request is more than that.

use serde_json::{Value, json};

use crate::mutant::{Mutant, broken};
use crate::tools::{Extras, says_nothing};
use crate::turn::Turn;

#[derive(Default)]
pub(super) struct History {
    pub messages: Vec<Value>,
    pub extras: Extras,
    /// Whether the session was told to reply by an object, which its first prompt does or none.
    pub told: bool,
}

impl History {
    /// The messages that the session has not seen, if it has seen the others and there are any.
    pub fn unseen(&self, turn: &Turn) -> Option<Vec<Value>> {
        let (messages, extras) = (&turn.messages, &turn.extras);
        let unseen = messages.get(self.messages.len()..).unwrap_or_default();
        if unseen.is_empty() {
            let resent = broken(Mutant::DeltaOfRetry) && !messages.is_empty();
            return resent.then(Vec::new);
        }
        if unseen.iter().all(says_nothing) && !broken(Mutant::DeltaOfNothing)
            || turn.form.is_some() && !self.told && !broken(Mutant::DeltaWithoutForm)
        {
            return None;
        }
        let differs = |name: &str, ignored: Mutant| {
            self.extras.get(name) != extras.get(name) && !broken(ignored)
        };
        if differs("tools", Mutant::DeltaIgnoresTools)
            || differs("response_format", Mutant::DeltaIgnoresFormat)
        {
            return None;
        }
        let (held, held_ids) = without_ids(&self.messages);
        let (asked, asked_ids) = without_ids(messages);
        let edited = |(index, (a, b)): (usize, (&Value, &Value))| {
            let overlooked = broken(Mutant::DeltaTrustsAnswer) && a["role"] == "assistant"
                || broken(Mutant::DeltaTrustsQuestions) && a["role"] == "user" && index > 0;
            a != b && !overlooked
        };
        if held.iter().zip(&asked).enumerate().any(edited) && !broken(Mutant::DeltaUnverified) {
            return None;
        }
        let mut unseen = unseen.to_vec();
        for message in &mut unseen {
            // The results name the calls as the session knows them.
            let place = asked_ids
                .iter()
                .position(|id| *id == message["tool_call_id"]);
            if let Some(id) = place.and_then(|place| held_ids.get(place))
                && !broken(Mutant::DeltaIdsNotTranslated)
            {
                message["tool_call_id"] = id.clone();
            }
        }
        Some(unseen)
    }
}

/// Messages in which each id of a call is the place of its first appearance, and the ids by that place.
/// Arguments are what their text says, and beside calls no content is the same as an empty one.
fn without_ids(messages: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let mut messages = messages.to_vec();
    let mut ids: Vec<Value> = Vec::new();
    let mut number = |id: &mut Value| {
        if id.is_null() || broken(Mutant::DeltaComparesIds) {
            return;
        }
        let place = ids.iter().position(|known| known == id);
        let place = place.unwrap_or_else(|| {
            ids.push(id.clone());
            ids.len() - 1
        });
        *id = json!(place);
    };
    for message in &mut messages {
        let Some(message) = message.as_object_mut() else {
            continue;
        };
        if let Some(id) = message.get_mut("tool_call_id") {
            number(id);
        }
        let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) else {
            continue;
        };
        for call in calls {
            number(&mut call["id"]);
            let arguments = &mut call["function"]["arguments"];
            let text = arguments.as_str().unwrap_or_default();
            if let Ok(value) = serde_json::from_str(text)
                && !broken(Mutant::DeltaComparesText)
            {
                *arguments = value;
            }
        }
        if broken(Mutant::DeltaIgnoresCalls) {
            message.remove("tool_calls");
        }
        let empty = message.get("content").is_none_or(|content| *content == "");
        if empty && !broken(Mutant::DeltaComparesEmptyContent) {
            message.insert("content".to_owned(), Value::Null);
        }
    }
    (messages, ids)
}
