//! Pipes to a process that may never let go of its end.
//!
//! A plain read blocks as long as anything holds the other end open, and a plain write as long as nobody
//! reads. A process that escaped its group can do both for ever, and the thread would be lost with it. So
//! each thread waits for its pipe *and* for a pipe of ours, whose other end the driver drops.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Tells a thread to stop, once it is dropped.
#[derive(Debug)]
pub(super) struct Stop(#[expect(dead_code, reason = "held for its drop")] PipeWriter);

/// What a thread waits on besides its own pipe.
#[derive(Debug)]
pub(super) struct Stopped(PipeReader);

impl Stopped {
    /// The end of a pipe is reported whether it is asked for or not.
    fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(self.0.as_fd(), PollFlags::empty())
    }
}

/// A stop, and what a thread waits on.
pub(super) fn stop_pipe() -> io::Result<(Stop, Stopped)> {
    let (reader, writer) = io::pipe()?;
    Ok((Stop(writer), Stopped(reader)))
}

/// What wakes the reader, and stops it once the other end is dropped.
#[derive(Debug)]
pub(super) struct Bell(PipeReader);

/// The end that rings with a byte, and the bell.
pub(super) fn bell() -> io::Result<(PipeWriter, Bell)> {
    let (reader, writer) = io::pipe()?;
    Ok((writer, Bell(reader)))
}

impl Bell {
    /// Takes the byte that rang. It has to be there.
    pub(super) fn take(&self) {
        // There is nothing to do about a pipe of ours that cannot be read: it would only wake us again.
        let _byte = (&self.0).read(&mut [0]);
    }
}

impl From<Bell> for Stopped {
    fn from(bell: Bell) -> Self {
        Self(bell.0)
    }
}

/// Why a wait of the reader is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Which of the two pipes have something to read, or have ended.
    Readable {
        first: bool,
        second: bool,
    },
    /// The bell was rung.
    Bell,
    /// Nothing happened in time.
    Nothing,
    Stopped,
}

/// Waits until one of two pipes is readable, or broken, or the bell is rung.
pub(super) fn wait_readable(
    first: &impl AsFd,
    second: Option<&impl AsFd>,
    bell: &Bell,
    limit: Option<Duration>,
) -> io::Result<Woken> {
    let readable = |pipe| PollFd::new(pipe, PollFlags::POLLIN);
    let bell = readable(bell.0.as_fd());
    let second_or_first = second.map_or(first.as_fd(), AsFd::as_fd);
    let mut pipes = [readable(first.as_fd()), bell, readable(second_or_first)];
    let count = if second.is_some() { 3 } else { 2 };
    // A wait that is too short would only begin again, many times.
    let limit = limit.map(|limit| limit.saturating_add(Duration::from_micros(999)));
    let limit = limit.map_or(PollTimeout::NONE, |limit| {
        PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut pipes[..count], limit) {
        Ok(0) | Err(Errno::EINTR) => return Ok(Woken::Nothing),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let [first, bell, second] = pipes.map(|pipe| pipe.revents().unwrap_or(PollFlags::empty()));
    Ok(if bell.intersects(!PollFlags::POLLIN) {
        Woken::Stopped
    } else if first.is_empty() && second.is_empty() {
        Woken::Bell
    } else {
        Woken::Readable {
            first: !first.is_empty(),
            second: !second.is_empty(),
        }
    })
}

/// Reads what is there, waiting for something if need be. Zero at the end of input and once stopped.
pub(super) fn read<R: Read + AsFd>(
    pipe: &mut R,
    stopped: &Stopped,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        let readable = PollFd::new(pipe.as_fd(), PollFlags::POLLIN);
        if !wait(readable, stopped)? {
            return Ok(0);
        }
        match pipe.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Makes writes and reads return instead of waiting for the other end. It concerns this end of the pipe only.
pub(super) fn set_nonblocking<P: From<OwnedFd> + Into<OwnedFd>>(pipe: P) -> io::Result<P> {
    // The flag is one of the open file, of whatever kind; the standard library knows it for sockets.
    let pipe = UnixStream::from(pipe.into());
    pipe.set_nonblocking(true)?;
    Ok(P::from(OwnedFd::from(pipe)))
}

/// Waits until the pipe takes something, or is broken; false if it was stopped before.
pub(super) fn wait_writable(pipe: &impl AsFd, stopped: &Stopped) -> bool {
    // Where there is no waiting there is nothing to wait for.
    let writable = PollFd::new(pipe.as_fd(), PollFlags::POLLOUT);
    wait(writable, stopped).unwrap_or(false)
}

/// Waits until the pipe is ready, or broken; false if it was stopped before.
fn wait(pipe: PollFd<'_>, stopped: &Stopped) -> io::Result<bool> {
    let mut pipes = [pipe, stopped.poll_fd()];
    loop {
        match poll(&mut pipes, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(pipes[1].any() == Some(false)),
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests need threads of their own"
)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::thread;

    #[test]
    fn a_read_of_a_silent_pipe_can_be_stopped() {
        let (mut reader, _writer) = io::pipe().unwrap();
        let (stop, stopped) = stop_pipe().unwrap();
        let thread = thread::spawn(move || read(&mut reader, &stopped, &mut [0; 8]).unwrap());
        drop(stop);
        assert_eq!(thread.join().unwrap(), 0);
    }

    #[test]
    fn what_can_be_read_of_two_pipes_is_told() {
        let ((first, mut to_first), (second, to_second)) =
            (io::pipe().unwrap(), io::pipe().unwrap());
        let (stop, bell) = bell().unwrap();
        let look = |second| {
            let soon = Some(Duration::from_millis(1));
            wait_readable(&first, second, &bell, soon).unwrap()
        };
        let readable = |first, second| Woken::Readable { first, second };
        assert_eq!(look(Some(&second)), Woken::Nothing);
        (&stop).write_all(b"x").unwrap();
        assert_eq!(look(Some(&second)), Woken::Bell);
        to_first.write_all(b"x").unwrap();
        assert_eq!(look(Some(&second)), readable(true, false));
        assert_eq!(look(None), readable(true, false));
        // An end is something to read, too.
        drop(to_second);
        assert_eq!(look(Some(&second)), readable(true, true));
        assert_eq!(look(None), readable(true, false));
        bell.take();
        assert_eq!(look(None), readable(true, false));
        drop(stop);
        assert_eq!(look(Some(&second)), Woken::Stopped);
    }
}
