//! Lanes: opening a session, and opening another one where the old one was given up.

use std::collections::VecDeque;
use std::time::Instant;

use super::history::History;
use super::{Call, Connection, Event, LaneId, Phase, Resume, TurnId};
use crate::error::LoadError;
use crate::protocol::{CloseSessionRequest, SessionInfo, SessionRequest, method};
use crate::timer::Timer;
use crate::wire::{self, Outcome};

/// Sessions without a lane that are remembered.
const MAX_GIVEN_UP: usize = 256;

/// A session that no lane uses any more.
#[derive(Debug)]
pub(super) struct GivenUp {
    session_id: String,
    /// Whether it ignored a cancel, so that text of the cancelled turn may still come.
    ignored_cancel: bool,
    /// Whether the agent has confirmed that it is closed.
    closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) state: LaneState,
    /// The session that serves the lane, or served it last.
    pub(super) session: Option<SessionInfo>,
    pub(super) running: Option<TurnId>,
    pub(super) queue: VecDeque<TurnId>,
    /// Turns that this session has ended.
    pub(super) turns_done: u64,
    /// What this session was sent and has answered, where that is known and a state policy asks for it.
    pub(super) history: Option<History>,
    /// The lane whose only session is the next one of this lane.
    pub(super) spare: Option<LaneId>,
    /// When a turn began to wait for the spare session.
    pub(super) waits_since: Option<Instant>,
    /// The lane that this one is the spare of. The host knows nothing of such a lane.
    spare_of: Option<LaneId>,
    /// The session of before that it goes on with.
    pub(super) resume: Option<Resume>,
    /// Why it does not.
    pub(super) resume_error: Option<String>,
    /// The agent repeats the conversation of that session until then at most.
    pub(super) replay_until: Option<Instant>,
    /// Message chunks since the last turn.
    pub(super) outside_turn: u64,
    /// Whether its last turn was about tools of the host, so that the agent's own are refused until the next.
    pub(super) host_tools: bool,
    /// No prompt goes out before.
    pub(super) pause_until: Option<Instant>,
    /// Whether the session has ignored a cancel, and is not used again.
    pub(super) ignored_cancel: bool,
}

#[derive(Debug, Default)]
pub(super) enum LaneState {
    /// `initialize` is not answered yet.
    #[default]
    Waiting,
    /// `session/new` is out, or what comes after it.
    Opening {
        /// The request that is out.
        method: &'static str,
        /// Whether the host still waits for [`Event::LaneOpened`].
        first: bool,
    },
    Ready,
    /// The session was given up. The next turn opens another one.
    GivenUp,
    /// A turn waits for the spare session to open.
    AwaitingSpare,
    Failed(LoadError),
    Closed,
}

impl Lane {
    /// A lane for the next session of another one.
    pub(super) fn spare_of(owner: LaneId) -> Lane {
        Lane {
            spare_of: Some(owner),
            ..Lane::default()
        }
    }

    /// Whether turns can be put on the lane; otherwise why not.
    pub(super) fn usable(&self) -> Result<(), LoadError> {
        match &self.state {
            LaneState::Ready | LaneState::GivenUp | LaneState::AwaitingSpare => Ok(()),
            LaneState::Opening { first: false, .. } => Ok(()),
            LaneState::Waiting | LaneState::Opening { .. } => Err(LoadError::InvalidOptions(
                "the lane is not open yet".to_owned(),
            )),
            LaneState::Failed(error) => Err(error.clone()),
            LaneState::Closed => Err(LoadError::Closed),
        }
    }

