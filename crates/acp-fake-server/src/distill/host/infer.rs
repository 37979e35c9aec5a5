//! What the recorded client meant.

use serde_json::Value;

use crate::distill::wire::{Message, same_id, session_of};
use crate::distill::{Read, Side};

/// The text that a person asked. In the prompts of a model source that is what supersedes the rest.
pub(super) fn prompt_text(params: &Value) -> String {
    let blocks = params["prompt"].as_array().into_iter().flatten();
    let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
    let marker = "SUPERSEDES-ALL-PRIOR: ";
    match text.rsplit_once(marker) {
        Some((before, question)) if before.is_empty() || before.ends_with('\n') => {
            question.to_owned()
        }
        _ => text,
    }
}

/// The mode that every session of a process is set to before its first prompt, if there is one and the
/// agent offers it: a client that is told a mode sets all its sessions to it.
pub(super) fn planned_mode(reads: &[Read]) -> Option<String> {
    let mut planned: Option<String> = None;
    for (index, read) in reads.iter().enumerate() {
        let Message::Response {
            id,
            answer: Ok(result),
        } = &read.message
        else {
            continue;
        };
        let Some(session) = session_of(result) else {
            continue;
        };
        let opens = |it: &Read| matches!(&it.message, Message::Request { id: asked, method, .. } if it.from == Side::Client && method == "session/new" && same_id(asked, id));
        if !reads[..index].iter().any(opens) {
            continue;
        }
        let first = reads[index..].iter().find_map(|it| match &it.message {
            Message::Request { id, method, params } if it.from == Side::Client => {
                let params = params.as_ref()?;
                (session_of(params)? == session).then_some((id, method, params))
            }
            _ => None,
        });
        let (id, _, params) = first.filter(|(_, method, _)| *method == "session/set_mode")?;
        let mode = params["modeId"].as_str()?;
        let offered = result["modes"]["availableModes"].as_array()?;
        let is_set = reads[index..].iter().any(|it| {
            let Message::Response {
                id: answered,
                answer,
            } = &it.message
            else {
                return false;
            };
            it.from == Side::Agent && same_id(id, answered) && answer.is_ok()
        });
        if !is_set || !offered.iter().any(|it| it["id"] == mode) {
            return None;
        }
        if planned.get_or_insert_with(|| mode.to_owned()) != mode {
            return None;
        }
    }
    planned
}
