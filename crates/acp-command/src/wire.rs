//! The process that passes on an agent's wire, byte for byte, and writes down what passes.
//!
//! Each direction has a thread that waits for its reader only, so the two cannot stop each other. A line
//! is noted before it is passed on, so that its answer comes after it, and written to the file by a
//! thread of its own, so that neither a slow disk nor the search for secrets holds up the wire.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use acp_core::Secrets;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;
use serde_json::{Value, json};

use crate::cli::RecordWire;
use crate::failure::Failure;
use crate::trace::{self, millis_between};

/// How much is passed on at a time, in bytes.
const PIECE: usize = 64 * 1024;
/// How much a pipe can hold at most, where nobody has changed the system's settings.
const PIPE: usize = 1024 * 1024;

/// Passes on what an agent's three pipes carry, until all of them have ended.
pub(crate) fn run(args: &RecordWire) -> Result<(), Failure> {
    let failed = |error| Failure::options(format!("the wire cannot be recorded: {error}"));
    if args.detach {
        return detached(args).map_err(failed);
    }
    let file = trace::create(&args.out, true)?;
    let [to_agent, from_agent, from_stderr] = pipes(&args.pipes).map_err(failed)?;
    let [from_client, to_client, to_stderr] = own_streams().map_err(failed)?;
    let recording = Recording::start(file, args);
    let (notes, noted) = mpsc::channel();
    thread::scope(|scope| {
        for (from, to, direction) in [
            (from_client, to_agent, "c2a"),
            (from_agent, to_client, "a2c"),
            (from_stderr, to_stderr, "stderr"),
        ] {
            let lines = Lines::new(direction, notes.clone());
            scope.spawn(|| pass(from, to, lines));
        }
        drop(notes);
        recording.write_all(noted);
    });
    Ok(())
}

/// Does the same in another process, in a group of its own, so that it sees the end of what it records.
fn detached(args: &RecordWire) -> io::Result<()> {
    let pipes: Vec<String> = args.pipes.iter().map(ToString::to_string).collect();
    Command::new(env::current_exe()?)
        .args(["record-wire", "--pipes", &pipes.join(","), "--out"])
        .arg(&args.out)
        .arg("--")
        .args(&args.command)
        .process_group(0)
        .spawn()
        .map(drop)
}

/// The agent's ends, which were left open for this process.
fn pipes(numbers: &[i32]) -> io::Result<[File; 3]> {
    let [to_agent, from_agent, from_stderr] = *numbers else {
        return Err(io::Error::other("three pipes are needed"));
    };
    Ok([
        reopen(to_agent, OpenOptions::new().write(true))?,
        reopen(from_agent, OpenOptions::new().read(true))?,
        reopen(from_stderr, OpenOptions::new().read(true))?,
    ])
}

/// A pipe by the number under which it was inherited. Only one way to it is left, or it would never end.
fn reopen(number: i32, options: &OpenOptions) -> io::Result<File> {
    let file = options.open(format!("/dev/fd/{number}"))?;
    unistd::close(number)?;
    Ok(file)
}

/// The client's ends. Nothing else in this process holds them any more, so that they can be closed.
fn own_streams() -> io::Result<[File; 3]> {
    let streams = [
        io::stdin().as_fd().try_clone_to_owned()?,
        io::stdout().as_fd().try_clone_to_owned()?,
        io::stderr().as_fd().try_clone_to_owned()?,
    ];
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    unistd::dup2_stdin(&null)?;
    unistd::dup2_stdout(&null)?;
    unistd::dup2_stderr(&null)?;
    Ok(streams.map(File::from))
}

/// Passes on what comes until it ends, or until nobody reads it, and then closes both ends.
fn pass(mut from: File, mut to: File, mut lines: Lines) {
    let mut piece = vec![0; PIECE];
    loop {
        match wait(&from, &to) {
            Ok(Ready::Data) => {}
            // Whoever writes must get to know that nobody reads, and what was written counts.
            Ok(Ready::NoReader) => break lines.drain(&mut from, &mut piece),
            Err(_) => break,
        }
        let count = match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        lines.push(&piece[..count]);
        if to.write_all(&piece[..count]).is_err() {
            break lines.drain(&mut from, &mut piece);
        }
    }
    lines.end();
}

/// Why a wait is over.
#[derive(Debug, PartialEq)]
enum Ready {
    /// There is something to read, or the end of it.
    Data,
    /// Nobody reads what would be written.
    NoReader,
}

fn wait(from: &impl AsFd, to: &impl AsFd) -> nix::Result<Ready> {
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    let mut ends = [
        PollFd::new(from.as_fd(), PollFlags::POLLIN),
        PollFd::new(to.as_fd(), PollFlags::empty()),
    ];
    loop {
        match poll(&mut ends, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
            Ok(_) if ends[1].revents().is_some_and(|it| it.intersects(gone)) => {
                return Ok(Ready::NoReader);
            }
            Ok(_) => return Ok(Ready::Data),
        }
    }
}

