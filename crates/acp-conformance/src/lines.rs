//! Lines of a bounded length.

use std::io::{BufRead, Read as _};

/// What a stream of lines has next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line, without its newline. The last one may have had none.
    Line(Vec<u8>),
    /// A line that is longer than it may be. What follows is the rest of it.
    TooLong,
    /// Nothing: the stream has ended or failed.
    End,
}

/// Reads the next line, which may have `longest` bytes.
pub(crate) fn next(input: &mut impl BufRead, longest: u64) -> Next {
    let mut line = Vec::new();
    // With its newline.
    match input.take(longest + 1).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => return Next::End,
        Ok(_) => {}
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > longest {
        return Next::TooLong;
    }
    Next::Line(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut input: &[u8], longest: u64) -> Vec<Next> {
        let mut read = Vec::new();
        loop {
            read.push(next(&mut input, longest));
            if !matches!(read.last(), Some(Next::Line(_))) {
                return read;
            }
        }
    }

    #[test]
    fn lines_are_read_with_and_without_a_last_newline() {
        let line = |text: &str| Next::Line(text.into());
        let want = [line("one"), line(""), line("two"), Next::End];
        assert_eq!(all(b"one\n\ntwo", 3), want);
        assert_eq!(all(b"one\n\ntwo\n", 3), want);
    }

    #[test]
    fn a_line_is_too_long_from_one_byte_more() {
        assert_eq!(all(b"abcd\n", 4), [Next::Line("abcd".into()), Next::End]);
        assert_eq!(all(b"abcde\n", 4), [Next::TooLong]);
        assert_eq!(all(b"abcde", 4), [Next::TooLong]);
    }
}
