//! The process that passes on an agent's wire, byte for byte, and writes down what passes.
//!
//! Each direction has a thread that waits for its reader and for the file, so the two cannot stop each
//! other. A line is noted before it is passed on, so that its answer comes after it, and written by a
//! thread of its own, so that neither a slow disk nor the search for secrets holds up the wire, unless it
//! falls back by megabytes.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use nix::errno::Errno;
use nix::libc::SIGXFSZ;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::file::{self, Recording};
use super::lines::{self, Lines};
use crate::cli::RecordWire;
use crate::failure::Failure;

/// How much is passed on at a time, in bytes.
const PIECE: usize = 64 * 1024;

/// Passes on what an agent's three pipes carry, until all of them have ended.
pub(crate) fn run(args: &RecordWire) -> Result<(), Failure> {
    let failed = |error| Failure::options(format!("the wire cannot be recorded: {error}"));
    if args.detach {
        return detached(args).map_err(failed);
    }
    outlive_signals().map_err(failed)?;
    let file = file::open(&args.out)?;
    let [to_agent, from_agent, from_stderr] = pipes(&args.pipes).map_err(failed)?;
    let [from_client, to_client, to_stderr] = own_streams().map_err(failed)?;
    let to_stderr = Arc::new(to_stderr);
    let complain = complainer(Arc::clone(&to_stderr), args);
    let mut recording = Recording::start(file, args, complain);
    let (notes, noted) = lines::queue();
    thread::scope(|scope| {
        for (from, to, direction) in [
            (from_client, Arc::new(to_agent), "c2a"),
            (from_agent, Arc::new(to_client), "a2c"),
            (from_stderr, to_stderr, "stderr"),
        ] {
            let lines = Lines::new(direction, notes.clone());
            scope.spawn(|| pass(from, to, lines));
        }
        drop(notes);
        noted.for_each(|note| recording.note(note));
    });
    Ok(())
}

/// Does the same in another process, which sees the end of what it records: signals to the agent's
/// process group do not end it.
fn detached(args: &RecordWire) -> io::Result<()> {
    // Only the foreground group of a terminal can read it, so at one the recorder stays in the agent's
    // group, stops and goes on with it, and outlives the signals of the keyboard. Everywhere else it is
    // out of reach, in a session without a terminal.
    if !io::stdin().is_terminal() {
        unistd::setsid()?;
    }
    let pipes: Vec<String> = args.pipes.iter().map(ToString::to_string).collect();
    Command::new(env::current_exe()?)
        .args(["record-wire", "--pipes", &pipes.join(","), "--out"])
        .arg(&args.out)
        .arg("--")
        .args(&args.command)
        .spawn()
        .map(drop)
}

/// Lets the signals that end an agent pass, and the one for a file that has become too large, which is as
/// good as a full disk.
fn outlive_signals() -> io::Result<()> {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Says on the client's standard error that the file cannot be written. As long as this is there, so is
/// that stream: its end waits until what came before it has been written down.
fn complainer(stderr: Arc<File>, args: &RecordWire) -> impl FnOnce(&io::Error) + Send + 'static {
    let path = args.out.display().to_string();
    move |error| {
        // A client that does not read it must not stop the recording.
        let mut ends = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut ends, PollTimeout::ZERO) == Ok(1) {
            let _ = writeln!(&*stderr, "acp record: {path} has a gap: {error}");
        }
    }
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
fn pass(mut from: File, to: Arc<File>, mut lines: Lines) {
    let mut piece = vec![0; PIECE];
    let mut to: &File = &to;
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
