//! Recordings: what went over the wire between a client and a real agent, with times.
//!
//! A recording is JSON Lines; the shapes of its lines are in "Recordings" of
//! `spec/transcript-format.md`. It holds one agent process or several, which may overlap in time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// What was recorded, in order, one list for each agent process.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The file it was read from.
    pub path: PathBuf,
    /// The processes in the order in which they were started.
    pub processes: Vec<Vec<Entry>>,
    /// Where something is missing.
    pub gaps: Vec<Gap>,
}

/// A place where the recorder could not write down all that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The line in the file, counted from 1.
    pub line: u32,
    /// What is missing.
    pub message: String,
}

/// One line of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The line in the file, counted from 1.
    pub line: u32,
    /// What happened.
    pub event: Event,
}

/// Something that happened on the wire or to the agent's process.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The process was started in these directories, as far as they are known.
    Start(Directories),
    /// A line, without its line feed, or bytes that are no line.
    Line {
        /// Who wrote it.
        from: Side,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// This side has closed its end.
    End(Side),
    /// The process has exited with this code.
    Exit(u8),
    /// The process was ended by this signal, by its name.
    Signal(String),
}

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client, to the agent's standard input.
    Client,
    /// The agent, to its standard output.
    Agent,
    /// The agent, to its standard error.
    Stderr,
}

/// The directories whose names say where a recording was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directories {
    /// The agent's working directory.
    pub cwd: Option<String>,
    /// The home directory.
    pub home: Option<String>,
    /// The directory for temporary files.
    pub temp: Option<String>,
}

/// Why a recording cannot be read. Displays as `file:line: message`.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {message}", path.display())]
pub struct RecordingError {
    /// The file.
    pub path: PathBuf,
    /// The line in it, counted from 1.
    pub line: u32,
    /// What is wrong there.
    pub message: String,
}

impl Recording {
    /// Reads the recording at `path`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or the first line that is none of a recording.
    pub fn load(path: &Path) -> Result<Recording, RecordingError> {
        let text = std::fs::read_to_string(path).map_err(|error| RecordingError {
            path: path.to_path_buf(),
            line: 1,
            message: format!("cannot be read: {error}"),
        })?;
        Recording::parse(path, &text)
    }

    /// Reads a recording from `text`; `path` is for messages. A line that was not written to its end is
    /// a gap, because a recorder can be killed like any other process.
    ///
    /// # Errors
    ///
    /// The first line that is none of a recording.
    pub fn parse(path: &Path, text: &str) -> Result<Recording, RecordingError> {
        let mut reader = Reader {
            recording: Recording {
                path: path.to_path_buf(),
                processes: Vec::new(),
                gaps: Vec::new(),
            },
            names: HashMap::new(),
        };
        for (line, number) in text.lines().zip(1..) {
            reader
                .line(line, number)
                .map_err(|message| RecordingError {
                    path: path.to_path_buf(),
                    line: number,
                    message,
                })?;
        }
        Ok(reader.recording)
    }
}

struct Reader {
    recording: Recording,
    /// Where the process is that a record belongs to, by the name that it gives.
    names: HashMap<String, usize>,
}

