//! What happens within a turn, for hosts that want to see it.

use std::collections::VecDeque;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::permission::{PermissionDecision, PermissionRequest};
use crate::protocol::{TextBlock, Update, read_value};
use crate::text::{HighSurrogate, push_json_string};

/// Events that wait for the host; more are left out and counted, but for text, which is never lost.
const MAX_WAITING: usize = 1024;
/// What they hold, in bytes.
const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// Something that happened within a turn, in the order of the wire.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TurnEvent {
    /// More text of the answer.
    Text(String),
    /// The agent thinks (`agent_thought_chunk`).
    Thought(String),
    /// A tool call of the agent's own, or news of one: the `tool_call` or `tool_call_update` as it came.
    ToolCall(Value),
    /// The agent's plan: the update as it came.
    Plan(Value),
    /// What the session has used so far: the `usage_update` as it came.
    Usage(Value),
    /// The agent has asked for a permission.
    PermissionAsked(PermissionRequest),
    /// It was answered.
    PermissionAnswered(PermissionRequest, PermissionDecision),
    /// The reply was not in the form that tools or a response format ask for, and is asked for once more.
    /// This is its fault.
    ReplyRejected(String),
    /// So many events were left out here, because the host did not take those before.
    Skipped(u64),
}

/// The events that a host has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queue: VecDeque<Entry>,
    bytes: usize,
    skipped: u64,
    /// The answer text that the host has, in bytes.
    taken: usize,
}

#[derive(Debug)]
enum Entry {
    /// The answer text up to here. It lies in the turn, so waiting costs nothing.
    Text(usize),
    Event(TurnEvent),
}

impl Waiting {
    /// The answer text has grown to this length.
    pub(super) fn text(&mut self, end: usize) {
        if let Some(Entry::Text(before)) = self.queue.back_mut() {
            *before = end;
        } else if self.queue.len() < MAX_WAITING {
            self.queue.push_back(Entry::Text(end));
        }
        // Otherwise it is handed out after everything else.
    }

    /// An update that is no text of the answer, with the params that it came in.
    pub(super) fn update(&mut self, update: &Update<'_>, params: &RawValue) {
        let whole: fn(Value) -> TurnEvent = match &*update.kind {
            "agent_thought_chunk" => {
                if let Some(thought) = thought(update) {
                    let len = thought.len();
                    self.push(TurnEvent::Thought(thought), len);
                }
                return;
            }
            "tool_call" | "tool_call_update" => TurnEvent::ToolCall,
            "plan" | "plan_update" | "plan_removed" => TurnEvent::Plan,
            "usage_update" => TurnEvent::Usage,
            _ => return,
        };
        let len = params.get().len();
        if self.has_room(len) {
            self.push(whole(read_value(params)["update"].take()), len);
        } else {
            self.skipped += 1;
        }
    }

    /// Anything else, which holds about so many bytes.
    pub(super) fn push(&mut self, event: TurnEvent, bytes: usize) {
        if !self.has_room(bytes) {
            self.skipped += 1;
            return;
        }
        if self.skipped > 0 {
            let skipped = TurnEvent::Skipped(std::mem::take(&mut self.skipped));
            self.queue.push_back(Entry::Event(skipped));
        }
        self.bytes += bytes;
        self.queue.push_back(Entry::Event(event));
    }

    /// The text begins anew.
    pub(super) fn forget_text(&mut self) {
        self.queue.retain(|entry| matches!(entry, Entry::Event(_)));
        self.taken = 0;
    }

    /// Hands out everything, with the text of the answer so far.
    pub(super) fn take(&mut self, text: &str) -> Vec<TurnEvent> {
        let mut events = Vec::with_capacity(self.queue.len());
        for entry in std::mem::take(&mut self.queue) {
            match entry {
                Entry::Text(end) => self.take_text(&text[..end], &mut events),
                Entry::Event(event) => events.push(event),
            }
        }
        self.bytes = 0;
        if self.skipped > 0 {
            events.push(TurnEvent::Skipped(std::mem::take(&mut self.skipped)));
        }
        self.take_text(text, &mut events);
        events
    }

    fn take_text(&mut self, text: &str, events: &mut Vec<TurnEvent>) {
        if text.len() > self.taken {
            events.push(TurnEvent::Text(text[self.taken..].to_owned()));
            self.taken = text.len();
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.queue.len() < MAX_WAITING && self.bytes + bytes <= MAX_WAITING_BYTES
    }
}

fn thought(update: &Update<'_>) -> Option<String> {
    let block: TextBlock<'_> = serde_json::from_str(update.content?.get()).ok()?;
    let (mut half, mut thought) = (HighSurrogate::default(), String::new());
    if block.kind != "text" || !push_json_string(block.text?.get(), &mut half, &mut thought) {
        return None;
    }
    half.flush(&mut thought);
    Some(thought)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_joined_and_keeps_its_place() {
        let mut waiting = Waiting::default();
        waiting.text(1);
        waiting.text(2);
        waiting.push(TurnEvent::Thought("hm".into()), 2);
        waiting.text(3);
        let [
            TurnEvent::Text(before),
            TurnEvent::Thought(_),
            TurnEvent::Text(after),
        ] = &waiting.take("abc")[..]
        else {
            panic!("{waiting:?}");
        };
        assert_eq!((&**before, &**after), ("ab", "c"));
        assert!(waiting.take("abc").is_empty());
        // What a half character at the end comes to is in no entry.
        let [TurnEvent::Text(rest)] = &waiting.take("abc\u{fffd}")[..] else {
            panic!("{waiting:?}");
        };
        assert_eq!(rest, "\u{fffd}");
    }

    #[test]
    fn what_nobody_takes_is_bounded_and_counted_but_text_is_whole() {
        let mut waiting = Waiting::default();
        for i in 0..2 * MAX_WAITING {
            waiting.text(i + 1);
            waiting.push(TurnEvent::Thought("x".into()), 1);
        }
        let text = "t".repeat(2 * MAX_WAITING);
        let events = waiting.take(&text);
        assert!(events.len() <= MAX_WAITING + 2, "{}", events.len());
        let of =
            |wanted: fn(&TurnEvent) -> Option<u64>| events.iter().filter_map(wanted).sum::<u64>();
        let texts = of(|event| match event {
            TurnEvent::Text(text) => Some(text.len() as u64),
            _ => None,
        });
        assert_eq!(texts, text.len() as u64);
        let thoughts = of(|event| matches!(event, TurnEvent::Thought(_)).then_some(1));
        let skipped = of(|event| match event {
            TurnEvent::Skipped(count) => Some(*count),
            _ => None,
        });
        assert_eq!(thoughts + skipped, 2 * MAX_WAITING as u64);
        assert!(skipped > 0);

        waiting.push(TurnEvent::Usage(Value::Null), MAX_WAITING_BYTES + 1);
        waiting.push(TurnEvent::Usage(Value::Null), 1);
        let events = waiting.take(&text);
        assert!(
            matches!(events[..], [TurnEvent::Skipped(1), TurnEvent::Usage(_)]),
            "{events:?}"
        );
    }
}
