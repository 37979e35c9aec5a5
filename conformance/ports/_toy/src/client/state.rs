//! Which session a turn gets, and what of its request goes there.

use std::time::Instant;

use serde_json::{Value, json};

use super::history::History;
use super::{Client, Opening, Pending};
use crate::mutant::{Mutant, broken};
use crate::options::State;
use crate::prompt::{rest, whole};
use crate::reply::without_fence;
use crate::turn::{Reply, Turn};

/// The session that a lane will need next.
#[derive(Default)]
pub(super) enum Spare {
    #[default]
    None,
    /// Asked for; whether a turn waits for it.
    Opening(bool),
    Open(String),
}

impl Client {
    /// The prompt of the lane's next turn. `None` while its session has to be opened first.
    pub(super) fn prompt_of_next(&mut self, name: &str) -> Option<Vec<Value>> {
        let lane = self.lanes.get_mut(name)?;
        let turn = lane.waiting.front_mut()?;
        if self.options.state == State::Full {
            return lane.session.is_some().then(|| whole(turn, true));
        }
        let full = whole(turn, broken(Mutant::FreshSessionMarked));
        if lane.session.is_some()
            && let Some(seen) = &lane.history
        {
            if seen.messages.is_empty() {
                return Some(full);
            }
            let delta = self.options.state == State::Delta || broken(Mutant::FreshSessionReused);
            if delta && let Some(unseen) = seen.unseen(turn) {
                let prompt = rest(turn, &unseen);
                // From here on the turn is what the session knows of it.
                turn.messages = [&*seen.messages, &*unseen].concat();
                return Some(if broken(Mutant::DeltaIsFull) {
                    full
                } else {
                    prompt
                });
            }
        } else if lane.session.is_some() && broken(Mutant::DeltaAfterFailure) {
            return Some(rest(turn, turn.messages.last().map(std::slice::from_ref)?));
        }
        if let Some(old) = lane.session.take() {
            (lane.outside_turn, lane.used) = (0, false);
            self.let_go(old);
        }
        let lane = self.lanes.get_mut(name)?;
        match &mut lane.spare {
            Spare::Open(session) => {
                lane.session = Some(std::mem::take(session));
                lane.spare = Spare::None;
                lane.history = Some(History::default());
                Some(full)
            }
            Spare::Opening(wanted) => {
                *wanted = true;
                None
            }
            Spare::None => None,
        }
    }

    /// Whether a turn of the lane waits for its spare session.
    pub(super) fn awaits_spare(&self, name: &str) -> bool {
        let lane = self.lanes.get(name);
        lane.is_some_and(|lane| matches!(lane.spare, Spare::Opening(true)))
    }

    /// A session that the client needs no more.
    fn let_go(&mut self, session: String) {
        if self.closes_sessions {
            if !broken(Mutant::OldSessionNotClosed) {
                self.close_session(session.clone());
            }
        } else {
            self.unclosed += 1;
        }
        self.given_up.insert(session);
    }

    pub(super) fn close_session(&mut self, session: String) {
        let limit = self.options.startup_timeout;
        let params = json!({"sessionId": session});
        let ends_at = limit.map(|limit| Instant::now() + limit);
        let pending = Pending::CloseSession(session, ends_at);
        self.request("session/close", params, pending);
    }

    /// A session that the agent has closed may come again; one that it has not piles up.
    pub(super) fn close_answered(&mut self, session: &str, reply: &Reply) {
        if !matches!(reply, Reply::Result(_)) {
            self.unclosed += usize::from(!broken(Mutant::RefusedCloseCloses));
        } else if !broken(Mutant::ClosedIdRefused) {
            self.given_up.remove(session);
        }
    }

    /// Waits no longer for the answers to `session/close` that have not come in time.
    pub(super) fn close_overdue(&mut self, now: Instant) {
        let before = self.pending.len();
        self.pending.retain(|_, pending| {
            !matches!(pending, Pending::CloseSession(_, Some(ends_at)) if *ends_at <= now)
        });
        if !broken(Mutant::CloseAwaitedForEver) {
            self.unclosed += before - self.pending.len();
        }
    }

