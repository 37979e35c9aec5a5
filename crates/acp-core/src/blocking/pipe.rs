//! Pipes to a process that may never let go of its end.
//!
//! A plain read blocks as long as anything holds the other end open, and a plain write as long as nobody
//! reads. A process that escaped its group can do both for ever, and the thread would be lost with it. So
//! each thread waits for its pipe *and* for a stop pipe, whose other end the driver drops.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Tells threads to stop, once it is dropped.
#[derive(Debug)]
pub(super) struct Stop(#[expect(dead_code, reason = "held for its drop")] PipeWriter);

/// What a thread waits on besides its own pipe.
#[derive(Debug)]
pub(super) struct Stopped(PipeReader);

/// A stop, and what `N` threads wait on.
pub(super) fn stop_pipe<const N: usize>() -> io::Result<(Stop, [Stopped; N])> {
    let (reader, writer) = io::pipe()?;
    let readers = (0..N)
        .map(|_| reader.try_clone().map(Stopped))
        .collect::<io::Result<Vec<_>>>()?;
    let readers = readers
        .try_into()
        .map_err(|_| io::Error::other("a reader for each thread"))?;
    Ok((Stop(writer), readers))
}

/// Reads what is there, waiting for something if need be. Zero at the end of input and once stopped.
pub(super) fn read<R: Read + AsFd>(
    pipe: &mut R,
    stopped: &Stopped,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        if !wait_for(pipe.as_fd(), PollFlags::POLLIN, stopped)? {
            return Ok(0);
        }
        match pipe.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Makes writes return instead of waiting for the reader. It concerns this end of the pipe only.
pub(super) fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Waits until the pipe takes something, or is broken; false if it was stopped before.
pub(super) fn wait_writable(pipe: &impl AsFd, stopped: &Stopped) -> bool {
    // Where there is no waiting there is nothing to wait for.
    wait_for(pipe.as_fd(), PollFlags::POLLOUT, stopped).unwrap_or(false)
}

/// Waits until the pipe is ready, or broken; false if it was stopped before.
fn wait_for(pipe: BorrowedFd<'_>, flags: PollFlags, stopped: &Stopped) -> io::Result<bool> {
    let mut fds = [
        PollFd::new(pipe, flags),
        // The end of the stop pipe is reported whether it is asked for or not.
        PollFd::new(stopped.0.as_fd(), PollFlags::empty()),
    ];
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let happened =
                    |fd: &PollFd<'_>| fd.revents().is_some_and(|flags| !flags.is_empty());
                return Ok(!happened(&fds[1]) && happened(&fds[0]));
            }
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
    use std::thread;

    #[test]
    fn a_read_of_a_silent_pipe_can_be_stopped() {
        let (mut reader, _writer) = io::pipe().unwrap();
        let (stop, [stopped]) = stop_pipe::<1>().unwrap();
        let thread = thread::spawn(move || read(&mut reader, &stopped, &mut [0; 8]).unwrap());
        drop(stop);
        assert_eq!(thread.join().unwrap(), 0);
    }
}
