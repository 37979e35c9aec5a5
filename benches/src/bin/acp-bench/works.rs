//! What is measured, and what it ought to come to.

use std::fmt;

use acp_bench::order;

use crate::place::Placement::{self, Free, Pinned, Split};

/// Something to measure.
pub struct Work {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: Kind,
    pub targets: &'static [Target],
}

pub enum Kind {
    /// Clients that are processes of their own.
    Processes {
        placement: Placement,
        clients: Clients,
        rounds: usize,
        order: fn(smoke: bool) -> order::Work,
        /// Text of each sample, in bytes.
        text: fn(smoke: bool) -> u64,
        value: Value,
    },
    /// A clean release build of `acp-core`.
    Build,
    /// The engine alone, by criterion.
    Engine,
}

/// Who does a work.
#[derive(Clone, Copy)]
pub enum Clients {
    /// All, and the ceiling, which is no client.
    All,
    /// All that can take part in a conversation.
    NotCeiling,
    /// These.
    Only(&'static [&'static str]),
}

impl Clients {
    pub fn include(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::NotCeiling => name != "ceiling",
            Self::Only(names) => names.contains(&name),
        }
    }
}

/// What of an outcome counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// The time of a sample.
    Time,
    /// The time of a sample beyond that of its baseline.
    AddedTime,
    /// Memory of an idle lane.
    LaneBytes,
}

/// What a client ought to reach.
pub struct Target {
    pub client: &'static str,
    pub is: Is,
    pub limit: f64,
}

