//! Turns: their start, their limits, their cancels and their end.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{Client, Lane, Pending, Settling, with_partial};
use crate::mutant::{Mutant, broken};
use crate::options::Settle;
use crate::output::Output;
use crate::tools::again;
use crate::turn::{Cancel, Reply, Turn, has_fault, settle};
use crate::{fail, succeed};

/// How long after the answer to its prompt text is waited for, again after each that comes.
const SETTLE_WINDOW: Duration = Duration::from_millis(250);
/// How long at most.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);

/// How much longer a session may be silent while a tool runs or the host thinks about a permission.
const IDLE_STRETCH: u32 = 6;

impl Client {
    /// Cancels the turn of the call `target`, whether it waits, runs or has ended.
    pub fn cancel(&mut self, target: &Value) {
        let mut running = None;
        for (name, lane) in &mut self.lanes {
            let waits_at = lane.waiting.iter().position(|turn| turn.seq == *target);
            let runs = lane
                .running
                .as_ref()
                .is_some_and(|turn| turn.seq == *target);
            if let Some(turn) = waits_at.and_then(|at| lane.waiting.remove(at)) {
                fail(&turn.seq, ("cancelled", Map::new()));
            }
            if runs
                || broken(Mutant::CancelHitsRunningTurn) && waits_at.is_some()
                || broken(Mutant::CancelsEndedTurn) && waits_at.is_none()
            {
                running = Some(name.clone());
            }
        }
        if let Some(name) = running {
            self.cancel_running(&name, "cancelled");
        }
    }

