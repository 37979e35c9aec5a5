//! What the agent says, on its way to the engine.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::READ_BUFFER;
use crate::sync::lock;

/// Reads in a row that empty the largest pipe that the system gives (1 MiB).
pub(super) const MAX_READS: usize = 16;

/// The agent's standard output. It is locked from each read until the engine has what was read, so that whoever
/// reads keeps the order.
#[derive(Debug)]
pub(crate) struct Input<P> {
    /// Held while one waits for the rest, so that whoever reads without end cannot take it again before.
    next: Mutex<()>,
    output: Mutex<Output<P>>,
}

#[derive(Debug)]
pub(super) struct Output<P> {
    /// Until its end.
    pub(super) pipe: Option<Arc<P>>,
    pub(super) buffer: Vec<u8>,
}

/// What came of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    Some {
        /// There may be more.
        full: bool,
        /// A turn has ended, or a lane's fate is known.
        settled: bool,
        at: Instant,
    },
    Ended,
}

impl<P> Input<P> {
    pub(crate) fn new(pipe: &Arc<P>) -> Self {
        let output = Output {
            pipe: Some(Arc::clone(pipe)),
            buffer: vec![0; READ_BUFFER],
        };
        Self {
            next: Mutex::new(()),
            output: Mutex::new(output),
        }
    }

    /// Locks, for one who has waited before one who comes again.
    pub(super) fn lock(&self) -> MutexGuard<'_, Output<P>> {
        let _next = lock(&self.next);
        lock(&self.output)
    }

    /// Nothing is read any more.
    pub(crate) fn end(&self) {
        let mut output = self.lock();
        output.pipe = None;
        output.buffer = Vec::new();
    }
}

/// Reads from a pipe that does not wait.
pub(crate) fn try_read(pipe: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(nix::unistd::read(pipe, buffer)?)
}

/// Whether the next read may bring what this one did not.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn who_waits_is_next() {
        let input = Input::new(&Arc::new(()));
        let order = Mutex::new(Vec::new());
        let reads = input.lock();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _reads = input.lock();
                lock(&order).push("who waits");
            });
            while input.next.try_lock().is_ok() {
                thread::yield_now();
            }
            drop(reads);
            let _reads = input.lock();
            lock(&order).push("who comes again");
        });
        assert_eq!(*lock(&order), ["who waits", "who comes again"]);
    }
}