    /// Marks a lane that the host still waits for as failed; whether it was one.
    pub(super) fn fail_if_opening(&mut self) -> bool {
        let opening = self.opens_first();
        self.state = LaneState::Closed;
        opening
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, LaneState::Closed)
    }

    /// Takes the session that the agent has opened.
    pub(super) fn session_opened(&mut self, mut session: SessionInfo) {
        session.resume_error = self.resume_error.take();
        self.session = Some(session);
        self.history = Some(History::default());
        self.turns_done = 0;
        self.outside_turn = 0;
        self.ignored_cancel = false;
    }

    /// Notes which request of the opening is out now.
    pub(super) fn set_opening(&mut self, out: &'static str) {
        if let LaneState::Opening { method, .. } = &mut self.state {
            *method = out;
        }
    }

    /// Whether the host still waits for the lane to open, rather than one of its turns.
    pub(super) fn opens_first(&self) -> bool {
        matches!(
            self.state,
            LaneState::Waiting | LaneState::Opening { first: true, .. }
        )
    }

    /// Never uses this session again, because it has ignored a cancel.
    pub(super) fn give_up_session(&mut self) {
        self.ignored_cancel = true;
        if !self.is_closed() {
            self.state = LaneState::GivenUp;
        }
    }
}

impl Connection {
    /// Opens a lane: a session of its own. It is warm with [`Event::LaneOpened`].
    pub fn open_lane(&mut self, now: Instant) -> LaneId {
        let id = LaneId(self.new_key());
        let lane = Lane {
            resume: self.options.resume.take(),
            ..Lane::default()
        };
        match &self.phase {
            Phase::Ended(error) => {
                let error = error.clone();
                self.event(Event::LaneFailed(id, error));
            }
            Phase::Initializing => {
                self.lanes.insert(id, lane);
            }
            Phase::Ready => {
                self.lanes.insert(id, lane);
                self.open_session(id, true, now);
            }
        }
        id
    }

    /// Nobody waits for the session of this lane any more.
    fn abandon_opening(&mut self, id: LaneId) {
        for call in self.pending.values_mut() {
            if *call == Call::NewSession(id) {
                *call = Call::AbandonedSession;
            }
        }
        self.pending.retain(|call| match *call {
            Call::OldSession(lane) | Call::SetMode(lane) | Call::SetConfigOption(lane, _) => {
                lane != id
            }
            _ => true,
        });
    }

    /// Gives up a lane: its turns end with `closed`, and its session is not used again.
    pub fn close_lane(&mut self, id: LaneId, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let opening = lane.fail_if_opening();
        let running = lane.running;
        let queued: Vec<TurnId> = lane.queue.drain(..).collect();
        if let Some(spare) = lane.spare.take() {
            self.close_lane(spare, now);
        }
        self.timers.stop(Timer::OpenSession(id));
        self.timers.stop(Timer::Replay(id));
        self.abandon_opening(id);
        if opening {
            self.event(Event::LaneFailed(id, LoadError::Closed));
        }
        for turn in queued {
            self.fail_turn(turn, LoadError::Closed);
        }
        match running {
            // The lane is forgotten when the turn has ended.
            Some(turn) => self.cancel(turn, now),
            None => self.forget_lane(id, now),
        }
    }

    pub(super) fn forget_lane(&mut self, id: LaneId, now: Instant) {
        self.timers.stop(Timer::Pause(id));
        if let Some(lane) = self.lanes.remove(&id)
            && let Some(session) = lane.session
        {
            self.forget_session(&session.session_id, lane.ignored_cancel, now);
        }
    }

    /// Whether the session's last turn was cancelled for good: nothing is allowed in it any more.
    pub(super) fn is_given_up(&self, session_id: &str) -> bool {
        let lane = self.lane_of_session.get(session_id);
        let lane = lane.and_then(|lane| self.lanes.get(lane));
        lane.is_some_and(|lane| matches!(lane.state, LaneState::GivenUp | LaneState::Closed))
            || self
                .given_up
                .iter()
                .any(|given_up| given_up.session_id == session_id)
    }

