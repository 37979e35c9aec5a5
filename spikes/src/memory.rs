//! What a process and all that it started hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The memory of a process group and of all that its processes have started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory of all of them, in KiB. What they share counts for each.
    pub resident_kib: u64,
    /// How many they are.
    pub processes: usize,
}

/// The memory of the group that this process leads, and of whatever has left it.
pub fn of_group(leader: u32) -> Memory {
    let mut parents = BTreeMap::new();
    let mut members = BTreeSet::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            // It has ended.
            continue;
        };
        let Some((parent, group)) = parent_and_group(&stat) else {
            continue;
        };
        parents.insert(process, parent);
        if group == leader {
            members.insert(process);
        }
    }
    // Those that were started by members, until there are no more.
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(process, parent)| members.contains(*parent) && !members.contains(*process))
            .map(|(process, _)| *process)
            .collect();
        if more.is_empty() {
            break;
        }
        members.extend(more);
    }
    let sizes: Vec<u64> = members
        .iter()
        .filter_map(|&process| resident(process))
        .collect();
    Memory {
        resident_kib: sizes.iter().sum(),
        processes: sizes.len(),
    }
}

/// The name is in parentheses and may have any character, so what counts comes after the last one.
fn parent_and_group(stat: &str) -> Option<(u32, u32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    #[test]
    fn a_group_and_its_children_are_counted() {
        assert_eq!(parent_and_group("7 (a) b) S 3 5 5"), Some((3, 5)));
        let mut leader = Command::new("sh")
            .args(["-c", "sleep 60 & sleep 60; true"])
            .process_group(0)
            .spawn()
            .unwrap();
        let found = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            of_group(leader.id()).processes == 3
        });
        let memory = of_group(leader.id());
        Command::new("kill")
            .args(["-9", "--", &format!("-{}", leader.id())])
            .status()
            .unwrap();
        leader.wait().unwrap();
        assert!(found && memory.resident_kib > 0, "{memory:?}");
    }
}
