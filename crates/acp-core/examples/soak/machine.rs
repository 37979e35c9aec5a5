//! What the system says of this process, and numbers that repeat.

use std::fmt;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// What must be back to where it was.
pub struct Counts {
    threads: usize,
    descriptors: usize,
    children: usize,
    resident_kib: u64,
}

impl Counts {
    pub fn now() -> Self {
        let entries = |what: &str| {
            fs::read_dir(format!("/proc/self/{what}")).map_or(0, |entries| entries.count())
        };
        Self {
            threads: entries("task"),
            descriptors: entries("fd"),
            children: children(),
            resident_kib: resident_kib(),
        }
    }

    /// The counts once the last thread has ended, which the system does after it was joined.
    pub fn settled(before: &Self) -> Self {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let now = Self::now();
            if before.compare(&now).is_ok() || Instant::now() > end {
                return now;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn compare(&self, after: &Self) -> Result<(), String> {
        let grown = after.resident_kib.saturating_sub(self.resident_kib);
        let same = after.threads == self.threads
            && after.descriptors == self.descriptors
            && after.children == self.children;
        if !same {
            return Err("something was left open".to_owned());
        }
        // The allocator keeps some; a leak of one thread's stack or one buffer a turn is far more.
        if grown > 16 * 1024 {
            return Err(format!("memory grew by {grown} KiB"));
        }
        Ok(())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} threads, {} file descriptors, {} child processes, {} KiB resident",
            self.threads, self.descriptors, self.children, self.resident_kib
        )
    }
}

/// Memory of this process.
pub fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

/// Live processes of a group.
pub fn group_members(group: u32) -> usize {
    processes().filter(|process| process.group == group).count()
}

fn children() -> usize {
    let this = std::process::id();
    processes().filter(|process| process.parent == this).count()
}

struct Process {
    parent: u32,
    group: u32,
}

/// All processes that are no zombies.
fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        (state != "Z").then_some(Process { parent, group })
    })
}

/// A small generator (xorshift64*), so that a run can be repeated by its seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}
