//! What becomes of processes and lanes: they open, fail, wear out, or are of no use any more.

use std::time::{Duration, Instant};

use super::{Action, Lane, LaneNumber, LaneState, Phase, ProcessNumber, ProcessState, Router};
use crate::error::LoadError;

/// So many processes in a row that end without one answer are no accident any more: whoever waits is told.
const LAST_FAILURE: u32 = 3;
/// The pause before a process is started after the second failure in a row; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long nothing is opened ahead after a session that could not be opened.
const WARM_PAUSE: Duration = Duration::from_secs(1);

/// What has been idle for long enough.
pub(super) enum Expired {
    Lane(LaneNumber),
    Process(ProcessNumber),
}

impl Router {
    /// A process has answered `initialize`.
    pub(crate) fn process_ready(&mut self, number: ProcessNumber, now: Instant) {
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        if process.state != ProcessState::Starting {
            return;
        }
        process.state = ProcessState::Ready;
        process.last_used = now;
        let lanes: Vec<LaneNumber> = self.lanes_of(number).map(|(lane, _)| lane).collect();
        for lane in lanes {
            let open = Action::OpenLane(number, lane);
            self.actions.push_back(open);
        }
        self.dispatch(now);
    }

    /// A process could not be started, or has ended by itself. Its turns end with errors of their own; those who
    /// wait are served by others.
    pub(crate) fn process_failed(
        &mut self,
        number: ProcessNumber,
        error: &LoadError,
        now: Instant,
    ) {
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        let was_starting = process.state == ProcessState::Starting;
        if process.state == ProcessState::Ending {
            return;
        }
        process.state = ProcessState::Ending;
        self.actions.push_back(Action::EndProcess(number));
        self.lanes.retain(|_, lane| lane.process != number);
        self.counts.restarts += 1;
        self.failures += 1;
        if let Some(doublings) = self.failures.checked_sub(2) {
            let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings));
            self.start_after = Some(now + pause.min(LONGEST_PAUSE));
        }
        let is_hopeless = was_starting || self.failures >= LAST_FAILURE;
        if is_hopeless && self.usable_processes() == 0 {
            self.fail_all(error);
        }
        self.dispatch(now);
    }

    /// A process takes nothing new: it is ended when its last turn has, and another one takes its place.
    pub(crate) fn retire(&mut self, number: ProcessNumber, now: Instant) {
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        if process.state != ProcessState::Ready {
            return;
        }
        process.state = ProcessState::Retiring;
        self.counts.restarts += 1;
        let is_free = |lane: &Lane| !matches!(lane.state, LaneState::Busy(_));
        let free = self.lanes_of(number).filter(|(_, lane)| is_free(lane));
        let free: Vec<LaneNumber> = free.map(|(lane, _)| lane).collect();
        for lane in free {
            self.close_lane(lane);
        }
        self.end_if_unused(number);
        self.dispatch(now);
    }

    /// A process and all that it started is gone.
    pub(crate) fn process_gone(&mut self, number: ProcessNumber, now: Instant) {
        self.processes.remove(&number);
        self.dispatch(now);
    }

    /// A lane is open; whether anybody wants it still. If not it is to be closed.
    pub(crate) fn lane_opened(&mut self, number: LaneNumber, now: Instant) -> bool {
        let Some(lane) = self.lanes.get_mut(&number) else {
            return false;
        };
        self.counts.sessions_opened += 1;
        lane.state = LaneState::Idle { since: now };
        self.dispatch(now);
        true
    }

    /// A lane could not be opened. The next one who waits is told, if it was for somebody who waits.
    pub(crate) fn lane_failed(&mut self, number: LaneNumber, error: &LoadError, now: Instant) {
        let Some(lane) = self.lanes.get(&number) else {
            return;
        };
        let process = lane.process;
        if matches!(error, LoadError::AgentExited(_) | LoadError::Closed) {
            return self.process_failed(process, error, now);
        }
        self.lanes.remove(&number);
        self.counts.sessions_failed += 1;
        self.warm_after = Some(now + WARM_PAUSE);
        if self.queue.len() > self.opening()
            && let Some(waiting) = self.queue.serve_next()
        {
            let fail = Action::Fail(waiting.ticket, error.clone());
            self.actions.push_back(fail);
        }
        if matches!(error, LoadError::StartupTimeout { .. }) {
            // It may never open a session again.
            self.failures += 1;
            self.retire(process, now);
            if self.failures >= LAST_FAILURE && self.usable_processes() == 0 {
                self.fail_all(error);
            }
        }
        self.dispatch(now);
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for pause in [&mut self.start_after, &mut self.warm_after] {
            pause.take_if(|until| *until <= now);
        }
        while let Some((at, expired)) = self.next_expiry()
            && at <= now
        {
            match expired {
                Expired::Lane(lane) => {
                    self.close_lane(lane);
                }
                Expired::Process(process) => self.end_process(process),
            }
        }
        self.dispatch(now);
    }

    /// What is idle for too long first, and when that is.
    pub(super) fn next_expiry(&self) -> Option<(Instant, Expired)> {
        let ttl = self.bounds.idle_ttl?;
        if self.phase == Phase::Ended {
            return None;
        }
        let lanes = self.lanes.iter();
        let held = lanes.filter_map(|(&number, lane)| Some((lane.held_since()?, number)));
        let held = held.min().map(|(since, lane)| (since, Expired::Lane(lane)));
        let lanes = self.lanes.iter();
        let warm = lanes.filter_map(|(&number, lane)| Some((lane.warm_since()?, number)));
        let is_more = warm.clone().count() > self.bounds.warm;
        let warm = warm.min().filter(|_| is_more);
        let warm = warm.map(|(since, lane)| (since, Expired::Lane(lane)));
        let process = self.idle_process();
        let all = [held, warm, process].into_iter().flatten();
        let (since, first) = all.min_by_key(|(since, _)| *since)?;
        // An instant that the clock cannot say never comes.
        Some((since.checked_add(ttl)?, first))
    }

    /// The process above the fewest of which nothing was used for longest.
    fn idle_process(&self) -> Option<(Instant, Expired)> {
        if self.usable_processes() <= self.bounds.min_processes {
            return None;
        }
        let idle = self.processes.iter().filter(|&(&number, process)| {
            let mut lanes = self.lanes_of(number);
            process.state == ProcessState::Ready
                && lanes.all(|(_, lane)| lane.warm_since().is_some())
        });
        let since = idle.map(|(&number, process)| (process.last_used, number));
        since
            .min()
            .map(|(since, number)| (since, Expired::Process(number)))
    }

    /// Ends a process that retires, once nothing runs in it.
    pub(super) fn end_if_unused(&mut self, number: ProcessNumber) {
        if self.lanes_of(number).next().is_none() {
            self.end_process(number);
        }
    }

    fn end_process(&mut self, number: ProcessNumber) {
        self.lanes.retain(|_, lane| lane.process != number);
        if let Some(process) = self.processes.get_mut(&number) {
            process.state = ProcessState::Ending;
            self.actions.push_back(Action::EndProcess(number));
        }
    }
}
