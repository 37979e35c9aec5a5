//! Locks that outlive a panic, and waits with a limit.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Locks. A thread that panicked while it held the lock is no reason for others to: what is behind our
/// locks is changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change.
pub(crate) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `done`, or until the deadline; says whether it is done.
pub(crate) fn wait_until<'a, T>(
    changed: &Condvar,
    mut guard: MutexGuard<'a, T>,
    deadline: Instant,
    mut done: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    loop {
        if done(&mut guard) {
            return (guard, true);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "this is where drivers wait in real time"
        )]
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (guard, false);
        }
        guard = changed
            .wait_timeout(guard, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}
