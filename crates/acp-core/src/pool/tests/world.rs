//! What is around the router: it does what the router says, and holds it to its rules.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::super::*;
use crate::message::Message;
use crate::request::{GenerateRequest, GenerateResponse};

/// An instant to begin with.
pub(super) fn start() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "any instant will do, and there is no other way to one"
    )]
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}

type Hasher = BuildHasherDefault<DefaultHasher>;

/// A conversation.
#[derive(Debug, Clone)]
pub(super) struct Request(GenerateRequest);

impl Request {
    pub(super) fn new(text: &str) -> Self {
        Self(GenerateRequest::user(text))
    }

    /// The same, which ends with another question.
    pub(super) fn with(&self, text: &str) -> Self {
        let mut request = self.0.clone();
        request.messages.pop();
        request.messages.push(Message::user(text));
        Self(request)
    }

    /// The next one, after an answer that is always the same.
    pub(super) fn next(&self) -> Self {
        let mut request = self.0.clone();
        request.messages.push(answer().to_message());
        request.messages.push(Message::user("and?"));
        Self(request)
    }

    pub(super) fn digests(&self) -> Digests {
        Digests::of(&self.0, &Hasher::default())
    }

    /// What a session has seen that has answered it.
    pub(super) fn seen(&self) -> Seen {
        let seen = self.digests().answered(&answer(), &Hasher::default());
        seen.expect("an answer of text alone")
    }
}

fn answer() -> GenerateResponse {
    GenerateResponse::text("ok")
}

/// A turn that has been answered.
pub(super) struct Answered {
    pub(super) grant: Grant,
    pub(super) next: Request,
}

#[derive(Debug)]
struct Caller {
    key: Key,
    request: Request,
    /// How many unused lanes each other key got since this caller is the first of its key.
    passed_by: BTreeMap<Key, u32>,
}