/// What a limit is about.
#[derive(Clone, Copy)]
pub enum Is {
    /// At most so many times the time of another client.
    AtMostTimes(&'static str),
    /// At least so many times as fast as another client.
    TimesAsFastAs(&'static str),
    /// At most so many times what the same client needs for another work.
    AtMostTimesWork(&'static str),
    /// Peak resident memory, in MiB.
    PeakMib,
    /// Milliseconds.
    Millis,
    /// KiB.
    Kib,
    /// Seconds.
    Seconds,
    /// Crates.
    Crates,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        match self.is {
            Is::AtMostTimes(other) => write!(f, "≤ {limit:.3} × {other}"),
            Is::TimesAsFastAs(other) => write!(f, "≥ {limit} × as fast as {other}"),
            Is::AtMostTimesWork(other) => write!(f, "≤ {limit} × {other}"),
            Is::PeakMib => write!(f, "≤ {limit} MiB at its peak"),
            Is::Millis => write!(f, "≤ {limit} ms"),
            Is::Kib => write!(f, "≤ {limit} KiB a lane"),
            Is::Seconds => write!(f, "≤ {limit} s"),
            Is::Crates => write!(f, "≤ {limit} crates"),
        }
    }
}

impl Work {
    /// A name means a work, or all whose name begins with it and a dash.
    pub fn is_meant_by(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

const FLOOR: &str = "floor";
const SDK: &str = "rust-sdk";
const BLOCKING: &str = "blocking";

const fn target(client: &'static str, is: Is, limit: f64) -> Target {
    Target { client, is, limit }
}

fn turns(script: &str, count: usize, warm_up: usize) -> order::Work {
    order::Work::Turns {
        script: format!("bench {script}"),
        count,
        warm_up,
    }
}

fn chunks(smoke: bool, full: usize) -> usize {
    if smoke { 100 } else { full }
}

fn echo(smoke: bool) -> order::Work {
    let (count, warm_up) = if smoke { (5, 1) } else { (1000, 100) };
    turns("echo", count, warm_up)
}

fn permission(smoke: bool) -> order::Work {
    let (count, warm_up) = if smoke { (5, 1) } else { (500, 100) };
    turns("permission", count, warm_up)
}

fn few(smoke: bool, count: usize) -> usize {
    if smoke { 1 } else { count }
}

fn history(smoke: bool, turns: usize) -> order::Work {
    order::Work::History {
        bytes: 1 << 20,
        turns,
        count: if smoke { 3 } else { 100 },
    }
}

const ECHO_TEXT: u64 = "echo".len() as u64;
const CHUNK: usize = 20;
const BIG: usize = 32 << 20;

/// All works, in the order in which they are measured.
pub static WORKS: &[Work] = &[
    Work {
        name: "echo",
        about: "a warm turn that answers one chunk, client and agent on one CPU",
        kind: Kind::Processes {
            placement: Pinned,
            clients: Clients::NotCeiling,
            rounds: 9,
            order: echo,
            text: |_| ECHO_TEXT,
            value: Value::Time,
        },
        targets: &[
            target(BLOCKING, Is::AtMostTimes(FLOOR), 1.3),
            target(BLOCKING, Is::TimesAsFastAs(SDK), 4.0),
            target("tokio", Is::AtMostTimes(FLOOR), 2.0),
            target("tokio", Is::TimesAsFastAs(SDK), 2.5),
        ],
    },
    Work {
        name: "echo-split",
        about: "the same on one CPU each",
        kind: Kind::Processes {
            placement: Split,
            clients: Clients::NotCeiling,
            rounds: 5,
            order: echo,
            text: |_| ECHO_TEXT,
            value: Value::Time,
        },
        targets: &[],
    },
    Work {
        name: "permission",
        about: "a warm turn with a permission request",
        kind: Kind::Processes {
            placement: Pinned,
            clients: Clients::NotCeiling,
            rounds: 7,
            order: permission,
            text: |_| ECHO_TEXT,
            value: Value::Time,
        },
        targets: &[],
    },
    Work {
        name: "chunks",
        about: "a turn of 100,000 chunks of 20 bytes",
        kind: Kind::Processes {
            placement: Split,
            clients: Clients::All,
            rounds: 15,
            order: |smoke| {
                turns(
                    &format!("chunks {} {CHUNK}", chunks(smoke, 100_000)),
                    few(smoke, 3),
                    1,
                )
            },
            text: |smoke| (chunks(smoke, 100_000) * CHUNK) as u64,
            value: Value::Time,
        },
        targets: &[
            target(BLOCKING, Is::AtMostTimes(FLOOR), 1.25),
            target(BLOCKING, Is::TimesAsFastAs(SDK), 12.0),
            target("tokio", Is::AtMostTimes(FLOOR), 1.25),
            target("tokio", Is::TimesAsFastAs(SDK), 12.0),
        ],
    },
    Work {
        name: "noisy",
        about: "a turn of 100,000 updates, of which every fourth is text",
        kind: Kind::Processes {
            placement: Split,
            clients: Clients::All,
            rounds: 15,
            order: |smoke| {
                turns(
                    &format!("noisy {}", chunks(smoke, 100_000)),
                    few(smoke, 3),
                    1,
                )
            },
            text: |smoke| (chunks(smoke, 100_000) / 4 * CHUNK) as u64,
            value: Value::Time,
        },
        targets: &[
            target(BLOCKING, Is::AtMostTimes(FLOOR), 1.25),
            target("tokio", Is::AtMostTimes(FLOOR), 1.25),
        ],
    },
    Work {
        name: "million",
        about: "a turn of 1,000,000 chunks of 20 bytes",
        kind: Kind::Processes {
            placement: Split,
            clients: Clients::All,
            rounds: 3,
            order: |smoke| {
                turns(
                    &format!("chunks {} {CHUNK}", chunks(smoke, 1_000_000)),
                    1,
                    1,
                )
            },
            text: |smoke| (chunks(smoke, 1_000_000) * CHUNK) as u64,
            value: Value::Time,
        },
        targets: &[
            target(BLOCKING, Is::PeakMib, 32.0),
            target("tokio", Is::PeakMib, 32.0),
        ],
    },
    Work {
        name: "big",
        about: "a turn of one chunk of 32 MiB",
        kind: Kind::Processes {
            placement: Split,
            clients: Clients::All,
            rounds: 5,
            order: |smoke| turns(&format!("big {}", chunks(smoke, BIG)), few(smoke, 2), 1),
            text: |smoke| chunks(smoke, BIG) as u64,
            value: Value::Time,
        },
        targets: &[
            target(BLOCKING, Is::AtMostTimes(FLOOR), 1.3),
            target(BLOCKING, Is::PeakMib, 80.0),
            target("tokio", Is::AtMostTimes(FLOOR), 1.3),
            target("tokio", Is::PeakMib, 80.0),
        ],
    },
    Work {
        name: "cold",
        about: "a whole life: start, `initialize`, `session/new`, one turn, close",
        kind: Kind::Processes {
            placement: Pinned,
            clients: Clients::NotCeiling,
            rounds: 7,
            order: |smoke| order::Work::Cycles {
                script: "bench echo".into(),
                count: few(smoke, 20),
            },
            text: |_| ECHO_TEXT,
            value: Value::Time,
        },
        targets: &[
            target(BLOCKING, Is::AtMostTimes(FLOOR), 1.2),
            target("tokio", Is::AtMostTimes(FLOOR), 1.2),
        ],
    },
    Work {
        name: "history-10",
        about: "what the check of a 1 MiB conversation of 10 turns adds to a turn (StatePolicy::VerifiedDelta)",
        kind: Kind::Processes {
            placement: Pinned,
            clients: Clients::Only(&[BLOCKING]),
            rounds: 5,
            order: |smoke| history(smoke, 10),
            text: |_| 0,
            value: Value::AddedTime,
        },
        targets: &[target(BLOCKING, Is::Millis, 1.0)],
    },
    Work {
        name: "history-100",
        about: "the same of 100 turns",
        kind: Kind::Processes {
            placement: Pinned,
            clients: Clients::Only(&[BLOCKING]),
            rounds: 5,
            order: |smoke| history(smoke, 100),
            text: |_| 0,
            value: Value::AddedTime,
        },
        targets: &[target(BLOCKING, Is::Millis, 1.0)],
    },
    Work {
        name: "history-1000",
        about: "the same of 1000 turns, which must not take 100 times as long as 100 do",
        kind: Kind::Processes {
            placement: Pinned,
            clients: Clients::Only(&[BLOCKING]),
            rounds: 5,
            order: |smoke| history(smoke, 1000),
            text: |_| 0,
            value: Value::AddedTime,
        },
        targets: &[
            target(BLOCKING, Is::Millis, 1.0),
            target(BLOCKING, Is::AtMostTimesWork("history-100"), 12.0),
        ],
    },
    Work {
        name: "crowd",
        about: "turns on 64 lanes of 4 agents at once, beside 64 floors with an agent each",
        kind: Kind::Processes {
            placement: Free,
            clients: Clients::Only(&[FLOOR, BLOCKING, "tokio"]),
            rounds: 7,
            order: |smoke| order::Work::Crowd {
                processes: 4,
                lanes: 64,
                count: if smoke { 2 } else { 200 },
            },
            text: |smoke| 64 * if smoke { 2 } else { 200 } * ECHO_TEXT,
            value: Value::Time,
        },
        // The floors' throughput is 90 % of it at most.
        targets: &[
            target(BLOCKING, Is::AtMostTimes(FLOOR), 1.0 / 0.9),
            target("tokio", Is::AtMostTimes(FLOOR), 1.0 / 0.9),
        ],
    },
    Work {
        name: "idle-lanes",
        about: "memory that a lane takes in which nothing happens",
        kind: Kind::Processes {
            placement: Free,
            clients: Clients::Only(&[BLOCKING, "tokio"]),
            rounds: 1,
            order: |smoke| order::Work::IdleLanes {
                count: if smoke { 10 } else { 1000 },
            },
            text: |_| 0,
            value: Value::LaneBytes,
        },
        targets: &[
            target(BLOCKING, Is::Kib, 64.0),
            target("tokio", Is::Kib, 64.0),
        ],
    },
    Work {
        name: "build",
        about: "a clean release build of acp-core with its default features",
        kind: Kind::Build,
        targets: &[
            target("acp-core", Is::Seconds, 20.0),
            target("acp-core", Is::Crates, 30.0),
        ],
    },
    Work {
        name: "engine",
        about: "the engine alone: recorded lines, prompts, histories",
        kind: Kind::Engine,
        targets: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_mean_their_work() {
        for (at, work) in WORKS.iter().enumerate() {
            assert!(work.is_meant_by(work.name));
            assert!(WORKS[..at].iter().all(|other| other.name != work.name));
        }
        let meant = |name: &str| WORKS.iter().filter(|work| work.is_meant_by(name)).count();
        assert_eq!(meant("history"), 3);
        assert_eq!(meant("hist"), 0);
    }
}