impl Reader {
    fn line(&mut self, line: &str, number: u32) -> Result<(), String> {
        // A recorder that finds half a line begins another one, and so may a second recorder.
        if line.trim().is_empty() {
            return Ok(());
        }
        let members = match serde_json::from_str(line) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err("a line is a JSON object".to_owned()),
            Err(error) if error.is_eof() => {
                self.gap(
                    number,
                    "this line is left out: it was not written to its end".to_owned(),
                );
                return Ok(());
            }
            Err(error) => return Err(format!("not JSON: {error}")),
        };
        if let Some(lost) = members.get("lost") {
            self.gap(
                number,
                format!("{lost} records before this one could not be written"),
            );
            return Ok(());
        }
        let event = event(&members)?;
        let process = self.process(&members, matches!(event, Event::Start(_)));
        if let Some(cut) = members.get("cut") {
            self.gap(
                number,
                format!("this line is left out: it lacks its last {cut} bytes"),
            );
            return Ok(());
        }
        let entry = Entry {
            line: number,
            event,
        };
        if let Some(process) = self.recording.processes.get_mut(process) {
            process.push(entry);
        }
        Ok(())
    }

    /// The number of the process that a record is about: that of its name, or the last one.
    fn process(&mut self, members: &Map<String, Value>, starts: bool) -> usize {
        let count = self.recording.processes.len();
        let name = members.get("process").map(Value::to_string);
        let known = match &name {
            Some(name) => self.names.get(name).copied(),
            None => count.checked_sub(1),
        };
        let number = known.filter(|_| !starts).unwrap_or(count);
        if number == count {
            self.recording.processes.push(Vec::new());
        }
        if let Some(name) = name {
            self.names.insert(name, number);
        }
        number
    }

    fn gap(&mut self, line: u32, message: String) {
        self.recording.gaps.push(Gap { line, message });
    }
}

