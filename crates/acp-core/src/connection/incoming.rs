//! What the agent sends: one line is applied completely before the next is looked at, so the order of
//! the wire is the order of results.

use std::time::Instant;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Call, Connection};
use crate::protocol::{
    UpdateParams, is_about_session, method, read_error, read_prompt_result, read_value,
};
use crate::turn::{Answer, Applied, Stage, read_stop_reason};
use crate::wire::{self, Frame, Outcome, Place, code};

/// Updates kept for sessions that are not known yet.
const MAX_EARLY_UPDATES: usize = 64;
/// The longest of them, in bytes.
const MAX_EARLY_UPDATE: usize = 64 * 1024;

/// Longest message that is compared with a copy of it in a log, in bytes.
const MAX_COMPARED: usize = 64 * 1024;

impl Connection {
    pub(super) fn handle_text(&mut self, line: &str, now: Instant) {
        if self.handle_common(line, now) {
            return;
        }
        wire::parse_line(line, |frame, text, place| {
            let noise = matches!(frame, Frame::Noise | Frame::Blank);
            if !noise && self.is_echo(text, place) {
                return self.note_noise(line);
            }
            self.handle_frame(frame, text, now);
        });
    }

    /// Whether a message is a copy in a log: agents that log what they send show each message twice, once
    /// behind some words and once for us, the one right after the other.
    pub(super) fn is_echo(&mut self, text: &str, place: Place) -> bool {
        let echo = match place {
            Place::Whole => self.last_glued.take().is_some_and(|last| last == text),
            Place::Glued => self.last_whole == text,
        };
        if echo {
            return true;
        }
        match place {
            Place::Whole if text.len() <= MAX_COMPARED => text.clone_into(&mut self.last_whole),
            Place::Whole => self.last_whole.clear(),
            Place::Glued => self.last_glued = Some(text.to_owned()),
        }
        false
    }

    fn handle_frame(&mut self, frame: Frame<'_>, line: &str, now: Instant) {
        match frame {
            Frame::Notification { method, params } => {
                if method == method::SESSION_UPDATE {
                    self.handle_update(params, now);
                }
                // Other notifications are vendors' own: JSON-RPC wants no answer to any.
            }
            Frame::Request { id, method, params } => {
                self.handle_request(id, &method, params, now);
            }
            Frame::InvalidRequest { id } => {
                self.send(wire::error(&id, code::INVALID_REQUEST, "Invalid request"));
            }
            Frame::Response { id, outcome } => {
                self.handle_response(id.and_then(wire::own_id), outcome, line, now);
            }
            Frame::Blank => {}
            Frame::Noise => self.note_noise(line),
        }
    }

