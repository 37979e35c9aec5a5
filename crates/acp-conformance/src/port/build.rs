//! The commands of a port: what sets it up, and what builds it.

use std::{
    convert::Infallible,
    io::{self, Read},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, Sender},
    thread,
    time::{Duration, Instant},
};

use crate::{limits::Limits, started::Group, tail::Tail};

/// Why a command of a port did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command could not be started.
    #[error("failed to start {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The command could not be waited for.
    #[error("failed to wait for it: {0}")]
    Wait(io::Error),
    /// The command reported a failure.
    #[error("it ended with {status}\n{output}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        output: String,
    },
    /// The command took too long and was killed.
    #[error("it did not end within {limit:?} and was killed\n{output}")]
    TimedOut {
        /// How long it could have taken.
        limit: Duration,
        /// The end of what it printed.
        output: String,
    },
}

/// Runs `command` in a process group of its own, and kills the group when the time is over.
///
/// What a command that has ended leaves behind is left alone, as build tools start servers that are to
/// outlive them.
pub(super) fn run(mut command: Command, limits: &Limits) -> Result<(), CommandError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let spawn_error = {
        let program = command.get_program().to_string_lossy().into_owned();
        |source| CommandError::Spawn { program, source }
    };
    let (mut group, output, read) = match start(command) {
        Ok(started) => started,
        Err(error) => return Err(spawn_error(error)),
    };
    let status = group
        .wait_until(Instant::now() + limits.build)
        .map_err(CommandError::Wait)?;
    match status {
        Some(_) => group.leave(),
        None => drop(group),
    }
    // A server that was left behind may hold the pipes for as long as it lives.
    let _ = read.recv_timeout(limits.settle);
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(CommandError::Failed {
            status,
            output: output.text(),
        }),
        None => Err(CommandError::TimedOut {
            limit: limits.build,
            output: output.text(),
        }),
    }
}

/// Starts `command`, and to read what it prints. The channel is disconnected when all is read.
fn start(command: Command) -> io::Result<(Group, Tail, mpsc::Receiver<Infallible>)> {
    let mut group = Group::spawn(command)?;
    let output = Tail::default();
    let (reading, read) = mpsc::channel();
    if let Some(stdout) = group.child().stdout().take() {
        keep(stdout, &output, &reading)?;
    }
    if let Some(stderr) = group.child().stderr().take() {
        keep(stderr, &output, &reading)?;
    }
    Ok((group, output, read))
}

fn keep(
    pipe: impl Read + Send + 'static,
    output: &Tail,
    reading: &Sender<Infallible>,
) -> io::Result<()> {
    let (output, reading) = (output.clone(), reading.clone());
    let body = move || {
        output.keep(pipe);
        drop(reading);
    };
    thread::Builder::new()
        .name("build-output".into())
        .spawn(body)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::processes;

    fn limits(build: Duration) -> Limits {
        Limits {
            build,
            ..Limits::scaled(1.0)
        }
    }

    /// Runs a shell script that may write process ids to the file `pids`.
    fn sh(dir: &Path, script: &str, limits: &Limits) -> Result<(), CommandError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(dir);
        run(command, limits)
    }

    fn pids(dir: &Path) -> Vec<(String, u32)> {
        let text = fs::read_to_string(dir.join("pids")).unwrap();
        let pids = text.lines().map(|pid| pid.parse().unwrap());
        pids.map(|pid: u32| (pid.to_string(), pid)).collect()
    }

    #[test]
    fn a_build_that_hangs_is_killed_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let script = "echo begun; sleep 600 & echo $$ > pids; echo $! >> pids; wait";
        let limits = limits(Duration::from_secs(2));
        let error = sh(dir.path(), script, &limits).unwrap_err();
        let want = "it did not end within 2s and was killed\nbegun\n";
        assert_eq!(error.to_string(), want);
        let pids = pids(dir.path());
        assert_eq!(pids.len(), 2);
        let deadline = Instant::now() + Duration::from_secs(10);
        assert_eq!(processes::outlive(pids, deadline), [""; 0]);
    }

    #[test]
    fn a_server_that_holds_the_pipes_holds_up_nobody() {
        let limits = limits(Duration::from_secs(300));
        for code in [0, 3] {
            let dir = tempfile::tempdir().unwrap();
            let started = Instant::now();
            let script = format!("echo why >&2; sleep 600 & echo $! > pids; exit {code}");
            let result = sh(dir.path(), &script, &limits);
            assert!(started.elapsed() < Duration::from_secs(200));
            let server = pids(dir.path())[0].1;
            assert!(processes::is_alive(server), "it is left alone");
            processes::kill(server);
            match result {
                Ok(()) => assert_eq!(code, 0),
                Err(error) => {
                    let want = "it ended with exit status: 3\nwhy\n";
                    assert_eq!(error.to_string(), want);
                }
            }
        }
    }
}
