//! A cancel that can be given from elsewhere.

use std::fmt;
use std::sync::Arc;

/// Cancels one turn. If the turn has ended, it does nothing.
#[derive(Clone)]
pub struct Canceller(Arc<dyn Fn() + Send + Sync>);

impl Canceller {
    pub(crate) fn new(cancel: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(cancel))
    }

    /// Cancels the turn. It returns when the cancel is on its way, not when the turn has ended.
    pub fn cancel(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}