pub(super) struct World {
    pub(super) router: Router,
    pub(super) now: Instant,
    /// Whether processes start and end, and lanes open, as soon as they are told to.
    pub(super) is_willing: bool,
    bounds: Bounds,
    pub(super) starting: Vec<ProcessNumber>,
    pub(super) ready: BTreeSet<ProcessNumber>,
    pub(super) ending: BTreeSet<ProcessNumber>,
    pub(super) opening: BTreeMap<LaneNumber, ProcessNumber>,
    open: BTreeMap<LaneNumber, ProcessNumber>,
    pub(super) busy: BTreeMap<LaneNumber, Ticket>,
    /// Whose lanes are, and what they have seen.
    held: BTreeMap<LaneNumber, (Key, Seen)>,
    waiting: BTreeMap<Ticket, Caller>,
    /// Who was granted a lane, and which; or none.
    ended: BTreeMap<Ticket, Option<Grant>>,
    callers: BTreeMap<Ticket, (Key, Request)>,
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let now = start();
        let mut world = Self {
            router: Router::new(bounds, now),
            now,
            is_willing: false,
            bounds,
            starting: Vec::new(),
            ready: BTreeSet::new(),
            ending: BTreeSet::new(),
            opening: BTreeMap::new(),
            open: BTreeMap::new(),
            busy: BTreeMap::new(),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            ended: BTreeMap::new(),
            callers: BTreeMap::new(),
        };
        world.take();
        world
    }

    /// Whether somebody who asked has a lane; `None` while it waits.
    pub(super) fn settled(&self, ticket: Ticket) -> Option<bool> {
        self.ended.get(&ticket).map(Option::is_some)
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.waiting.keys().copied()
    }

    pub(super) fn acquire(
        &mut self,
        key: &str,
        request: &Request,
    ) -> Result<Ticket, GenerateError> {
        let key: Key = (!key.is_empty()).then(|| key.into());
        let asked = self
            .router
            .acquire(key.clone(), request.digests(), self.now);
        // The numbers of tickets are not known before.
        if let Ok(ticket) = asked {
            let caller = Caller {
                key: key.clone(),
                request: request.clone(),
                passed_by: BTreeMap::new(),
            };
            self.waiting.insert(ticket, caller);
            self.callers.insert(ticket, (key, request.clone()));
        }
        self.settle();
        let metrics = self.router.metrics();
        if asked.is_err() {
            let waiting = metrics.queued - metrics.lanes_opening.min(metrics.queued);
            assert!(waiting >= self.bounds.queue || self.router.phase != Phase::Open);
        }
        asked
    }

    /// A lane, which is there at once.
    pub(super) fn grant(&mut self, key: &str, request: &Request) -> Grant {
        let ticket = self.acquire(key, request).expect("there is room");
        let grant = self.ended.get(&ticket).copied().flatten();
        grant.expect("there is a lane")
    }

    /// A turn from its beginning to its answer.
    pub(super) fn answer(&mut self, key: &str, request: &Request) -> Answered {
        let grant = self.grant(key, request);
        self.release(grant.lane, Used::Answered(Some(request.seen())));
        Answered {
            grant,
            next: request.next(),
        }
    }

    pub(super) fn release(&mut self, lane: LaneNumber, used: Used) {
        let ticket = self.busy.remove(&lane).expect("it is busy");
        if let Used::Answered(Some(seen)) = used {
            self.held
                .insert(lane, (self.callers[&ticket].0.clone(), seen));
        }
        self.router.release(lane, used, self.now);
        self.settle();
    }

    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.router.leave(ticket);
        self.settle();
    }

    /// A process ends by itself.
    pub(super) fn fail(&mut self, process: ProcessNumber, error: &LoadError) {
        self.router.process_failed(process, error, self.now);
        self.settle();
    }

    /// A lane does not open.
    pub(super) fn refuse(&mut self, lane: LaneNumber, error: &LoadError) {
        self.opening.remove(&lane);
        self.router.lane_failed(lane, error, self.now);
        self.settle();
    }

    /// Lets time pass, and everything happen in its time.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut steps = 0;
        while let Some(due) = self.router.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.router.handle_timeout(self.now);
            self.settle();
            steps += 1;
            assert!(steps < 10_000, "it wants to look without end");
        }
        self.now = end;
    }

    /// Does what the router says, and, where all are willing, what comes of it.
    pub(super) fn settle(&mut self) {
        self.take();
        while self.is_willing && self.step() {}
    }

    /// One thing that was asked for comes about.
    pub(super) fn step(&mut self) -> bool {
        if let Some(process) = self.starting.first().copied() {
            self.become_ready(process);
        } else if let Some(&process) = self.ending.first() {
            self.be_gone(process);
        } else if let Some((&lane, _)) = self.opening.first_key_value() {
            self.be_opened(lane);
        } else {
            return false;
        }
        true
    }

    pub(super) fn become_ready(&mut self, process: ProcessNumber) {
        self.starting.retain(|starting| *starting != process);
        self.ready.insert(process);
        self.router.process_ready(process, self.now);
        self.take();
    }

    pub(super) fn be_gone(&mut self, process: ProcessNumber) {
        self.ending.remove(&process);
        self.router.process_gone(process, self.now);
        self.take();
    }

    pub(super) fn be_opened(&mut self, lane: LaneNumber) {
        if let Some(process) = self.opening.remove(&lane) {
            self.open.insert(lane, process);
        }
        if !self.router.lane_opened(lane, self.now) {
            self.open.remove(&lane);
        }
        self.take();
    }

    /// Takes what the router says, and holds it to the rules.
    pub(super) fn take(&mut self) {
        while let Some(action) = self.router.poll_action() {
            match action {
                Action::StartProcess(process) => self.starting.push(process),
                Action::EndProcess(process) => {
                    self.starting.retain(|starting| *starting != process);
                    self.ready.remove(&process);
                    assert!(self.ending.insert(process), "ended twice");
                    // Its turns end with it.
                    for lanes in [&mut self.opening, &mut self.open] {
                        lanes.retain(|_, of| *of != process);
                    }
                    let open = &self.open;
                    self.busy.retain(|lane, _| open.contains_key(lane));
                }
                Action::OpenLane(process, lane) => {
                    assert!(self.ready.contains(&process) || self.starting.contains(&process));
                    self.opening.insert(lane, process);
                }
                Action::CloseLane(lane) => {
                    assert!(!self.busy.contains_key(&lane), "a turn runs on it");
                    self.open.remove(&lane);
                    self.opening.remove(&lane);
                }
                Action::Grant(ticket, grant) => self.granted(ticket, grant),
                Action::Fail(ticket, _) => {
                    self.waiting.remove(&ticket).expect("it waits");
                    self.ended.insert(ticket, None);
                }
            }
        }
        self.check_bounds();
    }

    fn granted(&mut self, ticket: Ticket, grant: Grant) {
        let caller = self
            .waiting
            .remove(&ticket)
            .expect("it waits, and has none");
        let lane = grant.lane;
        assert!(self.open.contains_key(&lane), "it is not open");
        assert_eq!(
            self.busy.insert(lane, ticket),
            None,
            "two callers on one lane"
        );
        match self.held.get(&lane) {
            Some((owner, seen)) => {
                assert_eq!(*owner, caller.key, "it is of another key");
                assert!(caller.request.digests().seen_by(seen).is_some());
                assert!(grant.continues);
            }
            None => {
                assert!(!grant.continues);
                self.note_passing(&caller.key);
            }
        }
        self.ended.insert(ticket, Some(grant));
    }

    /// Nobody's key gets two lanes that anybody could use while the first one of another key waits.
    fn note_passing(&mut self, served: &Key) {
        let mut firsts: BTreeMap<Key, Ticket> = BTreeMap::new();
        for (ticket, caller) in &self.waiting {
            firsts.entry(caller.key.clone()).or_insert(*ticket);
        }
        for (key, ticket) in firsts {
            if key != *served
                && let Some(caller) = self.waiting.get_mut(&ticket)
            {
                let passed = caller.passed_by.entry(served.clone()).or_default();
                *passed += 1;
                assert!(*passed <= 1, "{served:?} was served twice before {key:?}");
            }
        }
    }

    fn check_bounds(&self) {
        let processes = self.starting.len() + self.ready.len() + self.ending.len();
        assert!(processes <= self.bounds.max_processes);
        for process in &self.ready {
            let lanes = self.open.values().chain(self.opening.values());
            let lanes = lanes.filter(|of| *of == process).count();
            assert!(lanes <= self.bounds.lanes_per_process);
        }
    }
}
