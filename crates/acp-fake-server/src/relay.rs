//! The process that a client under test starts, steered over [`crate::control`].

use std::env;
use std::io;
use std::net::TcpStream;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use crate::control::{CONTROL_ENV, Command, Report};
use crate::process::{Agent, FromClient};

/// Is an agent process until the harness ends it: what comes on standard input is reported to the
/// address in [`CONTROL_ENV`], and what comes from there is done. It exits when the harness says so,
/// or with 1 when the harness is gone.
///
/// To be called first thing in `main`, with no other thread running. A program that calls it must
/// do so again when it is started with the same arguments, as that is how a grandchild starts.
///
/// # Errors
///
/// The harness cannot be reached, or sent what is no command.
pub fn run() -> io::Result<()> {
    let harness: Arc<Mutex<Option<TcpStream>>> = Arc::default();
    // Taken before the reader starts, so that the greeting is the first report.
    let mut greeting = harness.lock().unwrap_or_else(PoisonError::into_inner);
    let reporter = Arc::clone(&harness);
    let agent = Agent::start(move |input| {
        let input = match input {
            FromClient::Bytes(bytes) => Report::Input(bytes.to_vec()),
            FromClient::Eof => Report::Eof,
        };
        report(&reporter, &input);
    })?;

    let address = env::var(CONTROL_ENV).map_err(|_| {
        let message = format!("{CONTROL_ENV} does not say where the harness listens");
        io::Error::new(io::ErrorKind::NotFound, message)
    })?;
    let mut stream = TcpStream::connect(&address)?;
    stream.set_nodelay(true)?;
    Report::Hello { pid: process::id() }.write_to(&mut stream)?;
    *greeting = Some(stream.try_clone()?);
    drop(greeting);

    let mut commands = io::BufReader::new(stream);
    while let Some(command) = Command::read_from(&mut commands)? {
        if let Some(pid) = agent.execute(&command)? {
            report(&harness, &Report::Grandchild { pid });
        }
        if command.is_acknowledged() {
            report(&harness, &Report::Done);
        }
    }
    process::exit(1)
}

fn report(harness: &Mutex<Option<TcpStream>>, what: &Report) {
    let mut harness = harness.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = harness.as_mut()
        && what.write_to(stream).is_err()
    {
        process::exit(1);
    }
}