/// Something to be written down.
struct Note {
    at: Instant,
    direction: &'static str,
    /// A line with its line feed, or the last one without; `None` at the end of the pipe.
    line: Option<Vec<u8>>,
}

/// The bytes of one direction, cut into lines.
struct Lines {
    direction: &'static str,
    notes: Sender<Note>,
    /// What has come of a line that has no end yet.
    rest: Vec<u8>,
}

impl Lines {
    fn new(direction: &'static str, notes: Sender<Note>) -> Self {
        Self {
            direction,
            notes,
            rest: Vec::new(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = mem::take(&mut self.rest);
                self.note(Some(line));
            }
        }
    }

    /// Takes what has been written already, which is no more than a pipe holds.
    fn drain(&mut self, from: &mut File, piece: &mut [u8]) {
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

    fn end(mut self) {
        let rest = mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.note(Some(rest));
        }
        self.note(None);
    }

    fn note(&self, line: Option<Vec<u8>>) {
        // The writer is there until the last of these is gone.
        let _ = self.notes.send(Note {
            at: Instant::now(),
            direction: self.direction,
            line,
        });
    }
}

/// The file.
struct Recording {
    started: Instant,
    secrets: Secrets,
    file: File,
}

impl Recording {
    fn start(file: File, args: &RecordWire) -> Self {
        let mut secrets = Secrets::default();
        secrets.add_environment();
        let words = args.command.iter();
        let command: Vec<String> = words
            .map(|word| secrets.mask(&word.to_string_lossy()).into_owned())
            .collect();
        let started = Instant::now();
        let mut recording = Self {
            started,
            secrets,
            file,
        };
        let start = json!({
            "command": command,
            "cwd": env::current_dir().ok(),
            "home": env::home_dir(),
            "temp": env::temp_dir(),
        });
        recording.write(started, json!({"start": start}));
        recording
    }

    fn write_all(mut self, notes: impl IntoIterator<Item = Note>) {
        for note in notes {
            let record = self.record(&note);
            self.write(note.at, record);
        }
    }

    fn record(&self, note: &Note) -> Value {
        let Some(bytes) = &note.line else {
            return json!({"dir": note.direction, "end": true});
        };
        let line = str::from_utf8(bytes).ok();
        if let Some(line) = line.and_then(|line| line.strip_suffix('\n')) {
            return json!({"dir": note.direction, "line": self.secrets.mask_line(line)});
        }
        let text = String::from_utf8_lossy(bytes);
        let masked = self.secrets.mask(&text);
        let raw: String = if masked == text {
            bytes.iter().copied().map(char::from).collect()
        } else {
            // What is masked is text, and is written as its UTF-8.
            masked.bytes().map(char::from).collect()
        };
        json!({"dir": note.direction, "raw": raw})
    }

    fn write(&mut self, at: Instant, mut record: Value) {
        record["t_ms"] = millis_between(self.started, at).into();
        // A full disk must not end the conversation, and there is nobody to tell in the middle of it. Each
        // line is one write, so that none is torn when this process is killed.
        let _ = self.file.write_all(format!("{record}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(pieces: &[&[u8]]) -> Vec<Value> {
        let path = tempfile::NamedTempFile::new().unwrap();
        let recording = Recording {
            started: Instant::now(),
            secrets: Secrets::default(),
            file: path.reopen().unwrap(),
        };
        let (notes, noted) = mpsc::channel();
        let mut lines = Lines::new("a2c", notes);
        pieces.iter().for_each(|piece| lines.push(piece));
        lines.end();
        recording.write_all(noted);
        let text = std::fs::read_to_string(path.path()).unwrap();
        let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
        values
            .map(|mut value: Value| {
                assert!(value["t_ms"].is_number());
                value.as_object_mut().unwrap().remove("t_ms");
                value
            })
            .collect()
    }

    #[test]
    fn bytes_are_written_as_lines_however_they_are_cut() {
        let end = json!({"dir": "a2c", "end": true});
        let line = |text: &str| json!({"dir": "a2c", "line": text});
        let raw = |text: &str| json!({"dir": "a2c", "raw": text});
        assert_eq!(
            recorded(&[b"a\nb", b"", b"c\n\n\xc3", b"\xa4\r\n"]),
            [line("a"), line("bc"), line(""), line("ä\r"), end.clone()]
        );
        assert_eq!(
            recorded(&[b"\xff\n", b"no end"]),
            [raw("\u{ff}\n"), raw("no end"), end]
        );
    }

    #[test]
    fn secrets_are_masked_in_lines_and_in_bytes() {
        let lines = recorded(&[b"token=abcdefgh\n", b"\xff token=abcdefgh\n"]);
        assert_eq!(lines[0]["line"], "token=[masked]");
        let raw = lines[1]["raw"].as_str().unwrap();
        assert!(raw.ends_with(" token=[masked]\n"), "{raw:?}");
    }
}
