//! What a harness and a relay say to each other.
//!
//! A frame is one byte of kind, a little-endian `u32` length and that many bytes. The relay is a dumb
//! pipe: it reports what the client writes and does what [`Command`] says, and decides nothing, not
//! even when to exit at the end of its input.

mod conn;

use std::fmt;
use std::io::{self, Read, Write};

pub use self::conn::{RelayConn, RelayEvent};
use crate::pattern::shorten;

/// The environment variable in which the client under test is told where the harness listens, as
/// `127.0.0.1:PORT`.
pub const CONTROL_ENV: &str = "ACP_FAKE_CONTROL";

/// What an agent process is told to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Write to standard output, in one write.
    Stdout(Vec<u8>),
    /// Write to standard error.
    Stderr(Vec<u8>),
    /// Exit with this code.
    Exit(i32),
    /// End by this signal.
    Signal(Signal),
    /// Close standard output and live on.
    CloseStdout,
    /// Stop, or go on, reading standard input.
    StopReading(bool),
    /// Stay when asked to go.
    Linger(Linger),
    /// Start a process in the same process group that holds no pipe and ignores SIGTERM.
    Grandchild,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| shorten(&String::from_utf8_lossy(bytes));
        match self {
            Command::Stdout(bytes) => write!(f, "writes {:?}", text(bytes)),
            Command::Stderr(bytes) => write!(f, "writes {:?} to standard error", text(bytes)),
            Command::Exit(code) => write!(f, "exits with {code}"),
            Command::Signal(signal) => write!(f, "ends by {}", signal.name()),
            Command::CloseStdout => f.write_str("closes standard output"),
            Command::StopReading(true) => f.write_str("stops reading"),
            Command::StopReading(false) => f.write_str("goes on reading"),
            Command::Linger(Linger::Eof) => f.write_str("will ignore the end of its input"),
            Command::Linger(Linger::Term) => {
                f.write_str("will ignore the end of its input, and SIGTERM")
            }
            Command::Grandchild => f.write_str("starts a process of its own"),
        }
    }
}

/// The signals an agent process can end itself with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of POSIX")]
pub enum Signal {
    Hup,
    Int,
    Abrt,
    Kill,
    Segv,
    Term,
}

impl Signal {
    /// The names, as a transcript writes them.
    pub const NAMES: [&str; 6] = [
        "SIGHUP", "SIGINT", "SIGABRT", "SIGKILL", "SIGSEGV", "SIGTERM",
    ];

    const ALL: [Signal; 6] = [
        Signal::Hup,
        Signal::Int,
        Signal::Abrt,
        Signal::Kill,
        Signal::Segv,
        Signal::Term,
    ];

    /// The signal of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// The name of this signal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Signal::Hup => "SIGHUP",
            Signal::Int => "SIGINT",
            Signal::Abrt => "SIGABRT",
            Signal::Kill => "SIGKILL",
            Signal::Segv => "SIGSEGV",
            Signal::Term => "SIGTERM",
        }
    }
}

/// What a lingering process ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linger {
    /// The end of its input.
    Eof,
    /// The end of its input, and SIGTERM.
    Term,
}

/// What a relay tells the harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The first frame: the process id of the relay.
    Hello {
        /// The process id.
        pid: u32,
    },
    /// Bytes that the client wrote.
    Input(Vec<u8>),
    /// The client closed the relay's standard input.
    Eof,
    /// The process that [`Command::Grandchild`] asked for runs.
    Grandchild {
        /// Its process id.
        pid: u32,
    },
    /// A command with [`Command::is_acknowledged`] is done.
    Done,
}

/// No frame is longer; a length above it means that the other side is no relay or no harness.
const LONGEST: u32 = 1 << 30;

impl Command {
    /// Whether the relay answers with [`Report::Done`], as later steps rely on the effect.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        matches!(
            self,
            Command::CloseStdout
                | Command::StopReading(_)
                | Command::Linger(_)
                | Command::Grandchild
        )
    }

    /// Writes the command as one frame.
    ///
    /// # Errors
    ///
    /// Those of `writer`.
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        match self {
            Command::Stdout(bytes) => write_frame(writer, b'O', bytes),
            Command::Stderr(bytes) => write_frame(writer, b'E', bytes),
            Command::Exit(code) => write_frame(writer, b'X', &code.to_le_bytes()),
            Command::Signal(signal) => write_frame(writer, b'S', signal.name().as_bytes()),
            Command::CloseStdout => write_frame(writer, b'C', &[]),
            Command::StopReading(stop) => write_frame(writer, b'R', &[u8::from(*stop)]),
            Command::Linger(linger) => {
                write_frame(writer, b'L', &[u8::from(*linger == Linger::Term)])
            }
            Command::Grandchild => write_frame(writer, b'G', &[]),
        }
    }

    /// Reads a command; `None` at the end of `reader`.
    ///
    /// # Errors
    ///
    /// Those of `reader`, and `InvalidData` for what is no command.
    pub fn read_from(reader: &mut impl Read) -> io::Result<Option<Command>> {
        let Some((kind, payload)) = read_frame(reader)? else {
            return Ok(None);
        };
        let command = match (kind, payload.as_slice()) {
            (b'O', _) => Command::Stdout(payload),
            (b'E', _) => Command::Stderr(payload),
            (b'X', &[a, b, c, d]) => Command::Exit(i32::from_le_bytes([a, b, c, d])),
            (b'S', name) => {
                let name = str::from_utf8(name).ok();
                Command::Signal(
                    name.and_then(Signal::from_name)
                        .ok_or_else(|| malformed(kind))?,
                )
            }
            (b'C', []) => Command::CloseStdout,
            (b'R', [stop @ (0 | 1)]) => Command::StopReading(*stop == 1),
            (b'L', [0]) => Command::Linger(Linger::Eof),
            (b'L', [1]) => Command::Linger(Linger::Term),
            (b'G', []) => Command::Grandchild,
            _ => return Err(malformed(kind)),
        };
        Ok(Some(command))
    }
}