fn event(members: &Map<String, Value>) -> Result<Event, String> {
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    if let Some(start) = members.get("start") {
        let of = |key: &str| start[key].as_str().map(str::to_owned);
        return Ok(Event::Start(Directories {
            cwd: of("cwd"),
            home: of("home"),
            temp: of("temp"),
        }));
    }
    if let Some(code) = members.get("exit") {
        let code = code.as_u64().and_then(|code| u8::try_from(code).ok());
        return code
            .map(Event::Exit)
            .ok_or_else(|| "\"exit\" must be 0 to 255".to_owned());
    }
    if let Some(name) = text("signal") {
        return Ok(Event::Signal(name.to_owned()));
    }
    let from = match text("dir") {
        Some("c2a") => Side::Client,
        Some("a2c") => Side::Agent,
        Some("stderr") => Side::Stderr,
        Some(other) => {
            return Err(format!(
                "\"dir\" is {other:?}, not \"c2a\", \"a2c\" or \"stderr\""
            ));
        }
        None => return Err("neither \"dir\" nor \"start\", \"exit\" or \"signal\"".to_owned()),
    };
    if let Some(line) = text("line") {
        let bytes = line.as_bytes().to_vec();
        return Ok(Event::Line { from, bytes });
    }
    if let Some(raw) = text("raw") {
        let bytes: Result<Vec<u8>, _> = raw.chars().map(u8::try_from).collect();
        let bytes = bytes.map_err(|_| "\"raw\" has a character above U+00FF".to_owned())?;
        return Ok(Event::Line { from, bytes });
    }
    if members.get("end") == Some(&Value::Bool(true)) {
        return Ok(Event::End(from));
    }
    Err("\"dir\" needs \"line\", \"raw\" or \"end\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Recording, RecordingError> {
        Recording::parse(Path::new("r.jsonl"), text)
    }

    #[test]
    fn every_shape_is_read_and_each_start_is_a_process() {
        let text = concat!(
            r#"{"t_ms":0,"start":{"command":["a"],"cwd":"/w","home":"/h"}}"#,
            "\n",
            r#"{"t_ms":1.5,"dir":"c2a","line":"{}"}"#,
            "\n",
            r#"{"t_ms":2,"dir":"a2c","raw":"\u00ff\n"}"#,
            "\n",
            r#"{"t_ms":2,"dir":"stderr","line":"log"}"#,
            "\n",
            r#"{"t_ms":3,"dir":"c2a","end":true}"#,
            "\n",
            r#"{"t_ms":4,"exit":3}"#,
            "\n",
            r#"{"t_ms":0,"start":{}}"#,
            "\n",
            r#"{"t_ms":1,"signal":"SIGKILL"}"#,
            "\n",
        );
        let recording = parse(text).unwrap();
        let events = |process: &Vec<Entry>| -> Vec<Event> {
            process.iter().map(|entry| entry.event.clone()).collect()
        };
        let line = |from, bytes: &[u8]| Event::Line {
            from,
            bytes: bytes.to_vec(),
        };
        let known = Directories {
            cwd: Some("/w".to_owned()),
            home: Some("/h".to_owned()),
            temp: None,
        };
        assert_eq!(recording.processes.len(), 2);
        assert_eq!(
            events(&recording.processes[0]),
            [
                Event::Start(known),
                line(Side::Client, b"{}"),
                line(Side::Agent, b"\xff\n"),
                line(Side::Stderr, b"log"),
                Event::End(Side::Client),
                Event::Exit(3),
            ]
        );
        assert_eq!(
            events(&recording.processes[1]),
            [
                Event::Start(Directories::default()),
                Event::Signal("SIGKILL".to_owned())
            ]
        );
        assert_eq!(recording.processes[1][1].line, 8);
    }

    #[test]
    fn a_fault_is_named_by_its_line() {
        let good = "{\"t_ms\":1,\"dir\":\"c2a\",\"line\":\"x\"}\n";
        for (bad, part) in [
            ("[]\n", "a JSON object"),
            ("x\n", "not JSON"),
            ("{\"t_ms\":1}\n", "neither"),
            ("{\"dir\":\"up\",\"line\":\"\"}\n", "\"up\""),
            ("{\"dir\":\"c2a\"}\n", "needs"),
            ("{\"exit\":256}\n", "0 to 255"),
            ("{\"dir\":\"c2a\",\"raw\":\"\u{100}\"}\n", "U+00FF"),
        ] {
            let error = parse(&format!("{good}{bad}")).unwrap_err().to_string();
            assert!(error.starts_with("r.jsonl:2: "), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_a_gap() {
        let torn = "{\"dir\":\"c2a\",\"line\":\"x\"}\n{\"dir\":\"c2a\",\"li";
        let recording = parse(torn).unwrap();
        assert_eq!(recording.processes[0].len(), 1);
        let gap = |line, message: &str| Gap {
            line,
            message: message.to_owned(),
        };
        assert_eq!(
            recording.gaps,
            [gap(
                2,
                "this line is left out: it was not written to its end"
            )]
        );
        // The next recorder goes on in a line of its own.
        let more = concat!(
            "\n\n{\"start\":{}}\n{\"lost\":3}\n",
            "{\"dir\":\"a2c\",\"line\":\"y\",\"cut\":9}\n{\"dir\":\"a2c\",\"line\":\"z\"}\n",
        );
        let recording = parse(&format!("{torn}{more}")).unwrap();
        assert_eq!(recording.processes[1].len(), 2);
        let messages: Vec<&str> = recording.gaps.iter().map(|gap| &*gap.message).collect();
        assert_eq!(
            messages[1..],
            [
                "3 records before this one could not be written",
                "this line is left out: it lacks its last 9 bytes"
            ]
        );
        assert!(parse("").unwrap().processes.is_empty());
    }

    #[test]
    fn processes_that_overlap_are_told_apart() {
        let text = concat!(
            "{\"process\":\"a\",\"start\":{}}\n",
            "{\"process\":\"b\",\"start\":{}}\n",
            "{\"process\":\"a\",\"dir\":\"c2a\",\"line\":\"1\"}\n",
            "{\"process\":\"b\",\"dir\":\"c2a\",\"line\":\"2\"}\n",
            "{\"process\":\"a\",\"exit\":0}\n",
            "{\"process\":\"a\",\"start\":{}}\n",
            "{\"process\":\"a\",\"exit\":1}\n",
            "{\"process\":7,\"exit\":2}\n",
        );
        let lines = parse(text).unwrap().processes;
        let lines = lines.iter().map(|process| {
            let lines = process.iter().map(|entry| entry.line);
            lines.collect::<Vec<_>>()
        });
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines, [vec![1, 3, 5], vec![2, 4], vec![6, 7], vec![8]]);
    }
}
