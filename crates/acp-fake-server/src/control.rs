//! What a harness and a relay say to each other.
//!
//! A frame is one byte of kind, a little-endian `u32` length and that many bytes. The relay is a dumb
//! pipe: it reports what the client writes and does what [`Command`] says, and decides nothing, not
//! even when to exit at the end of its input.

use std::fmt;

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

/// What a relay reports. See [`RelayConn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayEvent {
    /// A line from the client, without its newline.
    Line(Vec<u8>),
    /// The client closed the relay's standard input.
    Eof,
    /// The process that [`Command::Grandchild`] asked for runs.
    Grandchild {
        /// Its process id.
        pid: u32,
    },
    /// The relay is gone. Nothing follows.
    Gone,
}

/// The harness's end of the connection to one relay.
#[derive(Debug)]
pub struct RelayConn {
    pid: u32,
}

impl RelayConn {
    /// Reads the relay's greeting from a connection that was just accepted, and starts a thread that
    /// hands everything it reports to `on_event`, in order.
    ///
    /// # Errors
    ///
    /// The connection failed, or the other side is no relay.
    pub fn open(
        stream: std::net::TcpStream,
        on_event: impl FnMut(RelayEvent) + Send + 'static,
    ) -> std::io::Result<RelayConn> {
        let _ = (stream, on_event);
        unimplemented!()
    }

    /// The process id of the relay.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Tells the relay to do `command`. It never waits for the client: what is written to standard
    /// output is queued. A command whose effect later steps rely on (`StopReading`, `Linger`,
    /// `Grandchild`, `CloseStdout`) returns once the relay has done it.
    ///
    /// # Errors
    ///
    /// The relay is gone, or did not do it within five seconds.
    pub fn send(&self, command: &Command) -> std::io::Result<()> {
        let _ = command;
        unimplemented!()
    }
}
