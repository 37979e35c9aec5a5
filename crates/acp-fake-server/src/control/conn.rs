//! The harness's end of a connection.

use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use super::{Command, Report};
use crate::lines::Lines;

/// How long a relay may take to greet, or to do what it is told. It has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a relay reports. See [`RelayConn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayEvent {
    /// A line from the client, without its newline. What follows the last newline is one too, at the
    /// end of the input.
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

/// The harness's end of the connection to one relay. Dropping it ends the relay.
pub struct RelayConn {
    pid: u32,
    stream: TcpStream,
    commands: mpsc::Sender<Command>,
    /// One unit for each command that is acknowledged.
    done: Mutex<mpsc::Receiver<()>>,
}

impl RelayConn {
    /// Reads the relay's greeting from a connection that was just accepted, and starts a thread that
    /// hands everything it reports to `on_event`, in order, until [`RelayEvent::Gone`].
    ///
    /// # Errors
    ///
    /// The connection failed, or the other side is no relay or did not greet within five seconds.
    pub fn open(
        stream: TcpStream,
        on_event: impl FnMut(RelayEvent) + Send + 'static,
    ) -> io::Result<RelayConn> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut reader = stream.try_clone()?;
        let Some(Report::Hello { pid }) = Report::read_from(&mut reader)? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "no greeting of a relay",
            ));
        };
        stream.set_read_timeout(None)?;

        let (commands, queue) = mpsc::channel();
        let writer = stream.try_clone()?;
        let name = |part: &str| format!("relay-{pid}-{part}");
        thread::Builder::new()
            .name(name("writer"))
            .spawn(move || write_all(&writer, &queue))?;
        let (acknowledge, done) = mpsc::channel();
        thread::Builder::new()
            .name(name("reader"))
            .spawn(move || read_all(reader, &acknowledge, on_event))?;
        Ok(RelayConn {
            pid,
            stream,
            commands,
            done: Mutex::new(done),
        })
    }

    /// The process id of the relay.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Tells the relay to do `command`. It never waits for the client: what is written to standard
    /// output is queued. A command whose effect later steps rely on
    /// ([`Command::is_acknowledged`]) returns once the relay has done it.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the relay is gone, `TimedOut` if it did not do it within five seconds.
    pub fn send(&self, command: &Command) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        // Held from the command to its answer, so that answers cannot be mixed up.
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        self.commands.send(command.clone()).map_err(|_| gone())?;
        if !command.is_acknowledged() {
            return Ok(());
        }
        done.recv_timeout(PATIENCE).map_err(|error| match error {
            mpsc::RecvTimeoutError::Disconnected => gone(),
            mpsc::RecvTimeoutError::Timeout => io::ErrorKind::TimedOut.into(),
        })
    }
}

impl fmt::Debug for RelayConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayConn")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl Drop for RelayConn {
    fn drop(&mut self) {
        // Ends both threads and the relay. It fails only where the relay is gone already.
        drop(self.stream.shutdown(Shutdown::Both));
    }
}

fn write_all(mut stream: &TcpStream, queue: &mpsc::Receiver<Command>) {
    for command in queue {
        // A relay that is gone is reported by the reader.
        if command.write_to(&mut stream).is_err() {
            return;
        }
    }
}

fn read_all(
    stream: TcpStream,
    acknowledge: &mpsc::Sender<()>,
    mut on_event: impl FnMut(RelayEvent),
) {
    let mut reader = io::BufReader::new(stream);
    let mut lines = Lines::default();
    // However the connection ends, the relay is gone.
    while let Ok(Some(report)) = Report::read_from(&mut reader) {
        match report {
            Report::Input(bytes) => {
                lines.push(&bytes, |line| on_event(RelayEvent::Line(line.to_vec())));
            }
            Report::Eof => {
                if let Some(rest) = lines.rest() {
                    on_event(RelayEvent::Line(rest));
                }
                on_event(RelayEvent::Eof);
            }
            Report::Grandchild { pid } => on_event(RelayEvent::Grandchild { pid }),
            // Nobody waits for it once the connection is being dropped.
            Report::Done => drop(acknowledge.send(())),
            Report::Hello { .. } => break,
        }
    }
    on_event(RelayEvent::Gone);
}
