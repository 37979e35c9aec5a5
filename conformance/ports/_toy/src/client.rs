//! The client: one agent process, its lanes, and the requests that are under way.
//!
//! Everything here runs on one thread. `handle_…` says what the world did, the other functions what
//! the host wants; an answer to the host goes out as soon as it is known.

mod agent;
mod handshake;
mod history;
mod requests;
mod sessions;
mod state;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::line::Message;
use crate::mutant::{Mutant, broken};
use crate::options::{Options, Resume};
use crate::output::Output;
use crate::process::Process;
use crate::tools::has_images;
use crate::turn::{Failure, Reply, Turn, fields};
use crate::{fail, succeed};
use history::History;
use requests::Asked;
use sessions::{Abilities, Replay};
use state::Spare;

pub struct Client {
    pub options: Options,
    process: Process,
    next_id: u64,
    pending: HashMap<u64, Pending>,
    lanes: BTreeMap<String, Lane>,
    /// Lanes that the host opened on an earlier process. Their next turn opens them on this one.
    known_lanes: BTreeSet<String>,
    auth_methods: Vec<Value>,
    /// Those of them that are for `authenticate`.
    logins: Vec<Value>,
    initialized: bool,
    /// Whether the agent has `session/close`.
    closes_sessions: bool,
    takes_images: bool,
    abilities: Abilities,
    /// The session that the first lane is to go on with, until it does or cannot.
    resume: Option<Resume>,
    authenticated: bool,
    /// Whether the first lane has been open.
    ready: bool,
    /// Permissions that the host has been asked about and has not decided.
    asked: Vec<Asked>,
    /// Sessions that nobody listens to any more, and that the agent has not closed.
    given_up: HashSet<String>,
    /// How many sessions the agent could not close, or did not.
    unclosed: usize,
    /// The last message, unless it was a copy.
    last: Option<Message>,
    /// Whether a turn was with tools or a response format.
    had_form: bool,
    /// Whether text has come after the answer to its prompt.
    was_late: bool,
    /// Whether the agent has sent a message, and what it wrote before it did.
    heard: bool,
    noise: String,
    /// Why nothing more can be had from this process, once that is so.
    over: Option<Failure>,
    /// The prompt that the end of the process left without an answer.
    unanswered: Option<Vec<Value>>,
}

/// One session, and the turns asked of it.
#[derive(Default)]
struct Lane {
    session: Option<String>,
    /// What the agent said when it opened the session.
    offered: Value,
    replay: Option<Replay>,
    opening: Option<Opening>,
    waiting: VecDeque<Turn>,
    running: Option<Turn>,
    settling: Option<Settling>,
    output: Output,
    /// Chunks of messages that came while no turn ran.
    outside_turn: u64,
    /// Whether this session has had a turn.
    used: bool,
    /// Whether its last turn was about tools of the host.
    had_form: bool,
    /// What this session was sent and has answered, while that is known.
    history: Option<History>,
    spare: Spare,
}

/// The call that waits for a lane to open, if one does, and until when.
struct Opening {
    seq: Option<Value>,
    ends_at: Option<Instant>,
}

/// A turn that has been answered, while text may still come.
struct Settling {
    reply: Reply,
    window_ends: Instant,
    ends_at: Instant,
}

