//! The client: one agent process, its lanes, and the requests that are under way.
//!
//! Everything here runs on one thread. `handle_…` says what the world did, the other functions what
//! the host wants; an answer to the host goes out as soon as it is known.

mod agent;
mod handshake;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::mutant::{Mutant, broken};
use crate::process::Process;
use crate::turn::{Failure, Output, Policy, Reply, Turn, fields, settle};
use crate::{fail, succeed};

/// What the host asked for in `load`.
pub struct Options {
    pub cwd: PathBuf,
    pub mode: Option<String>,
    pub policy: Policy,
    pub startup_timeout: Option<Duration>,
    pub deadline: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    pub cancel_grace: Option<Duration>,
    pub allow_empty_turn: bool,
}

pub struct Client {
    pub options: Options,
    process: Process,
    next_id: u64,
    pending: HashMap<u64, Pending>,
    lanes: BTreeMap<String, Lane>,
    auth_methods: Vec<Value>,
    /// Why nothing more can be had from this process, once that is so.
    over: Option<Failure>,
}

/// One session, and the turns asked of it.
#[derive(Default)]
struct Lane {
    session: Option<String>,
    opening: Option<Opening>,
    waiting: VecDeque<Turn>,
    running: Option<Turn>,
    output: Output,
}

/// The call that waits for a lane to open, and until when.
struct Opening {
    seq: Value,
    ends_at: Option<Instant>,
}

/// What a request of ours was for; the name is that of its lane.
enum Pending {
    Initialize,
    NewSession(String),
    SetMode(String),
    Prompt(String),
}

