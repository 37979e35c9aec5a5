//! The file that a recording is written to.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use acp_core::Secrets;
use nix::fcntl::OFlag;
use serde_json::{Value, json};

use super::command;
use super::lines::{LONGEST_LINE, Line, MARGIN, Note};
use crate::cli::RecordWire;
use crate::failure::Failure;
use crate::trace::millis_between;

/// What the structure of a message marks as secret stands behind one of these, and the structure of a
/// line without its end cannot be seen. An escape may spell any of them.
const STRUCTURED: [&str; 4] = ["\"env\"", "\"headers\"", "authenticate", "\\u00"];

/// Opens the file for more to be added. Nothing but a regular file will do: a pipe is read by nobody, or
/// is the wire itself.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let refused =
        |why: String| Failure::options(format!("{} cannot be written: {why}", path.display()));
    // Opening some devices does something already.
    if let Ok(found) = fs::metadata(path) {
        check(&found).map_err(refused)?;
    }
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        // What people ask and are told is nobody else's business.
        .mode(0o600)
        // It may have become a pipe since.
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(|error| refused(error.to_string()))?;
    let found = file
        .metadata()
        .map_err(|error| refused(error.to_string()))?;
    check(&found).map_err(refused)?;
    Ok(file)
}

fn check(found: &fs::Metadata) -> Result<(), String> {
    let kind = found.file_type();
    let what = if kind.is_file() {
        let same = |stream: io::Result<std::os::fd::OwnedFd>| {
            let stream = stream.and_then(|stream| File::from(stream).metadata());
            stream.is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()))
        };
        let is_wire = same(io::stdin().as_fd().try_clone_to_owned())
            || same(io::stdout().as_fd().try_clone_to_owned())
            || same(io::stderr().as_fd().try_clone_to_owned());
        if !is_wire {
            return Ok(());
        }
        "the agent's own standard input, output or error"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(format!(
        "it is {what}, and a recording needs a file of its own"
    ))
}

/// One agent process, as it is written down.
pub(super) struct Recording<W> {
    started: Instant,
    /// Tells the records of this process from those of others that add to the same file.
    process: String,
    secrets: Secrets,
    file: W,
    /// Whether what was written last has no line feed.
    torn: bool,
    /// How many records could not be written since the last that could, and why.
    lost: u64,
    /// Is told when the first record is lost, until the end of standard error has been noted.
    complain: Option<Complain>,
}

type Complain = Box<dyn FnOnce(&io::Error) + Send>;

impl Recording<File> {
    /// Begins with what is known of the process.
    pub(super) fn start(
        mut file: File,
        args: &RecordWire,
        complain: impl FnOnce(&io::Error) + Send + 'static,
    ) -> Self {
        let mut secrets = Secrets::default();
        secrets.add_environment();
        let command = command::masked(&args.command, &mut secrets);
        // A recorder that was killed may have left half a line.
        let torn = is_torn(&mut file).unwrap_or(false);
        let mut recording = Recording::new(file, secrets);
        recording.torn = torn;
        recording.complain = Some(Box::new(complain));
        let start = json!({
            "command": command,
            "cwd": env::current_dir().ok(),
            "home": env::home_dir(),
            "temp": env::temp_dir(),
        });
        recording.write(recording.started, json!({"start": start}));
        recording
    }
}

fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