    /// When `handle_timeout` has something to do next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let lanes = self.lanes.values().flat_map(|lane| {
            let opening = lane.opening.as_ref().and_then(|opening| opening.ends_at);
            let settling = lane.settling.as_ref().map(|one| one.window_ends);
            let turns = lane.running.iter().chain(&lane.waiting);
            let turns = turns.flat_map(|turn| [turn.ends_at, turn.idle_at, turn.cancel_again_at()]);
            let replay = lane.replay.as_ref().map(|replay| replay.quiet_at);
            turns.chain([opening, settling, replay])
        });
        let asked = self.asked.iter().map(|asked| asked.ends_at);
        let closes = self.pending.values().map(|pending| match pending {
            Pending::CloseSession(_, ends_at) => *ends_at,
            _ => None,
        });
        lanes.chain(asked).chain(closes).flatten().min()
    }

    pub fn handle_timeout(&mut self) {
        let now = Instant::now();
        self.answer_overdue(now);
        self.close_overdue(now);
        let names: Vec<String> = self.lanes.keys().cloned().collect();
        for name in names {
            match self.lanes.get_mut(&name).and_then(|lane| lane.due(now)) {
                None => {}
                Some(Due::ReplayOver) => self.replay_over(&name),
                Some(Due::Opening) => self.opening_overdue(&name),
                Some(Due::Waiting(seq)) => fail(&seq, ("deadline_exceeded", Map::new())),
                Some(Due::Settled(reply)) => self.turn_ended(&name, reply),
                Some(Due::Limit(kind)) => self.cancel_running(&name, kind),
                Some(Due::CancelAgain) => self.send_cancel(&name),
                Some(Due::GiveUp) => self.give_up(&name),
            }
        }
    }

    /// Sends the next prompt of each lane that is open and idle.
    pub(super) fn start_waiting(&mut self) {
        let names: Vec<String> = self.lanes.keys().cloned().collect();
        for name in names {
            let somebody_runs = self.lanes.values().any(|lane| lane.running.is_some());
            let Some(lane) = self.lanes.get_mut(&name) else {
                continue;
            };
            let idle = lane.opening.is_none()
                && (lane.running.is_none() || broken(Mutant::PromptsNotQueued));
            if !idle || lane.waiting.is_empty() || broken(Mutant::LanesSerialised) && somebody_runs
            {
                continue;
            }
            let Some(prompt) = self.prompt_of_next(&name) else {
                if !self.awaits_spare(&name) {
                    self.reopen(&name);
                }
                continue;
            };
            let Some(lane) = self.lanes.get_mut(&name) else {
                continue;
            };
            let Some(mut turn) = lane.waiting.pop_front() else {
                continue;
            };
            if !broken(Mutant::TextNotCleared) {
                lane.output = Output::default();
            }
            for _ in 0..std::mem::take(&mut lane.outside_turn) {
                lane.output.count("outside_turn");
            }
            let now = Instant::now();
            if broken(Mutant::WaitingIsFree) {
                turn.ends_at = turn.deadline.map(|limit| now + limit);
            }
            turn.idle_at = turn.idle_timeout.map(|limit| now + limit);
            let params = json!({"sessionId": lane.session, "prompt": prompt});
            self.had_form |= turn.form.is_some();
            lane.had_form = turn.form.is_some();
            lane.running = Some(turn);
            lane.used = true;
            if broken(Mutant::SessionEachTurn) {
                self.new_session(&name);
            }
            self.request("session/prompt", params, Pending::Prompt(name));
        }
    }

    /// The agent has answered the prompt. Text may still come, since some agents send it late.
    pub(super) fn prompt_answered(&mut self, name: &str, reply: Reply) {
        let now = Instant::now();
        let mode = if broken(Mutant::SettleOptionIgnored) {
            Settle::Adaptive
        } else {
            self.options.settle
        };
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        let cancelled = lane
            .running
            .as_ref()
            .is_some_and(|turn| turn.cancel.is_some());
        let faulty = lane
            .running
            .as_ref()
            .is_some_and(|turn| has_fault(turn, &lane.output));
        let may_be_late = match (&reply, mode) {
            (Reply::Error(_) | Reply::Invalid, _) | (_, Settle::Never) => false,
            (_, Settle::Always) => true,
            (Reply::Result(result), Settle::Adaptive) => {
                let faulty = faulty && !broken(Mutant::FaultNotAwaited);
                let unfinished = lane.output.text().is_empty() || faulty;
                self.was_late || unfinished && result["stopReason"] == "end_turn"
            }
        };
        if cancelled || !may_be_late || broken(Mutant::LateTextNotAwaited) {
            return self.turn_ended(name, reply);
        }
        if let Some(turn) = &mut lane.running {
            // A reply with a fault is not the end of its turn.
            turn.ends_at = turn.ends_at.filter(|_| faulty);
            turn.idle_at = None;
        }
        lane.settling = Some(Settling {
            reply,
            window_ends: now + SETTLE_WINDOW,
            ends_at: now + SETTLE_LIMIT,
        });
    }

    pub(super) fn turn_ended(&mut self, name: &str, reply: Reply) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        let Some(mut turn) = lane.running.take() else {
            return;
        };
        if broken(Mutant::CancelledReplyRepaired) && has_fault(&turn, &lane.output) {
            turn.cancel = None;
        }
        let failed = matches!(reply, Reply::Error(_));
        let cut = matches!(&reply, Reply::Result(result) if result["stopReason"] == "max_tokens");
        let is_empty = lane.output.text().is_empty();
        if turn.form.is_some()
            && turn.repairs == 0
            && (broken(Mutant::EmptyReplyRepaired) && is_empty
                || broken(Mutant::RefusalRepaired) && has_fault(&turn, &lane.output))
        {
            return self.ask_again(name, turn, "");
        }
        let mut result = settle(&turn, &lane.output, reply, self.options.allow_empty_turn);
        if let Err(("malformed_reply", fields)) = &result
            && self.may_repair(&turn)
            && !(cut && broken(Mutant::FaultAtLimitIsFinal))
        {
            let fault = fields["fault"].as_str().unwrap_or_default().to_owned();
            return self.ask_again(name, turn, &fault);
        }
        if let Err(("auth_required", fields)) = &mut result
            && !broken(Mutant::AuthMethodsDropped)
        {
            fields.insert("methods".to_owned(), json!(self.auth_methods));
        }
        self.turn_is_over(name, &turn, result.as_ref().ok());
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        match result {
            Ok(value) => succeed(&turn.seq, value),
            Err(failure) => fail(&turn.seq, with_partial(failure, lane.output.text())),
        }
        if failed && broken(Mutant::PromptErrorEndsProcess) {
            self.close();
        }
        if self.over.is_none() {
            self.start_waiting();
        }
    }

    fn may_repair(&self, turn: &Turn) -> bool {
        let most = if broken(Mutant::RepairLimitIgnored) {
            2
        } else {
            self.options.max_repairs
        };
        let left = turn.repairs < most || broken(Mutant::RepairsUnlimited);
        self.over.is_none() && left
    }

    /// Asks for a reply once more that has this fault. It is the same turn.
    fn ask_again(&mut self, name: &str, mut turn: Turn, fault: &str) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        let now = Instant::now();
        turn.repairs += 1;
        turn.idle_at = turn.idle_timeout.map(|limit| now + limit);
        if broken(Mutant::RepairStartsDeadline) {
            turn.ends_at = turn.deadline.map(|limit| now + limit);
        }
        if !broken(Mutant::RepairKeepsText) {
            lane.output.clear_text();
        }
        lane.running = Some(turn);
        let params = json!({"sessionId": lane.session, "prompt": again(fault)});
        if broken(Mutant::RepairOpensSession) {
            self.new_session(name);
        }
        self.request("session/prompt", params, Pending::Prompt(name.to_owned()));
    }

    /// Begins the idle limit of a lane anew.
    pub(super) fn restart_idle(&mut self, name: &str) {
        self.restart_idle_from(name, Instant::now());
    }

    pub(super) fn restart_idle_from(&mut self, name: &str, now: Instant) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        let asked = self.asked.iter().any(|one| one.session == lane.session);
        let stretch = if lane.output.has_open_tools() && !broken(Mutant::ToolsMustBeQuick)
            || asked && !broken(Mutant::HostMustBeQuick)
        {
            IDLE_STRETCH
        } else {
            1
        };
        let Some(turn) = lane.running.as_mut().filter(|turn| turn.cancel.is_none()) else {
            return;
        };
        if lane.settling.is_none() && !broken(Mutant::IdleNotRestarted) {
            turn.idle_at = turn.idle_timeout.map(|idle| now + idle * stretch);
        }
        if broken(Mutant::DeadlineStartsAgain) {
            turn.ends_at = turn.deadline.map(|limit| now + limit * stretch);
        }
    }

    /// Asks the agent to stop; its answer to the prompt then settles the turn as `kind`.
    fn cancel_running(&mut self, name: &str, kind: &'static str) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        if let Some(settling) = lane.settling.take()
            && !broken(Mutant::CancelUndoesAnswer)
        {
            if let Some(turn) = &mut lane.running
                && has_fault(turn, &lane.output)
            {
                let (again_at, goes_on) = (None, false);
                turn.cancel = Some(Cancel {
                    kind,
                    again_at,
                    goes_on,
                });
            }
            // It was answered already.
            return self.turn_ended(name, settling.reply);
        }
        if let Some(turn) = &mut lane.running {
            if turn.cancel.is_some() {
                if broken(Mutant::SecondCancelSent) {
                    self.send_cancel(name);
                }
                return;
            }
            let grace = self.options.cancel_grace;
            let now = Instant::now();
            turn.cancel = Some(Cancel {
                kind,
                again_at: grace.map(|grace| now + grace / 2),
                goes_on: broken(Mutant::CancelAlwaysRepeated),
            });
            turn.ends_at = grace
                .filter(|_| !broken(Mutant::CancelWaitsForever))
                .map(|grace| now + grace);
            turn.idle_at = None;
            if broken(Mutant::TimeoutWithoutCancel) && kind != "cancelled" {
                return self.turn_ended(name, Reply::Invalid);
            }
        }
        if broken(Mutant::CancelEndsProcess) {
            return self.process.kill();
        }
        self.send_cancel(name);
        if !broken(Mutant::CancelForgetsPermissions) {
            self.cancel_asked(name);
        }
    }

    fn send_cancel(&mut self, name: &str) {
        let name = if broken(Mutant::CancelNamesFirstSession) {
            "main"
        } else {
            name
        };
        let session = self.lanes.get(name).and_then(|lane| lane.session.clone());
        if !broken(Mutant::CancelNotSent) {
            let params = json!({"sessionId": session});
            self.process
                .send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
        }
    }

    /// The agent did not heed the cancel. The turn ends without it, and with the turn its session: what
    /// still comes there could not be told from an answer to the next prompt.
    fn give_up(&mut self, name: &str) {
        if broken(Mutant::IgnoredCancelEndsProcess) {
            return self.process.kill();
        }
        if !broken(Mutant::OldAnswerEndsNextTurn) {
            let prompt = Pending::Prompt(name.to_owned());
            self.pending.retain(|_, pending| *pending != prompt);
        }
        if let Some(lane) = self.lanes.get_mut(name)
            && !broken(Mutant::SessionKeptAfterIgnoredCancel)
            && let Some(session) = lane.session.take()
        {
            (lane.outside_turn, lane.used) = (0, false);
            self.given_up.insert(session);
        }
        self.turn_ended(name, Reply::Invalid);
    }
}

