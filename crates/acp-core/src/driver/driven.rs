//! A driver's side of one process.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::input::{MAX_READS, Output};
use super::{Core, Delivered, Few, Input, Taken, Wake, is_transient, try_read};
use crate::connection::{self, LaneId, PermissionId, RequestKey, TurnId};
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::permission::PermissionRequest;
use crate::process::AgentProcess;
use crate::protocol::SessionInfo;
use crate::sync::lock;

/// A driver's side of one process.
pub(crate) trait Driven: Sized {
    /// How callers of this driver are told that there is news.
    type Wake: Wake;

    /// The end of a pipe that never waits.
    type Output: AsFd;

    /// The engine, and who waits for what.
    fn core(&self) -> &Mutex<Core<Self::Wake>>;

    /// The agent's standard output. It is locked before the engine is.
    fn input(&self) -> &Input<Self::Output>;

    fn process(&self) -> &AgentProcess;

    /// When the process was started.
    fn started(&self) -> Instant;

    /// Tells whoever waits for the process or a lane to look again.
    fn changed(&self);

    /// Asks the host about a permission. A panic of its function is a refusal.
    fn ask(
        self: &Arc<Self>,
        core: &mut Core<Self::Wake>,
        id: PermissionId,
        request: PermissionRequest,
    );

    /// Hands a vendor's request to the host. A panic of its function is an answer of none.
    fn hand_over(
        self: &Arc<Self>,
        core: &mut Core<Self::Wake>,
        key: RequestKey,
        method: String,
        params: Value,
    );

