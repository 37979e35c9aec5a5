//! Locks that outlive a panic, and waits with a limit.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Locks. A thread that panicked while it held the lock is no reason for others to: what is behind our
/// locks is changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change.
pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `done`, or until this instant; says whether it is done.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where drivers wait in real time"
)]
pub(crate) fn wait_until<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    at: Instant,
    done: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    let limit = at.saturating_duration_since(Instant::now());
    wait_at_most(changed, guard, limit, done)
}

/// Waits until `done`, or for this long; says whether it is done.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where drivers wait in real time"
)]
pub(crate) fn wait_at_most<'a, T>(
    changed: &Condvar,
    mut guard: MutexGuard<'a, T>,
    limit: Duration,
    mut done: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    let started = Instant::now();
    loop {
        if done(&mut guard) {
            return (guard, true);
        }
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            return (guard, false);
        }
        // A wait of ages is more than some systems' clocks can say.
        let step = left.min(Duration::from_secs(3600));
        guard = changed
            .wait_timeout(guard, step)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}