impl<W: Write> Recording<W> {
    fn new(file: W, secrets: Secrets) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.map_or(0, |time| time.as_micros());
        Self {
            started: Instant::now(),
            // Process ids come again, and containers that share a file have the same ones.
            process: format!("{}-{time:x}", process::id()),
            secrets,
            file,
            torn: false,
            lost: 0,
            complain: None,
        }
    }

    pub(super) fn note(&mut self, note: &Note) {
        let mut record = match &note.line {
            None => json!({"end": true}),
            Some(line) if line.length > LONGEST_LINE as u64 => self.cut(line),
            Some(line) => self.whole(line),
        };
        record["dir"] = note.direction.into();
        self.write(note.at, record);
        if note.line.is_none() && note.direction == "stderr" {
            self.complain = None;
        }
    }

    fn whole(&self, line: &Line) -> Value {
        if let Ok(text) = str::from_utf8(&line.bytes)
            && line.ended
        {
            return json!({"line": self.secrets.mask_line(text)});
        }
        let mut bytes = line.bytes.clone();
        if line.ended {
            bytes.push(b'\n');
        }
        let text = String::from_utf8_lossy(&bytes);
        let masked = self.secrets.mask(&text);
        let raw: String = if masked == text {
            bytes.iter().copied().map(char::from).collect()
        } else {
            // What is masked is text, and is written as its UTF-8.
            masked.bytes().map(char::from).collect()
        };
        json!({"raw": raw})
    }

    /// The beginning of a line that is too long, and how much it lacks.
    fn cut(&self, line: &Line) -> Value {
        let (text, member) = match str::from_utf8(&line.bytes) {
            Ok(text) => (text.to_owned(), "line"),
            // The end of what was kept may be within a character.
            Err(error) if error.error_len().is_none() => {
                let whole = &line.bytes[..error.valid_up_to()];
                (String::from_utf8_lossy(whole).into_owned(), "line")
            }
            Err(_) => (line.bytes.iter().copied().map(char::from).collect(), "raw"),
        };
        let first = STRUCTURED.iter().filter_map(|word| text.find(word)).min();
        let end = first.unwrap_or(text.len()).min(LONGEST_LINE);
        let mut head = &text[..text.floor_char_boundary(end)];
        // Half of a secret looks like none.
        let masked = self.secrets.mask(&text);
        while !masked.starts_with(&*self.secrets.mask(head)) {
            head = &head[..head.floor_char_boundary(head.len().saturating_sub(MARGIN))];
        }
        let kept = match member {
            "line" => head.len(),
            _ => head.chars().count(),
        };
        json!({member: self.secrets.mask(head), "cut": line.length - kept as u64})
    }

    fn write(&mut self, at: Instant, record: Value) {
        // What went past while nothing could be written is not passed over in silence.
        if self.lost > 0 && self.append(at, json!({"lost": self.lost})) {
            self.lost = 0;
        }
        if self.lost > 0 || !self.append(at, record) {
            self.lost += 1;
        }
    }

    /// Adds a record; whether it is there. Each is one write, so that none is torn when this process is
    /// killed and none is mixed with those of another one.
    fn append(&mut self, at: Instant, mut record: Value) -> bool {
        record["t_ms"] = millis_between(self.started, at).into();
        record["process"] = self.process.as_str().into();
        let fresh = if self.torn { "\n" } else { "" };
        let text = format!("{fresh}{record}\n");
        let mut left = text.as_bytes();
        while !left.is_empty() {
            let written = match self.file.write(left) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                other => other,
            };
            match written {
                Ok(count) => {
                    left = &left[count..];
                    self.torn = !left.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A full disk must not end the conversation.
                Err(error) => {
                    if let Some(complain) = self.complain.take() {
                        complain(&error);
                    }
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::record::lines::{Lines, queue};

    /// Takes this many bytes, fails for some writes, and takes the rest.
    #[derive(Default)]
    struct Disk {
        room: usize,
        failures: usize,
        written: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 && self.failures > 0 {
                self.failures -= 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            let count = if self.failures > 0 {
                bytes.len().min(self.room)
            } else {
                bytes.len()
            };
            self.room = self.room.saturating_sub(count);
            self.written.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(recording: &mut Recording<Disk>, pieces: &[&[u8]]) {
        let (sender, receiver) = queue();
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let mut lines = Lines::new("a2c", sender);
        let writer = std::thread::spawn(move || {
            pieces.iter().for_each(|piece| lines.push(piece));
            lines.end();
        });
        receiver.for_each(|note| recording.note(note));
        writer.join().unwrap();
    }

    fn recorded_with(secrets: Secrets, pieces: &[&[u8]]) -> Vec<Value> {
        let mut recording = Recording::new(Disk::default(), secrets);
        write(&mut recording, pieces);
        let text = String::from_utf8(std::mem::take(&mut recording.file.written)).unwrap();
        let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
        values
            .map(|mut value: Value| {
                let members = value.as_object_mut().unwrap();
                assert!(members.remove("t_ms").unwrap().is_number());
                assert_eq!(members.remove("process").unwrap(), recording.process);
                value
            })
            .collect()
    }

    fn recorded(pieces: &[&[u8]]) -> Vec<Value> {
        recorded_with(Secrets::default(), pieces)
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

    #[test]
    fn a_long_line_is_cut_and_says_by_how_much() {
        let whole = vec![b'x'; LONGEST_LINE];
        let lines = recorded(&[&whole, b"\n"]);
        assert_eq!(lines[0]["line"].as_str().unwrap().len(), LONGEST_LINE);
        assert_eq!(lines[0].get("cut"), None);

        for cut in [1, LONGEST_LINE] {
            let lines = recorded(&[&whole, &whole[..cut], b"\n"]);
            assert_eq!(lines[0]["line"].as_str().unwrap().len(), LONGEST_LINE);
            assert_eq!(lines[0]["cut"], cut);
        }
        // Two bytes each, and one before them: the last whole one ends at an odd number.
        let odd = format!("x{}", "ä".repeat(LONGEST_LINE / 2));
        let lines = recorded(&[odd.as_bytes(), b"\n"]);
        assert_eq!(lines[0]["line"].as_str().unwrap().len(), LONGEST_LINE - 1);
        assert_eq!(lines[0]["cut"], 2);
        let mut bytes = vec![0xff; LONGEST_LINE];
        bytes.extend(b"tail\n");
        let lines = recorded(&[&bytes]);
        let raw = lines[0]["raw"].as_str().unwrap();
        let kept = raw.chars().count() as u64;
        assert_eq!(
            lines[0]["cut"].as_u64().unwrap() + kept,
            bytes.len() as u64 - 1
        );
    }

    #[test]
    fn a_cut_shows_no_part_of_a_secret() {
        let mut secrets = Secrets::default();
        secrets.add("correct4horse");
        let mut line = "x ".repeat(LONGEST_LINE / 2 - 3);
        line.push_str("correct4horse and more\n");
        let lines = recorded_with(secrets, &[line.as_bytes()]);
        assert!(!lines[0].to_string().contains("corr"));
        let text = lines[0]["line"].as_str().unwrap().len() as u64;
        assert_eq!(
            lines[0]["cut"].as_u64().unwrap() + text,
            line.len() as u64 - 1
        );

        let env = r#"{"method":"session/new","params":{"env":[{"name":"A","value":"plain"}],"x":""#;
        let line = format!("{env}{}\n", "y".repeat(LONGEST_LINE));
        let lines = recorded(&[line.as_bytes()]);
        assert_eq!(lines[0]["line"], r#"{"method":"session/new","params":{"#);
    }

    #[test]
    fn what_a_full_disk_loses_is_told() {
        let disk = Disk {
            room: 10,
            failures: 3,
            ..Disk::default()
        };
        let mut recording = Recording::new(disk, Secrets::default());
        let complaints: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&complaints);
        recording.complain = Some(Box::new(move |error| {
            told.lock().unwrap().push(error.to_string());
        }));
        write(&mut recording, &[b"a\nb\nc\nd\n"]);
        let text = String::from_utf8(recording.file.written.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].len(), 10, "{text}");
        let value = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        assert_eq!(value(lines[1])["lost"], 3, "{text}");
        assert_eq!(value(lines[2])["line"], "d");
        assert_eq!(value(lines[3])["end"], true);
        assert_eq!(complaints.lock().unwrap().len(), 1);
    }
}
