//! What this process has used.

use std::fs;

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};

/// CPU time so far, user and system, in nanoseconds. Zero if the system does not tell.
pub fn cpu_ns() -> u64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
        let both = usage.user_time() + usage.system_time();
        u64::try_from(both.num_nanoseconds()).unwrap_or_default()
    })
}

/// Peak resident memory in bytes.
///
/// `getrusage` would tell that of the process that this one was started from, where that is larger.
pub fn peak_rss() -> u64 {
    status_kib("VmHWM:") * 1024
}

/// Resident memory now, in bytes.
pub fn rss() -> u64 {
    status_kib("VmRSS:") * 1024
}

fn status_kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}