impl Client {
    /// Begins the handshake with a process that has just been started. `seq` is the `load`.
    pub fn start(process: Process, options: Options, seq: Value) -> Client {
        let mut client = Client {
            process,
            options,
            next_id: 0,
            pending: HashMap::new(),
            lanes: BTreeMap::new(),
            auth_methods: Vec::new(),
            over: None,
        };
        client.add_lane("main", seq);
        let mut params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": broken(Mutant::DeclaresFiles)}},
        });
        if !broken(Mutant::NoClientInfo) {
            params["clientInfo"] = json!({"name": "toy", "version": env!("CARGO_PKG_VERSION")});
        }
        if broken(Mutant::VersionAsString) {
            params["protocolVersion"] = json!("1");
        }
        client.request("initialize", params, Pending::Initialize);
        client
    }

    pub fn open_lane(&mut self, name: &str, seq: Value) {
        if let Some(over) = &self.over {
            return fail(&seq, over.clone());
        }
        self.add_lane(name, seq);
        self.new_session(name);
    }

    pub fn generate(&mut self, name: &str, turn: Turn) {
        if let Some((kind, fields)) = self.over.clone() {
            let kind = if broken(Mutant::ExitedIsClosed) {
                "closed"
            } else {
                kind
            };
            return fail(&turn.seq, (kind, fields));
        }
        let Some(lane) = self.lanes.get_mut(name) else {
            let message = json!({"message": format!("there is no lane {name}")});
            return fail(&turn.seq, ("invalid_request", fields(message)));
        };
        lane.waiting.push_back(turn);
        self.start_waiting();
    }

    /// Cancels the turn of the call `target`, whether it waits, runs or has ended.
    pub fn cancel(&mut self, target: &Value) {
        let mut running = None;
        for (name, lane) in &mut self.lanes {
            let waits_at = lane.waiting.iter().position(|turn| turn.seq == *target);
            let runs = lane
                .running
                .as_ref()
                .is_some_and(|turn| turn.seq == *target);
            if let Some(turn) = waits_at.and_then(|at| lane.waiting.remove(at)) {
                fail(&turn.seq, ("cancelled", Map::new()));
            }
            if runs
                || broken(Mutant::CancelHitsRunningTurn) && waits_at.is_some()
                || broken(Mutant::CancelsEndedTurn) && waits_at.is_none()
            {
                running = Some(name.clone());
            }
        }
        if let Some(name) = running {
            self.cancel_running(&name, "cancelled");
        }
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

    /// One line of the agent. What is no message is passed over.
    pub fn handle_line(&mut self, line: &[u8]) {
        let line = match line.strip_prefix("\u{feff}".as_bytes()) {
            Some(rest) if !broken(Mutant::ByteOrderMarkIsNoise) => rest,
            _ => line,
        };
        let message: Value = match serde_json::from_slice(line) {
            Ok(message @ Value::Object(_)) => message,
            _ if broken(Mutant::NoiseIsFatal) => return self.handle_end(),
            _ => return,
        };
        if broken(Mutant::CarriageReturnIsNoise) && line.ends_with(b"\r\n") {
            return;
        }
        // The two ends count their ids apart, so only the method tells a request from a response.
        let id_is_ours = message["id"]
            .as_u64()
            .is_some_and(|id| self.pending.contains_key(&id));
        match message["method"].as_str() {
            Some(method) if !(broken(Mutant::IdBeforeMethod) && id_is_ours) => {
                match message.get("id") {
                    Some(id) => self.handle_request(method, id, &message["params"]),
                    None if method == "session/update" => self.handle_update(&message["params"]),
                    None => {}
                }
            }
            _ => self.handle_response(&message),
        }
    }

    /// The agent closed its output: it is gone, or as good as gone.
    pub fn handle_end(&mut self) {
        if self.over.is_none() && !broken(Mutant::EndOfOutputIgnored) {
            let found = self.process.post_mortem();
            self.finish(("agent_exited", fields(found)));
        }
    }

    /// When `handle_timeout` has something to do next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let opening = self
            .lanes
            .values()
            .filter_map(|lane| lane.opening.as_ref()?.ends_at);
        let running = self.lanes.values().filter_map(|lane| lane.running.as_ref());
        opening
            .chain(
                running
                    .flat_map(|turn| [turn.ends_at, turn.idle_at])
                    .flatten(),
            )
            .min()
    }

    pub fn handle_timeout(&mut self) {
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let idle = if broken(Mutant::IdleIsDeadline) {
            "deadline_exceeded"
        } else {
            "idle_timeout"
        };
        let mut late = Vec::new();
        for (name, lane) in &mut self.lanes {
            if let Some(opening) = &lane.opening {
                if is_due(opening.ends_at) {
                    late.push((name.clone(), "startup_timeout"));
                }
            } else if let Some(turn) = &mut lane.running {
                if is_due(turn.ends_at) && turn.cancelled_as.is_some() {
                    // The agent did not heed the cancel. Its end settles the turn.
                    turn.ends_at = None;
                    self.process.kill();
                } else if is_due(turn.ends_at) {
                    late.push((name.clone(), "deadline_exceeded"));
                } else if is_due(turn.idle_at) {
                    late.push((name.clone(), idle));
                }
            }
        }
        for (name, kind) in late {
            match kind {
                "startup_timeout" => self.lane_failed(&name, (kind, Map::new())),
                _ => self.cancel_running(&name, kind),
            }
        }
    }

    /// Sends the next prompt of each lane that is open and idle.
    fn start_waiting(&mut self) {
        let names: Vec<String> = self.lanes.keys().cloned().collect();
        for name in names {
            let somebody_runs = self.lanes.values().any(|lane| lane.running.is_some());
            let Some(lane) = self.lanes.get_mut(&name) else {
                continue;
            };
            let idle = lane.opening.is_none()
                && (lane.running.is_none() || broken(Mutant::PromptsNotQueued));
            if !idle || broken(Mutant::LanesSerialised) && somebody_runs {
                continue;
            }
            let Some(mut turn) = lane.waiting.pop_front() else {
                continue;
            };
            if !broken(Mutant::TextNotCleared) {
                lane.output = Output::default();
            }
            let now = Instant::now();
            turn.ends_at = turn.deadline.map(|limit| now + limit);
            turn.idle_at = turn.idle_timeout.map(|limit| now + limit);
            let prompt = [json!({"type": "text", "text": turn.prompt})];
            let params = json!({"sessionId": lane.session, "prompt": prompt});
            lane.running = Some(turn);
            if broken(Mutant::SessionEachTurn) {
                self.new_session(&name);
            }
            self.request("session/prompt", params, Pending::Prompt(name));
        }
    }

    fn turn_ended(&mut self, name: &str, reply: Reply) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        let Some(turn) = lane.running.take() else {
            return;
        };
        let failed = matches!(reply, Reply::Error(_));
        let mut result = settle(&turn, &lane.output, reply, self.options.allow_empty_turn);
        if let Err(("auth_required", fields)) = &mut result
            && !broken(Mutant::AuthMethodsDropped)
        {
            fields.insert("methods".to_owned(), json!(self.auth_methods));
        }
        match result {
            Ok(value) => succeed(&turn.seq, value),
            Err(failure) => fail(&turn.seq, with_partial(failure, &lane.output)),
        }
        if failed && broken(Mutant::PromptErrorEndsProcess) {
            self.close();
        }
        self.start_waiting();
    }

    /// Asks the agent to stop; its answer to the prompt then settles the turn as `kind`.
    fn cancel_running(&mut self, name: &str, kind: &'static str) {
        let names = if broken(Mutant::CancelNamesFirstSession) {
            "main"
        } else {
            name
        };
        let session = self.lanes.get(names).and_then(|lane| lane.session.clone());
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        if let Some(turn) = &mut lane.running {
            turn.cancelled_as.get_or_insert(kind);
            turn.ends_at = self
                .options
                .cancel_grace
                .map(|grace| Instant::now() + grace);
            turn.idle_at = None;
            if broken(Mutant::TimeoutWithoutCancel) && kind != "cancelled" {
                return self.turn_ended(name, Reply::Invalid);
            }
        }
        if broken(Mutant::CancelEndsProcess) {
            return self.process.kill();
        }
        if !broken(Mutant::CancelNotSent) {
            let params = json!({"sessionId": session});
            self.process
                .send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
        }
    }

    /// Ends the process and everything that waits for it.
    fn finish(&mut self, failure: Failure) {
        let starting = self
            .lanes
            .get("main")
            .is_some_and(|lane| lane.opening.is_some());
        if !(starting && broken(Mutant::LoadErrorLeavesProcess)) {
            self.process.stop();
        }
        for lane in self.lanes.values_mut() {
            if let Some(opening) = lane.opening.take() {
                fail(&opening.seq, failure.clone());
            }
            if let Some(turn) = lane.running.take() {
                if broken(Mutant::ExitIsEndOfTurn) && failure.0 == "agent_exited" {
                    succeed(
                        &turn.seq,
                        json!({"content": lane.output.text, "stop_reason": "end_turn"}),
                    );
                } else {
                    let kind = turn.cancelled_as.unwrap_or(failure.0);
                    fail(
                        &turn.seq,
                        with_partial((kind, failure.1.clone()), &lane.output),
                    );
                }
            }
            for turn in lane
                .waiting
                .drain(..)
                .filter(|_| !broken(Mutant::WaitingTurnsForgotten))
            {
                fail(&turn.seq, failure.clone());
            }
        }
        self.over = Some(failure);
    }

    fn add_lane(&mut self, name: &str, seq: Value) {
        let limit = self
            .options
            .startup_timeout
            .filter(|_| !broken(Mutant::NoStartupTimeout));
        let opening = Opening {
            seq,
            ends_at: limit.map(|limit| Instant::now() + limit),
        };
        self.lanes.insert(
            name.to_owned(),
            Lane {
                opening: Some(opening),
                ..Lane::default()
            },
        );
    }

    fn request(&mut self, method: &str, params: Value, pending: Pending) {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, pending);
        self.process
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
}

fn with_partial((kind, mut fields): Failure, output: &Output) -> Failure {
    if !output.text.is_empty() && !broken(Mutant::PartialDropped) {
        fields.insert("partial".to_owned(), json!(output.text));
    }
    (kind, fields)
}