/// What a request of ours was for; the name is that of its lane.
#[derive(Clone, PartialEq)]
enum Pending {
    Initialize,
    Authenticate(String),
    NewSession(String),
    SetMode(String),
    /// A session of before, by this method.
    OldSession(String, &'static str),
    /// The config option with this number.
    SetConfig(String, usize),
    Prompt(String),
    /// The session that a lane will need next.
    Spare(String),
    /// A session whose lane did not wait for it.
    LateSession,
    /// This session, and until when the answer is waited for.
    CloseSession(String, Option<Instant>),
}

impl Client {
    /// Begins the handshake with a process that has just been started. `seq` is the `load`.
    pub fn start(process: Process, options: Options, seq: Option<Value>) -> Client {
        let mut client = Client {
            process,
            resume: options.resume.clone(),
            options,
            next_id: 0,
            pending: HashMap::new(),
            lanes: BTreeMap::new(),
            known_lanes: BTreeSet::new(),
            auth_methods: Vec::new(),
            logins: Vec::new(),
            initialized: false,
            closes_sessions: false,
            takes_images: false,
            abilities: Abilities::default(),
            authenticated: false,
            ready: false,
            asked: Vec::new(),
            given_up: HashSet::new(),
            unclosed: 0,
            last: None,
            had_form: false,
            was_late: false,
            heard: false,
            noise: String::new(),
            over: None,
            unanswered: None,
        };
        client.add_lane("main", seq);
        let mut params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": broken(Mutant::DeclaresFiles)}},
        });
        if broken(Mutant::NoClientCapabilities) {
            params = json!({"protocolVersion": 1});
        }
        if !broken(Mutant::NoClientInfo) {
            params["clientInfo"] = json!({"name": "toy", "version": env!("CARGO_PKG_VERSION")});
        }
        if broken(Mutant::VersionAsString) {
            params["protocolVersion"] = json!("1");
        }
        client.request("initialize", params, Pending::Initialize);
        if broken(Mutant::InitializeNotAwaited) {
            client.new_session("main");
        }
        client
    }

    /// The same client on a new process: the lanes are known, and nothing of their sessions is left.
    pub fn restarted(self, process: Process) -> Client {
        let mut options = self.options;
        if broken(Mutant::RestartForgetsMode) {
            options.mode = None;
        }
        if !broken(Mutant::ResumedAgainAfterRestart) {
            options.resume = None;
        }
        let mut client = Client::start(process, options, None);
        if !broken(Mutant::RestartForgetsLanes) {
            client.known_lanes = self.known_lanes;
            client.known_lanes.extend(self.lanes.into_keys());
        }
        client.unanswered = self.unanswered;
        client
    }

    pub fn open_lane(&mut self, name: &str, seq: Value) {
        if let Some(over) = self.over_now() {
            return fail(&seq, over);
        }
        self.add_lane(name, Some(seq));
        if self.initialized {
            self.open_session(name);
        }
    }

    pub fn generate(&mut self, name: &str, mut turn: Turn) {
        if let Some(over) = self.over_now() {
            return fail(&turn.seq, over);
        }
        if let Some(old) = self.unanswered.take()
            && broken(Mutant::RestartReplays)
        {
            turn.messages = old;
        }
        if !self.lanes.contains_key(name) && self.known_lanes.contains(name) {
            self.add_lane(name, None);
            if self.initialized {
                self.new_session(name);
            }
        }
        let Some(lane) = self.lanes.get_mut(name) else {
            let message = json!({"message": format!("there is no lane {name}")});
            return fail(&turn.seq, ("invalid_request", fields(message)));
        };
        if turn.form.is_some() && !self.takes_images && has_images(&turn.messages) {
            let message = json!({"message": "the agent does not take images"});
            return fail(&turn.seq, ("invalid_request", fields(message)));
        }
        if !broken(Mutant::WaitingIsFree) {
            turn.ends_at = turn.deadline.map(|limit| Instant::now() + limit);
        }
        lane.waiting.push_back(turn);
        self.start_waiting();
    }

    pub fn close(&mut self) {
        if broken(Mutant::CloseKeepsTurns) {
            return self.process.stop();
        }
        if self.over.is_none() {
            let kind = if broken(Mutant::ClosedIsExited) {
                "agent_exited"
            } else {
                "closed"
            };
            self.finish((kind, Map::new()));
        }
    }

    pub fn is_alive(&mut self) -> bool {
        broken(Mutant::AlwaysAlive) || self.over.is_none() && self.process.is_alive()
    }

    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Why nothing more can be had from this process, if that is so.
    fn over_now(&self) -> Option<Failure> {
        let (kind, fields) = self.over.clone()?;
        let closed = broken(Mutant::ExitedIsClosed);
        Some((if closed { "closed" } else { kind }, fields))
    }

    /// Whether the agent is gone and the host wants its next turn to start another.
    pub fn wants_restart(&self) -> bool {
        let died = self.over.as_ref().is_some_and(|over| over.0 != "closed");
        let wanted = self.options.restart && !broken(Mutant::RestartIgnored);
        died && (wanted || broken(Mutant::RestartByDefault))
    }

    /// Ends the process and everything that waits for it.
    fn finish(&mut self, failure: Failure) {
        if !broken(Mutant::CloseForgetsPermissions) {
            let names: Vec<String> = self.lanes.keys().cloned().collect();
            for name in names {
                self.cancel_asked(&name);
            }
        }
        if self.ready || !broken(Mutant::LoadErrorLeavesProcess) {
            self.process.stop();
        }
        self.asked.clear();
        self.over = Some(failure.clone());
        let names: Vec<String> = self.lanes.keys().cloned().collect();
        for name in names {
            self.finish_lane(&name, &failure);
            if broken(Mutant::ExitFailsFirstLaneOnly) {
                break;
            }
        }
    }

    fn finish_lane(&mut self, name: &str, failure: &Failure) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        let opening = lane.opening.take().and_then(|opening| opening.seq);
        let waiting = std::mem::take(&mut lane.waiting);
        if let Some(seq) = opening {
            fail(&seq, failure.clone());
        }
        if let Some(settling) = lane.settling.take()
            && !broken(Mutant::ExitUndoesAnswer)
        {
            self.turn_ended(name, settling.reply);
        } else if let Some(turn) = lane.running.take() {
            let text = lane.output.text();
            if broken(Mutant::ExitIsEndOfTurn) && failure.0 == "agent_exited" {
                succeed(
                    &turn.seq,
                    json!({"content": text, "stop_reason": "end_turn"}),
                );
            } else {
                let failure = match &turn.cancel {
                    // What a cancel did to the agent is no news to who asked for it.
                    Some(cancel) if !broken(Mutant::ExitUndoesCancel) => (cancel.kind, Map::new()),
                    _ => failure.clone(),
                };
                fail(&turn.seq, with_partial(failure, text));
            }
            self.unanswered = Some(turn.messages);
        }
        for turn in waiting {
            if !broken(Mutant::WaitingTurnsForgotten) {
                fail(&turn.seq, failure.clone());
            }
        }
    }

    fn add_lane(&mut self, name: &str, seq: Option<Value>) {
        let lane = Lane {
            opening: Some(self.opening(seq)),
            ..Lane::default()
        };
        self.lanes.insert(name.to_owned(), lane);
    }

    fn opening(&self, seq: Option<Value>) -> Opening {
        let limit = self
            .options
            .startup_timeout
            .filter(|_| !broken(Mutant::NoStartupTimeout));
        Opening {
            seq,
            ends_at: limit.map(|limit| Instant::now() + limit),
        }
    }

    fn request(&mut self, method: &str, params: Value, pending: Pending) {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, pending);
        self.process
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
}

fn with_partial((kind, mut fields): Failure, text: String) -> Failure {
    if !text.is_empty() && !broken(Mutant::PartialDropped) {
        fields.insert("partial".to_owned(), json!(text));
    }
    (kind, fields)
}
