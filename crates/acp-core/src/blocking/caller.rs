//! A caller that waits for its turn, and how it is told of news.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};

use super::{Alarm, Core};
use crate::driver::Wake;
use crate::sync::wait;

/// A caller that waits for its turn.
#[derive(Debug)]
pub(super) struct Caller {
    /// Goes from [`Place::Looks`] to another one only while the engine is locked and there is no news: who has
    /// news later finds the caller there.
    place: AtomicU8,
    changed: Condvar,
    alarm: Arc<Alarm>,
}

/// Where a caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It looks at the engine before it waits, and need not be told.
    Looks,
    /// It waits to be told.
    Waits,
    /// It waits for the agent, and hears the bell.
    Reads,
}

impl Caller {
    pub(super) fn new(alarm: &Arc<Alarm>) -> Arc<Self> {
        Arc::new(Self {
            place: AtomicU8::new(Place::Looks as u8),
            changed: Condvar::new(),
            alarm: Arc::clone(alarm),
        })
    }

    /// Waits for news.
    pub(super) fn wait<'a>(&self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        self.go(Place::Waits);
        let core = wait(&self.changed, core);
        self.go(Place::Looks);
        core
    }

    /// From here on it waits for the agent, once the engine is not locked any more.
    pub(super) fn begins_to_read(&self, core: MutexGuard<'_, Core>) {
        self.go(Place::Reads);
        drop(core);
    }

    /// It will look at the engine before it waits again.
    pub(super) fn has_read(&self) {
        self.go(Place::Looks);
    }

    fn go(&self, place: Place) {
        self.place.store(place as u8, Ordering::Relaxed);
    }
}

impl Wake for Arc<Caller> {
    fn take(&mut self) -> Self {
        Arc::clone(self)
    }

    fn wake(self) {
        let place = self.place.load(Ordering::Relaxed);
        if place == Place::Waits as u8 {
            self.changed.notify_all();
        } else if place == Place::Reads as u8 {
            self.alarm.ring();
        }
    }
}
