//! Bytes to lines.

use memchr::memchr;

/// Collects bytes until a line is whole.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Adds `bytes` and hands out each line that became whole, without its newline. Each byte is
    /// looked at once, however long a line is.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = memchr(b'\n', bytes) {
            if self.partial.is_empty() {
                line(&bytes[..end]);
            } else {
                self.partial.extend_from_slice(&bytes[..end]);
                line(&self.partial);
                self.partial.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.partial.extend_from_slice(bytes);
    }

    /// What came after the last newline, at the end of the input.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.partial)).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_bytes_are_cut() {
        let text = "a\n\nbé\r\nlong line\nrest".as_bytes();
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk, |line| {
                    got.push(String::from_utf8(line.to_vec()).unwrap())
                });
            }
            assert_eq!(got, ["a", "", "bé\r", "long line"], "cut every {size}");
            assert_eq!(lines.rest().as_deref(), Some(&b"rest"[..]));
            assert_eq!(lines.rest(), None);
        }
    }
}
