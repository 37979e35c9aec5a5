//! The agent's side of a transcript alone, on standard input and output.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use crate::control::{Command, Linger};
use crate::fixture::Fixture;
use crate::lines::Lines;
use crate::player::{Action, Input, Mismatch, Player, Role};
use crate::process::{Agent, FromClient};
use crate::profile::Profile;

/// Plays the agent of `fixture` until its end, or the end of standard input. A transcript whose
/// agent exits or ends by a signal ends this process. One whose agent lingers returns only for a
/// mismatch.
///
/// To be called first thing in `main`, with no other thread running.
///
/// # Errors
///
/// `Ok(Err(_))` is what the client did differently; the outer error is the operating system's.
pub fn run(fixture: &Fixture) -> io::Result<Result<(), Box<Mismatch>>> {
    run_as(fixture, Profile::default())
}

/// The same with an agent that takes bad input as `profile` says.
///
/// # Errors
///
/// Those of [`run`].
pub fn run_as(fixture: &Fixture, profile: Profile) -> io::Result<Result<(), Box<Mismatch>>> {
    let (tell, told) = mpsc::channel();
    let mut lines = Lines::default();
    // The receiver is gone only when this process is about to end.
    let tell = move |event| drop(tell.send(event));
    let agent = Agent::start(move |input| match input {
        FromClient::Bytes(bytes) => lines.push(bytes, |line| tell(Some(line.to_vec()))),
        FromClient::Eof => {
            if let Some(rest) = lines.rest() {
                tell(Some(rest));
            }
            tell(None);
        }
    })?;
    let mut player = Player::new(fixture, Role::AgentOnly).with_profile(profile);
    player.handle(Input::Started);
    let mut lingers = false;
    let mut delay = None;
    loop {
        match player.poll() {
            Action::Agent { command, .. } => {
                lingers |= matches!(command, Command::Linger(Linger::Eof | Linger::Term));
                agent.execute(&command)?;
            }
            Action::Delay(time) => delay = Some(Instant::now() + time),
            Action::Wait(_) => wait(&mut player, &told, &mut delay),
            // The host's side is not played.
            Action::Call { .. } => {}
            Action::Done => break,
            Action::Failed(mismatch) => return Ok(Err(Box::new(mismatch))),
        }
    }
    if !lingers {
        return Ok(Ok(()));
    }
    loop {
        std::thread::park();
    }
}

/// Waits for the client, or for the end of the delay.
fn wait(player: &mut Player, told: &Receiver<Option<Vec<u8>>>, delay: &mut Option<Instant>) {
    let event = match *delay {
        None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(end) => told.recv_timeout(end.saturating_duration_since(Instant::now())),
    };
    match event {
        Ok(Some(line)) => player.handle(Input::Line {
            process: 1,
            line: &line,
        }),
        Ok(None) => player.handle(Input::Eof { process: 1 }),
        Err(RecvTimeoutError::Timeout) => {
            *delay = None;
            player.handle(Input::Elapsed);
        }
        // The reader ends after the end of the input.
        Err(RecvTimeoutError::Disconnected) => match delay.take() {
            Some(end) => {
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
                player.handle(Input::Elapsed);
            }
            None => player.handle(Input::Eof { process: 1 }),
        },
    }
}
