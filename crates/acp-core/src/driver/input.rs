//! What the agent says, on its way to the engine.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::READ_BUFFER;

/// Reads in a row that empty the largest pipe that the system gives (1 MiB).
pub(super) const MAX_READS: usize = 16;

/// The agent's standard output. It is locked from each read until the engine has what was read, so that whoever
/// reads keeps the order.
#[derive(Debug)]
pub(crate) struct Input<P> {
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
        Self {
            pipe: Some(Arc::clone(pipe)),
            buffer: vec![0; READ_BUFFER],
        }
    }

    /// Nothing is read any more.
    pub(crate) fn end(&mut self) {
        self.pipe = None;
        self.buffer = Vec::new();
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