/// What a lane waited for that has come.
enum Due {
    ReplayOver,
    Opening,
    /// Which call it was.
    Waiting(Value),
    Settled(Reply),
    Limit(&'static str),
    CancelAgain,
    GiveUp,
}

impl Lane {
    fn due(&mut self, now: Instant) -> Option<Due> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let late = self.waiting.iter().position(|turn| is_due(turn.ends_at));
        if let Some(turn) = late.and_then(|at| self.waiting.remove(at)) {
            return Some(Due::Waiting(turn.seq));
        }
        if self.replay.as_ref().is_some_and(|one| one.quiet_at <= now) {
            return Some(Due::ReplayOver);
        }
        if let Some(opening) = &self.opening {
            return is_due(opening.ends_at).then_some(Due::Opening);
        }
        if self
            .settling
            .as_ref()
            .is_some_and(|one| one.window_ends <= now)
        {
            return self.settling.take().map(|one| Due::Settled(one.reply));
        }
        let turn = self.running.as_mut()?;
        if let Some(cancel) = &mut turn.cancel {
            if is_due(turn.ends_at) {
                turn.ends_at = None;
                return Some(Due::GiveUp);
            }
            let again = cancel.again_at.take_if(|at| *at <= now).is_some();
            let wanted = cancel.goes_on && !broken(Mutant::CancelNotRepeated);
            return (again && wanted).then_some(Due::CancelAgain);
        }
        if is_due(turn.ends_at) {
            return Some(Due::Limit("deadline_exceeded"));
        }
        let kind = if broken(Mutant::IdleIsDeadline) {
            "deadline_exceeded"
        } else {
            "idle_timeout"
        };
        is_due(turn.idle_at).then_some(Due::Limit(kind))
    }

    /// Text has come for a turn that was answered: more may follow.
    pub(super) fn settle_again(&mut self) {
        if let Some(settling) = &mut self.settling {
            settling.window_ends = Instant::now() + SETTLE_WINDOW;
            if !broken(Mutant::LateTextAwaitedForEver) {
                settling.window_ends = settling.window_ends.min(settling.ends_at);
            }
        }
    }
}

impl Turn {
    fn cancel_again_at(&self) -> Option<Instant> {
        self.cancel.as_ref().and_then(|cancel| cancel.again_at)
    }
}
