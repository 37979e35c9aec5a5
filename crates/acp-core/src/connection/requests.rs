//! Requests of the agent. Each is answered exactly once: at once by a rule, or when the host has decided,
//! or when its time is over.

use std::time::Instant;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Connection, Event, LaneId, PermissionId, RequestKey, TurnId};
use crate::permission::{
    ChoicePolicy, PermissionDecision, PermissionPolicy, PermissionRequest, PermissionResponse,
};
use crate::protocol::{method, read_value};
use crate::timer::Timer;
use crate::turn::{Turn, TurnEvent};
use crate::wire::{self, RequestId, code};

/// Requests that the host is asked about at a time; more are refused, because each takes a thread.
const MAX_ASKED: usize = 64;
/// Characters of an unknown method that are said back.
const MAX_METHOD: usize = 100;

/// A request that the host has not answered yet.
#[derive(Debug)]
pub(super) enum Asked {
    Permission(RequestId, PermissionRequest),
    /// A vendor's own, by its method, with the session that it names, if it names one.
    Vendor(RequestId, String, String),
}

impl Connection {
    /// Answers a permission request that [`Event::PermissionAsked`] named. Once it is answered, or its
    /// turn was cancelled, nothing happens. An option that was not offered is taken as a refusal.
    pub fn answer_permission(
        &mut self,
        id: PermissionId,
        decision: PermissionDecision,
        now: Instant,
    ) {
        if let Some(Asked::Permission(request_id, request)) = self.take_asked(id.0) {
            // A turn about tools of the host may have begun since.
            let decision = if self.forbids_native_tools(&request.session_id) {
                request.without_allowing(decision)
            } else {
                request.checked(decision)
            };
            // The time that the host took is none of the agent's.
            self.restart_idle_clock(&request.session_id, now);
            self.send_decision(&request_id, &request, &decision);
        }
    }

    /// Answers a request that [`Event::RequestReceived`] named; `None` refuses it with `-32601`. Once it
    /// is answered nothing happens.
    pub fn answer_request(&mut self, key: RequestKey, result: Option<Value>, now: Instant) {
        if let Some(Asked::Vendor(request_id, method, session_id)) = self.take_asked(key.0) {
            self.restart_idle_clock(&session_id, now);
            match result {
                Some(result) => self.send(wire::result(&request_id, result)),
                None => self.refuse(&request_id, &method),
            }
        }
    }

    pub(super) fn handle_request(
        &mut self,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        let params = params.map(read_value).unwrap_or_default();
        if method == method::REQUEST_PERMISSION {
            return self.permission_requested(id, &params, now);
        }
        let session_id = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if let Some(turn) = self.turn_of_session(&session_id) {
            turn.touch(now);
        }
        let full = self.asked.len() >= MAX_ASKED;
        if full || !self.options.forward_requests || !method.starts_with('_') {
            // Nothing was declared in `initialize`, so nothing is served.
            return self.refuse(&id, method);
        }
        let key = self.new_key();
        self.ask(key, Asked::Vendor(id, method.to_owned(), session_id), now);
        self.event(Event::RequestReceived(
            RequestKey(key),
            method.to_owned(),
            params,
        ));
    }

    fn permission_requested(&mut self, id: RequestId, params: &Value, now: Instant) {
        let request = PermissionRequest::from_params(params);
        let mut cancelled = self.is_given_up(&request.session_id);
        if let Some(turn) = self.turn_of_session(&request.session_id) {
            turn.touch(now);
            cancelled |= turn.cancel.is_some();
            turn.note_event(|| (TurnEvent::PermissionAsked(request.clone()), request.size()));
        }
        if cancelled {
            // ACP v1, Prompt Turn, "Cancellation": also a request that arrives after the cancel.
            return self.send_decision(&id, &request, &PermissionDecision::Cancelled);
        }
        if self.forbids_native_tools(&request.session_id) {
            let decision = request.decide(PermissionPolicy::Reject);
            return self.send_decision(&id, &request, &decision);
        }
        match self.options.permission {
            PermissionPolicy::Ask if self.asked.len() < MAX_ASKED => {
                let key = self.new_key();
                self.ask(key, Asked::Permission(id, request.clone()), now);
                self.event(Event::PermissionAsked(PermissionId(key), request));
            }
            _ if self.options.choices == ChoicePolicy::Reject && request.is_choice() => {
                let decision = request.decide(PermissionPolicy::Reject);
                self.send_decision(&id, &request, &decision);
            }
            // One that would have been asked about, too, if it is one too many.
            policy => {
                let decision = request.decide(policy);
                self.send_decision(&id, &request, &decision);
            }
        }
    }

