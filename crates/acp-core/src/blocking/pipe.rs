//! Pipes to a process that may never let go of its end.
//!
//! A plain read blocks as long as anything holds the other end open, and a plain write as long as nobody
//! reads. A process that escaped its group can do both for ever, and the thread would be lost with it. So
//! each thread waits for its pipe *and* for a stop pipe, whose other end the driver drops.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Tells threads to stop, once it is dropped.
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

/// Which of two pipes have something to read, or have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Readable {
    pub(super) first: bool,
    pub(super) second: bool,
}

/// Waits until one of two pipes is readable, or broken. Neither is if it was stopped before.
pub(super) fn wait_readable(
    first: &impl AsFd,
    second: Option<&impl AsFd>,
    stopped: &Stopped,
) -> io::Result<Readable> {
    let first = PollFd::new(first.as_fd(), PollFlags::POLLIN);
    let (first, second) = match second {
        Some(second) => {
            let second = PollFd::new(second.as_fd(), PollFlags::POLLIN);
            let [first, second, _] = wait([first, second, stopped.poll_fd()])?;
            (first, second)
        }
        None => (wait([first, stopped.poll_fd()])?[0], false),
    };
    Ok(Readable { first, second })
}

/// Reads what is there, waiting for something if need be. Zero at the end of input and once stopped.
pub(super) fn read<R: Read + AsFd>(
    pipe: &mut R,
    stopped: &Stopped,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        let readable = PollFd::new(pipe.as_fd(), PollFlags::POLLIN);
        if !wait([readable, stopped.poll_fd()])?[0] {
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
    let writable = PollFd::new(pipe.as_fd(), PollFlags::POLLOUT);
    wait([writable, stopped.poll_fd()]).is_ok_and(|[ready, _]| ready)
}

/// Waits until one of the pipes is ready, or broken. None is if the last one has ended, which is the stop pipe.
fn wait<const N: usize>(mut pipes: [PollFd<'_>; N]) -> io::Result<[bool; N]> {
    loop {
        match poll(&mut pipes, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let happened = |pipe: PollFd<'_>| pipe.revents().is_some_and(|all| !all.is_empty());
                let ready = pipes.map(happened);
                let is_stopped = ready.last() == Some(&true);
                return Ok(ready.map(|ready| ready && !is_stopped));
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
    use std::io::Write;
    use std::thread;

    #[test]
    fn a_read_of_a_silent_pipe_can_be_stopped() {
        let (mut reader, _writer) = io::pipe().unwrap();
        let (stop, [stopped]) = stop_pipe::<1>().unwrap();
        let thread = thread::spawn(move || read(&mut reader, &stopped, &mut [0; 8]).unwrap());
        drop(stop);
        assert_eq!(thread.join().unwrap(), 0);
    }

    #[test]
    fn what_can_be_read_of_two_pipes_is_told() {
        let ((first, mut to_first), (second, to_second)) =
            (io::pipe().unwrap(), io::pipe().unwrap());
        let (stop, [stopped]) = stop_pipe::<1>().unwrap();
        let look = |second| {
            let ready = wait_readable(&first, second, &stopped).unwrap();
            (ready.first, ready.second)
        };
        to_first.write_all(b"x").unwrap();
        assert_eq!(look(Some(&second)), (true, false));
        assert_eq!(look(None), (true, false));
        // An end is something to read, too.
        drop(to_second);
        assert_eq!(look(Some(&second)), (true, true));
        drop(stop);
        assert_eq!(look(Some(&second)), (false, false));
    }
}
