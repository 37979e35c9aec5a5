//! State: a request is the whole conversation, and a session remembers. What of the one goes into which
//! of the other is decided here, when a turn's time has come.

use std::time::Instant;

use super::lanes::{Lane, LaneState};
use super::{Connection, LaneId, TurnId};
use crate::message::Message;
use crate::prompt;
use crate::protocol::ContentBlock;
use crate::request::{GenerateRequest, GenerateResponse};

/// How a request, which is always the whole conversation, meets a session, which remembers.
///
/// A session that is not needed any more is closed where the agent can close sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StatePolicy {
    /// Every prompt is the full request and names the message that supersedes all before it. The session
    /// piles up a copy of the conversation for each turn.
    #[default]
    FullRequest,
    /// Every prompt is the full request, in a session that was never used. There is nothing stale in it.
    FreshSession,
    /// The prompt is the new messages alone, where the request is exactly what the session was sent and has
    /// answered, and something new, with the same tools and response format. Anything else, and whatever follows
    /// a turn that failed, is the full request in a session that was never used.
    VerifiedDelta,
}

impl Connection {
    /// Whether turns keep their requests until they are sent.
    pub(super) fn holds_requests(&self) -> bool {
        self.options.state != StatePolicy::FullRequest
    }

    /// The prompt of a turn whose time has come. `None` if it needs a session that was never used, and the
    /// lane's is not.
    pub(super) fn prompt_of(&mut self, id: TurnId, lane: LaneId) -> Option<Vec<ContentBlock>> {
        let turn = self.turns.get_mut(&id)?;
        let Some(request) = &mut turn.request else {
            return Some(std::mem::take(&mut turn.prompt));
        };
        let history = self.lanes.get(&lane)?.history.as_ref()?;
        if history.is_empty() {
            return Some(prompt::first_request(request));
        }
        if self.options.state != StatePolicy::VerifiedDelta {
            return None;
        }
        let unseen = history.unseen(request)?;
        if unseen.iter().all(Message::is_nothing) {
            return None;
        }
        // The session's history gets the rest back with the answer.
        request.messages = unseen;
        Some(prompt::rest_of_request(request, turn.expected.is_some()))
    }

    /// Notes what a session holds after a turn.
    pub(super) fn note_history(
        &mut self,
        lane: LaneId,
        sent: Option<GenerateRequest>,
        answer: Option<&GenerateResponse>,
    ) {
        let Some(lane) = self.lanes.get_mut(&lane) else {
            return;
        };
        // What of an answer is no text is not in the host's store.
        let answer = answer.filter(|answer| answer.dropped.non_text == 0);
        let (Some(history), Some(sent), Some(answer)) = (&mut lane.history, sent, answer) else {
            // What a turn that failed has left in the session is anybody's guess.
            lane.history = None;
            return;
        };
        history.add(sent, answer.to_message());
    }

    /// Puts a lane onto a session that was never used: its spare, if there is one, or else a new one.
    pub(super) fn renew_session(&mut self, id: LaneId, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let ignored_cancel = lane.ignored_cancel;
        if let Some(old) = lane.session.take() {
            self.forget_session(&old.session_id, ignored_cancel, now);
        }
        let spare = self.lanes.get(&id).and_then(|lane| lane.spare);
        match spare.and_then(|spare| Some(&self.lanes.get(&spare)?.state)) {
            Some(LaneState::Ready) => self.take_spare(id, now),
            Some(_) => {
                if let Some(lane) = self.lanes.get_mut(&id) {
                    lane.state = LaneState::AwaitingSpare;
                    lane.waits_since = Some(now);
                }
            }
            None => self.open_session(id, false, now),
        }
    }

    /// Opens the session that the lane will need, while nobody waits for it.
    pub(super) fn open_spare(&mut self, id: LaneId, now: Instant) {
        if !self.options.spare_session || !self.holds_requests() || !self.is_open() {
            return;
        }
        let spare = LaneId(self.next_key);
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let idle = lane.running.is_none() && lane.queue.is_empty();
        if !idle || lane.spare.is_some() || !matches!(lane.state, LaneState::Ready) {
            return;
        }
        lane.spare = Some(spare);
        self.next_key += 1;
        self.lanes.insert(spare, Lane::spare_of(id));
        self.open_session(spare, false, now);
    }

    /// The spare session of a lane is open.
    pub(super) fn spare_ready(&mut self, owner: LaneId, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&owner) else {
            return;
        };
        let idle = lane.running.is_none() && matches!(lane.state, LaneState::Ready);
        match lane.state {
            LaneState::AwaitingSpare => self.take_spare(owner, now),
            // The old session is of no use any more, and may cost the agent a process.
            _ if idle && self.options.state == StatePolicy::FreshSession => {
                self.renew_session(owner, now);
            }
            _ => {}
        }
    }

    /// The spare session of a lane could not be opened. Nobody has asked for it yet, so nobody is told; the
    /// turn that needs a session asks the agent again.
    pub(super) fn spare_failed(&mut self, owner: LaneId, spare: LaneId, now: Instant) {
        if let Some(session) = self.lanes.remove(&spare).and_then(|lane| lane.session) {
            self.forget_session(&session.session_id, false, now);
        }
        let Some(lane) = self.lanes.get_mut(&owner) else {
            return;
        };
        lane.spare = None;
        if matches!(lane.state, LaneState::AwaitingSpare) {
            self.open_session(owner, false, now);
        }
    }

    fn take_spare(&mut self, id: LaneId, now: Instant) {
        let spare = self.lanes.get_mut(&id).and_then(|lane| lane.spare.take());
        let spare = spare.and_then(|spare| self.lanes.remove(&spare));
        let Some(session) = spare.and_then(|spare| spare.session) else {
            return self.open_session(id, false, now);
        };
        self.lane_of_session.insert(session.session_id.clone(), id);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.session_opened(session);
            lane.waits_since = None;
            lane.state = LaneState::Ready;
        }
        self.start_next(id, now);
    }
}
