//! One prompt turn: which text counts, and what the turn comes to.
//!
//! Only `agent_message_chunk` text of the turn's own session, between the prompt and its settlement,
//! is the answer. It is an allow-list: every other kind of update is counted and left out, so that a
//! kind from the future cannot end up in structured output.

mod events;
mod outcome;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use crate::connection::{LaneId, PlainUpdate, TurnId};
use crate::protocol::{ContentBlock, ErrorObject, PromptResult, TextBlock, Update};
use crate::reply::{Expected, Reply};
use crate::request::{Dropped, GenerateRequest, MessageSpan, Repair};
use crate::text::{HighSurrogate, push_json_string};
use crate::wire::Text;

pub use events::TurnEvent;
use events::Waiting;
pub(crate) use outcome::read_stop_reason;
pub(crate) use outcome::rejected;

/// Tool calls of one turn whose end is waited for; more are not told apart.
const MAX_OPEN_TOOLS: usize = 1024;

/// Longest id of a tool call that is waited for, in bytes.
const MAX_TOOL_ID: usize = 256;
/// Messages of one turn that are told apart; the text of more is added to the last one.
const MAX_MESSAGES: usize = 10_000;

/// Limits of one turn; `None` is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TurnOptions {
    /// Longest silence of the turn's session before the turn is cancelled. While a tool call is open
    /// or a permission is pending it is [`IDLE_STRETCH`] times as long.
    pub idle_timeout: Option<Duration>,
    /// Longest time from the call to its end, waiting in the lane's queue included. Nothing that the
    /// agent sends moves it.
    pub deadline: Option<Duration>,
    /// Whether `end_turn` without any text is an answer, rather than
    /// [`GenerateError::EmptyTurn`](crate::GenerateError::EmptyTurn).
    pub allow_empty: bool,
    /// Whether what happens within the turn is kept for the host as [`TurnEvent`]s.
    pub events: bool,
}

impl TurnOptions {
    /// Sets the longest silence; `None` is off.
    #[must_use]
    pub fn idle_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.idle_timeout = limit.into();
        self
    }

    /// Sets the absolute limit; `None` is off.
    #[must_use]
    pub fn deadline(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.deadline = limit.into();
        self
    }

    /// Says whether what happens within the turn is kept for the host.
    #[must_use]
    pub fn events(mut self, keep: bool) -> Self {
        self.events = keep;
        self
    }

    /// Says whether `end_turn` without any text is an answer.
    #[must_use]
    pub fn allow_empty(mut self, allow: bool) -> Self {
        self.allow_empty = allow;
        self
    }
}

/// How much longer a session may be silent while a tool call is open or a permission is pending.
pub const IDLE_STRETCH: u32 = 6;

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waiting for the lane.
    Queued,
    /// The prompt is out.
    Running,
    /// The answer is in; late text may still come until this instant.
    Settling { until: Instant },
}

/// Why this client cancelled a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelCause {
    Host,
    Idle(Duration),
    Deadline(Duration),
}

/// How the agent answered the prompt.
#[derive(Debug)]
pub(crate) enum Answer {
    Result(PromptResult),
    Error(ErrorObject),
    Invalid(String),
}

/// What an update meant for the turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Text,
    /// The last open tool call ended.
    ToolsDone,
    Counted,
}

/// What came on the connection and belongs to no session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stray {
    pub(crate) noise: u64,
    pub(crate) other_sessions: u64,
    pub(crate) requests: u64,
}

#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    pub(crate) lane: LaneId,
    pub(crate) stage: Stage,
    pub(crate) options: TurnOptions,
    /// Taken when it is sent. Empty where the prompt is made of `request` then.
    pub(crate) prompt: Vec<ContentBlock>,
    /// What is asked; once it is sent, what of it was sent.
    pub(crate) request: Option<GenerateRequest>,
    /// What the reply is to be, where that is more than text.
    pub(crate) expected: Option<Expected>,
    pub(crate) cancel: Option<CancelCause>,
    pub(crate) last_activity: Instant,
    /// Whether the agent went on after it was told to cancel.
    pub(crate) went_on: bool,
    pub(crate) answer: Option<Answer>,
    pub(crate) dropped: Dropped,
    /// The connection's counts when the prompt went out.
    pub(crate) stray_before: Stray,
    /// When the prompt went out, or the last one that asks for the reply once more.
    pub(crate) sent_at: Instant,
    repairs: Vec<Repair>,
    text: String,
    messages: Vec<MessageSpan>,
    /// Half a character at the end of `text`.
    half: HighSurrogate,
    open_tools: HashSet<String>,
    /// What the host wants to see and has not, if it wants to see anything.
    waiting: Option<Waiting>,
    /// What the text so far says, once somebody has asked.
    reply: OnceCell<Result<Reply, String>>,
}