impl Report {
    /// Writes the report as one frame.
    ///
    /// # Errors
    ///
    /// Those of `writer`.
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        match self {
            Report::Hello { pid } => write_frame(writer, b'H', &pid.to_le_bytes()),
            Report::Input(bytes) => write_frame(writer, b'I', bytes),
            Report::Eof => write_frame(writer, b'Z', &[]),
            Report::Grandchild { pid } => write_frame(writer, b'P', &pid.to_le_bytes()),
            Report::Done => write_frame(writer, b'D', &[]),
        }
    }

    /// Reads a report; `None` at the end of `reader`.
    ///
    /// # Errors
    ///
    /// Those of `reader`, and `InvalidData` for what is no report.
    pub fn read_from(reader: &mut impl Read) -> io::Result<Option<Report>> {
        let Some((kind, payload)) = read_frame(reader)? else {
            return Ok(None);
        };
        let report = match (kind, payload.as_slice()) {
            (b'H', &[a, b, c, d]) => Report::Hello {
                pid: u32::from_le_bytes([a, b, c, d]),
            },
            (b'I', _) => Report::Input(payload),
            (b'Z', []) => Report::Eof,
            (b'P', &[a, b, c, d]) => Report::Grandchild {
                pid: u32::from_le_bytes([a, b, c, d]),
            },
            (b'D', []) => Report::Done,
            _ => return Err(malformed(kind)),
        };
        Ok(Some(report))
    }
}

fn write_frame(writer: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len())
        .ok()
        .filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    // In one write, so that a small frame is one packet.
    let mut frame = Vec::with_capacity(payload.len() + 5);
    frame.push(kind);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(payload);
    writer.write_all(&frame)?;
    writer.flush()
}

fn read_frame(reader: &mut impl Read) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut kind = [0];
    loop {
        match reader.read(&mut kind) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [kind] = kind;
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(malformed(kind));
    }
    // Grows with what comes, not with what was announced.
    let mut payload = Vec::new();
    reader.take(length.into()).read_to_end(&mut payload)?;
    if payload.len() as u64 != u64::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((kind, payload)))
}

fn malformed(kind: u8) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("malformed frame of kind {kind:#04x}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_survives_the_wire() {
        let mut commands = vec![
            Command::Stdout(b"a\nb".to_vec()),
            Command::Stdout(Vec::new()),
            Command::Stderr(vec![0; 100_000]),
            Command::Exit(-1),
            Command::CloseStdout,
            Command::StopReading(true),
            Command::StopReading(false),
            Command::Linger(Linger::Eof),
            Command::Linger(Linger::Term),
            Command::Grandchild,
        ];
        commands.extend(Signal::ALL.map(Command::Signal));
        let mut wire = Vec::new();
        for command in &commands {
            command.write_to(&mut wire).unwrap();
        }
        let mut reader = wire.as_slice();
        for command in &commands {
            assert_eq!(
                Command::read_from(&mut reader).unwrap().as_ref(),
                Some(command)
            );
        }
        assert_eq!(Command::read_from(&mut reader).unwrap(), None);
    }

    #[test]
    fn every_report_survives_the_wire() {
        let reports = [
            Report::Hello { pid: 70_000 },
            Report::Input(b"x".to_vec()),
            Report::Eof,
            Report::Grandchild { pid: 1 },
            Report::Done,
        ];
        let mut wire = Vec::new();
        for report in &reports {
            report.write_to(&mut wire).unwrap();
        }
        let mut reader = wire.as_slice();
        for report in &reports {
            assert_eq!(
                Report::read_from(&mut reader).unwrap().as_ref(),
                Some(report)
            );
        }
        assert_eq!(Report::read_from(&mut reader).unwrap(), None);
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for wire in [
            &b"?\0\0\0\0"[..],
            b"G\x01\0\0\0x",
            b"R\x01\0\0\0\x02",
            b"S\x03\0\0\0SIG",
            b"O\xff\xff\xff\xff",
        ] {
            let error = Command::read_from(&mut &*wire).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{wire:?}");
        }
        for wire in [&b"O\x02\0\0\0x"[..], b"O\x02"] {
            let error = Command::read_from(&mut &*wire).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{wire:?}");
        }
    }

    #[test]
    fn signals_have_the_names_that_transcripts_use() {
        assert_eq!(Signal::ALL.map(Signal::name), Signal::NAMES);
        assert_eq!(Signal::from_name("SIGKILL"), Some(Signal::Kill));
        assert_eq!(Signal::from_name("KILL"), None);
    }
}
