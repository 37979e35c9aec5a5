//! The end of a stream, for the messages of errors.

use std::collections::VecDeque;

/// Keeps the last bytes of what was pushed.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    /// Whether anything was thrown away.
    cut: bool,
}

impl Tail {
    /// Keeps up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            limit,
            cut: false,
        }
    }

    /// Adds bytes; the oldest give way.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.limit)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(self.limit);
        if excess > 0 {
            self.bytes.drain(..excess);
            self.cut = true;
        }
        self.bytes.extend(bytes);
    }

    /// The text, from the first whole line if its beginning was thrown away.
    pub(crate) fn text(&self) -> String {
        let (front, back) = self.bytes.as_slices();
        let bytes = [front, back].concat();
        let start = match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) if self.cut => end + 1,
            _ => 0,
        };
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_shown_whole() {
        let mut tail = Tail::new(10);
        tail.push(b"one\ntwo\n12");
        assert_eq!(tail.text(), "one\ntwo\n12");
        tail.push(b"3");
        assert_eq!(tail.text(), "two\n123", "cut in its first line");
    }

    #[test]
    fn keeps_the_end_and_no_more() {
        let mut tail = Tail::new(10);
        tail.push(b"one\n");
        assert_eq!(tail.text(), "one\n");
        tail.push(b"two\nthree\n");
        assert_eq!(tail.text(), "three\n");
        tail.push(&[b'x'; 1000]);
        assert_eq!(
            tail.text(),
            "x".repeat(10),
            "a line without end is shown cut"
        );
        assert!(tail.bytes.len() <= 10);
    }
}