    pub(super) fn forget_session(&mut self, session_id: &str, ignored_cancel: bool, now: Instant) {
        self.lane_of_session.remove(session_id);
        if self.given_up.len() == MAX_GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(GivenUp {
            session_id: session_id.to_owned(),
            ignored_cancel,
            closed: false,
        });
        self.close_session(session_id, now);
    }

    /// Whether a session that the agent has opened can be used: no lane uses it, and no cancelled turn may
    /// still write into it.
    pub(super) fn claim_session(&mut self, session_id: &str) -> bool {
        // Nor is one that was used and not closed a session that was never used.
        let holds = self.holds_requests();
        let stale = |given_up: &GivenUp| {
            given_up.session_id == session_id
                && (given_up.ignored_cancel || holds && !given_up.closed)
        };
        if self.lane_of_session.contains(session_id) || self.given_up.iter().any(stale) {
            return false;
        }
        self.given_up
            .retain(|given_up| given_up.session_id != session_id);
        true
    }

    /// Gives a session back to the agent, if the agent can take it: in some each one is a process.
    pub(super) fn close_session(&mut self, session_id: &str, now: Instant) {
        if !self.agent.close_session {
            self.unclosed += 1;
        } else if self.is_open() {
            // No turn waits for it, so it has no time of its own but that of other calls.
            let (request, limit) = (self.next_request, self.options.startup_timeout);
            self.timers
                .set_after(Timer::CloseSession(request), now, limit);
            self.closing.insert(request, session_id.to_owned());
            self.send_request(
                Call::CloseSession,
                method::SESSION_CLOSE,
                CloseSessionRequest { session_id },
            );
        }
    }

    pub(super) fn close_session_answered(&mut self, request: u64, outcome: &Outcome<'_>) {
        self.timers.stop(Timer::CloseSession(request));
        let session_id = self.closing.remove(&request).unwrap_or_default();
        if !matches!(outcome, Outcome::Result(_)) {
            self.unclosed += 1;
            return;
        }
        for given_up in &mut self.given_up {
            given_up.closed |= given_up.session_id == session_id;
        }
    }

    pub(super) fn close_session_timeout(&mut self, request: u64) {
        self.closing.remove(&request);
        if self.pending.remove(&request).is_some() {
            self.unclosed += 1;
        }
    }

