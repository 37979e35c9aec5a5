//! What a process can do to itself: the operating system's side of an agent.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{self as posix, SigSet};
use nix::unistd;

use crate::control::{Command, Linger, Signal};

/// Set in the environment of a grandchild, which is this program again.
const GRANDCHILD_ENV: &str = "ACP_FAKE_GRANDCHILD";

/// A process that nobody ends does not stay for ever.
const GRANDCHILD_LIFE: Duration = Duration::from_secs(600);

/// Something that the client did to standard input.
pub(crate) enum FromClient<'a> {
    Bytes(&'a [u8]),
    Eof,
}

/// This process as an agent.
pub(crate) struct Agent {
    input: Arc<Input>,
    ignores_term: Arc<AtomicBool>,
}

impl Agent {
    /// Starts to read standard input. To be called once, before any other thread is started, as
    /// SIGTERM must be blocked in all of them. Never returns in a grandchild.
    pub(crate) fn start(report: impl FnMut(FromClient<'_>) + Send + 'static) -> io::Result<Agent> {
        be_grandchild_if_asked()?;
        let ignores_term = Arc::new(AtomicBool::new(false));
        let term = SigSet::from(posix::Signal::SIGTERM);
        term.thread_block()?;
        let ignores = Arc::clone(&ignores_term);
        spawn("signals", move || {
            while term.wait().is_ok() {
                if !ignores.load(Ordering::SeqCst) {
                    end_by(Signal::Term);
                }
            }
        })?;
        let (wake, woken) = io::pipe().map(|(reader, writer)| (writer, reader))?;
        let input = Arc::new(Input {
            paused: Mutex::new(false),
            wake,
        });
        let reader = Arc::clone(&input);
        spawn("input", move || reader.read(&woken, report))?;
        Ok(Agent {
            input,
            ignores_term,
        })
    }

    /// Does `command`; gives the process id of a grandchild. A client that no longer reads is not
    /// an error; output that cannot be written for another reason, as to a full disk, is.
    pub(crate) fn execute(&self, command: &Command) -> io::Result<Option<u32>> {
        match command {
            Command::Stdout(bytes) => write(io::stdout(), bytes)?,
            Command::Stderr(bytes) => write(io::stderr(), bytes)?,
            Command::Exit(code) => process::exit(*code),
            Command::Signal(signal) => end_by(*signal),
            Command::CloseStdout => close_stdout()?,
            Command::StopReading(stop) => self.input.pause(*stop)?,
            // The end of the input ends this process only when it is told so.
            Command::Linger(Linger::Eof) => {}
            Command::Linger(Linger::Term) => self.ignores_term.store(true, Ordering::SeqCst),
            Command::Grandchild => return start_grandchild(Grandchild::IgnoresTerm).map(Some),
        }
        Ok(None)
    }
}

/// Standard input, which can be left unread.
struct Input {
    paused: Mutex<bool>,
    /// A byte here makes the reader look at `paused`.
    wake: io::PipeWriter,
}

impl Input {
    /// Once this returns, nothing more is read.
    fn pause(&self, pause: bool) -> io::Result<()> {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = pause;
        match io::Write::write_all(&mut &self.wake, &[0]) {
            // The reader is gone: the input has ended.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    fn read(&self, mut woken: &io::PipeReader, mut report: impl FnMut(FromClient<'_>)) {
        let stdin = io::stdin();
        let mut buffer = vec![0; 64 * 1024];
        let mut paused = false;
        loop {
            let mut fds = vec![PollFd::new(woken.as_fd(), PollFlags::POLLIN)];
            if !paused {
                fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
            }
            if poll(&mut fds, PollTimeout::NONE).is_err() {
                continue;
            }
            let ready = |fd: Option<&PollFd<'_>>| fd.and_then(PollFd::any).unwrap_or(false);
            let (was_woken, has_input) = (ready(fds.first()), ready(fds.get(1)));
            if was_woken && woken.read(&mut [0]).is_err() {
                continue;
            }
            // Held while reading and reporting, so that what was read before a pause is reported
            // before it is acknowledged.
            let state = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
            paused = *state;
            if paused || !has_input {
                continue;
            }
            match unistd::read(stdin.as_fd(), &mut buffer) {
                Ok(0) => return report(FromClient::Eof),
                Ok(count) => report(FromClient::Bytes(&buffer[..count])),
                Err(nix::Error::EINTR | nix::Error::EAGAIN) => {}
                Err(_) => return report(FromClient::Eof),
            }
        }
    }
}

/// Ends this process by `signal`.
pub(crate) fn end_by(signal: Signal) -> ! {
    let signal = match signal {
        Signal::Hup => posix::Signal::SIGHUP,
        Signal::Int => posix::Signal::SIGINT,
        Signal::Abrt => posix::Signal::SIGABRT,
        Signal::Kill => posix::Signal::SIGKILL,
        Signal::Segv => posix::Signal::SIGSEGV,
        Signal::Term => posix::Signal::SIGTERM,
    };
    // The runtime catches the first SIGSEGV, to tell a stack overflow, and restores the default.
    for _ in 0..2 {
        let unblocked = SigSet::from(signal).thread_unblock();
        if let Err(error) = unblocked.and_then(|()| posix::raise(signal)) {
            let message = format!("acp-fake-server: cannot raise {signal}: {error}\n");
            // There is nowhere else to say so, and the exit code below tells it too.
            let _ = write(io::stderr(), message.as_bytes());
        }
    }
    // The signal is ignored in this process, by whoever started it.
    process::exit(128 + signal as i32)
}

/// Writes past the buffers of the standard library, which would cut at newlines.
fn write(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match unistd::write(&to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(nix::Error::EINTR) => {}
            // Whoever shares this end of the pipe wants no blocking in it.
            Err(nix::Error::EAGAIN) => {
                let mut room = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut room, PollTimeout::NONE) {
                    Ok(_) | Err(nix::Error::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            // The client has closed its end, which it may.
            Err(nix::Error::EPIPE | nix::Error::ECONNRESET) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The number stays taken, so that no later file becomes standard output.
fn close_stdout() -> io::Result<()> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    Ok(unistd::dup2_stdout(nowhere)?)
}

/// What a process that does nothing does about SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grandchild {
    IgnoresTerm,
    EndsOnTerm,
}

/// Starts this program again, as a process that does nothing.
pub(crate) fn start_grandchild(kind: Grandchild) -> io::Result<u32> {
    let mut child = process::Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(GRANDCHILD_ENV, kind.word())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // It closes its output once it is set up.
    if let Some(mut stdout) = child.stdout.take() {
        let mut ready = Vec::new();
        stdout.read_to_end(&mut ready)?;
        if ready != b"ready" {
            return Err(io::Error::other("the grandchild did not start"));
        }
    }
    Ok(child.id())
}

impl Grandchild {
    /// In the environment.
    fn word(self) -> &'static str {
        match self {
            Grandchild::IgnoresTerm => "ignores-term",
            Grandchild::EndsOnTerm => "ends-on-term",
        }
    }
}

/// Never returns in a grandchild.
pub(crate) fn be_grandchild_if_asked() -> io::Result<()> {
    let Some(word) = env::var_os(GRANDCHILD_ENV) else {
        return Ok(());
    };
    if word == Grandchild::IgnoresTerm.word() {
        ignore_term()?;
    }
    write(io::stdout(), b"ready")?;
    close_stdout()?;
    linger();
    process::exit(0)
}

/// SIGTERM has no effect from now on. To be called before any other thread is started.
pub(crate) fn ignore_term() -> io::Result<()> {
    Ok(SigSet::from(posix::Signal::SIGTERM).thread_block()?)
}

/// Does nothing, as long as a process does that nobody ends.
pub(crate) fn linger() {
    thread::sleep(GRANDCHILD_LIFE);
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
}
