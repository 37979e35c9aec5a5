//! Who reads what the agent says: the reader's thread, or a caller that would otherwise wait for it.
//!
//! A caller that waits for the end of its turn has nothing else to do, and if it reads itself no other thread has to
//! be woken for its answer. So when nobody waits for the agent the thread leaves its seat for a moment. A caller that
//! comes then takes it until its turn has ended. The thread takes it back when nobody came; and as soon as it is free
//! when somebody waits who does not read, because another caller does, or because it hands out text meanwhile and
//! might be slow.
//!
//! While the seat is free nobody reads, for twice [`REST`] at most.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::sync::{lock, wait, wait_at_most};

/// How long the thread waits for a caller who reads. Turns that follow one another sooner need no other thread.
const REST: Duration = Duration::from_millis(2);

/// A seat for one who reads `P`.
#[derive(Debug)]
pub(super) struct Seat<P> {
    state: Mutex<State<P>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<P> {
    /// There while the seat is free.
    pipes: Option<P>,
    thread: Thread,
    /// Somebody took the seat since the thread last looked.
    taken: bool,
}

/// What the thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// It has the seat, or has ended.
    Reads,
    /// It looks again in a moment.
    Rests,
    /// It waits for the end of a turn that takes longer than a moment.
    Sleeps,
    /// The next one in the seat is the thread.
    Roused,
}

/// A caller that has the seat, which is free again after it.
#[derive(Debug)]
pub(super) struct Reading<'a, P> {
    seat: &'a Seat<P>,
    /// Empty only when it is dropped.
    pipes: Option<P>,
}

impl<P> Default for Seat<P> {
    /// One that the thread has.
    fn default() -> Self {
        let state = State {
            pipes: None,
            thread: Thread::Reads,
            taken: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }
}

impl<P> Seat<P> {
    /// Takes the seat, if it is free. Otherwise the thread will read for whoever asked.
    pub(super) fn take(&self) -> Option<Reading<'_, P>> {
        let mut state = lock(&self.state);
        if state.pipes.is_none() || state.thread == Thread::Roused {
            self.rouse_thread(&mut state);
            return None;
        }
        state.taken = true;
        let pipes = state.pipes.take();
        Some(Reading { seat: self, pipes })
    }

    /// Has the thread read, because somebody waits who does not.
    pub(super) fn rouse(&self) {
        self.rouse_thread(&mut lock(&self.state));
    }

    fn rouse_thread(&self, state: &mut State<P>) {
        if matches!(state.thread, Thread::Rests | Thread::Sleeps) {
            state.thread = Thread::Roused;
            if state.pipes.is_some() {
                self.changed.notify_one();
            }
        }
    }

    /// Leaves the seat to whoever comes, until it is the thread's again. `order` is given up once it is free.
    pub(super) fn rest(&self, pipes: P, order: impl Sized) -> P {
        self.set_free(pipes);
        drop(order);
        self.take_back()
    }

    fn set_free(&self, pipes: P) {
        let mut state = lock(&self.state);
        state.pipes = Some(pipes);
        state.thread = Thread::Rests;
    }

    fn take_back(&self) -> P {
        let mut state = lock(&self.state);
        loop {
            let to_read =
                |state: &mut State<P>| state.thread == Thread::Roused && state.pipes.is_some();
            state = wait_at_most(&self.changed, state, REST, to_read).0;
            if state.pipes.is_none() && state.thread == Thread::Rests {
                state.thread = Thread::Sleeps;
            }
            while state.pipes.is_none() {
                state = wait(&self.changed, state);
            }
            if state.thread == Thread::Sleeps {
                state.thread = Thread::Rests;
            }
            let taken = std::mem::take(&mut state.taken);
            if (state.thread == Thread::Roused || !taken)
                && let Some(pipes) = state.pipes.take()
            {
                state.thread = Thread::Reads;
                return pipes;
            }
        }
    }

    fn leave(&self, pipes: P) {
        let mut state = lock(&self.state);
        state.pipes = Some(pipes);
        if state.thread != Thread::Rests {
            self.changed.notify_one();
        }
    }
}

impl<P> Reading<'_, P> {
    /// What to read.
    pub(super) fn pipes(&mut self) -> Option<&mut P> {
        self.pipes.as_mut()
    }
}

impl<P> Drop for Reading<'_, P> {
    fn drop(&mut self) {
        if let Some(pipes) = self.pipes.take() {
            self.seat.leave(pipes);
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests need threads of their own"
)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{self, Scope};
    use std::time::Instant;

    /// Longer than anything takes.
    const LONG: Duration = Duration::from_secs(10);

    /// A seat that is free, so that it can be taken before the thread looks.
    fn free() -> Seat<u8> {
        let seat = Seat::default();
        seat.set_free(7);
        seat
    }

    /// A thread that rests, and tells when it reads again.
    fn rests<'scope>(scope: &'scope Scope<'scope, '_>, seat: &'scope Seat<u8>) -> Receiver<u8> {
        let (read, reads) = channel();
        scope.spawn(move || read.send(seat.take_back()));
        reads
    }

    #[test]
    fn the_thread_takes_a_seat_that_nobody_wants() {
        let seat = Seat::default();
        assert!(seat.take().is_none(), "the thread has it");
        assert_eq!(seat.rest(7, ()), 7);
        assert!(seat.take().is_none());
        seat.rouse();
        assert_eq!(lock(&seat.state).thread, Thread::Reads, "it reads");
    }

    #[test]
    fn the_thread_waits_for_a_caller_that_reads() {
        let seat = free();
        let mut reading = seat.take().unwrap();
        thread::scope(|scope| {
            let reads = rests(scope, &seat);
            reads.recv_timeout(5 * REST).unwrap_err();
            *reading.pipes().unwrap() += 1;
            drop(reading);
            assert_eq!(reads.recv_timeout(LONG), Ok(8));
        });
    }

    #[test]
    fn the_thread_rests_for_a_whole_moment_after_each_turn() {
        let mut met = 0;
        while met < 10 {
            let seat = free();
            thread::scope(|scope| {
                let reads = rests(scope, &seat);
                // Unless the thread was first.
                if let Some(reading) = seat.take() {
                    met += 1;
                    let left = Instant::now();
                    drop(reading);
                    assert_eq!(reads.recv_timeout(LONG), Ok(7));
                    assert!(left.elapsed() >= REST);
                }
            });
        }
    }

    #[test]
    fn who_waits_without_reading_has_the_thread_read_at_once() {
        for sleeps in [false, true] {
            let seat = free();
            let reading = seat.take().unwrap();
            thread::scope(|scope| {
                let reads = rests(scope, &seat);
                while sleeps && lock(&seat.state).thread != Thread::Sleeps {
                    thread::yield_now();
                }
                assert!(seat.take().is_none(), "this one will wait");
                assert_eq!(lock(&seat.state).thread, Thread::Roused);
                drop(reading);
                assert!(seat.take().is_none(), "it is the thread's turn");
                assert_eq!(reads.recv_timeout(LONG), Ok(7));
            });
        }
        let seat = free();
        seat.rouse();
        assert!(seat.take().is_none(), "it is the thread's turn");
        assert_eq!(seat.take_back(), 7);
    }
}
