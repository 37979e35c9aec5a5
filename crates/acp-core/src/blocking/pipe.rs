//! Pipes to a process that may never let go of its end.
//!
//! A plain read blocks as long as anything holds the other end open, and a plain write as long as nobody
//! reads. A process that escaped its group can do both for ever, and the thread would be lost with it. So
//! each thread waits for its pipe *and* for a stop pipe, whose other end the driver drops.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
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

/// Writes everything to a pipe that does not block. False if it was stopped before.
pub(super) fn write_all<W: Write + AsFd>(
    pipe: &mut W,
    stopped: &Stopped,
    mut bytes: &[u8],
) -> io::Result<bool> {
    while !bytes.is_empty() {
        match pipe.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !wait_for(pipe.as_fd(), PollFlags::POLLOUT, stopped)? {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
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

    #[test]
    fn a_write_that_nobody_reads_can_be_stopped() {
        let (_reader, mut writer) = io::pipe().unwrap();
        let (stop, [stopped]) = stop_pipe::<1>().unwrap();
        set_nonblocking(&writer).unwrap();
        let thread =
            thread::spawn(move || write_all(&mut writer, &stopped, &vec![b'x'; 1 << 20]).unwrap());
        drop(stop);
        assert!(!thread.join().unwrap());
    }

    #[test]
    fn a_write_larger_than_the_pipe_arrives_whole() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let (_stop, [stopped, other]) = stop_pipe::<2>().unwrap();
        set_nonblocking(&writer).unwrap();
        let sent: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
        let expected = sent.clone();
        let thread = thread::spawn(move || write_all(&mut writer, &stopped, &sent).unwrap());
        let mut got = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match read(&mut reader, &other, &mut buffer).unwrap() {
                0 => break,
                n => got.extend_from_slice(&buffer[..n]),
            }
        }
        assert!(thread.join().unwrap());
        assert_eq!(got, expected);
    }
}
