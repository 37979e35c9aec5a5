//! What the drivers share: the engine behind a lock, who waits for what, and the lines to the agent.

mod canceller;
mod driven;
mod few;
mod input;
mod link;
mod outbox;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::connection::{
    Connection, ConnectionOptions, Event, LaneId, PermissionId, RequestKey, TurnId,
};
use crate::error::{GenerateError, LoadError};
use crate::ids::IdMap;
use crate::options::LoadOptions;
use crate::permission::{PermissionPolicy, PermissionRequest};
use crate::request::GenerateResponse;
use crate::turn::TurnEvent;
pub use canceller::Canceller;
pub(crate) use driven::Driven;
pub(crate) use few::Few;
pub(crate) use input::{Input, Taken, is_transient, try_read};
pub(crate) use link::Link;
pub(crate) use outbox::{Flushed, Outbox, Pushed, TryWrite};

/// How long the exit status may come after the end of output, and the end of output after the exit.
pub(crate) const EXIT_WAIT: Duration = Duration::from_millis(500);
/// How long the rest of standard error may come after the exit.
pub(crate) const STDERR_WAIT: Duration = Duration::from_millis(200);
/// Bytes of standard output that are read at once.
pub(crate) const READ_BUFFER: usize = 64 * 1024;
/// Bytes of standard error that are read at once.
pub(crate) const STDERR_BUFFER: usize = 8 * 1024;

/// Options that can work, as what the engine takes and the working directory.
pub(crate) fn check(
    options: &LoadOptions,
    can_ask: bool,
) -> Result<(ConnectionOptions, PathBuf), LoadError> {
    let invalid = |why: String| Err(LoadError::InvalidOptions(why));
    if options.connection.permission == PermissionPolicy::Ask && !can_ask {
        return invalid(
            "the permission policy is to ask, but nobody is named to be asked".to_owned(),
        );
    }
    let cwd = options.resolve_cwd()?;
    let Some(utf8_cwd) = cwd.to_str() else {
        return invalid(format!(
            "the working directory `{}` is not Unicode, which ACP needs",
            cwd.display()
        ));
    };
    if options.command.is_empty() {
        return invalid("the command is empty".to_owned());
    }
    let connection = options.connection_options(utf8_cwd.to_owned())?;
    Ok((connection, cwd))
}

/// How somebody who waits is told that there is news.
pub(crate) trait Wake {
    /// What tells this caller, once.
    fn take(&mut self) -> Self;

    fn wake(self);
}

/// What a driver's lock is about.
pub(crate) struct Core<W> {
    pub(crate) connection: Connection,
    pub(crate) turns: IdMap<TurnId, TurnSlot<W>>,
    /// Who is to be told when the engine is drained.
    woken: Few<W>,
    pub(crate) lanes: IdMap<LaneId, Result<(), LoadError>>,
    /// When `initialize` was answered, or why it was not.
    pub(crate) initialized: Option<Result<Instant, LoadError>>,
    /// Lanes that were asked for and have neither opened nor failed.
    opening: usize,
    /// A turn has ended, or a lane has opened or failed, since the engine was drained.
    settled: bool,
    /// What [`Driven::set_alarm`] was last called for, until it goes off.
    pub(crate) alarm: Option<Instant>,
    pub(crate) stdout_ended: bool,
    pub(crate) stderr_ended: bool,
    /// Nothing new is begun here: another process takes the place of this one.
    pub(crate) retired: bool,
}

/// A turn that somebody waits for.
pub(crate) struct TurnSlot<W> {
    pub(crate) wake: W,
    /// Whether the caller wants to know what happens before the end.
    pub(crate) streams: bool,
    /// What happened before the end and was not taken.
    events: Vec<TurnEvent>,
    result: Option<Box<Result<GenerateResponse, GenerateError>>>,
}

impl<W> TurnSlot<W> {
    pub(crate) fn new(wake: W) -> Self {
        Self {
            wake,
            streams: false,
            events: Vec::new(),
            result: None,
        }
    }
}

/// What is left to do about an event.
pub(crate) enum Delivered {
    /// Who waits was told.
    Done,
    /// Whoever waits for the process or a lane is to look again.
    Changed,
    /// The host is to decide.
    Permission(PermissionId, PermissionRequest),
    /// The host is to answer.
    Request(RequestKey, String, Value),
}

