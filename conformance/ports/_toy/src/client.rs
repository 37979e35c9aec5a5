//! The client: one agent process, its lanes, and the requests that are under way.
//!
//! Everything here runs on one thread. `handle_…` says what the world did, the other functions what
//! the host wants; an answer to the host goes out as soon as it is known.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::mutant::{Mutant, broken};
use crate::process::Process;
use crate::turn::{
    Failure, Output, Policy, Reply, Turn, choose, fields, invalid, rejected, settle,
};
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
    process: Process,
    options: Options,
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
            "clientInfo": {"name": "toy", "version": env!("CARGO_PKG_VERSION")},
        });
        if broken(Mutant::VersionAsString) {
            params["protocolVersion"] = json!("1");
        }
        if broken(Mutant::NoClientInfo) {
            params["clientInfo"] = Value::Null;
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

    pub fn generate(&mut self, name: &str, mut turn: Turn) {
        if let Some((kind, fields)) = self.over.clone() {
            let kind = if broken(Mutant::ExitedIsClosed) {
                "closed"
            } else {
                kind
            };
            return fail(&turn.seq, (kind, fields));
        }
        turn.deadline = turn.deadline.or(self.options.deadline);
        turn.idle_timeout = turn.idle_timeout.or(self.options.idle_timeout);
        match self.lanes.get_mut(name) {
            Some(lane) => lane.waiting.push_back(turn),
            None => {
                return fail(
                    &turn.seq,
                    (
                        "invalid_request",
                        fields(json!({"message": "no such lane"})),
                    ),
                );
            }
        }
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
        let mut late = Vec::new();
        for (name, lane) in &mut self.lanes {
            if lane
                .opening
                .as_ref()
                .is_some_and(|opening| is_due(opening.ends_at))
            {
                return self.finish(("startup_timeout", Map::new()));
            }
            let Some(turn) = &mut lane.running else {
                continue;
            };
            if is_due(turn.ends_at) && turn.cancelled_as.is_some() {
                // The agent did not heed the cancel. Its end settles the turn.
                turn.ends_at = None;
                self.process.kill();
            } else if is_due(turn.ends_at) {
                late.push((name.clone(), "deadline_exceeded"));
            } else if is_due(turn.idle_at) {
                let confused = broken(Mutant::IdleIsDeadline);
                late.push((
                    name.clone(),
                    if confused {
                        "deadline_exceeded"
                    } else {
                        "idle_timeout"
                    },
                ));
            }
        }
        for (name, kind) in late {
            self.cancel_running(&name, kind);
        }
    }

    /// Every request is answered at once: in a turn, between turns, and for sessions we do not know.
    fn handle_request(&mut self, method: &str, id: &Value, params: &Value) {
        let mut id = id.clone();
        if broken(Mutant::StringIdAsNumber)
            && let Some(number) = id.as_str().and_then(|id| id.parse::<u64>().ok())
        {
            id = json!(number);
        }
        if broken(Mutant::RequestIdNotEchoed) {
            id = json!(self.next_id);
        }
        if broken(Mutant::ZeroIsNoId) && id == 0 {
            return;
        }
        let answer = match method {
            "session/request_permission" => self
                .permission_outcome(params)
                .map(|result| json!({"result": result})),
            _ if broken(Mutant::UnknownRequestIgnored) => None,
            _ if broken(Mutant::UnknownRequestIsSuccess) => Some(json!({"result": {}})),
            _ => Some(
                json!({"error": {"code": -32601, "message": format!("method not found: {method}")}}),
            ),
        };
        if let Some(mut answer) = answer {
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = id;
            self.process.send(&answer);
        }
    }

    /// The result for a permission request. Only mutants leave one unanswered.
    fn permission_outcome(&mut self, params: &Value) -> Option<Value> {
        let session = params["sessionId"].as_str();
        let lane = self
            .lanes
            .values()
            .find(|lane| lane.session.as_deref() == session);
        let turn = lane.and_then(|lane| lane.running.as_ref());
        let options = &params["options"];
        if broken(Mutant::PermissionNeedsKnownSession) && lane.is_none()
            || broken(Mutant::PermissionNeedsTurn) && turn.is_none()
            || broken(Mutant::NothingOfferedUnanswered) && *options == json!([])
        {
            return None;
        }
        if broken(Mutant::UnknownOptionKindIsFatal)
            && options
                .as_array()?
                .iter()
                .any(|option| option["kind"].is_null())
        {
            return None;
        }
        let cancelled = turn.is_some_and(|turn| turn.cancelled_as.is_some());
        let refuses = cancelled && !broken(Mutant::PermissionAfterCancelAllowed);
        Some(
            match choose(self.options.policy, options).filter(|_| !refuses) {
                Some(option) if broken(Mutant::FlatOutcome) => {
                    json!({"outcome": "selected", "optionId": option})
                }
                Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option}}),
                None => json!({"outcome": {"outcome": "cancelled"}}),
            },
        )
    }

    fn handle_update(&mut self, params: &Value) {
        let session = params["sessionId"].as_str();
        let is_it = |lane: &&mut Lane| {
            lane.session.is_some()
                && (lane.session.as_deref() == session || broken(Mutant::AnySessionCounts))
        };
        let Some(lane) = self.lanes.values_mut().find(is_it) else {
            if broken(Mutant::EarlyUpdateIsFatal) {
                self.handle_end();
            }
            return;
        };
        lane.output.add(&params["update"]);
        if let Some(turn) = lane
            .running
            .as_mut()
            .filter(|turn| turn.cancelled_as.is_none())
        {
            turn.idle_at = turn.idle_timeout.map(|idle| Instant::now() + idle);
        }
        if broken(Mutant::OddUpdateIsFatal) && params["update"]["sessionUpdate"].is_null() {
            self.handle_end();
        }
    }

    fn handle_response(&mut self, message: &Value) {
        let Some(pending) = message["id"]
            .as_u64()
            .and_then(|id| self.pending.remove(&id))
        else {
            let fatal = if message["id"].is_null() {
                Mutant::NullIdIsFatal
            } else {
                Mutant::UnknownResponseIsFatal
            };
            if broken(fatal) {
                self.handle_end();
            }
            return;
        };
        let error = message.get("error").filter(|error| !error.is_null());
        let reply = match (message.get("result"), error) {
            (Some(result), None) => Reply::Result(result.clone()),
            (None, Some(error)) if error["code"].is_i64() => Reply::Error(error.clone()),
            _ => Reply::Invalid,
        };
        match pending {
            Pending::Initialize => self.initialized(reply),
            Pending::NewSession(lane) => self.session_opened(&lane, reply),
            Pending::SetMode(lane) => match reply {
                Reply::Error(error) if !broken(Mutant::ModeErrorIgnored) => {
                    self.lane_failed(
                        &lane,
                        rejected("session/set_mode", &error, &self.auth_methods),
                    );
                }
                _ => self.lane_opened(&lane),
            },
            Pending::Prompt(lane) => self.turn_ended(&lane, reply),
        }
    }

    fn initialized(&mut self, reply: Reply) {
        let result = match reply {
            Reply::Result(result) => result,
            Reply::Error(_) if broken(Mutant::InitializeErrorIgnored) => {
                json!({"protocolVersion": 1})
            }
            Reply::Error(error) => return self.finish(rejected("initialize", &error, &[])),
            Reply::Invalid => return self.finish(invalid("initialize")),
        };
        let capabilities = &result["agentCapabilities"];
        if result["protocolVersion"] != 1 && !broken(Mutant::AcceptsAnyVersion) {
            return self.finish((
                "protocol_version",
                fields(json!({"answered": result["protocolVersion"]})),
            ));
        }
        if broken(Mutant::CapabilitiesRequired) && result.get("agentCapabilities").is_none()
            || broken(Mutant::NullIsFatal)
                && capabilities.is_null()
                && result.get("agentCapabilities").is_some()
            || broken(Mutant::UnknownFieldIsFatal) && result.get("motd").is_some()
        {
            return self.finish(invalid("initialize"));
        }
        let methods = result["authMethods"].as_array().into_iter().flatten();
        self.auth_methods = methods.map(|method| method["id"].clone()).collect();
        self.new_session("main");
    }

    fn new_session(&mut self, lane: &str) {
        let mut params = json!({"cwd": self.options.cwd, "mcpServers": []});
        if broken(Mutant::NoMcpServers) {
            params = json!({"cwd": self.options.cwd});
        }
        self.request("session/new", params, Pending::NewSession(lane.to_owned()));
    }

    fn session_opened(&mut self, lane: &str, reply: Reply) {
        let session = match reply {
            Reply::Error(_) if broken(Mutant::SessionNewRetried) && self.next_id < 3 => {
                return self.new_session(lane);
            }
            Reply::Error(error) => {
                return self.lane_failed(lane, rejected("session/new", &error, &self.auth_methods));
            }
            Reply::Result(result) => result["sessionId"].as_str().map(str::to_owned),
            Reply::Invalid => None,
        };
        let Some(session) = session else {
            return self.lane_failed(lane, invalid("session/new"));
        };
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.session = Some(session.clone());
        }
        match self.options.mode.clone() {
            Some(mode) if !broken(Mutant::ModeNotSent) => {
                let params = json!({"sessionId": session, "modeId": mode});
                self.request(
                    "session/set_mode",
                    params,
                    Pending::SetMode(lane.to_owned()),
                );
            }
            _ => self.lane_opened(lane),
        }
    }

    fn lane_opened(&mut self, name: &str) {
        if let Some(lane) = self.lanes.get_mut(name)
            && let Some(opening) = lane.opening.take()
        {
            succeed(&opening.seq, json!({"session_id": lane.session}));
        }
        self.start_waiting();
    }

    /// A first lane that cannot be opened leaves nothing to work with; a later one fails alone.
    fn lane_failed(&mut self, name: &str, failure: Failure) {
        if name == "main" || broken(Mutant::LaneErrorIsFatal) {
            return self.finish(failure);
        }
        if let Some(opening) = self.lanes.remove(name).and_then(|lane| lane.opening) {
            fail(&opening.seq, failure);
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
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        let session = lane.session.clone();
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
