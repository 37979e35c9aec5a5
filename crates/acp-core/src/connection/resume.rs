//! Sessions of before that go on: `session/resume` and `session/load`.
//!
//! An agent that loads a session repeats its conversation as updates. None of that is an answer to anything,
//! and some agents go on with it after they have answered the request, so a lane only opens when it is over.
//! Source: ACP v1, Session Setup, "Loading Sessions" and "Resuming Sessions".

use std::time::Instant;

use super::{Connection, LaneId, SETTLE_LIMIT, SETTLE_WINDOW};
use crate::error::LoadError;
use crate::protocol::{SessionInfo, method, read_old_session};
use crate::timer::Timer;
use crate::wire::Outcome;

impl Connection {
    /// The session that a lane is to go on with, and how it is asked for; `None` if that is a new one.
    ///
    /// # Errors
    ///
    /// The session is required, and the agent cannot go on with any.
    pub(super) fn old_session(
        &mut self,
        id: LaneId,
    ) -> Result<Option<(&'static str, String)>, LoadError> {
        let (can_resume, can_load) = (self.agent.resume_session, self.agent.load_session);
        let Some(lane) = self.lanes.get_mut(&id) else {
            return Ok(None);
        };
        let Some(resume) = &lane.resume else {
            return Ok(None);
        };
        let method = match (can_resume, can_load) {
            (true, _) => method::SESSION_RESUME,
            (false, true) => method::SESSION_LOAD,
            (false, false) => {
                let why = "the agent can neither resume nor load a session";
                if resume.required {
                    return Err(LoadError::InvalidOptions(why.to_owned()));
                }
                lane.resume_error = Some(why.to_owned());
                lane.resume = None;
                return Ok(None);
            }
        };
        let session_id = resume.session_id.clone();
        lane.set_opening(method);
        // What the agent repeats belongs to this lane, and to no turn of it.
        lane.session = Some(SessionInfo {
            session_id: session_id.clone(),
            ..SessionInfo::default()
        });
        lane.outside_turn = 0;
        self.lane_of_session.insert(session_id.clone(), id);
        Ok(Some((method, session_id)))
    }

    pub(super) fn old_session_answered(&mut self, id: LaneId, outcome: Outcome<'_>, now: Instant) {
        let Some(method) = self.opening_method(id) else {
            return;
        };
        match self.read_outcome(method, outcome, read_old_session) {
            Ok(answered) => {
                let Some(lane) = self.lanes.get_mut(&id) else {
                    return;
                };
                // What came since the request counts, unless the answer has it anew.
                let mut session = lane.session.take().unwrap_or_default();
                session.resumed = true;
                for (known, answered) in [
                    (&mut session.modes, answered.modes),
                    (&mut session.config_options, answered.config_options),
                ] {
                    if !answered.is_null() {
                        *known = answered;
                    }
                }
                lane.session_opened(session);
                // Once it is given up, it is not to go on again.
                lane.resume = None;
                if method == method::SESSION_LOAD {
                    lane.replay_until = Some(now + SETTLE_LIMIT);
                    self.replay_goes_on(id, now);
                } else {
                    self.set_mode(id, now);
                }
            }
            Err(error) => self.old_session_failed(id, error, now),
        }
    }

    /// Something has come for a session that may still be repeated.
    pub(super) fn replay_goes_on(&mut self, id: LaneId, now: Instant) {
        let until = self.lanes.get(&id).and_then(|lane| lane.replay_until);
        if let Some(until) = until {
            self.timers
                .set(Timer::Replay(id), until.min(now + SETTLE_WINDOW));
        }
    }

    /// The agent has said what there was.
    pub(super) fn replay_over(&mut self, id: LaneId, now: Instant) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.replay_until = None;
            lane.outside_turn = 0;
            self.set_mode(id, now);
        }
    }

    pub(super) fn old_session_failed(&mut self, id: LaneId, error: LoadError, now: Instant) {
        self.unclaim_session(id);
        let Some(lane) = self.opening_lane(id) else {
            return;
        };
        let first = lane.opens_first();
        match error {
            LoadError::AuthRequired(error) => self.log_in(id, error, now),
            error if lane.resume.as_ref().is_some_and(|resume| resume.required) => {
                self.opening_failed(id, error, now);
            }
            error => {
                lane.resume = None;
                lane.resume_error = Some(error.to_string());
                self.open_session(id, first, now);
            }
        }
    }

    /// The lane has no session after all.
    fn unclaim_session(&mut self, id: LaneId) {
        let session = self.lanes.get_mut(&id).and_then(|lane| lane.session.take());
        if let Some(session) = session {
            self.lane_of_session.remove(&session.session_id);
        }
    }
}
