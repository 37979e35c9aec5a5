//! The end of what a process writes, however much that is.

use std::{
    io::Read,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How much is kept, in bytes.
const KEPT: usize = 64 * 1024;

/// The last 64 KiB of one or more streams. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Takes in all of `stream`. One that fails has ended.
    pub(crate) fn keep(&self, mut stream: impl Read) {
        let mut buffer = [0; 8192];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            let mut kept = self.kept();
            kept.extend_from_slice(&buffer[..read]);
            let excess = kept.len().saturating_sub(KEPT);
            kept.drain(..excess);
        }
    }

    /// What is kept so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept()).into_owned()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<u8>> {
        // Nobody panics while it is locked; if somebody did, the bytes would still be bytes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_flood_is_its_end() {
        let mut flood = vec![b'x'; 3 * KEPT];
        flood.extend_from_slice(b"the end");
        let tail = Tail::default();
        tail.keep(&flood[..]);
        let text = tail.text();
        assert_eq!(text.len(), KEPT);
        assert!(text.ends_with("the end"));
    }
}
