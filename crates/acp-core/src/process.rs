//! The agent's process: started in a group of its own, watched, and ended for good.
//!
//! Launchers (`npx`, `uvx`, shell shims) start the real agent as a child of their own, so signals go to
//! the whole group. The order is: end of input, a wait, SIGTERM, a wait, SIGKILL; and what is left of the
//! group after its leader has gone is ended too.
//!
//! A process that moves to another group or session on purpose is out of reach, and so is every process
//! when the host itself is ended by SIGKILL; the agent then only sees the end of its input.

#![expect(
    clippy::disallowed_methods,
    reason = "starting and waiting for processes is what this module is for"
)]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::{ExitInfo, LoadError};
use crate::options::LoadOptions;
use crate::sync::{lock, wait_at_most};

/// How long the kernel may take to end a process after SIGKILL.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How often a group without its leader is looked at: there is no event to wait for.
const GROUP_POLL: Duration = Duration::from_millis(5);

/// A running agent.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    pid: Pid,
    exit: ExitCell,
    /// Whether the whole group is known to be gone. Its id may belong to others from then on, so nothing is
    /// sent to it any more.
    gone: AtomicBool,
    /// Held while the process is being ended, so that a second caller waits for the first.
    ending: Mutex<()>,
    eof_grace: Duration,
    term_grace: Duration,
}

/// A new agent and its pipes.
pub(crate) struct Spawned {
    pub(crate) process: AgentProcess,
    /// For [`AgentProcess::reap`].
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

#[derive(Debug, Default)]
struct ExitCell {
    /// Empty values if it exited in a way that nobody saw.
    info: Mutex<Option<ExitInfo>>,
    changed: Condvar,
}

impl AgentProcess {
    /// Starts the agent.
    pub(crate) fn spawn(options: &LoadOptions, cwd: &Path) -> Result<Spawned, LoadError> {
        let Some((program, args)) = options.command.split_first() else {
            return Err(LoadError::InvalidOptions("the command is empty".to_owned()));
        };
        let mut command = Command::new(resolve_program(program));
        command
            .args(args)
            .current_dir(cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for (name, value) in &options.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let failed = |error| spawn_failed(program, options, error);
        let mut child = command.spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Ok(pid), (Some(stdin), Some(stdout), Some(stderr))) =
            (i32::try_from(child.id()), pipes)
        else {
            // Neither happens: the pipes were asked for, and process ids fit.
            let _ = child.kill();
            return Err(failed(io::Error::other("the system gave no pipes")));
        };
        Ok(Spawned {
            process: Self {
                pid: Pid::from_raw(pid),
                exit: ExitCell::default(),
                gone: AtomicBool::new(false),
                ending: Mutex::new(()),
                eof_grace: options.eof_grace,
                term_grace: options.term_grace,
            },
            child,
            stdin,
            stdout,
            stderr,
        })
    }

    /// Waits for the exit of the process, on a thread of its own, and tells everybody.
    pub(crate) fn reap(&self, child: &mut Child) {
        // Waiting fails where somebody else has waited for all children of the host, or the host ignores
        // SIGCHLD; the status is then lost.
        let info = child.wait().map(exit_info).unwrap_or_default();
        if killpg(self.pid, None) == Err(Errno::ESRCH) {
            self.gone.store(true, Ordering::Release);
        }
        *lock(&self.exit.info) = Some(info);
        self.exit.changed.notify_all();
    }

    /// Ends a process that nobody can wait for on a thread.
    pub(crate) fn abandon(&self, child: &mut Child) {
        self.kill();
        self.reap(child);
    }

    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// How long it may take to exit by itself once its input has ended.
    #[cfg(feature = "tokio")]
    pub(crate) fn eof_grace(&self) -> Duration {
        self.eof_grace
    }

    /// Whether it is known that nothing of its group is left.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// How it ended, once it has.
    pub(crate) fn exit(&self) -> Option<ExitInfo> {
        lock(&self.exit.info).clone()
    }

    /// Waits for its exit.
    pub(crate) fn wait(&self, limit: Duration) -> Option<ExitInfo> {
        let info = lock(&self.exit.info);
        let (info, _) = wait_at_most(&self.exit.changed, info, limit, |info| info.is_some());
        info.clone()
    }

    /// Ends the process and its group; its input has been closed. Returns whether it is gone.
    pub(crate) fn end(&self) -> bool {
        self.end_within(self.eof_grace)
    }

    /// Sends SIGTERM to the group and returns.
    #[cfg(feature = "tokio")]
    pub(crate) fn terminate(&self) {
        self.signal_group(Signal::SIGTERM);
    }

