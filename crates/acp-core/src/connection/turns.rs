//! Turns: from the queue to the wire, and every way in which they end.

use std::time::{Duration, Instant};

use super::{Call, Connection, Event, LaneId, Phase, SETTLE_LIMIT, SETTLE_WINDOW, Settle, TurnId};
use crate::error::{GenerateError, LoadError};
use crate::prompt;
use crate::protocol::{CancelNotification, ContentBlock, PromptRequest, PromptResult, method};
use crate::reply::Expected;
use crate::request::GenerateRequest;
use crate::timer::Timer;
use crate::turn::{Answer, CancelCause, IDLE_STRETCH, Stage, Turn, TurnOptions};
use crate::wire;

/// How long a lane holds back its next prompt after an error answer. An agent has been seen to lose a
/// prompt that came within a millisecond of its own error, and nobody but a program is that fast.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

impl Connection {
    /// Puts a turn on a lane. Turns of one lane run one after the other, in this order; each ends with
    /// one [`Event::TurnEnded`].
    ///
    /// # Errors
    ///
    /// `invalid_request` if the request holds content that the agent does not take, `busy` if the
    /// lane's queue is full, and whatever ended the lane or the connection. Nothing has been sent then.
    pub fn prompt(
        &mut self,
        lane: LaneId,
        request: &GenerateRequest,
        options: TurnOptions,
        now: Instant,
    ) -> Result<TurnId, GenerateError> {
        if let Phase::Ended(error) = &self.phase {
            return Err(error.clone().into_turn(String::new()));
        }
        let queued = match self.lanes.get(&lane) {
            Some(state) => {
                state
                    .usable()
                    .map_err(|error| error.into_turn(String::new()))?;
                state.queue.len()
            }
            None => {
                return Err(GenerateError::Closed {
                    partial: String::new(),
                });
            }
        };
        if queued >= self.options.max_queue {
            return Err(GenerateError::Busy { queued });
        }
        prompt::check(&request.messages, self.agent.prompt)
            .map_err(GenerateError::InvalidRequest)?;
        let id = TurnId(self.new_key());
        let mut turn = Turn::new(id, lane, options, now);
        turn.expected = Expected::of(request);
        if self.holds_requests() {
            turn.request = Some(request.clone());
        } else {
            turn.prompt = prompt::full_request(request);
        }
        self.turns.insert(id, Box::new(turn));
        self.timers
            .set_after(Timer::Deadline(id), now, options.deadline);
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.queue.push_back(id);
        }
        self.start_next(lane, now);
        Ok(id)
    }

    /// Cancels a turn. One that waits ends at once and is never sent; one that runs ends when the agent
    /// has confirmed it, or after [`cancel_grace`](super::ConnectionOptions::cancel_grace); for one that
    /// has ended nothing happens.
    pub fn cancel(&mut self, turn: TurnId, now: Instant) {
        self.cancel_because(turn, CancelCause::Host, now);
    }

    /// The turn that a lane runs now.
    pub fn running(&self, lane: LaneId) -> Option<TurnId> {
        self.lanes.get(&lane)?.running
    }

    /// Sends the prompt of the turn that is the next one of its lane.
    pub(super) fn send_prompt(
        &mut self,
        id: TurnId,
        lane: LaneId,
        prompt: &[ContentBlock],
        now: Instant,
    ) {
        let (Some(turn), Some(lane)) = (self.turns.get_mut(&id), self.lanes.get_mut(&lane)) else {
            return;
        };
        lane.queue.pop_front();
        lane.running = Some(id);
        lane.host_tools = turn.expected.is_some();
        let session = lane.session.as_ref();
        let session_id = session.map_or("", |session| &session.session_id).to_owned();
        turn.stage = Stage::Running;
        turn.last_activity = now;
        turn.sent_at = now;
        turn.stray_before = self.stray;
        turn.dropped.outside_turn = std::mem::take(&mut lane.outside_turn);
        let idle = turn.options.idle_timeout;
        self.send_prompt_request(id, &session_id, prompt, idle, now);
    }

    fn send_prompt_request(
        &mut self,
        id: TurnId,
        session_id: &str,
        prompt: &[ContentBlock],
        idle: Option<Duration>,
        now: Instant,
    ) {
        self.timers.set_after(Timer::Idle(id), now, idle);
        self.send_request(
            Call::Prompt(id),
            method::SESSION_PROMPT,
            PromptRequest { session_id, prompt },
        );
    }

    /// The agent has answered the prompt.
    pub(super) fn prompt_answered(&mut self, id: TurnId, answer: Answer, now: Instant) {
        let Some(turn) = self.turns.get_mut(&id) else {
            return;
        };
        let wait = turn.cancel.is_none()
            && match (&answer, self.options.settle) {
                (Answer::Error(_) | Answer::Invalid(_), _) | (_, Settle::Never) => false,
                (_, Settle::Always) => true,
                (Answer::Result(result), Settle::Adaptive) => {
                    // Half a reply may have the rest on its way, as an empty one may have all of it.
                    let lacks = turn.text().is_empty() || turn.has_fault();
                    self.late_seen || (lacks && ended_well(result))
                }
            };
        let lane = turn.lane;
        let failed = matches!(answer, Answer::Error(_) | Answer::Invalid(_));
        turn.answer = Some(answer);
        if failed && let Some(lane) = self.lanes.get_mut(&lane) {
            lane.pause_until = Some(now + ERROR_PAUSE);
        }
        self.timers.stop_waiting(id);
        self.cancel_asked_of(id, now);
        if wait {
            if let Some(turn) = self.turns.get_mut(&id) {
                turn.stage = Stage::Settling {
                    until: now + SETTLE_LIMIT,
                };
            }
            self.timers.set(Timer::Settle(id), now + SETTLE_WINDOW);
        } else {
            self.conclude(id, now);
        }
    }

    /// The reply is whole: it ends the turn, or is asked for once more.
    fn conclude(&mut self, id: TurnId, now: Instant) {
        match self.turns.get(&id).and_then(|turn| turn.fault()) {
            Some(fault) if self.may_repair(id) => self.repair(id, fault, now),
            _ => self.end_turn(id, now),
        }
    }

    fn may_repair(&self, id: TurnId) -> bool {
        let most = usize::try_from(self.options.max_repairs).unwrap_or(usize::MAX);
        self.turns.get(&id).is_some_and(|turn| {
            let lane = self.lanes.get(&turn.lane);
            turn.cancel.is_none()
                && turn.repairs() < most
                && lane.is_some_and(|lane| !lane.is_closed())
        })
    }

    /// Asks the session for the reply once more.
    fn repair(&mut self, id: TurnId, fault: String, now: Instant) {
        let Some(turn) = self.turns.get_mut(&id) else {
            return;
        };
        let prompt = prompt::repair(&fault);
        turn.begin_repair(fault, now);
        let idle = turn.options.idle_timeout;
        let lane = self.lanes.get(&turn.lane);
        let session = lane.and_then(|lane| lane.session.as_ref());
        let session_id = session.map_or("", |session| &session.session_id).to_owned();
        self.send_prompt_request(id, &session_id, &prompt, idle, now);
    }

    /// Late text has come while the turn settles: the window begins anew.
    pub(super) fn settle_again(&mut self, id: TurnId, now: Instant) {
        if let Some(turn) = self.turns.get(&id)
            && let Stage::Settling { until } = turn.stage
        {
            self.late_seen = true;
            let at = until.min(now + SETTLE_WINDOW);
            self.timers.set(Timer::Settle(id), at);
        }
    }

    pub(super) fn settled(&mut self, id: TurnId, now: Instant) {
        self.conclude(id, now);
    }

    /// Nothing has come for a while. The clock is read lazily, so that a chunk costs one store: the
    /// timer is moved on if something came since it was set.
    pub(super) fn idle_timeout(&mut self, id: TurnId, now: Instant) {
        let Some(turn) = self.turns.get(&id) else {
            return;
        };
        let Some(limit) = turn.options.idle_timeout else {
            return;
        };
        let stretched = turn.has_open_tools() || self.is_asked_of(turn.lane);
        let allowed = if stretched {
            limit.saturating_mul(IDLE_STRETCH)
        } else {
            limit
        };
        match turn.last_activity.checked_add(allowed) {
            Some(due) if due <= now => self.cancel_because(id, CancelCause::Idle(limit), now),
            Some(due) => self.timers.set(Timer::Idle(id), due),
            None => {}
        }
    }

    /// The session has shown a sign of life that ends a stretch of the idle clock.
    pub(super) fn idle_from_now(&mut self, id: TurnId, now: Instant) {
        if let Some(turn) = self.turns.get(&id)
            && turn.stage == Stage::Running
            && turn.cancel.is_none()
        {
            let limit = turn.options.idle_timeout;
            self.timers.set_after(Timer::Idle(id), now, limit);
        }
    }

    pub(super) fn deadline(&mut self, id: TurnId, now: Instant) {
        let limit = self
            .turns
            .get(&id)
            .and_then(|turn| turn.options.deadline)
            .unwrap_or(Duration::ZERO);
        self.cancel_because(id, CancelCause::Deadline(limit), now);
    }

    /// The agent has ignored the cancel: the turn ends without it, and so does its session, because
    /// what it still sends cannot be told from an answer to the next prompt.
    pub(super) fn cancel_grace_over(&mut self, id: TurnId, now: Instant) {
        if let Some(lane) = self.turns.get(&id).map(|turn| turn.lane)
            && let Some(lane) = self.lanes.get_mut(&lane)
        {
            lane.give_up_session();
        }
        self.pending.retain(|call| *call != Call::Prompt(id));
        self.end_turn(id, now);
    }

    fn cancel_because(&mut self, id: TurnId, cause: CancelCause, now: Instant) {
        let Some(turn) = self.turns.get_mut(&id) else {
            return;
        };
        match turn.stage {
            // It was answered already: the cancel is too late, and the answer stands, if it is one.
            Stage::Settling { .. } => {
                if turn.fault().is_some() {
                    turn.cancel = Some(cause);
                }
                self.end_turn(id, now);
            }
            Stage::Queued => {
                turn.cancel = Some(cause);
                let lane = turn.lane;
                if let Some(lane) = self.lanes.get_mut(&lane) {
                    lane.queue.retain(|&queued| queued != id);
                }
                self.end_turn(id, now);
            }
            // The first cause counts, and one `session/cancel` is enough.
            Stage::Running if turn.cancel.is_some() => {}
            Stage::Running => {
                turn.cancel = Some(cause);
                let lane = turn.lane;
                self.send_cancel(lane);
                self.timers.stop(Timer::Idle(id));
                self.timers.stop(Timer::Deadline(id));
                let grace = self.options.cancel_grace;
                self.timers.set_after(Timer::CancelGrace(id), now, grace);
                let half = grace.map(|grace| grace / 2);
                self.timers.set_after(Timer::CancelAgain(id), now, half);
                self.cancel_asked_of(id, now);
            }
        }
    }

    /// Half of the grace is over. An agent that went on may have read the cancel before it knew of the turn,
    /// and is told once more.
    pub(super) fn cancel_again(&mut self, id: TurnId) {
        if let Some(turn) = self.turns.get(&id)
            && turn.went_on
        {
            self.send_cancel(turn.lane);
        }
    }

    fn send_cancel(&mut self, lane: LaneId) {
        let session = self.lanes.get(&lane).and_then(|lane| lane.session.as_ref());
        if let Some(session) = session {
            let line = wire::notification(
                method::SESSION_CANCEL,
                CancelNotification {
                    session_id: &session.session_id,
                },
            );
            self.send(line);
        }
    }

    /// Ends a turn with what it came to, and lets the lane go on.
    fn end_turn(&mut self, id: TurnId, now: Instant) {
        let Some(mut turn) = self.turns.remove(&id) else {
            return;
        };
        self.timers.stop_turn(id);
        if turn.stage != Stage::Queued {
            turn.dropped.noise = self.stray.noise - turn.stray_before.noise;
            turn.dropped.other_sessions =
                self.stray.other_sessions - turn.stray_before.other_sessions;
            turn.dropped.requests = self.stray.requests - turn.stray_before.requests;
        }
        let lane = turn.lane;
        if let Some(lane) = self.lanes.get_mut(&lane)
            && lane.running == Some(id)
        {
            lane.running = None;
            lane.turns_done += 1;
            if lane.is_closed() {
                self.forget_lane(turn.lane, now);
            }
        }
        let ran = turn.stage != Stage::Queued;
        self.hand_out_events(&mut turn);
        // A repair is not in the host's conversation, nor is prose around a JSON object.
        let differs = self.holds_requests() && turn.differs();
        let sent = turn.request.take();
        let result = turn.finish(&self.agent.auth_methods, &|| self.diagnostics());
        if ran && self.holds_requests() {
            let answer = result.as_ref().ok().filter(|_| !differs);
            self.note_history(lane, sent, answer);
        }
        self.event(Event::TurnEnded(id, Box::new(result)));
        self.start_next(lane, now);
        self.open_spare(lane, now);
    }

    /// Ends a turn that never ran.
    pub(super) fn fail_turn(&mut self, id: TurnId, error: LoadError) {
        if let Some(turn) = self.turns.remove(&id) {
            self.timers.stop_turn(id);
            let result = Err(error.into_turn(turn.into_partial()));
            self.event(Event::TurnEnded(id, Box::new(result)));
        }
    }
}

/// Whether the agent says that the turn ended as it should.
fn ended_well(result: &PromptResult) -> bool {
    result.stop_reason == "end_turn"
}
