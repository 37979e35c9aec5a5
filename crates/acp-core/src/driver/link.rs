//! The process that lanes find their way to, which may be a new one after a death.

use std::sync::{Arc, Mutex};

use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::sync::lock;
use crate::turn::TurnOptions;

/// A driver's side of one process.
pub(crate) trait Driven: Sized {
    /// Starts a process.
    fn start(options: &LoadOptions) -> Result<Arc<Self>, LoadError>;

    /// Ends a process whose place another takes.
    fn replace(self: &Arc<Self>);

    /// Whether the process is worn out and nothing goes on in it. Nothing is begun in it then.
    fn retire(&self) -> bool;

    /// Whether a host that wants a new process after a failure should start one now.
    fn is_lost(&self) -> bool;
}

pub(crate) struct Link<D> {
    options: LoadOptions,
    /// Locked for a moment only.
    state: Mutex<State<D>>,
    /// Held while a lost process is replaced, so that only one caller does it.
    replacing: Mutex<()>,
}

struct State<D> {
    shared: Arc<D>,
    closed: bool,
}

impl<D: Driven> Link<D> {
    /// Starts the first process.
    pub(crate) fn start(options: LoadOptions) -> Result<Arc<Self>, LoadError> {
        let shared = D::start(&options)?;
        let state = State {
            shared,
            closed: false,
        };
        Ok(Arc::new(Self {
            options,
            state: Mutex::new(state),
            replacing: Mutex::new(()),
        }))
    }

    /// The process for the next turn. One that is worn out is replaced first, and with
    /// [`LoadOptions::restart`] one that is lost; the turns that it was lost with stay lost, because they
    /// may have had effects.
    pub(crate) fn live(&self) -> Result<Arc<D>, LoadError> {
        let _replacing = lock(&self.replacing);
        let shared = self.shared();
        let closed = self.is_closed();
        if closed || !(shared.retire() || self.options.restart && shared.is_lost()) {
            return Ok(shared);
        }
        shared.replace();
        let new = D::start(&self.options)?;
        let mut state = lock(&self.state);
        if state.closed {
            // Closed meanwhile, by somebody who could not know of the new one.
            drop(state);
            new.replace();
            return Ok(new);
        }
        state.shared = Arc::clone(&new);
        Ok(new)
    }

    /// The process now.
    pub(crate) fn shared(&self) -> Arc<D> {
        Arc::clone(&lock(&self.state).shared)
    }

    /// Whether nothing takes the place of a process any more.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Lets nothing take the place of the process any more, and hands it out to be closed.
    pub(crate) fn close(&self) -> Arc<D> {
        let mut state = lock(&self.state);
        state.closed = true;
        Arc::clone(&state.shared)
    }

    pub(crate) fn turn_options(&self) -> TurnOptions {
        self.options.turn
    }
}
