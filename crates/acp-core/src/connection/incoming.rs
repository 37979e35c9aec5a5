//! What the agent sends: one line is applied completely before the next is looked at, so the order of
//! the wire is the order of results.

use std::time::Instant;

use serde_json::value::RawValue;

use super::{Asked, Call, Connection, Event, LaneId, PermissionId, Phase, TurnId};
use crate::error::LoadError;
use crate::permission::{
    PermissionDecision, PermissionPolicy, PermissionRequest, PermissionResponse,
};
use crate::protocol::{
    PROTOCOL_VERSION, UpdateParams, method, read_error, read_initialize, read_prompt_result,
    read_value,
};
use crate::timer::Timer;
use crate::turn::{Answer, Applied, Stage};
use crate::wire::{self, Frame, Outcome, RequestId, code};

impl Connection {
    pub(super) fn handle_message(&mut self, line: &str, now: Instant) {
        match Frame::parse(line) {
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
                self.handle_response(id.as_ref(), outcome, line, now);
            }
            Frame::Blank => {}
            Frame::Noise => self.note_noise(line),
        }
    }

    /// Answers a permission request that [`Event::PermissionAsked`] named. Once it is answered, or its
    /// turn was cancelled, nothing happens. An option that was not offered is taken as a refusal.
    pub fn answer_permission(&mut self, id: PermissionId, decision: PermissionDecision) {
        self.timers.stop(Timer::Permission(id));
        if let Some(asked) = self.asked.remove(&id) {
            let decision = asked.request.checked(decision);
            self.send_decision(&asked.request_id, &decision);
        }
    }

    /// The host has not decided in time: the reject path answers.
    pub(super) fn permission_timeout(&mut self, id: PermissionId) {
        if let Some(asked) = self.asked.get(&id) {
            let decision = asked.request.decide(PermissionPolicy::Reject);
            self.answer_permission(id, decision);
        }
    }

    /// Answers whatever the host was asked for this turn's session.
    pub(super) fn answer_asked_of(&mut self, turn: TurnId, decision: PermissionDecision) {
        let session = self
            .turns
            .get(&turn)
            .and_then(|turn| self.lanes.get(&turn.lane))
            .and_then(|lane| lane.session.as_ref());
        let Some(session_id) = session.map(|session| session.session_id.clone()) else {
            return;
        };
        let ids: Vec<PermissionId> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.request.session_id == session_id)
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            self.answer_permission(id, decision.clone());
        }
    }

    /// Answers whatever the host was asked, because the connection is ending.
    pub(super) fn answer_all_asked(&mut self) {
        for id in self.asked.keys().copied().collect::<Vec<_>>() {
            self.answer_permission(id, PermissionDecision::Cancelled);
        }
    }

    /// Whether the host is being asked for this lane's session.
    pub(super) fn is_asked_of(&self, lane: LaneId) -> bool {
        self.asked
            .values()
            .any(|asked| self.lane_of_session.get(&asked.request.session_id) == Some(&lane))
    }

    fn handle_update(&mut self, params: Option<&RawValue>, now: Instant) {
        let read =
            params.and_then(|params| serde_json::from_str::<UpdateParams<'_>>(params.get()).ok());
        let Some(UpdateParams { session_id, update }) = read else {
            return self.count_malformed(params);
        };
        let Some(&lane_id) = self.lane_of_session.get(&*session_id) else {
            self.stray.other_sessions += 1;
            return;
        };
        let Some(lane) = self.lanes.get_mut(&lane_id) else {
            return;
        };
        let Some(turn) = lane.running.and_then(|id| self.turns.get_mut(&id)) else {
            if update.kind == "agent_message_chunk" {
                lane.outside_turn += 1;
                // Before the first turn it is a replay of history, not a late answer.
                self.late_seen |= lane.turns_done > 0;
            }
            return;
        };
        turn.last_activity = now;
        let (id, settling) = (turn.id, matches!(turn.stage, Stage::Settling { .. }));
        match turn.apply(&update) {
            Applied::Text if settling => self.settle_again(id, now),
            Applied::ToolsDone => self.idle_from_now(id, now),
            Applied::Text | Applied::Counted => {}
        }
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

    fn handle_request(
        &mut self,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        if method != method::REQUEST_PERMISSION {
            // Nothing was declared in `initialize`, so nothing is served.
            let message = format!("Method not found: {method}");
            self.send(wire::error(&id, code::METHOD_NOT_FOUND, &message));
            return;
        }
        let params = params.map(read_value).unwrap_or_default();
        let request = PermissionRequest::from_params(&params);
        let turn = self
            .lane_of_session
            .get(&request.session_id)
            .and_then(|lane| self.lanes.get(lane)?.running)
            .and_then(|turn| self.turns.get_mut(&turn));
        let mut cancelled = false;
        if let Some(turn) = turn {
            turn.last_activity = now;
            cancelled = turn.cancel.is_some();
        }
        if cancelled {
            // ACP v1, Prompt Turn, "Cancellation": also a request that arrives after the cancel.
            self.send_decision(&id, &PermissionDecision::Cancelled);
        } else if self.options.permission == PermissionPolicy::Ask {
            let key = PermissionId(self.new_key());
            self.timers
                .set_after(Timer::Permission(key), now, self.options.permission_timeout);
            self.event(Event::PermissionAsked(key, request.clone()));
            self.asked.insert(
                key,
                Asked {
                    request_id: id,
                    request,
                },
            );
        } else {
            let decision = request.decide(self.options.permission);
            self.send_decision(&id, &decision);
        }
    }

    fn send_decision(&mut self, id: &RequestId, decision: &PermissionDecision) {
        let line = wire::result(id, PermissionResponse::from(decision));
        self.send(line);
    }

    fn handle_response(
        &mut self,
        id: Option<&RequestId>,
        outcome: Outcome<'_>,
        line: &str,
        now: Instant,
    ) {
        let call = id
            .and_then(RequestId::as_own)
            .and_then(|id| self.pending.remove(&id));
        match call {
            Some(Call::Initialize) => self.initialize_answered(outcome, now),
            Some(Call::NewSession(lane)) => self.session_answered(lane, outcome, now),
            Some(Call::SetMode(lane)) => self.mode_answered(lane, outcome, now),
            Some(Call::Prompt(turn)) => {
                let answer = match outcome {
                    Outcome::Result(result) => Answer::Result(read_prompt_result(result)),
                    Outcome::Error(error) => {
                        read_error(error).map_or_else(Answer::Invalid, Answer::Error)
                    }
                    Outcome::Malformed(why) => Answer::Invalid(why.to_owned()),
                };
                self.prompt_answered(turn, answer, now);
            }
            // A response that nobody asked for is never answered. It may say why something else
            // hangs, so it is kept for diagnostics.
            None => self.note_noise(line),
        }
    }

    fn initialize_answered(&mut self, outcome: Outcome<'_>, now: Instant) {
        self.timers.stop(Timer::Initialize);
        match self.read_outcome(method::INITIALIZE, outcome, read_initialize) {
            Ok((version, agent)) if version == PROTOCOL_VERSION => {
                self.agent = agent;
                self.phase = Phase::Ready;
                self.event(Event::Initialized);
                self.open_waiting_lanes(now);
            }
            Ok((answered, _)) => self.end(LoadError::ProtocolVersion { answered }),
            Err(error) => self.end(error),
        }
    }
}
