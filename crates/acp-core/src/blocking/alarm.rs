//! The engine's next instant, which whoever reads keeps while it waits for the pipes.

use std::io::{self, PipeWriter, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::pipe::{Bell, bell};
use crate::sync::lock;

/// When whoever reads is to look at the engine, and what wakes it where that is sooner than it knows.
#[derive(Debug)]
pub(super) struct Alarm {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    at: Option<Instant>,
    sound: Sound,
    /// The readers end with it.
    bell: Option<PipeWriter>,
}

/// What it takes to tell the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sound {
    /// Nothing: it asks before it waits, or does not wait any more.
    Needless,
    /// It waits.
    Needed,
    /// It has been rung for, and has not heard it yet.
    Rung,
}

impl Alarm {
    /// Has to be made before there is a process that would need it.
    pub(super) fn new() -> io::Result<(Self, Bell)> {
        let (writer, bell) = bell()?;
        let state = State {
            at: None,
            sound: Sound::Needless,
            bell: Some(writer),
        };
        let state = Mutex::new(state);
        Ok((Self { state }, bell))
    }

    /// Asks for a look at this instant.
    pub(super) fn set(&self, at: Instant) {
        let mut state = lock(&self.state);
        state.at = Some(at);
        if state.sound == Sound::Needed {
            state.ring();
        }
    }

    /// Wakes who reads, now or when it begins to wait.
    pub(super) fn ring(&self) {
        let mut state = lock(&self.state);
        if state.sound != Sound::Rung {
            state.ring();
        }
    }

    /// How long the reader may wait from now on. Where it may not wait at all the alarm is off.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let mut state = lock(&self.state);
        if state.sound == Sound::Needless {
            state.sound = Sound::Needed;
        }
        let left = state.at?.saturating_duration_since(now);
        if left.is_zero() {
            state.at = None;
        }
        Some(left)
    }

    /// The reader has heard the bell.
    pub(super) fn heard(&self, bell: &Bell) {
        let mut state = lock(&self.state);
        bell.take();
        state.sound = Sound::Needless;
    }

    /// The reader waits no more.
    pub(super) fn mute(&self) {
        lock(&self.state).sound = Sound::Needless;
    }

    /// Ends the reader, and whatever else waits on its bell.
    pub(super) fn stop(&self) {
        lock(&self.state).bell = None;
    }
}

impl State {
    fn ring(&mut self) {
        self.sound = Sound::Rung;
        // One byte at a time, which a pipe takes without waiting. Without a reader nobody needs it.
        let _heard = self.bell.as_mut().map(|bell| bell.write(&[0]));
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests need a clock and a thread of their own"
)]
mod tests {
    use super::super::pipe::{Woken, wait_readable};
    use super::*;
    use std::io::PipeReader;
    use std::thread;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_earlier_alarm_wakes_who_waits_for_a_later_one() {
        let (alarm, bell) = Alarm::new().unwrap();
        let (silent, _writer) = io::pipe().unwrap();
        let now = Instant::now();
        let wait = |limit| {
            let woken = wait_readable(&silent, None::<&PipeReader>, &bell, limit).unwrap();
            if woken == Woken::Bell {
                alarm.heard(&bell);
            }
            woken
        };
        alarm.set(now + 3600 * SECOND);
        assert_eq!(alarm.left(now), Some(3600 * SECOND));
        thread::scope(|scope| {
            scope.spawn(|| alarm.set(now + 60 * SECOND));
            assert_eq!(wait(Some(3600 * SECOND)), Woken::Bell);
        });
        // One that the reader will see before it waits makes no sound.
        alarm.set(now + 30 * SECOND);
        assert_eq!(alarm.left(now), Some(30 * SECOND));
        assert_eq!(wait(Some(Duration::from_millis(1))), Woken::Nothing);
        assert_eq!(alarm.left(now + 31 * SECOND), Some(Duration::ZERO));
        assert_eq!(alarm.left(now + 31 * SECOND), None, "it goes off once");
        // Nobody reads what is rung after the end.
        alarm.mute();
        alarm.set(now);
        assert_eq!(wait(Some(Duration::from_millis(1))), Woken::Nothing);
        alarm.stop();
        assert_eq!(wait(None), Woken::Stopped);
    }
}
