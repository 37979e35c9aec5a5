//! What a player remembers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::Mismatch;
use crate::fixture::Step;
use crate::message::Incoming;
use crate::strict::Gate;

/// What the player is at.
#[derive(Debug)]
pub(super) enum State {
    Playing,
    Done,
    Failed(Box<Mismatch>),
}

/// A step that has not been played; those of a `choose` are not counted.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) step: Step,
    pub(super) top_level: bool,
}

/// One agent process.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) gate: Gate,
    /// Lines that no step has taken.
    pub(super) lines: VecDeque<Incoming>,
    /// Its input has ended, after `lines`.
    pub(super) eof: bool,
    /// The process has exited or was ended, by either side.
    pub(super) ended: bool,
    pub(super) lingers: bool,
    /// The agent has written a line that is no message, of which JSON-RPC lets a client complain.
    pub(super) noisy: bool,
    /// The ids that the client used, as JSON.
    pub(super) used: BTreeSet<String>,
    /// The client's requests, by label.
    pub(super) requests: BTreeMap<String, Request>,
    /// The ids of the agent's requests, by label, and their methods, by the id as JSON.
    pub(super) asks: BTreeMap<String, Value>,
    pub(super) asked: BTreeMap<String, String>,
    pub(super) next_id: u64,
    /// The id of a fence whose answer has not come.
    pub(super) fence: Option<Value>,
    /// The texts of the prompts of each session.
    pub(super) prompts: BTreeMap<String, Vec<String>>,
}

/// A request of the client that a label is bound to.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Option<Value>,
}