impl Turn {
    pub(crate) fn new(id: TurnId, lane: LaneId, options: TurnOptions, now: Instant) -> Self {
        Self {
            id,
            lane,
            stage: Stage::Queued,
            options,
            prompt: Vec::new(),
            request: None,
            expected: None,
            cancel: None,
            last_activity: now,
            went_on: false,
            answer: None,
            dropped: Dropped::default(),
            stray_before: Stray::default(),
            sent_at: now,
            repairs: Vec::new(),
            text: String::new(),
            messages: Vec::new(),
            half: HighSurrogate::default(),
            open_tools: HashSet::new(),
            waiting: options.events.then(Waiting::default),
            reply: OnceCell::new(),
        }
    }

    /// The agent's text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The answer text so far. A reply in JSON says only at its end what of it is that.
    pub(crate) fn answer_text(&self) -> &str {
        if self.expected.is_some() {
            ""
        } else {
            &self.text
        }
    }

    /// What the reply says. The error is its fault.
    fn reply(&self) -> &Result<Reply, String> {
        self.reply.get_or_init(|| match &self.expected {
            Some(expected) => expected.read(&self.text),
            None => Ok(Reply::default()),
        })
    }

    /// Whether the text so far is not what was asked for.
    pub(crate) fn has_fault(&self) -> bool {
        self.reply().is_err()
    }

    /// What is wrong with a reply that the agent has ended as it should.
    pub(crate) fn fault(&self) -> Option<String> {
        match &self.answer {
            Some(Answer::Result(result)) if !self.text.is_empty() => {
                read_stop_reason(&result.stop_reason)?;
                self.reply().as_ref().err().cloned()
            }
            _ => None,
        }
    }

    /// Whether the session holds something else of the turn than the host gets.
    pub(crate) fn differs(&self) -> bool {
        !self.repairs.is_empty() || self.reply().as_ref().is_ok_and(|reply| reply.differs)
    }

    /// How many replies were asked for once more.
    pub(crate) fn repairs(&self) -> usize {
        self.repairs.len()
    }

    /// Begins anew, because the reply has this fault.
    pub(crate) fn begin_repair(&mut self, fault: String, now: Instant) {
        let usage = match self.answer.take() {
            Some(Answer::Result(result)) => result.usage,
            _ => None,
        };
        self.repairs.push(Repair {
            fault,
            usage,
            duration: now.duration_since(self.sent_at),
        });
        if let (Some(waiting), Some(repair)) = (&mut self.waiting, self.repairs.last()) {
            let fault = repair.fault.clone();
            let bytes = fault.len();
            waiting.forget_text();
            waiting.push(TurnEvent::ReplyRejected(fault), bytes);
        }
        self.stage = Stage::Running;
        self.sent_at = now;
        self.last_activity = now;
        self.text.clear();
        self.reply.take();
        self.messages.clear();
        self.half = HighSurrogate::default();
        self.open_tools.clear();
    }

    pub(crate) fn has_open_tools(&self) -> bool {
        !self.open_tools.is_empty()
    }

