//! The common cases, each read in one pass over its line: an update, and the answer to a prompt.
//!
//! A turn is thousands of chunks. What is plain about one — a notification with the members that it should have, in
//! their usual order, for a turn that runs — is applied here, and so is an answer with a known stop reason; whatever
//! is not goes the long way, which knows every habit of every agent and comes to the same.

use std::borrow::Cow;
use std::fmt;
use std::time::Instant;

use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Call, Connection};
use crate::protocol::{PromptResult, is_about_session, method, read_value};
use crate::turn::{Answer, Applied, Stage, read_stop_reason};
use crate::wire::Place;

/// How nearly every agent begins an answer, which need not be read to tell that it is no update.
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":"#;

/// A `session/update`, and nothing else.
#[expect(dead_code, reason = "what is not to be there is not read")]
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
    #[serde(default)]
    id: Never,
    #[serde(default)]
    result: Never,
    #[serde(default)]
    error: Never,
}

/// The answer to a prompt, and nothing else.
#[expect(dead_code, reason = "what is not to be there is not read")]
#[derive(Deserialize)]
struct AnswerLine<'a> {
    id: u64,
    #[serde(borrow)]
    result: PlainResult<'a>,
    #[serde(default)]
    method: Never,
    #[serde(default)]
    error: Never,
}

#[derive(Deserialize)]
struct PlainResult<'a> {
    #[serde(borrow, rename = "stopReason")]
    stop_reason: Cow<'a, str>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// What follows its id. (From an array serde would read the struct, too.)
const RESULT: &str = r#","result":{"#;

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "sessionId")]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: PlainUpdate<'a>,
}

/// An update, as far as a turn without a host that wants to see all of it needs it.
pub(crate) struct PlainUpdate<'a> {
    pub(crate) kind: Cow<'a, str>,
    /// Of an `agent_message_chunk`.
    pub(crate) content: Option<PlainContent<'a>>,
    pub(crate) message_id: Option<Cow<'a, str>>,
    pub(crate) tool_call_id: Option<&'a RawValue>,
    pub(crate) status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct PlainContent<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub(crate) text: Option<Cow<'a, str>>,
}

/// A member that is not to be there at all.
#[derive(Default)]
struct Never;

impl Connection {
    /// Applies a line if it is the common case. Nothing has happened otherwise.
    pub(super) fn handle_common(&mut self, text: &str, now: Instant) -> bool {
        if let Some(rest) = text.strip_prefix(ANSWER) {
            let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            return rest.starts_with(RESULT) && self.handle_plain_answer(text, now);
        }
        let Ok(line) = serde_json::from_str::<Line<'_>>(text) else {
            return false;
        };
        let update = &line.params.update;
        if line.method != method::SESSION_UPDATE || is_about_session(&update.kind) {
            return false;
        }
        let lane = self.lane_of_session.get(&line.params.session_id);
        let lane = lane.and_then(|lane| self.lanes.get(lane));
        let Some(turn) = lane.and_then(|lane| lane.running) else {
            return false;
        };
        let running = self.turns.get(&turn);
        if !running.is_some_and(|turn| turn.takes_plain(update)) {
            return false;
        }
        if self.is_echo(text.trim(), Place::Whole) {
            self.note_noise(text);
            return true;
        }
        let Some(turn) = self.turns.get_mut(&turn) else {
            return false;
        };
        turn.touch(now);
        let (id, settling) = (turn.id, matches!(turn.stage, Stage::Settling { .. }));
        match turn.apply_plain(update) {
            Applied::Text if settling => self.settle_again(id, now),
            Applied::ToolsDone => self.idle_from_now(id, now),
            Applied::Text | Applied::Counted => {}
        }
        true
    }

    fn handle_plain_answer(&mut self, text: &str, now: Instant) -> bool {
        let Ok(AnswerLine { id, result, .. }) = serde_json::from_str(text) else {
            return false;
        };
        let Some(&Call::Prompt(turn)) = self.pending.get(&id) else {
            return false;
        };
        let stop_reason = Value::String(result.stop_reason.into_owned());
        if read_stop_reason(&stop_reason).is_none() {
            return false;
        }
        if self.is_echo(text.trim(), Place::Whole) {
            self.note_noise(text);
            return true;
        }
        self.pending.remove(&id);
        let usage = result.usage.map(read_value);
        let result = PromptResult {
            stop_reason,
            usage: usage.filter(|usage| !usage.is_null()),
        };
        self.prompt_answered(turn, Answer::Result(result), now);
        true
    }
}

impl<'de> Deserialize<'de> for Never {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(de::Error::custom("no such member is expected"))
    }
}

/// serde borrows a `Cow` that is a member, but none within an `Option`.
fn borrowed<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    Text::deserialize(deserializer).map(|Text(text)| Some(text))
}

impl<'de: 'a, 'a> Deserialize<'de> for PlainUpdate<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UpdateVisitor;

        #[derive(Deserialize)]
        #[serde(field_identifier)]
        enum Name {
            #[serde(rename = "sessionUpdate")]
            Kind,
            #[serde(rename = "content")]
            Content,
            #[serde(rename = "messageId")]
            MessageId,
            #[serde(rename = "toolCallId")]
            ToolCallId,
            #[serde(rename = "status")]
            Status,
            #[serde(other)]
            Other,
        }

        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

        impl<'de> Visitor<'de> for UpdateVisitor {
            type Value = PlainUpdate<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an update whose `sessionUpdate` comes first")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let Some(Name::Kind) = map.next_key()? else {
                    return Err(de::Error::custom("`sessionUpdate` does not come first"));
                };
                let Text(kind) = map.next_value()?;
                let is_chunk = kind == "agent_message_chunk";
                let mut update = PlainUpdate {
                    kind,
                    content: None,
                    message_id: None,
                    tool_call_id: None,
                    status: None,
                };
                let mut seen = [false; 4];
                while let Some(name) = map.next_key()? {
                    let slot = match name {
                        Name::Kind => return Err(de::Error::duplicate_field("sessionUpdate")),
                        Name::Content if is_chunk => 0,
                        Name::MessageId if is_chunk => 1,
                        Name::ToolCallId => 2,
                        Name::Status => 3,
                        Name::Content | Name::MessageId | Name::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    if std::mem::replace(&mut seen[slot], true) {
                        return Err(de::Error::custom("a member is there twice"));
                    }
                    match slot {
                        0 => update.content = Some(map.next_value()?),
                        1 => {
                            let id = map.next_value::<Option<Text<'de>>>()?;
                            update.message_id = id.map(|Text(id)| id);
                        }
                        2 => update.tool_call_id = map.next_value()?,
                        _ => update.status = map.next_value()?,
                    }
                }
                Ok(update)
            }
        }

        deserializer.deserialize_map(UpdateVisitor)
    }
}