    /// Sends lines to the agent, after all that were sent before. Their place is taken while the engine is
    /// locked, and they are written when it is not.
    fn send(self: &Arc<Self>, lines: Few<Vec<u8>>, core: MutexGuard<'_, Core<Self::Wake>>);

    /// Asks for a look at the engine at this instant, which is sooner than any that was asked for before.
    fn set_alarm(&self, at: Instant);

    /// Starts a process.
    fn start(options: &LoadOptions) -> Result<Arc<Self>, LoadError>;

    /// Ends a process whose place another takes.
    fn replace(self: &Arc<Self>);

    /// Brings what is there of the agent's output to the engine.
    #[expect(clippy::disallowed_methods, reason = "drivers read the clock")]
    fn read(
        self: &Arc<Self>,
        read: impl FnOnce(&Self::Output, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Taken> {
        let mut output = self.input().lock();
        let Output { pipe, buffer } = &mut *output;
        let len = match pipe {
            Some(pipe) => read(pipe, buffer)?,
            None => 0,
        };
        if len == 0 {
            return Ok(Taken::Ended);
        }
        let (full, at) = (len == buffer.len(), Instant::now());
        let mut core = lock(self.core());
        core.connection.handle_bytes(&buffer[..len], at);
        let news = self.drain(core);
        // Whoever is told may be the next one to read.
        drop(output);
        let settled = news.tell(&**self);
        Ok(Taken::Some { full, settled, at })
    }

    /// Reads what the agent has said before now, so that it is no part of what it is asked for next, and no limit
    /// that is over ends a turn that was answered. False if it has said all; whoever reads will see to that.
    fn catch_up(self: &Arc<Self>) -> bool {
        for _ in 0..MAX_READS {
            match self.read(try_read) {
                Ok(Taken::Some { full: true, .. }) => {}
                Ok(Taken::Some { .. }) => break,
                Ok(Taken::Ended) => return false,
                Err(error) => return is_transient(&error),
            }
        }
        true
    }

    /// Drains the engine, tells whom it concerns, and says whether a turn has ended or a lane's fate is known. Every
    /// change to the engine ends here.
    fn pump(self: &Arc<Self>, core: MutexGuard<'_, Core<Self::Wake>>) -> bool {
        self.drain(core).tell(&**self)
    }

    /// Drains the engine.
    ///
    /// Neither the agent nor a caller is told before the lock is open: it would start at once, only to wait for
    /// the lock.
    #[expect(clippy::disallowed_methods, reason = "drivers read the clock")]
    fn drain(self: &Arc<Self>, mut core: MutexGuard<'_, Core<Self::Wake>>) -> News<Self::Wake> {
        let (mut lines, mut has_changed) = (Few::default(), false);
        let at = loop {
            let event = match core.connection.poll_output() {
                connection::Output::Send(line) => {
                    lines.push(line);
                    continue;
                }
                connection::Output::Event(event) => event,
                connection::Output::Wait(at) => break at,
            };
            match core.deliver(event, Instant::now) {
                Delivered::Done => {}
                Delivered::Changed => has_changed = true,
                Delivered::Permission(id, request) => self.ask(&mut core, id, request),
                Delivered::Request(key, method, params) => {
                    self.hand_over(&mut core, key, method, params);
                }
            }
        };
        // An alarm that is set for earlier stays: the driver then looks once too often, which is cheaper than to be
        // told of a later one in every turn.
        if let Some(at) = at
            && core.alarm.is_none_or(|set| at < set)
        {
            core.alarm = Some(at);
            self.set_alarm(at);
        }
        let news = News {
            woken: core.take_woken(),
            has_changed,
            settled: core.take_settled(),
        };
        if !lines.is_empty() {
            self.send(lines, core);
        }
        news
    }

    /// Whether the process is worn out and nothing goes on in it. Nothing is begun in it then.
    fn retire(&self) -> bool {
        lock(self.core()).retire()
    }

    /// Whether a host that wants a new process after a failure should start one now. Nobody may have seen an end yet
    /// that nobody waited for.
    fn is_lost(self: &Arc<Self>) -> bool {
        let goes_on = self.catch_up() && self.process().exit().is_none();
        lock(self.core()).is_lost(goes_on)
    }

    /// Whether the process runs and the connection has not ended.
    fn is_alive(&self) -> bool {
        self.process().exit().is_none() && lock(self.core()).connection.is_open()
    }

    /// From the start of the process to its answer to `initialize`, once that is there.
    fn startup_time(&self) -> Option<Duration> {
        let core = lock(self.core());
        let ready = core.initialized.as_ref()?.as_ref().ok()?;
        Some(ready.duration_since(self.started()))
    }

    /// Cancels a turn; for one that has ended nothing happens.
    fn cancel_turn(self: &Arc<Self>, id: TurnId, now: Instant) {
        let mut core = lock(self.core());
        core.connection.cancel(id, now);
        self.pump(core);
    }

    /// Cancels a turn that nobody waits for any more.
    fn abandon_turn(self: &Arc<Self>, id: TurnId, now: Instant) {
        let mut core = lock(self.core());
        // The slot is gone if somebody has waited for the end.
        if core.turns.remove(&id).is_some() {
            core.connection.cancel(id, now);
            self.pump(core);
        }
    }

    /// Cancels the turn that a lane runs now, if it runs one.
    fn cancel_running(self: &Arc<Self>, lane: LaneId, now: Instant) {
        let mut core = lock(self.core());
        if let Some(turn) = core.connection.running(lane) {
            core.connection.cancel(turn, now);
            self.pump(core);
        }
    }

    /// Gives a lane up.
    fn close_lane(self: &Arc<Self>, lane: LaneId, now: Instant) {
        let mut core = lock(self.core());
        core.connection.close_lane(lane, now);
        self.pump(core);
    }

    /// The session that serves a lane now.
    fn session(&self, lane: LaneId) -> SessionInfo {
        let core = lock(self.core());
        core.connection.session(lane).cloned().unwrap_or_default()
    }
}

/// What is to be told once nothing is locked.
#[must_use = "callers wait for it"]
pub(crate) struct News<W> {
    woken: Few<W>,
    has_changed: bool,
    settled: bool,
}

impl<W: Wake> News<W> {
    /// Tells whom it concerns. True if a turn has ended or a lane's fate is known.
    fn tell(self, driven: &impl Driven) -> bool {
        self.woken.into_iter().for_each(Wake::wake);
        if self.has_changed {
            driven.changed();
        }
        self.settled
    }
}
