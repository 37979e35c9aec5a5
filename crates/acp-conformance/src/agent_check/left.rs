//! The processes that an agent leaves: those of its process group, and those that have left the group.

use std::{
    fs, io,
    os::fd::AsFd,
    process::{self, Command},
    sync::atomic::{AtomicU64, Ordering},
};

use nix::{
    sys::{signal, stat::fstat},
    unistd::Pid,
};

/// In the environment of an agent, which what it starts inherits.
const MARK: &str = "ACP_CONFORMANCE_AGENT";

/// A running process that an agent has started, or is itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// The process id, where it is known.
    pub(super) pid: Option<u32>,
    name: String,
    /// Whether it is out of reach of a signal to the agent's process group.
    pub(super) has_left_group: bool,
}

impl Left {
    /// The process in words.
    pub(super) fn describe(&self) -> String {
        match self.has_left_group {
            true => format!("{} in another process group", self.name),
            false => self.name.clone(),
        }
    }
}

/// What the processes of one agent are known by, wherever they have gone.
///
/// A process that goes into another process group or session keeps its environment and its open files, unless
/// it takes pains to lose both.
#[derive(Debug)]
pub(super) struct Mark {
    variable: String,
    /// As the links in `/proc/PID/fd` name them.
    pipes: Vec<String>,
}

impl Mark {
    /// Marks the processes of an agent that is about to be started.
    pub(super) fn put_on(command: &mut Command) -> Mark {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{count}", process::id());
        command.env(MARK, &value);
        Mark {
            variable: format!("{MARK}={value}"),
            pipes: Vec::new(),
        }
    }

    /// Adds a pipe that only this program and the agent have.
    pub(super) fn add_pipe(&mut self, pipe: &impl AsFd) -> io::Result<()> {
        let inode = fstat(pipe)?.st_ino;
        self.pipes.push(format!("pipe:[{inode}]"));
        Ok(())
    }

    /// The agent's processes that run, in no order. `group` is its process group.
    ///
    /// Elsewhere than on Linux only whether the group has any can be told.
    pub(super) fn left(&self, group: u32) -> Vec<Left> {
        let Ok(processes) = fs::read_dir("/proc") else {
            let pid = i32::try_from(group).map(Pid::from_raw);
            let any = pid.is_ok_and(|pid| signal::killpg(pid, None).is_ok());
            let one = Left {
                pid: None,
                name: "a process".to_owned(),
                has_left_group: false,
            };
            return any.then_some(one).into_iter().collect();
        };
        let pids = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| *pid != process::id());
        pids.filter_map(|pid| {
            // What has ended meanwhile is not left.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (name, of) = running(&stat)?;
            let has_left_group = of != group;
            (!has_left_group || self.is_on(pid)).then(|| Left {
                pid: Some(pid),
                name: name.to_owned(),
                has_left_group,
            })
        })
        .collect()
    }

    /// Whether a process has the variable or a pipe. Of other users' processes it cannot be told.
    fn is_on(&self, pid: u32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        if variables.any(|variable| variable == self.variable.as_bytes()) {
            return true;
        }
        let files = fs::read_dir(format!("/proc/{pid}/fd"));
        files.into_iter().flatten().flatten().any(|file| {
            let target = fs::read_link(file.path()).unwrap_or_default();
            self.pipes
                .iter()
                .any(|pipe| target.as_os_str() == pipe.as_str())
        })
    }
}

/// The name and the process group in a line of `/proc/PID/stat`, if that process is no zombie.
fn running(stat: &str) -> Option<(&str, u32)> {
    // The name is in parentheses, and may hold some.
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    let (state, _parent, group) = (fields.next()?, fields.next()?, fields.next()?);
    match state {
        "Z" | "X" => None,
        _ => Some((name, group.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_has_the_name_and_the_group() {
        let stat = |state: &str| format!("17 (a (b) c) {state} 1 5 5 0 -1");
        assert_eq!(running(&stat("S")), Some(("a (b) c", 5)));
        assert_eq!(running(&stat("Z")), None);
        assert_eq!(running("nonsense"), None);
    }
}
