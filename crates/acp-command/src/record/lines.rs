//! What passes on one pipe, cut into lines that wait to be written down, with a bound on both.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::mem;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The longest line that is written down whole, in bytes; less in unit tests, for their speed.
pub(super) const LONGEST_LINE: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };
/// How much more of a longer line is looked at, so that no half of a secret is written, in bytes.
pub(super) const MARGIN: usize = 4 << 10;
/// How much may wait for the file, in bytes. What comes then waits in its pipe.
const IN_FLIGHT: usize = 8 << 20;
/// How much a pipe can hold at most, where nobody has changed the system's settings.
const PIPE: usize = 1 << 20;

/// Something to be written down.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) at: Instant,
    pub(super) direction: &'static str,
    /// `None` at the end of the pipe.
    pub(super) line: Option<Line>,
}

/// A line, or what came before the end of the pipe.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Its beginning, without its line feed: of a longer one as much as is looked at.
    pub(super) bytes: Vec<u8>,
    /// How many bytes it has.
    pub(super) length: u64,
    /// Whether a line feed ends it.
    pub(super) ended: bool,
}

impl Note {
    fn size(&self) -> usize {
        size_of::<Note>() + self.line.as_ref().map_or(0, |line| line.bytes.len())
    }
}

/// A queue of notes, of which no more than [`IN_FLIGHT`] bytes wait. A recording without gaps is worth
/// more than the last bit of speed, so whoever is faster than the file waits for it, as for any reader.
pub(super) fn queue() -> (NoteSender, NoteReceiver) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::new(Waiting::default());
    let sender = NoteSender {
        notes: sender,
        waiting: Arc::clone(&waiting),
    };
    let receiver = NoteReceiver {
        notes: receiver,
        waiting,
    };
    (sender, receiver)
}

/// The bytes that wait.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Mutex<usize>,
    fewer: Condvar,
}

#[derive(Debug, Clone)]
pub(super) struct NoteSender {
    notes: Sender<Note>,
    waiting: Arc<Waiting>,
}

impl NoteSender {
    fn send(&self, note: Note) {
        let size = note.size();
        let bytes = self.waiting.bytes.lock();
        let is_full = |bytes: &mut usize| *bytes > 0 && *bytes + size > IN_FLIGHT;
        let bytes = bytes.unwrap_or_else(PoisonError::into_inner);
        let bytes = self.waiting.fewer.wait_while(bytes, is_full);
        *bytes.unwrap_or_else(PoisonError::into_inner) += size;
        // The writer is there until the last of these is gone.
        let _ = self.notes.send(note);
    }
}

#[derive(Debug)]
pub(super) struct NoteReceiver {
    notes: Receiver<Note>,
    waiting: Arc<Waiting>,
}

impl NoteReceiver {
    /// Gives each note to `write`, until nothing sends any more.
    pub(super) fn for_each(self, mut write: impl FnMut(&Note)) {
        for note in self.notes {
            write(&note);
            let bytes = self.waiting.bytes.lock();
            *bytes.unwrap_or_else(PoisonError::into_inner) -= note.size();
            self.waiting.fewer.notify_all();
        }
    }
}

/// The bytes of one direction, cut into lines.
pub(super) struct Lines {
    direction: &'static str,
    notes: NoteSender,
    /// What has come of a line that has no end yet.
    rest: Line,
}

impl Lines {
    pub(super) fn new(direction: &'static str, notes: NoteSender) -> Self {
        Self {
            direction,
            notes,
            rest: Line::default(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.rest.length += text.len() as u64;
            let room = (LONGEST_LINE + MARGIN).saturating_sub(self.rest.bytes.len());
            let kept = &text[..text.len().min(room)];
            self.rest.bytes.extend_from_slice(kept);
            if piece.len() > text.len() {
                self.rest.ended = true;
                let line = mem::take(&mut self.rest);
                self.note(Some(line));
            }
        }
    }

    /// Takes what has been written already, which is no more than a pipe holds.
    pub(super) fn drain(&mut self, from: &mut File, piece: &mut [u8]) {
        if from.is_terminal() {
            // What somebody has typed since is for whoever reads the terminal next.
            return;
        }
        let mut left = PIPE;
        while left > 0 {
            let mut ends = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut ends, PollTimeout::ZERO) == Ok(1)
                && ends[0]
                    .revents()
                    .is_some_and(|it| it.contains(PollFlags::POLLIN));
            if !ready {
                return;
            }
            match from.read(piece) {
                Ok(0) | Err(_) => return,
                Ok(count) => self.push(&piece[..count]),
            }
            left = left.saturating_sub(piece.len());
        }
    }

    pub(super) fn end(mut self) {
        let rest = mem::take(&mut self.rest);
        if rest.length > 0 {
            self.note(Some(rest));
        }
        self.note(None);
    }

    fn note(&self, line: Option<Line>) {
        self.notes.send(Note {
            at: Instant::now(),
            direction: self.direction,
            line,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_waits_is_bounded_and_all_of_it_arrives() {
        const PIECES: usize = 3 * IN_FLIGHT / LONGEST_LINE;
        let (sender, receiver) = queue();
        let waiting = Arc::clone(&receiver.waiting);
        let mut piece = vec![b'x'; LONGEST_LINE];
        piece.push(b'\n');
        let writer = thread::spawn(move || {
            let mut lines = Lines::new("a2c", sender);
            (0..PIECES).for_each(|_| lines.push(&piece));
            // Empty lines take room, too.
            (0..1000).for_each(|_| lines.push(b"\n"));
            lines.end();
        });
        // The sender goes on only when there is room, so this comes about however fast either is.
        let full = IN_FLIGHT - 2 * LONGEST_LINE;
        while *waiting.bytes.lock().unwrap() < full {
            thread::yield_now();
        }
        let mut noted = 0;
        receiver.for_each(|_| {
            noted += 1;
            assert!(*waiting.bytes.lock().unwrap() <= IN_FLIGHT);
        });
        writer.join().unwrap();
        assert_eq!(noted, PIECES + 1000 + 1);
        assert_eq!(*waiting.bytes.lock().unwrap(), 0);
    }

    #[test]
    fn of_a_line_without_end_a_part_is_kept() {
        let (sender, receiver) = queue();
        let mut lines = Lines::new("a2c", sender);
        let piece = vec![b'x'; 3 << 20];
        (0..3).for_each(|_| lines.push(&piece));
        lines.push(b"\n");
        lines.end();
        let mut noted = Vec::new();
        receiver.for_each(|note| {
            let line = note.line.as_ref();
            noted.push(line.map(|line| (line.bytes.len(), line.length, line.ended)));
        });
        let kept = LONGEST_LINE + MARGIN;
        assert_eq!(noted, [Some((kept, 9 << 20, true)), None]);
    }
}