    /// Whether what the agent asks for is a tool of its own in a turn that is about those of the host, or between
    /// two of them. A session that runs no turn, or is not known, may be asking for any.
    fn forbids_native_tools(&self, session_id: &str) -> bool {
        if self.options.native_tools {
            return false;
        }
        let lane = self.lane_of_session.get(session_id);
        match lane.and_then(|lane| self.lanes.get(lane)) {
            Some(lane) if lane.running.is_some() || lane.host_tools => lane.host_tools,
            _ => {
                let mut lanes = self.lanes.values();
                lanes.any(|lane| lane.host_tools && lane.running.is_some())
            }
        }
    }

    /// The host has not answered in time: a permission is refused, and so is anything else.
    pub(super) fn asked_timeout(&mut self, key: u64, now: Instant) {
        match self.asked.get(&key) {
            Some(Asked::Permission(_, request)) => {
                let decision = request.decide(PermissionPolicy::Reject);
                self.answer_permission(PermissionId(key), decision, now);
            }
            Some(Asked::Vendor(..)) => self.answer_request(RequestKey(key), None, now),
            None => {}
        }
    }

    /// Answers with `cancelled` whatever the host was asked for this turn's session.
    pub(super) fn cancel_asked_of(&mut self, turn: TurnId, now: Instant) {
        if self.asked.is_empty() {
            return;
        }
        let session = self
            .turns
            .get(&turn)
            .and_then(|turn| self.lanes.get(&turn.lane))
            .and_then(|lane| lane.session.as_ref());
        let Some(session_id) = session.map(|session| session.session_id.clone()) else {
            return;
        };
        self.cancel_permissions(|request| request.session_id == session_id, now);
    }

    /// Answers whatever the host was asked, because the connection is ending.
    pub(super) fn cancel_all_asked(&mut self, now: Instant) {
        self.cancel_permissions(|_| true, now);
        let keys: Vec<u64> = self.asked.keys().collect();
        for key in keys {
            self.answer_request(RequestKey(key), None, now);
        }
    }

    /// Whether the host is being asked something by this lane's session.
    pub(super) fn is_asked_of(&self, lane: LaneId) -> bool {
        self.asked.values().any(|asked| {
            let session_id = match asked {
                Asked::Permission(_, request) => &request.session_id,
                Asked::Vendor(_, _, session_id) => session_id,
            };
            self.lane_of_session.get(session_id) == Some(&lane)
        })
    }

    fn restart_idle_clock(&mut self, session_id: &str, now: Instant) {
        if let Some(turn) = self.turn_of_session(session_id) {
            turn.last_activity = now;
            let id = turn.id;
            self.idle_from_now(id, now);
        }
    }

    fn cancel_permissions(&mut self, of: impl Fn(&PermissionRequest) -> bool, now: Instant) {
        let keys: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| matches!(asked, Asked::Permission(_, request) if of(request)))
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            self.answer_permission(PermissionId(key), PermissionDecision::Cancelled, now);
        }
    }

    fn ask(&mut self, key: u64, asked: Asked, now: Instant) {
        let limit = self.options.permission_timeout;
        self.timers.set_after(Timer::Asked(key), now, limit);
        self.asked.insert(key, asked);
    }

    fn take_asked(&mut self, key: u64) -> Option<Asked> {
        self.timers.stop(Timer::Asked(key));
        self.asked.remove(&key)
    }

    fn refuse(&mut self, id: &RequestId, method: &str) {
        self.stray.requests += 1;
        let method: String = method.chars().take(MAX_METHOD).collect();
        let message = format!("Method not found: {method}");
        self.send(wire::error(id, code::METHOD_NOT_FOUND, &message));
    }

    fn send_decision(
        &mut self,
        id: &RequestId,
        request: &PermissionRequest,
        decision: &PermissionDecision,
    ) {
        if let Some(turn) = self.turn_of_session(&request.session_id) {
            turn.dropped.refused_permissions += u64::from(request.is_refused_by(decision));
            turn.note_event(|| {
                let answered = TurnEvent::PermissionAnswered(request.clone(), decision.clone());
                (answered, request.size())
            });
        }
        self.send(wire::result(id, PermissionResponse::from(decision)));
    }

    fn turn_of_session(&mut self, session_id: &str) -> Option<&mut Turn> {
        let lane = self.lane_of_session.get(session_id)?;
        let turn = self.lanes.get(lane)?.running?;
        self.turns.get_mut(&turn).map(Box::as_mut)
    }
}