    /// The session has shown a sign of life.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.last_activity = now;
        self.went_on |= self.cancel.is_some();
    }

    /// Takes one update of the turn's session.
    ///
    /// `params` are what it came in, for hosts that want to see all of it.
    pub(crate) fn apply(&mut self, update: &Update<'_>, params: &RawValue) -> Applied {
        if update.kind == "agent_message_chunk" {
            return self.apply_chunk(update);
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.update(update, params);
        }
        match &*update.kind {
            "tool_call" | "tool_call_update" => {
                self.dropped.tool_calls += 1;
                return self.apply_tool(update);
            }
            kind => count_update(&mut self.dropped, kind),
        }
        Applied::Counted
    }

    fn apply_chunk(&mut self, update: &Update<'_>) -> Applied {
        if self.cancel.is_some() {
            // The host has turned away; what the agent still says answers nothing.
            self.dropped.outside_turn += 1;
            return Applied::Counted;
        }
        let block = update
            .content
            .and_then(|content| serde_json::from_str::<TextBlock<'_>>(content.get()).ok());
        let Some(TextBlock {
            kind,
            text: Some(json),
        }) = block
        else {
            self.dropped.non_text += 1;
            return Applied::Counted;
        };
        if kind != "text" {
            self.dropped.non_text += 1;
            return Applied::Counted;
        }
        let before = self.text.len();
        self.push_text(json.get());
        if self.text.len() > before {
            self.note_message(update.message_id, before);
        }
        Applied::Text
    }

    /// Whether [`Turn::apply_plain`] comes to the same as [`Turn::apply`].
    pub(crate) fn takes_plain(&self, update: &PlainUpdate<'_>) -> bool {
        if update.kind == "agent_message_chunk" {
            !self.half.is_open()
        } else {
            self.waiting.is_none()
        }
    }

    /// Takes one update of the common case.
    pub(crate) fn apply_plain(&mut self, update: &PlainUpdate<'_>) -> Applied {
        if update.kind != "agent_message_chunk" {
            let update = Update {
                kind: Cow::Borrowed(&*update.kind),
                content: None,
                message_id: None,
                tool_call_id: update.tool_call_id,
                status: update.status,
            };
            return self.apply(&update, RawValue::NULL);
        }
        if self.cancel.is_some() {
            self.dropped.outside_turn += 1;
            return Applied::Counted;
        }
        let text = update
            .content
            .as_ref()
            .filter(|content| content.kind == "text")
            .and_then(|content| content.text.as_deref());
        let Some(text) = text else {
            self.dropped.non_text += 1;
            return Applied::Counted;
        };
        if !text.is_empty() {
            let before = self.text.len();
            self.text.push_str(text);
            self.note_text(update.message_id.as_deref(), before);
        }
        Applied::Text
    }

    fn push_text(&mut self, json: &str) {
        if !self.half.is_open()
            && let Ok(Text(text)) = serde_json::from_str(json)
        {
            self.text.push_str(&text);
        } else if !push_json_string(json, &mut self.half, &mut self.text) {
            self.dropped.non_text += 1;
        }
    }

    /// Notes which message the text from `start` on belongs to.
    fn note_message(&mut self, id: Option<&RawValue>, start: usize) {
        let id = id.and_then(|id| serde_json::from_str::<Text<'_>>(id.get()).ok());
        self.note_text(id.as_ref().map(|id| &*id.0), start);
    }

    /// The text has grown from `start` on, by text of the message with this id.
    fn note_text(&mut self, id: Option<&str>, start: usize) {
        let end = self.text.len();
        match (&self.expected, &mut self.waiting) {
            // Whoever has asked what it says asked too early.
            (Some(_), _) => drop(self.reply.take()),
            (None, Some(waiting)) => waiting.text(end),
            (None, None) => {}
        }
        let full = self.messages.len() >= MAX_MESSAGES;
        match self.messages.last_mut() {
            Some(last) if full || last.message_id.as_deref() == id => last.range.end = end,
            _ => self.messages.push(MessageSpan {
                message_id: id.map(str::to_owned),
                range: start..end,
            }),
        }
    }

    fn apply_tool(&mut self, update: &Update<'_>) -> Applied {
        let Some(id) = update
            .tool_call_id
            .filter(|id| id.get().len() <= MAX_TOOL_ID)
        else {
            return Applied::Counted;
        };
        match update.status.map(|status| status.get()) {
            Some("\"completed\"" | "\"failed\"") => {
                let was_open = self.open_tools.remove(id.get());
                if was_open && self.open_tools.is_empty() {
                    return Applied::ToolsDone;
                }
            }
            // A call without a status is pending, an update without one changes nothing.
            None if update.kind == "tool_call_update" => {}
            _ if self.open_tools.len() < MAX_OPEN_TOOLS => {
                self.open_tools.insert(id.get().into());
            }
            _ => {}
        }
        Applied::Counted
    }

    /// Notes something that happened within the turn, which holds about so many bytes.
    pub(crate) fn note_event(&mut self, event: impl FnOnce() -> (TurnEvent, usize)) {
        if let Some(waiting) = &mut self.waiting {
            let (event, bytes) = event();
            waiting.push(event, bytes);
        }
    }

    /// What the host has not seen yet.
    pub(crate) fn take_events(&mut self) -> Vec<TurnEvent> {
        let text = if self.expected.is_some() {
            ""
        } else {
            &self.text
        };
        self.waiting
            .as_mut()
            .map(|waiting| waiting.take(text))
            .unwrap_or_default()
    }

    /// The answer text, of a turn that ends without an answer.
    pub(crate) fn into_partial(mut self) -> String {
        self.flush();
        self.text
    }

    /// Half a character that nothing follows ends the text, and its message.
    pub(crate) fn flush(&mut self) {
        let before = self.text.len();
        self.half.flush(&mut self.text);
        if self.text.len() > before {
            self.reply.take();
        }
        if let Some(last) = self.messages.last_mut() {
            last.range.end = self.text.len();
        }
    }
}

/// Counts an update that is not part of any answer.
pub(crate) fn count_update(dropped: &mut Dropped, kind: &str) {
    *match kind {
        "agent_thought_chunk" => &mut dropped.thoughts,
        "user_message_chunk" => &mut dropped.user_messages,
        "plan" | "plan_update" | "plan_removed" => &mut dropped.plans,
        "available_commands_update"
        | "current_mode_update"
        | "config_option_update"
        | "session_info_update"
        | "usage_update"
        | "notice"
        | "compaction_update"
        | "compaction_summary_chunk" => &mut dropped.other,
        _ => &mut dropped.unknown,
    } += 1;
}

#[cfg(test)]
mod tests;