    fn handle_update(&mut self, params: Option<&RawValue>, now: Instant) {
        let read =
            params.and_then(|params| serde_json::from_str::<UpdateParams<'_>>(params.get()).ok());
        let (Some(UpdateParams { session_id, update }), Some(raw)) = (read, params) else {
            return self.count_malformed(params);
        };
        let Some(&lane_id) = self.lane_of_session.get(&session_id) else {
            self.stray.other_sessions += 1;
            return self.keep_early_update(&session_id, &update.kind, params);
        };
        let Some(lane) = self.lanes.get_mut(&lane_id) else {
            return;
        };
        if is_about_session(&update.kind)
            && let (Some(session), Some(params)) = (&mut lane.session, params)
        {
            session.apply(&read_value(params)["update"]);
        }
        let Some(turn) = lane.running.and_then(|id| self.turns.get_mut(&id)) else {
            if lane.replay_until.is_some() {
                return self.replay_goes_on(lane_id, now);
            }
            if update.kind == "agent_message_chunk" {
                lane.outside_turn += 1;
                // Before the first turn it is a replay of history, not a late answer.
                if lane.turns_done > 0 {
                    self.late_seen = true;
                    // The session now holds what no request of the host will.
                    lane.history = None;
                }
            }
            return;
        };
        turn.touch(now);
        let (id, settling) = (turn.id, matches!(turn.stage, Stage::Settling { .. }));
        match turn.apply(&update, raw) {
            Applied::Text if settling => self.settle_again(id, now),
            Applied::ToolsDone => self.idle_from_now(id, now),
            Applied::Text | Applied::Counted => {}
        }
    }

    /// Keeps what an agent says of a session before it has said that the session exists, which many do.
    /// Text is not kept: nothing has been asked in that session yet.
    fn keep_early_update(&mut self, session_id: &str, kind: &str, params: Option<&RawValue>) {
        let opening = self
            .pending
            .values()
            .any(|call| matches!(call, Call::NewSession(_)));
        let Some(params) = params.filter(|params| {
            opening && is_about_session(kind) && params.get().len() <= MAX_EARLY_UPDATE
        }) else {
            return;
        };
        if self.early_updates.len() == MAX_EARLY_UPDATES {
            self.early_updates.pop_front();
        }
        let update = read_value(params)["update"].take();
        self.early_updates
            .push_back((session_id.to_owned(), update));
    }

    /// What was kept for a session that now exists; what was kept for others while no session is being
    /// opened any more is forgotten.
    pub(super) fn take_early_updates(&mut self, session_id: &str) -> Vec<Value> {
        let (own, others) = std::mem::take(&mut self.early_updates)
            .into_iter()
            .partition::<Vec<_>, _>(|(session, _)| session == session_id);
        if self
            .pending
            .values()
            .any(|call| matches!(call, Call::NewSession(_)))
        {
            self.early_updates = others.into();
        }
        own.into_iter().map(|(_, update)| update).collect()
    }

    /// Counts an update that cannot be read for the turn it belongs to, if that can be told.
    fn count_malformed(&mut self, params: Option<&RawValue>) {
        let value = params.map(read_value).unwrap_or_default();
        let turn = value["sessionId"]
            .as_str()
            .and_then(|session| self.lane_of_session.get(session))
            .and_then(|lane| self.lanes.get(lane)?.running)
            .and_then(|turn| self.turns.get_mut(&turn));
        if let Some(turn) = turn {
            turn.dropped.malformed += 1;
        }
    }

    fn handle_response(&mut self, id: Option<u64>, outcome: Outcome<'_>, line: &str, now: Instant) {
        let call = id.and_then(|id| self.pending.remove(&id));
        match call {
            Some(Call::Initialize) => self.initialize_answered(outcome, now),
            Some(Call::Authenticate) => self.authenticate_answered(outcome, now),
            Some(Call::NewSession(lane)) => self.session_answered(lane, outcome, now),
            Some(Call::OldSession(lane)) => self.old_session_answered(lane, outcome, now),
            Some(Call::SetConfigOption(lane, number)) => {
                self.config_option_answered(lane, number, outcome, now);
            }
            Some(Call::SetMode(lane)) => self.mode_answered(lane, outcome, now),
            Some(Call::Prompt(turn)) => {
                let answer = match outcome {
                    Outcome::Result(result) => {
                        let mut result = read_prompt_result(result);
                        // The words of an agent's own are shown to people.
                        if read_stop_reason(&result.stop_reason).is_none() {
                            let secrets = &self.options.secrets;
                            result.stop_reason = secrets.mask_value(result.stop_reason);
                        }
                        Answer::Result(result)
                    }
                    Outcome::Error(error) => match read_error(error) {
                        Ok(error) => Answer::Error(self.without_secrets(error)),
                        Err(detail) => {
                            Answer::Invalid(self.options.secrets.mask(&detail).into_owned())
                        }
                    },
                    Outcome::Malformed(why) => Answer::Invalid(why.to_owned()),
                };
                self.prompt_answered(turn, answer, now);
            }
            Some(Call::AbandonedSession) => self.abandoned_session_answered(outcome, now),
            Some(Call::CloseSession) => {
                self.close_session_answered(id.unwrap_or_default(), &outcome);
            }
            // A response that nobody asked for is never answered. It may say why something else
            // hangs, so it is kept for diagnostics.
            None => self.note_noise(line),
        }
    }
}
