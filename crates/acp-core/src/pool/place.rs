//! Where there is a place for a turn: the lane that suits it, or how to come to one.

use std::time::Instant;

use super::queue::{Key, Waiting};
use super::{
    Action, Grant, Lane, LaneNumber, LaneState, Phase, Process, ProcessNumber, ProcessState, Router,
};

/// Where a lane can be opened.
enum Place {
    In(ProcessNumber),
    InNewProcess,
    /// Where this one is, which is given up for it.
    InsteadOf(LaneNumber),
}

enum Step {
    Grant(Key, LaneNumber),
    Open,
}

impl Router {
    /// Does whatever can be done now.
    pub(super) fn dispatch(&mut self, now: Instant) {
        if self.phase == Phase::Ended {
            return;
        }
        while let Some(step) = self.next_step() {
            match step {
                Step::Grant(key, lane) => {
                    if let Some(caller) = self.queue.serve(&key) {
                        self.grant(lane, &key, &caller, now);
                    }
                }
                Step::Open => self.open_lane(now),
            }
        }
        while self.opening() < self.queue.len() && self.place().is_some() {
            self.open_lane(now);
        }
        if self.phase == Phase::Open {
            self.keep_processes(now);
            self.warm_up();
        }
    }

    /// What comes next in the order in which the keys are served. Whoever cannot be served now is passed over
    /// only if a lane is being opened for it, or none can be.
    fn next_step(&self) -> Option<Step> {
        if !self.lanes.values().any(Lane::is_idle) {
            return None;
        }
        let opening = self.opening();
        for (passed, (key, head)) in self.queue.heads().enumerate() {
            if let Some(lane) = self.lane_for(key, head) {
                return Some(Step::Grant(key.clone(), lane));
            }
            if passed >= opening && self.place().is_some() {
                return Some(Step::Open);
            }
        }
        None
    }

    /// The idle lane that suits a caller best: the one that has seen most of its request, or one that has seen
    /// nothing.
    pub(super) fn lane_for(&self, key: &Key, caller: &Waiting) -> Option<LaneNumber> {
        let idle = self.lanes.iter().filter(|(_, lane)| lane.is_idle());
        let seen = idle.filter_map(|(&number, lane)| match &lane.held {
            None => Some((0, number)),
            Some((owner, seen)) if owner == key => Some((caller.request.seen_by(seen)?, number)),
            Some(_) => None,
        });
        // Of equals the oldest, so that what is opened ahead is used up in order.
        let best = seen.max_by_key(|&(len, number)| (len, std::cmp::Reverse(number)));
        best.map(|(_, number)| number)
    }

    pub(super) fn grant(&mut self, number: LaneNumber, key: &Key, caller: &Waiting, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&number) else {
            return;
        };
        let continues = lane.held.is_some();
        let process = lane.process;
        lane.state = LaneState::Busy(key.clone());
        self.touch(process, now);
        let waited = now.saturating_duration_since(caller.since);
        let grant = Grant {
            lane: number,
            continues,
            waited,
        };
        self.actions.push_back(Action::Grant(caller.ticket, grant));
    }

    /// Where a lane can be opened for somebody who waits.
    fn place(&self) -> Option<Place> {
        if let Some(process) = self.process_with_room() {
            return Some(Place::In(process));
        }
        if self.processes.len() < self.bounds.max_processes && self.start_after.is_none() {
            return Some(Place::InNewProcess);
        }
        let idle = self.lanes.iter();
        let idle = idle.filter_map(|(&number, lane)| Some((lane.held_since()?, number)));
        idle.min().map(|(_, number)| Place::InsteadOf(number))
    }

    /// The process with the fewest lanes, if they are not as many as it may have.
    fn process_with_room(&self) -> Option<ProcessNumber> {
        let room = self.processes.iter().filter_map(|(&number, process)| {
            let is_starting = match process.state {
                ProcessState::Ready => false,
                ProcessState::Starting => true,
                ProcessState::Retiring | ProcessState::Ending => return None,
            };
            let lanes = self.lanes_of(number).count();
            (lanes < self.bounds.lanes_per_process).then_some((lanes, is_starting, number))
        });
        room.min().map(|(.., number)| number)
    }

    pub(super) fn lanes_of(
        &self,
        process: ProcessNumber,
    ) -> impl Iterator<Item = (LaneNumber, &Lane)> {
        let lanes = self.lanes.iter();
        let of_process = lanes.filter(move |(_, lane)| lane.process == process);
        of_process.map(|(&number, lane)| (number, lane))
    }

    fn open_lane(&mut self, now: Instant) {
        let process = match self.place() {
            Some(Place::In(process)) => process,
            Some(Place::InNewProcess) => self.start_process(now),
            Some(Place::InsteadOf(lane)) => match self.close_lane(lane) {
                Some(process) => process,
                None => return,
            },
            None => return,
        };
        self.open_lane_in(process);
    }

    fn open_lane_in(&mut self, process: ProcessNumber) {
        let number = LaneNumber(self.number());
        let lane = Lane {
            process,
            state: LaneState::Opening,
            held: None,
        };
        self.lanes.insert(number, lane);
        let state = self.processes.get(&process).map(|process| process.state);
        // One that is starting is told when it is ready.
        if state == Some(ProcessState::Ready) {
            let open = Action::OpenLane(process, number);
            self.actions.push_back(open);
        }
    }

    /// Gives up a lane; says where it was.
    pub(super) fn close_lane(&mut self, number: LaneNumber) -> Option<ProcessNumber> {
        let lane = self.lanes.remove(&number)?;
        self.actions.push_back(Action::CloseLane(number));
        Some(lane.process)
    }

    fn start_process(&mut self, now: Instant) -> ProcessNumber {
        let number = ProcessNumber(self.number());
        let process = Process {
            state: ProcessState::Starting,
            last_used: now,
        };
        self.processes.insert(number, process);
        self.counts.processes_started += 1;
        self.actions.push_back(Action::StartProcess(number));
        number
    }

    /// Starts processes up to the fewest.
    fn keep_processes(&mut self, now: Instant) {
        while self.start_after.is_none()
            && self.usable_processes() < self.bounds.min_processes
            && self.processes.len() < self.bounds.max_processes
        {
            self.start_process(now);
        }
    }

    pub(super) fn usable_processes(&self) -> usize {
        let states = self.processes.values().map(|process| process.state);
        let usable =
            |state: &ProcessState| matches!(state, ProcessState::Starting | ProcessState::Ready);
        states.filter(usable).count()
    }

    /// Opens lanes ahead, where a process runs anyway.
    fn warm_up(&mut self) {
        if self.warm_after.is_some() {
            return;
        }
        let warm = self.lanes.values().filter_map(Lane::warm_since).count();
        let wanted = self.bounds.warm + self.queue.len();
        for _ in warm + self.opening()..wanted {
            let Some(process) = self.process_with_room() else {
                return;
            };
            self.open_lane_in(process);
        }
    }
}
