//! The engine's clock: a table of what is due when.
//!
//! Nothing here reads time. The connection says when something is due, the driver asks for the next
//! instant and comes back with a `now`.

use std::collections::VecDeque;
use std::time::Instant;

use crate::connection::{LaneId, TurnId};
use crate::ids::{Id, IdMap};

/// Everything the engine waits for with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The handshake of the process, `initialize`.
    Initialize,
    /// A session is being opened for this lane.
    OpenSession(LaneId),
    /// The agent still repeats the conversation of the session that this lane goes on with.
    Replay(LaneId),
    /// The request with this number is to close a session.
    CloseSession(u64),
    /// The lane holds back its next prompt.
    Pause(LaneId),
    /// Nothing came from the turn's session for too long.
    Idle(TurnId),
    /// The turn's absolute limit, counted from the call.
    Deadline(TurnId),
    /// Half of the time for the agent to end a cancelled turn.
    CancelAgain(TurnId),
    /// The agent was told to cancel and has not ended the turn.
    CancelGrace(TurnId),
    /// The turn was answered; text that is late may still come.
    Settle(TurnId),
    /// The host was asked about a request of the agent.
    Asked(u64),
}

impl Id for Timer {
    fn number(self) -> u64 {
        let (kind, number) = match self {
            Self::Initialize => (0, 0),
            Self::OpenSession(LaneId(lane)) => (1, lane),
            Self::Replay(LaneId(lane)) => (2, lane),
            Self::CloseSession(request) => (3, request),
            Self::Pause(LaneId(lane)) => (4, lane),
            Self::Deadline(TurnId(turn)) => (5, turn),
            Self::Idle(TurnId(turn)) => (6, turn),
            Self::CancelAgain(TurnId(turn)) => (7, turn),
            Self::CancelGrace(TurnId(turn)) => (8, turn),
            Self::Settle(TurnId(turn)) => (9, turn),
            Self::Asked(key) => (10, key),
        };
        // Few enough kinds for the last four bits. Those of a turn follow each other, for `stop_turn`.
        number << 4 | kind
    }
}

/// The table. Each timer is set at most once.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: IdMap<Timer, Instant>,
    /// The soonest first.
    order: VecDeque<(Instant, Timer)>,
}

impl Timers {
    /// Sets a timer, or moves it.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(before) = self.due.insert(timer, at) {
            self.take_out(before, timer);
        }
        if self.order.back().is_none_or(|last| *last < (at, timer)) {
            return self.order.push_back((at, timer));
        }
        let place = self.order.partition_point(|other| *other < (at, timer));
        self.order.insert(place, (at, timer));
    }

    /// Sets a timer unless the limit is off or lies beyond what the clock can say.
    pub(crate) fn set_after(
        &mut self,
        timer: Timer,
        now: Instant,
        limit: Option<std::time::Duration>,
    ) {
        if let Some(at) = limit.and_then(|limit| now.checked_add(limit)) {
            self.set(timer, at);
        }
    }

    /// Takes a timer back; no matter if it was not set.
    pub(crate) fn stop(&mut self, timer: Timer) {
        if let Some(at) = self.due.remove(&timer) {
            self.take_out(at, timer);
        }
    }

    /// Takes back what waits for the agent's answer to a turn.
    pub(crate) fn stop_waiting(&mut self, id: TurnId) {
        self.stop_between(Timer::Idle(id), Timer::CancelGrace(id));
    }

    /// Takes back all timers of a turn.
    pub(crate) fn stop_turn(&mut self, id: TurnId) {
        self.stop_between(Timer::Deadline(id), Timer::Settle(id));
    }

    fn stop_between(&mut self, first: Timer, last: Timer) {
        let (first, last) = (first.number(), last.number());
        while let Some((timer, at)) = self.due.pop_between(first, last) {
            self.take_out(at, timer);
        }
    }

    fn take_out(&mut self, at: Instant, timer: Timer) {
        if self.order.front() == Some(&(at, timer)) {
            self.order.pop_front();
        } else if let Ok(place) = self.order.binary_search(&(at, timer)) {
            self.order.remove(place);
        }
    }

    /// Stops everything.
    pub(crate) fn clear(&mut self) {
        self.due.clear();
        self.order.clear();
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.front().map(|&(at, _)| at)
    }

    /// Takes the next one that is due by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let &(at, timer) = self.order.front()?;
        if at > now {
            return None;
        }
        self.stop(timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn fires_in_order_and_only_when_due() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do as a start")]
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let (a, b) = (Timer::Idle(TurnId(1)), Timer::Deadline(TurnId(1)));
        let mut timers = Timers::default();
        timers.set(a, after(10));
        timers.set(b, after(5));
        timers.set(a, after(3));
        assert_eq!(timers.next(), Some(after(3)));
        assert_eq!(timers.pop(after(2)), None);
        assert_eq!(timers.pop(after(10)), Some(a));
        assert_eq!(timers.pop(after(10)), Some(b));
        assert_eq!(timers.pop(after(10)), None);
        timers.set(a, after(1));
        timers.stop(a);
        assert_eq!(timers.next(), None);
        timers.set(a, after(1));
        timers.clear();
        assert_eq!((timers.next(), timers.pop(after(1))), (None, None));
        let own = [
            Timer::Deadline,
            Timer::Idle,
            Timer::CancelAgain,
            Timer::CancelGrace,
            Timer::Settle,
        ];
        for id in [1, 2, 3].map(TurnId) {
            for timer in own {
                timers.set(timer(id), after(id.0));
            }
            timers.set(Timer::Asked(id.0), after(id.0));
        }
        timers.stop_waiting(TurnId(1));
        timers.stop_turn(TurnId(2));
        timers.stop_turn(TurnId(3));
        let left = [
            Timer::Deadline(TurnId(1)),
            Timer::Settle(TurnId(1)),
            Timer::Asked(1),
            Timer::Asked(2),
            Timer::Asked(3),
        ];
        assert_eq!(left.map(|_| timers.pop(after(9)).unwrap()), left);
        assert_eq!(timers.pop(after(9)), None);
        timers.set_after(a, start, None);
        timers.set_after(a, start, Some(Duration::MAX));
        assert_eq!(timers.next(), None, "off, or beyond the clock, is no timer");
    }
}