    /// `initialize` is answered: the lanes that waited for it can open.
    pub(super) fn open_waiting_lanes(&mut self, now: Instant) {
        let waiting: Vec<LaneId> = self
            .lanes
            .iter()
            .filter(|(_, lane)| matches!(lane.state, LaneState::Waiting))
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.open_session(id, true, now);
        }
    }

    /// Asks for a session. [`handshake`](super::handshake) goes on from the answer, or
    /// [`resume`](super::resume) if it is an old one.
    pub(super) fn open_session(&mut self, id: LaneId, first: bool, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        lane.state = LaneState::Opening {
            method: method::SESSION_NEW,
            first,
        };
        let old = match self.options.check().and_then(|()| self.check_session()) {
            Ok(()) => self.old_session(id),
            Err(error) => Err(error),
        };
        match old {
            Ok(None) => self.send_session_request(Call::NewSession(id), method::SESSION_NEW, None),
            Ok(Some((method, session_id))) => {
                self.send_session_request(Call::OldSession(id), method, Some(&session_id));
            }
            Err(error) => return self.opening_failed(id, error, now),
        }
        let limit = self.options.startup_timeout;
        let lane = self.lanes.get_mut(&id);
        let since = lane.and_then(|lane| lane.waits_since.take());
        self.timers
            .set_after(Timer::OpenSession(id), since.unwrap_or(now), limit);
    }

    fn send_session_request(&mut self, call: Call, method: &str, session_id: Option<&str>) {
        let options = &self.options;
        let params = SessionRequest {
            session_id,
            cwd: &options.cwd,
            mcp_servers: &options.mcp_servers,
            additional_directories: &options.additional_directories,
        };
        let line = wire::request(self.next_request, method, params);
        self.send_line(call, line);
    }

    /// Whether the agent can give sessions what the options want of them.
    fn check_session(&self) -> Result<(), LoadError> {
        let invalid = |why: String| Err(LoadError::InvalidOptions(why));
        for server in &self.options.mcp_servers {
            let can = match server.capability() {
                None => true,
                Some("http") => self.agent.mcp.http,
                Some(_) => self.agent.mcp.sse,
            };
            if !can {
                let kind = server.capability().unwrap_or_default();
                let name = server.name();
                return invalid(format!(
                    "the agent cannot connect to the MCP server `{name}`: its MCP capabilities have no `{kind}`"
                ));
            }
        }
        if !self.options.additional_directories.is_empty() && !self.agent.additional_directories {
            return invalid("the agent takes no additional directories".to_owned());
        }
        Ok(())
    }

    pub(super) fn lane_ready(&mut self, id: LaneId, now: Instant) {
        self.timers.stop(Timer::OpenSession(id));
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        let first = lane.opens_first();
        lane.state = LaneState::Ready;
        self.stuck = false;
        if let Some(owner) = lane.spare_of {
            return self.spare_ready(owner, now);
        }
        if first {
            self.event(Event::LaneOpened(id));
        }
        self.start_next(id, now);
    }

    pub(super) fn opening_failed(&mut self, id: LaneId, error: LoadError, now: Instant) {
        self.timers.stop(Timer::OpenSession(id));
        self.timers.stop(Timer::Replay(id));
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        if lane.opens_first() {
            lane.state = LaneState::Failed(error.clone());
            self.event(Event::LaneFailed(id, error));
            return;
        }
        if let Some(owner) = lane.spare_of {
            return self.spare_failed(owner, id, now);
        }
        // The turn that wanted the session ends; the one behind it may have more luck.
        lane.state = LaneState::GivenUp;
        self.stuck = true;
        if let Some(turn) = lane.queue.pop_front() {
            self.fail_turn(turn, error);
        }
        self.start_next(id, now);
    }

    pub(super) fn open_session_timeout(&mut self, id: LaneId, now: Instant) {
        let method = match self.lanes.get(&id).map(|lane| &lane.state) {
            Some(LaneState::Opening { method, .. }) => *method,
            _ => return,
        };
        // A late answer must not be taken for that to the next request.
        self.abandon_opening(id);
        let error = self.startup_timeout(method);
        if matches!(method, method::SESSION_LOAD | method::SESSION_RESUME) {
            return self.old_session_failed(id, error, now);
        }
        self.opening_failed(id, error, now);
    }

    /// Starts the lane's next turn, if the lane is free and has one.
    pub(super) fn start_next(&mut self, id: LaneId, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else {
            return;
        };
        if lane.running.is_some() || lane.queue.is_empty() {
            return;
        }
        if let Some(held_back) = &mut self.held_back {
            return held_back.push(id);
        }
        if let Some(until) = lane.pause_until {
            if now < until {
                return self.timers.set(Timer::Pause(id), until);
            }
            lane.pause_until = None;
        }
        match lane.state {
            LaneState::Ready => {
                if let Some(&turn) = lane.queue.front() {
                    match self.prompt_of(turn, id) {
                        Some(prompt) => self.send_prompt(turn, id, &prompt, now),
                        None => self.renew_session(id, now),
                    }
                }
            }
            LaneState::GivenUp => self.renew_session(id, now),
            _ => {}
        }
    }

    /// The request that is out to open a lane.
    pub(super) fn opening_method(&self, id: LaneId) -> Option<&'static str> {
        match self.lanes.get(&id)?.state {
            LaneState::Opening { method, .. } => Some(method),
            _ => None,
        }
    }

    pub(super) fn opening_lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.lanes
            .get_mut(&id)
            .filter(|lane| matches!(lane.state, LaneState::Opening { .. }))
    }
}