    /// Notes what the session holds after a turn, and opens the next one while nobody waits.
    pub(super) fn turn_is_over(&mut self, name: &str, turn: &Turn, answer: Option<&Value>) {
        let state = self.options.state;
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        if state == State::Full {
            return;
        }
        // What was sent to have a reply repaired is in no request.
        let known = answer.filter(|_| turn.repairs == 0 || broken(Mutant::DeltaAfterRepair));
        // Nor is prose around an object, or an id that the session does not know.
        let text = lane.output.text();
        let known = known.filter(|answer| {
            turn.form.is_none() || is_all_of(&text, answer) || broken(Mutant::DeltaAfterProse)
        });
        lane.history = known.map(|answer| {
            let mut said = json!({"role": "assistant", "content": answer["content"]});
            if let Some(calls @ [_, ..]) = answer["tool_calls"].as_array().map(Vec::as_slice) {
                said["tool_calls"] = calls.into();
                if said["content"] == "" {
                    said["content"] = Value::Null;
                }
            }
            let mut messages = turn.messages.clone();
            messages.push(said);
            let extras = turn.extras.clone();
            let told = turn.form.is_some();
            History {
                messages,
                extras,
                told,
            }
        });
        // One that has to be set to something first is left to the turn that needs it.
        let plain = self.options.mode.is_none() && self.options.config_options.is_empty();
        let idle = plain && lane.waiting.is_empty() && lane.session.is_some();
        if idle
            && (self.options.spare || broken(Mutant::SpareUnasked))
            && matches!(lane.spare, Spare::None)
            && !broken(Mutant::NoSpare)
        {
            lane.spare = Spare::Opening(false);
            let params = self.session_params();
            self.request("session/new", params, Pending::Spare(name.to_owned()));
        }
    }

    pub(super) fn spare_answered(&mut self, name: &str, reply: Reply) {
        let opened = match reply {
            Reply::Result(result) => result["sessionId"].as_str().map(str::to_owned),
            Reply::Error(_) | Reply::Invalid if broken(Mutant::SpareErrorIsFatal) => {
                return self.handle_end();
            }
            Reply::Error(_) | Reply::Invalid => None,
        };
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        lane.spare = opened.map_or(Spare::None, Spare::Open);
        if self.options.state == State::Fresh
            && lane.running.is_none()
            && let Spare::Open(session) = &mut lane.spare
            && let Some(old) = lane.session.replace(std::mem::take(session))
        {
            // The old one is of no use any more.
            lane.spare = Spare::None;
            lane.history = Some(History::default());
            (lane.outside_turn, lane.used) = (0, false);
            self.let_go(old);
        }
        self.start_waiting();
    }

    /// Whether the agent holds so many sessions of no use that a new process is due.
    pub fn is_worn_out(&self) -> bool {
        let most = self.options.max_given_up_sessions;
        let busy = |lane: &super::Lane| {
            lane.running.is_some() || !lane.waiting.is_empty() || lane.opening.is_some()
        };
        self.over.is_none()
            && most.is_some_and(|most| self.unclosed >= most)
            && !self.lanes.values().any(busy)
            && !broken(Mutant::NeverWornOut)
    }

    /// Opens the session that the lane's next turn needs.
    pub(super) fn reopen(&mut self, name: &str) {
        let opening: Opening = self.opening(None);
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.opening = Some(opening);
        }
        self.new_session(name);
    }
}

/// Whether a reply says what the host was given of it, and nothing else.
fn is_all_of(reply: &str, answer: &Value) -> bool {
    let bare = without_fence(reply);
    let calls = answer["tool_calls"].as_array().into_iter().flatten();
    let mut ids = calls.map(|call| &call["id"]);
    answer["content"] == reply
        || serde_json::from_str::<Value>(bare).is_ok()
            && ids.all(|id| bare.contains(&id.to_string()))
}
