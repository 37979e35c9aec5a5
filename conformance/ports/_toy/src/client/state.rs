//! Which session a turn gets, and what of its request goes there.

use serde_json::{Value, json};

use super::{Client, Opening, Pending};
use crate::mutant::{Mutant, broken};
use crate::options::State;
use crate::prompt::{lines, render};
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
    pub(super) fn prompt_of_next(&mut self, name: &str) -> Option<String> {
        let lane = self.lanes.get_mut(name)?;
        let messages = &lane.waiting.front()?.messages;
        if self.options.state == State::Full {
            return lane.session.is_some().then(|| render(messages));
        }
        let marked = broken(Mutant::FreshSessionMarked);
        let full = if marked {
            render(messages)
        } else {
            lines(messages)
        };
        if lane.session.is_some()
            && let Some(seen) = &lane.history
        {
            if seen.is_empty() {
                return Some(full);
            }
            let delta = self.options.state == State::Delta || broken(Mutant::FreshSessionReused);
            if delta && is_seen(seen, messages) {
                let unseen = messages.get(seen.len()..).unwrap_or_default();
                return Some(if broken(Mutant::DeltaIsFull) {
                    full
                } else {
                    lines(unseen)
                });
            }
        } else if lane.session.is_some() && broken(Mutant::DeltaAfterFailure) {
            return Some(lines(messages.last().map(std::slice::from_ref)?));
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
                lane.history = Some(Vec::new());
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
                let params = json!({"sessionId": session});
                self.request("session/close", params, Pending::CloseSession);
            }
        } else {
            self.unclosed += 1;
        }
        self.given_up.insert(session);
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
        lane.history = answer.map(|answer| {
            let mut seen = turn.messages.clone();
            seen.push(json!({"role": "assistant", "content": answer["content"]}));
            seen
        });
        let idle = lane.waiting.is_empty() && lane.session.is_some();
        if idle
            && (self.options.spare || broken(Mutant::SpareUnasked))
            && matches!(lane.spare, Spare::None)
            && !broken(Mutant::NoSpare)
        {
            lane.spare = Spare::Opening(false);
            let params = json!({"cwd": self.options.cwd, "mcpServers": []});
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
            lane.history = Some(Vec::new());
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

/// Whether a request begins with all that the session holds, and goes on.
fn is_seen(seen: &[Value], messages: &[Value]) -> bool {
    if messages.len() <= seen.len() {
        return broken(Mutant::DeltaOfRetry) && !messages.is_empty();
    }
    let differs = |(index, (a, b)): (usize, (&Value, &Value))| {
        let unseen_edit = broken(Mutant::DeltaTrustsAnswer) && a["role"] == "assistant"
            || broken(Mutant::DeltaTrustsQuestions) && a["role"] == "user" && index > 0;
        a != b && !unseen_edit
    };
    broken(Mutant::DeltaUnverified) || !seen.iter().zip(messages).enumerate().any(differs)
}
