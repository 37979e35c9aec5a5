//! The processes that this one has started, so that a signal leaves none of them behind.
//!
//! Drivers and build commands lead process groups of their own, which a terminal's Ctrl-C does not
//! reach, and agent processes may be in any group. A signal is for the whole process, so the list is,
//! too.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::{self, Command, ExitStatus},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, getpgid, getpgrp},
};
use process_wrap::std::{ChildWrapper, CommandWrap, ProcessGroup};
use tempfile::TempDir;

use crate::processes;

/// How often a process that should end is looked at.
const EXIT_POLL: Duration = Duration::from_millis(5);

static STARTED: Mutex<BTreeSet<Target>> = Mutex::new(BTreeSet::new());

static SCRATCHES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Kills every driver, build command and agent process that runs, with its process group, removes every
/// [`Scratch`], and exits with `code`.
///
/// Nothing is started any more from the moment this is called.
pub fn kill_all_and_exit(code: i32) -> ! {
    let started = started();
    started.iter().for_each(|target| target.kill());
    for dir in scratches().iter() {
        // Nothing can be done about what cannot be removed, with no time left.
        let _ = fs::remove_dir_all(dir);
    }
    process::exit(code)
}

/// A new directory that is removed when this is dropped, and by [`kill_all_and_exit`].
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes it, where the system has its temporary files.
    pub fn new(prefix: &str) -> io::Result<Scratch> {
        let dir = tempfile::Builder::new().prefix(prefix).tempdir()?;
        scratches().insert(dir.path().to_owned());
        Ok(Scratch(dir))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        scratches().remove(self.0.path());
    }
}

/// A child process that leads a process group. Dropping it kills the group.
pub(crate) struct Group {
    child: Box<dyn ChildWrapper>,
    /// Until the group is left alone.
    entry: Option<Entry>,
}

impl Group {
    /// Starts `command`.
    pub(crate) fn spawn(command: Command) -> io::Result<Group> {
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessGroup::leader());
        // Held from before the start, so that no signal comes between the start and the entry.
        let mut started = started();
        let child = command.spawn()?;
        let target = Target::Group(child.id());
        started.insert(target);
        Ok(Group {
            child,
            entry: Some(Entry(target)),
        })
    }

    /// Its standard streams, and what else there is to know about it.
    pub(crate) fn child(&mut self) -> &mut dyn ChildWrapper {
        self.child.as_mut()
    }

    /// Waits for the leader to end, at most until `deadline`.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(EXIT_POLL);
        }
    }

    /// Kills the group and waits for the leader.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        let killed = self.child.start_kill();
        // A group that is gone already cannot be killed, and is what was wanted.
        if killed.is_err() && self.child.try_wait()?.is_none() {
            return killed;
        }
        self.child.wait().map(drop)
    }

    /// Leaves alone what the leader, which has ended, has left in the group.
    pub(crate) fn leave(mut self) {
        self.entry = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.entry.is_some() {
            // Nothing can be done about a process that cannot be killed, least of all in a destructor.
            let _ = self.kill();
        }
    }
}

/// A place in the list of what was started. Dropping it gives the place up.
pub(crate) struct Entry(Target);

impl Entry {
    /// Enters a process that somebody else has started.
    pub(crate) fn process(pid: u32) -> Entry {
        let target = Target::Process(pid);
        started().insert(target);
        Entry(target)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        started().remove(&self.0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// The process group with this leader.
    Group(u32),
    /// A process of somebody else's making.
    Process(u32),
}

impl Target {
    fn kill(self) {
        match self {
            Target::Group(leader) => kill_group(pid(leader)),
            Target::Process(process) => {
                // What an agent has just started is in its group, and may not be reported yet.
                if let Some(process) = pid(process)
                    && let Ok(group) = getpgid(Some(process))
                    && group != getpgrp()
                {
                    kill_group(Some(group));
                }
                processes::kill(process);
            }
        }
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().map(Pid::from_raw)
}

fn kill_group(leader: Option<Pid>) {
    if let Some(leader) = leader {
        // It fails where the group is gone, which is what is wanted.
        let _ = killpg(leader, Signal::SIGKILL);
    }
}

fn started() -> MutexGuard<'static, BTreeSet<Target>> {
    // Nobody panics while it is locked; if somebody did, the set would still be whole.
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scratches() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // As above.
    SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}