impl<W: Wake> Core<W> {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            turns: IdMap::default(),
            woken: Few::default(),
            lanes: IdMap::default(),
            initialized: None,
            opening: 0,
            settled: false,
            alarm: None,
            stdout_ended: false,
            stderr_ended: false,
            retired: false,
        }
    }

    /// Brings an event to whom it concerns.
    pub(crate) fn deliver(&mut self, event: Event, now: impl FnOnce() -> Instant) -> Delivered {
        match event {
            Event::TurnEnded(id, result) => {
                self.settled = true;
                if let Some(slot) = self.turns.get_mut(&id) {
                    slot.result = Some(result);
                    self.woken.push(slot.wake.take());
                }
                Delivered::Done
            }
            Event::TurnEvents(id, events) => {
                if let Some(slot) = self.turns.get_mut(&id) {
                    slot.events.extend(events);
                }
                Delivered::Done
            }
            Event::LaneOpened(id) => self.lane_settled(id, Ok(())),
            Event::LaneFailed(id, error) => self.lane_settled(id, Err(error)),
            Event::PermissionAsked(id, request) => Delivered::Permission(id, request),
            Event::RequestReceived(key, method, params) => Delivered::Request(key, method, params),
            Event::Initialized => {
                self.initialized = Some(Ok(now()));
                Delivered::Changed
            }
            // Every other call has been told by an event of its own.
            Event::Ended(error) => {
                self.initialized.get_or_insert(Err(error));
                Delivered::Changed
            }
        }
    }

    /// Asks for a lane, whose fate will be found in `lanes`.
    pub(crate) fn open_lane(&mut self, now: Instant) -> LaneId {
        self.opening += 1;
        self.connection.open_lane(now)
    }

    fn lane_settled(&mut self, id: LaneId, result: Result<(), LoadError>) -> Delivered {
        self.opening = self.opening.saturating_sub(1);
        self.settled = true;
        self.lanes.insert(id, result);
        Delivered::Changed
    }

    /// Whether a call has ended since this was last asked.
    pub(crate) fn take_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    /// Whether anybody waits for the agent to say something.
    pub(crate) fn is_awaited(&self) -> bool {
        self.initialized.is_none()
            || self.opening > 0
            || self.turns.values().any(|slot| slot.result.is_none())
    }

    /// The alarm has gone off.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.alarm = None;
        self.connection.handle_timeout(now);
    }

    /// The engine is drained: hands out who waits for something that has happened.
    pub(crate) fn take_woken(&mut self) -> Few<W> {
        for slot in self.turns.values_mut().filter(|slot| slot.streams) {
            self.woken.push(slot.wake.take());
        }
        std::mem::take(&mut self.woken)
    }

    /// What has happened in a turn and was not taken before.
    pub(crate) fn take_events(&mut self, id: TurnId) -> Vec<TurnEvent> {
        let left = self.turns.get_mut(&id);
        let left = left.map(|slot| std::mem::take(&mut slot.events));
        match left {
            Some(left) if !left.is_empty() => left,
            _ => self.connection.take_turn_events(id),
        }
    }

    /// The end of a turn, if it has come.
    pub(crate) fn take_result(
        &mut self,
        id: TurnId,
    ) -> Option<Result<GenerateResponse, GenerateError>> {
        let result = self.turns.get_mut(&id)?.result.take()?;
        self.turns.remove(&id);
        Some(*result)
    }

    /// Whether the process is worn out and nothing goes on in it. Nothing is begun in it then.
    pub(crate) fn retire(&mut self) -> bool {
        self.retired |= self.connection.is_open() && self.connection.is_worn_out();
        self.retired
    }

    /// Whether a host that wants a new process after a failure should start one now, by whether the process goes on.
    /// Those who wait for one that does not are told how it ended before it is replaced.
    pub(crate) fn is_lost(&self, goes_on: bool) -> bool {
        let has_ended = !goes_on && !self.is_awaited();
        has_ended || !self.connection.is_open() || self.connection.is_stuck()
    }
}
