//! Bytes to lines.
//!
//! ACP frames messages by newline. A read from a pipe is no message: it can end inside a line, inside
//! a character, or hold a thousand lines. [`LineDecoder`] splits on the byte `\n` before anything is
//! decoded, so no character is ever cut, looks at each byte once, and holds at most one line of a
//! stated length.

/// Capacity that is kept for the next line when a longer one has passed.
const KEEP_CAPACITY: usize = 256 * 1024;

/// Splits a stream of bytes into lines of a bounded length.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    /// The start of a line whose newline has not come yet.
    partial: Vec<u8>,
    /// Longest line that is passed on, in bytes without its newline.
    max_len: usize,
    /// Bytes of an overlong line that were thrown away so far; `None` outside such a line.
    skipped: Option<usize>,
}

/// What [`LineDecoder::feed`] hands out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// One line, without its newline.
    Whole(&'a [u8]),
    /// A line longer than the limit; it was thrown away.
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
}

impl LineDecoder {
    /// A decoder that passes lines of up to `max_len` bytes.
    pub(crate) fn new(max_len: usize) -> Self {
        Self {
            partial: Vec::new(),
            max_len,
            skipped: None,
        }
    }

    /// Takes the next bytes and calls `each` for every line they complete, in order.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if let Some(skipped) = self.skipped.take() {
                each(Line::TooLong {
                    len: skipped + head.len(),
                });
            } else if self.partial.len() + head.len() > self.max_len {
                let len = self.partial.len() + head.len();
                self.reset();
                each(Line::TooLong { len });
            } else if self.partial.is_empty() {
                // The common case: the line is passed on where it lies.
                each(Line::Whole(head));
            } else {
                self.partial.extend_from_slice(head);
                each(Line::Whole(&self.partial));
                self.reset();
            }
        }
        if let Some(skipped) = &mut self.skipped {
            *skipped += bytes.len();
        } else if self.partial.len() + bytes.len() > self.max_len {
            self.skipped = Some(self.partial.len() + bytes.len());
            self.reset();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// Ends the stream: a last line without a newline still counts.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        if let Some(len) = self.skipped.take() {
            each(Line::TooLong { len });
        } else if !self.partial.is_empty() {
            each(Line::Whole(&self.partial));
        }
        self.reset();
    }

    /// Forgets the line so far, and the memory of an unusually long one.
    fn reset(&mut self) {
        self.partial.clear();
        self.partial.shrink_to(KEEP_CAPACITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(max_len: usize, chunks: &[&[u8]]) -> Vec<Result<Vec<u8>, usize>> {
        let mut decoder = LineDecoder::new(max_len);
        let mut out = Vec::new();
        let mut push = |line: Line<'_>| {
            out.push(match line {
                Line::Whole(bytes) => Ok(bytes.to_vec()),
                Line::TooLong { len } => Err(len),
            });
        };
        for chunk in chunks {
            decoder.feed(chunk, &mut push);
        }
        decoder.finish(&mut push);
        out
    }

    #[test]
    fn any_split_gives_the_same_lines() {
        let stream = "{\"a\":\"你好\"}\n\n{\"b\":2}\r\nlast".as_bytes();
        let whole = lines(64, &[stream]);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[3], Ok(b"last".to_vec()));
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(lines(64, &[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(lines(64, &bytes), whole);
    }

    #[test]
    fn an_overlong_line_is_dropped_and_the_next_one_lives() {
        for chunks in [
            vec![&b"12345\nok\n"[..]],
            vec![b"12", b"34", b"5", b"\nok\n"],
            vec![b"12345", b"\n", b"ok\n"],
        ] {
            assert_eq!(lines(4, &chunks), [Err(5), Ok(b"ok".to_vec())]);
        }
        for chunks in [
            vec![&b"1234\n"[..]],
            vec![b"1234", b"\n"],
            vec![b"1", b"234\n"],
        ] {
            assert_eq!(lines(4, &chunks), [Ok(b"1234".to_vec())]);
        }
        assert_eq!(lines(4, &[b"12345", b"67\n"]), [Err(7)]);
        assert_eq!(lines(4, &[b"12345", b"67", b"8", b"9\n"]), [Err(9)]);
        assert_eq!(lines(4, &[b"12345"]), [Err(5)]);
    }

    #[test]
    fn a_long_line_does_not_keep_its_memory() {
        let mut decoder = LineDecoder::new(8 << 20);
        decoder.feed(&vec![b'x'; 4 << 20], |_| {});
        decoder.feed(b"\n", |_| {});
        assert!(decoder.partial.capacity() <= 256 * 1024);
        // That of usual lines is kept.
        decoder.feed(&[b'x'; 200 * 1024], |_| {});
        decoder.feed(b"\n", |_| {});
        assert!(decoder.partial.capacity() >= 200 * 1024);
    }
}