    /// Sends SIGKILL to the group and returns.
    pub(crate) fn kill(&self) {
        self.signal_group(Signal::SIGKILL);
    }

    /// Ends the process and its group without waiting for it to exit by itself.
    pub(crate) fn end_now(&self) -> bool {
        self.end_within(Duration::ZERO)
    }

    fn end_within(&self, grace: Duration) -> bool {
        let _ending = lock(&self.ending);
        if self.wait(grace).is_none() {
            self.signal_group(Signal::SIGTERM);
            if self.wait(self.term_grace).is_none() {
                self.signal_group(Signal::SIGKILL);
                if self.wait(KILL_WAIT).is_none() {
                    return false;
                }
            }
        }
        self.end_rest_of_group();
        true
    }

    /// Ends what the leader has left behind.
    fn end_rest_of_group(&self) {
        for (signal, limit) in [
            (Signal::SIGTERM, self.term_grace),
            (Signal::SIGKILL, KILL_WAIT),
        ] {
            if !self.signal_group(signal) || self.group_is_gone(limit) {
                self.gone.store(true, Ordering::Release);
                return;
            }
        }
    }

    fn group_is_gone(&self, limit: Duration) -> bool {
        let started = Instant::now();
        while has_live_member(self.pid) {
            if started.elapsed() >= limit {
                return false;
            }
            thread::sleep(GROUP_POLL);
        }
        true
    }

    /// Signals the group; false if it has no members any more.
    fn signal_group(&self, signal: Signal) -> bool {
        !self.gone.load(Ordering::Acquire) && killpg(self.pid, signal) != Err(Errno::ESRCH)
    }
}

/// Whether a process of the group is more than a zombie.
///
/// A container without an init that reaps keeps the zombies of orphans for ever, and they would count
/// as members.
fn has_live_member(group: Pid) -> bool {
    if killpg(group, None) == Err(Errno::ESRCH) {
        return false;
    }
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return true;
    };
    let mut seen_stat = false;
    for entry in entries.flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // `pid (name) state ppid pgrp …`; the name may hold anything, also a parenthesis.
        let Some((_, fields)) = stat.rsplit_once(") ") else {
            continue;
        };
        seen_stat = true;
        let mut fields = fields.split(' ');
        let (state, pgrp) = (fields.next(), fields.nth(1));
        if pgrp.and_then(|pgrp| pgrp.parse().ok()) == Some(group.as_raw()) && state != Some("Z") {
            return true;
        }
    }
    // Where there is no such /proc the signal is all there is to go by.
    !seen_stat
}

fn exit_info(status: ExitStatus) -> ExitInfo {
    ExitInfo {
        code: status.code(),
        signal: status.signal(),
    }
}

/// A relative path is meant from the host's directory, not from the agent's.
fn resolve_program(program: &OsStr) -> OsString {
    let path = Path::new(program);
    if path.is_relative() && path.components().count() > 1 {
        std::path::absolute(path).map_or_else(|_| program.to_owned(), PathBuf::into_os_string)
    } else {
        program.to_owned()
    }
}

fn spawn_failed(program: &OsStr, options: &LoadOptions, error: io::Error) -> LoadError {
    let mask = |text: &str| options.connection.secrets.mask(text).into_owned();
    let resolved = PathBuf::from(resolve_program(program));
    let reason = match error.kind() {
        io::ErrorKind::NotFound if resolved.components().count() > 1 => {
            if resolved.exists() {
                format!(
                    "`{}` is there, but the interpreter that its first line names is not",
                    resolved.display()
                )
            } else {
                format!("there is no file `{}`", resolved.display())
            }
        }
        io::ErrorKind::NotFound => {
            let path = options
                .env
                .iter()
                .rev()
                .find(|(name, _)| name == "PATH")
                .map_or_else(|| std::env::var_os("PATH"), |(_, value)| value.clone());
            match path {
                Some(path) => format!(
                    "no such program in PATH, which is {}",
                    path.to_string_lossy()
                ),
                None => "no such program, and PATH is not set".to_owned(),
            }
        }
        io::ErrorKind::PermissionDenied if resolved.is_dir() => {
            format!("`{}` is a directory", resolved.display())
        }
        io::ErrorKind::PermissionDenied => "it may not be executed (permission denied)".to_owned(),
        _ => error.to_string(),
    };
    LoadError::SpawnFailed {
        program: mask(&program.to_string_lossy()),
        reason: mask(&reason),
        source: Arc::new(error),
    }
}
