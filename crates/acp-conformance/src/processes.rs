//! Whether a process is there, and how to end it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{self, Signal},
    unistd::Pid,
};

/// How often processes that should end are looked at.
const POLL: Duration = Duration::from_millis(5);

/// Waits until none of the named processes is there, at most until `deadline`, and returns the names
/// of those that are.
pub fn outlive(mut processes: Vec<(String, u32)>, deadline: Instant) -> Vec<String> {
    loop {
        processes.retain(|(_, pid)| is_alive(*pid));
        if processes.is_empty() || Instant::now() >= deadline {
            return processes.into_iter().map(|(name, _)| name).collect();
        }
        thread::sleep(POLL);
    }
}

/// Whether the process runs. One that has ended and was not waited for does not.
pub fn is_alive(pid: u32) -> bool {
    let Ok(raw) = i32::try_from(pid) else {
        return false;
    };
    if signal::kill(Pid::from_raw(raw), None) == Err(Errno::ESRCH) {
        return false;
    }
    // An orphan's entry stays until process 1 waits for it, which in a container may be never.
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        // Either there is no such file system, or the process ended just now.
        return signal::kill(Pid::from_raw(raw), None).is_ok();
    };
    // The state follows the command's name, which is in parentheses and may hold some.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// Ends the process at once. It may be gone already.
pub fn kill(pid: u32) {
    if let Ok(raw) = i32::try_from(pid)
        && raw > 1
    {
        // The only likely failure is that there is no such process, which is what is wanted.
        let _ = signal::kill(Pid::from_raw(raw), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_there_until_it_is_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let named = || vec![("sleep".to_owned(), pid)];
        assert_eq!(outlive(named(), Instant::now()), ["sleep"]);
        kill(pid);
        // Not waited for yet, so what is left is a zombie.
        let deadline = Instant::now() + Duration::from_secs(5);
        assert!(outlive(named(), deadline).is_empty());
        child.wait().unwrap();
        assert!(outlive(named(), Instant::now()).is_empty());
    }
}
