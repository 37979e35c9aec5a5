//! A small agent as a process: on standard input and output, with the end that its profile has.

use std::io;

use crate::agents::{Builtin, End, serve_as};
use crate::process::{self, Grandchild};
use crate::profile::Profile;

/// Serves the client on standard input and output, and gives the exit code.
///
/// An agent whose profile outlives its client stays for ten minutes at most. To be called first thing in
/// `main`, with no other thread running.
///
/// # Errors
///
/// Those of the operating system; a client that no longer reads is none.
pub fn run(agent: Builtin, profile: Profile) -> io::Result<i32> {
    process::be_grandchild_if_asked()?;
    let shutdown = profile.shutdown;
    if shutdown.ignores_term {
        process::ignore_term()?;
    }
    if shutdown.leaves_a_process {
        process::start_grandchild(Grandchild::EndsOnTerm)?;
    }
    let end = match serve_as(agent, profile, io::stdin().lock(), io::stdout().lock()) {
        Ok(end) => end,
        // The client has gone away, which is how a conversation ends.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => End::Idle,
        Err(error) => return Err(error),
    };
    let stays = match end {
        End::Exit(code) => return Ok(code),
        End::Idle => shutdown.outlives_eof,
        End::MidTurn => shutdown.outlives_eof_mid_turn,
    };
    if stays {
        process::linger();
    }
    Ok(0)
}
