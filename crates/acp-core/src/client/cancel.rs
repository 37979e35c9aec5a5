//! A cancel that many can see and anybody can give.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::ids::IdMap;
use crate::sync::{lock, wait_at_most};

/// Cancels a run, from any thread: the agent's turn if one is going on, and the tools as far as they look.
///
/// Clones are the same token. A cancel is for good.
///
/// ```
/// use acp_core::CancelToken;
///
/// let token = CancelToken::new();
/// let stop = token.clone();
/// std::thread::spawn(move || stop.cancel()).join().unwrap();
/// assert!(token.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    cancelled: Condvar,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    /// What is still to be called, in the order in which it was registered.
    callbacks: IdMap<u64, Box<dyn FnOnce() + Send>>,
    next_key: u64,
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, and calls what was registered with [`CancelToken::on_cancel`]. Later calls do nothing.
    ///
    /// # Panics
    ///
    /// With the first panic of a registered function, after all of them were called.
    pub fn cancel(&self) {
        let mut callbacks = {
            let mut state = lock(&self.0.state);
            state.cancelled = true;
            std::mem::take(&mut state.callbacks)
        };
        self.0.cancelled.notify_all();
        let mut panicked: Option<Box<dyn Any + Send>> = None;
        while let Some(callback) = callbacks.pop_first() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(callback)) {
                panicked.get_or_insert(panic);
            }
        }
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    /// Whether it has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.0.state).cancelled
    }

    /// Waits for a cancel, but no longer than this; says whether it has come. It is the sleep of a tool that
    /// has to wait.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let state = lock(&self.0.state);
        wait_at_most(&self.0.cancelled, state, limit, |state| state.cancelled).1
    }

    /// Registers what a cancel has to do, as killing a process. It is called once, on the thread that cancels,
    /// or here and now if that has happened; never after the registration is dropped, except by a cancel that
    /// has begun before.
    #[must_use = "what is registered is forgotten when the registration is dropped"]
    pub fn on_cancel(&self, callback: impl FnOnce() + Send + 'static) -> OnCancel {
        let mut state = lock(&self.0.state);
        let key = state.next_key;
        if state.cancelled {
            drop(state);
            callback();
        } else {
            state.next_key += 1;
            state.callbacks.insert(key, Box::new(callback));
        }
        OnCancel {
            token: self.clone(),
            key,
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// What a [`CancelToken`] is to do on a cancel, as long as this is held.
#[derive(Debug)]
pub struct OnCancel {
    token: CancelToken,
    key: u64,
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        let callback = lock(&self.token.0.state).callbacks.remove(&self.key);
        // Outside of the lock: what it owns may have a drop of its own, which may look at the token.
        drop(callback);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    #[test]
    fn what_is_registered_is_called_once_and_only_while_it_is_held() {
        let token = CancelToken::new();
        let calls = Arc::new(AtomicU32::new(0));
        let add = |amount| {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(amount, Ordering::Relaxed);
            }
        };
        let first = token.on_cancel(add(1));
        drop(token.on_cancel(add(10)));
        let second = token.on_cancel(add(100));
        token.clone().cancel();
        token.cancel();
        assert_eq!(calls.load(Ordering::Relaxed), 101);
        drop((first, second));
        let late = token.on_cancel(add(1000));
        assert_eq!(calls.load(Ordering::Relaxed), 1101);
        drop(late);
        token.cancel();
        assert_eq!(calls.load(Ordering::Relaxed), 1101);
    }

    #[test]
    fn a_panic_keeps_nobody_else_from_being_told() {
        let token = CancelToken::new();
        let _first = token.on_cancel(|| panic!("first"));
        let (tell, told) = std::sync::mpsc::channel();
        let _second = token.on_cancel(move || tell.send(()).unwrap());
        let panic = catch_unwind(AssertUnwindSafe(|| token.cancel())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"first"));
        assert!(told.try_recv().is_ok());
        assert!(token.is_cancelled());
    }

    #[test]
    fn a_callback_may_use_its_token() {
        let token = CancelToken::new();
        let inner = token.clone();
        let registration = token.on_cancel(move || {
            assert!(inner.is_cancelled());
            inner.cancel();
        });
        token.cancel();
        drop(registration);
    }

    #[test]
    fn a_wait_ends_with_the_cancel() {
        let token = CancelToken::new();
        assert!(!token.wait_timeout(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let started = Instant::now();
            let (begin, begins) = std::sync::mpsc::channel();
            let waiting = token.clone();
            let waits = scope.spawn(move || {
                begin.send(()).unwrap();
                waiting.wait_timeout(Duration::from_secs(60))
            });
            begins.recv().unwrap();
            token.cancel();
            assert!(waits.join().unwrap());
            assert!(started.elapsed() < Duration::from_secs(60));
        });
        assert!(token.wait_timeout(Duration::ZERO));
    }
}
