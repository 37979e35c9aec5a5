//! What a measured client is told, and what it reports: a JSON object each. Clients outside of this crate read and
//! write the same.

use serde::{Deserialize, Serialize};

/// The only argument of a measured client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The command that starts the agent.
    pub agent: Vec<String>,
    /// What to do with it.
    pub work: Work,
}

/// What a measured client is to do. Clients that are not ours do the first two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// Turns on one warm session, each a sample.
    Turns {
        /// The prompt, which the agent does what it says.
        script: String,
        /// How many turns are measured.
        count: usize,
        /// How many turns of `bench echo` come before.
        warm_up: usize,
    },
    /// The whole life of an agent, each a sample: start, `initialize`, `session/new`, one turn, close.
    Cycles {
        /// The prompt.
        script: String,
        /// How many lives are measured.
        count: usize,
    },
    /// Turns that add one message to a conversation, which the client has to find in the request. Each is a sample,
    /// beside a turn of a conversation that has only begun.
    History {
        /// Size of the conversation's text.
        bytes: usize,
        /// How many messages of users it is made of.
        turns: usize,
        /// How many turns are measured.
        count: usize,
    },
    /// Turns on many sessions at once. The whole is one sample.
    Crowd {
        /// How many agents; a client with one session an agent starts one for each lane.
        processes: usize,
        /// How many sessions.
        lanes: usize,
        /// Turns on each of them.
        count: usize,
    },
    /// Sessions in which nothing happens.
    IdleLanes {
        /// How many.
        count: usize,
    },
}

/// What a measured client prints, in one line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Wall time of each sample, in nanoseconds.
    pub samples_ns: Vec<u64>,
    /// The same without what is in question, where the work says so.
    #[serde(default)]
    pub baseline_ns: Vec<u64>,
    /// CPU time of the client over all samples, user and system, in nanoseconds. The agent's is not in it.
    pub cpu_ns: u64,
    /// Peak resident memory of the client, in bytes.
    pub peak_rss: u64,
    /// Text that the measured turns have brought, in bytes: proof that the work was done.
    pub text_bytes: u64,
    /// Memory of one idle lane, in bytes.
    #[serde(default)]
    pub lane_bytes: u64,
}
