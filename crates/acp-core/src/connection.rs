//! The engine: one agent process, many sessions, as a state machine.
//!
//! [`Connection`] owns no clock, thread or pipe. A driver tells it what happened (`handle_*`), what the
//! host wants (`open_lane`, `prompt`, `cancel`, …), always with the time, and after every such call
//! drains [`Connection::poll_output`] until it says [`Output::Wait`]. The crate's documentation shows
//! the whole loop.

mod common;
mod handshake;
mod history;
mod incoming;
mod lanes;
mod options;
mod requests;
mod resume;
mod state;
mod turns;

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

use crate::error::{AgentExited, ExitInfo, GenerateError, LoadError};
use crate::ids::{IdMap, LaneOfSession};
use crate::lines::{Line, LineDecoder};
use crate::permission::PermissionRequest;
use crate::protocol::{AgentInfo, InitializeRequest, SessionInfo, method};
use crate::request::GenerateResponse;
use crate::tail::Tail;
use crate::timer::{Timer, Timers};
use crate::turn::{Stray, Turn, TurnEvent};
use crate::wire;
pub(crate) use common::PlainUpdate;
#[cfg(test)]
pub(crate) use history::History;
use lanes::{GivenUp, Lane};
pub use options::{ConnectionOptions, Resume, SETTLE_LIMIT, SETTLE_WINDOW, Settle};
use requests::Asked;
pub use state::StatePolicy;

/// Standard error kept for error messages, in bytes.
const STDERR_TAIL: usize = 8 * 1024;
/// Lines that are no message kept for error messages, in bytes.
const NOISE_TAIL: usize = 2 * 1024;

/// One serial queue of turns, served by one session of the agent at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub(crate) u64);

/// One turn of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId(pub(crate) u64);

/// One permission request that the host was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermissionId(pub(crate) u64);

/// One request of a vendor's own that the host was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(pub(crate) u64);

/// What the driver is to do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Write these bytes, one whole line, to the agent's standard input.
    Send(Vec<u8>),
    /// Tell the host.
    Event(Event),
    /// Nothing more. Call [`Connection::handle_timeout`] at this instant unless something happens before.
    Wait(Option<Instant>),
}

/// What the host is told.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// `initialize` is answered: [`Connection::agent`] is known.
    Initialized,
    /// A lane is warm.
    LaneOpened(LaneId),
    /// A lane could not be opened.
    LaneFailed(LaneId, LoadError),
    /// What happened in a turn before its end and was not taken yet
    /// ([`Connection::take_turn_events`]). Only with [`TurnOptions::events`](crate::TurnOptions::events).
    TurnEvents(TurnId, Vec<TurnEvent>),
    /// A turn has ended. Each turn ends exactly once.
    TurnEnded(TurnId, Box<Result<GenerateResponse, GenerateError>>),
    /// The host decides: [`Connection::answer_permission`]. Only with [`PermissionPolicy::Ask`](crate::PermissionPolicy::Ask).
    PermissionAsked(PermissionId, PermissionRequest),
    /// The host answers a request of a vendor's own, given with its method and params:
    /// [`Connection::answer_request`]. Only with [`ConnectionOptions::forward_requests`].
    RequestReceived(RequestKey, String, Value),
    /// The connection is over. Every call has been told; the driver may end the process.
    Ended(LoadError),
}

/// Where the connection stands.
#[derive(Debug)]
enum Phase {
    Initializing,
    Ready,
    /// Every later call gets this error.
    Ended(LoadError),
}

/// What a request of ours was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Initialize,
    Authenticate,
    NewSession(LaneId),
    /// `session/load` or `session/resume`.
    OldSession(LaneId),
    SetMode(LaneId),
    /// The configuration option with this number.
    SetConfigOption(LaneId, usize),
    Prompt(TurnId),
    /// Nobody waits for the answer any more; a session that it opens is closed again.
    AbandonedSession,
    /// Nobody waits for the answer, but it tells whether the session is gone.
    CloseSession,
}

/// Whether the configured login has been used.
#[derive(Debug)]
enum Login {
    NotTried,
    /// These lanes wait for it.
    Running(Vec<LaneId>),
    Done,
}

/// The engine: one agent process, many sessions, as a state machine.
///
/// It owns no clock, thread or pipe. A driver tells it what happened (`handle_*`) and what the host wants
/// ([`open_lane`](Connection::open_lane), [`prompt`](Connection::prompt), [`cancel`](Connection::cancel),
/// …), always with the time, and after every such call drains [`poll_output`](Connection::poll_output)
/// until it says [`Output::Wait`]. The crate's documentation shows the whole loop.
pub struct Connection {
    options: ConnectionOptions,
    phase: Phase,
    agent: AgentInfo,
    decoder: LineDecoder,
    /// While lines are read: lanes whose next turns begin behind them.
    held_back: Option<Vec<LaneId>>,
    output: VecDeque<Output>,
    timers: Timers,
    /// The next request id, and the next number for a lane, a turn or a permission.
    next_request: u64,
    next_key: u64,
    pending: IdMap<u64, Call>,
    lanes: IdMap<LaneId, Lane>,
    lane_of_session: LaneOfSession,
    /// Sessions that no lane uses any more, the latest of them.
    given_up: VecDeque<GivenUp>,
    /// Sessions that are being closed, by the number of the request.
    closing: IdMap<u64, String>,
    /// Sessions that were given up and that the agent cannot close, or did not.
    unclosed: usize,
    turns: IdMap<TurnId, Box<Turn>>,
    login: Login,
    stuck: bool,
    /// What agents say of sessions that they have not announced yet.
    early_updates: VecDeque<(String, Value)>,
    asked: IdMap<u64, Asked>,
    /// The message of the last line that held nothing else, and the one of the last line that did.
    last_whole: String,
    last_glued: Option<String>,
    stderr: Tail,
    noise: Tail,
    /// Whether this agent has sent text after the end of a turn.
    late_seen: bool,
    /// Each turn reports what was added while it ran.
    stray: Stray,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What the agent has said may hold anybody's secrets.
        f.debug_struct("Connection")
            .field("phase", &self.phase)
            .field("lanes", &self.lanes.len())
            .field("turns", &self.turns.len())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Begins with `initialize`.
    pub fn new(options: ConnectionOptions, now: Instant) -> Self {
        let mut connection = Self {
            decoder: LineDecoder::new(options.max_line_len),
            held_back: None,
            phase: Phase::Initializing,
            agent: AgentInfo::default(),
            output: VecDeque::new(),
            timers: Timers::default(),
            next_request: 1,
            next_key: 1,
            pending: IdMap::default(),
            lanes: IdMap::default(),
            lane_of_session: LaneOfSession::default(),
            given_up: VecDeque::new(),
            closing: IdMap::default(),
            unclosed: 0,
            turns: IdMap::default(),
            login: Login::NotTried,
            stuck: false,
            early_updates: VecDeque::new(),
            asked: IdMap::default(),
            last_whole: String::new(),
            last_glued: None,
            stderr: Tail::new(STDERR_TAIL),
            noise: Tail::new(NOISE_TAIL),
            late_seen: false,
            stray: Stray::default(),
            options,
        };
        let client_info = connection.options.client_info.clone();
        connection.send_request(
            Call::Initialize,
            method::INITIALIZE,
            InitializeRequest::new(&client_info),
        );
        let limit = connection.options.startup_timeout;
        connection.timers.set_after(Timer::Initialize, now, limit);
        connection
    }

    // Getters.

    /// What the agent said of itself; empty until `initialize` is answered.
    pub fn agent(&self) -> &AgentInfo {
        &self.agent
    }

    /// Whether the connection has not ended.
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    /// Why the connection has ended, once it has.
    pub fn end_error(&self) -> Option<&LoadError> {
        match &self.phase {
            Phase::Ended(error) => Some(error),
            Phase::Initializing | Phase::Ready => None,
        }
    }

    /// Whether the agent did not even open a session for a lane that had to give one up, and no turn runs
    /// that it may still answer. It is over with the next session that opens.
    pub fn is_stuck(&self) -> bool {
        self.stuck && self.lanes.values().all(|lane| lane.running.is_none())
    }

    /// Whether nothing goes on and the agent holds as many sessions that are of no use as it may
    /// ([`ConnectionOptions::max_given_up_sessions`]): the time to replace its process.
    pub fn is_worn_out(&self) -> bool {
        self.has_piled_up() && self.turns.is_empty() && !self.lanes.values().any(Lane::opens_first)
    }

    /// Whether the agent holds as many sessions that are of no use as it may, whatever goes on: the time to begin
    /// nothing new in its process.
    pub fn has_piled_up(&self) -> bool {
        let limit = self.options.max_given_up_sessions;
        // At least one, or no process would ever be of use.
        limit.is_some_and(|limit| self.unclosed >= limit.max(1))
    }

    /// The session that serves a lane now.
    pub fn session(&self, lane: LaneId) -> Option<&SessionInfo> {
        self.lanes.get(&lane)?.session.as_ref()
    }

    /// The answer text of a running turn so far; it only grows. Where the request has tools or a response
    /// format it is known with the end of the turn, and empty until then.
    pub fn turn_text(&self, turn: TurnId) -> Option<&str> {
        self.turns.get(&turn).map(|turn| turn.answer_text())
    }

    /// What has happened in a running turn and was not taken before
    /// ([`TurnOptions::events`](crate::TurnOptions::events)). The rest comes with [`Event::TurnEvents`].
    pub fn take_turn_events(&mut self, turn: TurnId) -> Vec<TurnEvent> {
        self.turns
            .get_mut(&turn)
            .map(|turn| turn.take_events())
            .unwrap_or_default()
    }

    /// The end of the agent's standard error, and of what else it wrote that is no message, without the
    /// secrets in it.
    pub fn diagnostics(&self) -> String {
        let mut text = self.stderr.text();
        let noise = self.noise.text();
        if !noise.is_empty() {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str("(on standard output, and no ACP message)\n");
            text.push_str(&noise);
        }
        self.options.secrets.mask(&text).into_owned()
    }

    // What happened.

    /// Takes bytes from the agent's standard output, in any portions.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        // Taken out for the borrow: lines lie in the decoder while the connection handles them.
        let mut decoder = std::mem::replace(&mut self.decoder, LineDecoder::new(0));
        // What comes along with the end of a turn was said before the next one was asked for.
        self.held_back = Some(Vec::new());
        decoder.feed(bytes, |line| self.handle_decoded(line, now));
        self.decoder = decoder;
        for lane in self.held_back.take().into_iter().flatten() {
            self.start_next(lane, now);
        }
    }

    /// Takes one line from the agent's standard output, without its newline.
    pub fn handle_line(&mut self, line: &[u8], now: Instant) {
        self.trace("receive", line);
        if !self.is_open() {
            return;
        }
        // Looking at the bytes once more is a tenth of what replacing those that are no text takes.
        match str::from_utf8(line) {
            Ok(text) => self.handle_text(text, now),
            Err(_) => self.handle_text(&String::from_utf8_lossy(line), now),
        }
    }

    /// Takes bytes from the agent's standard error.
    pub fn handle_stderr(&mut self, bytes: &[u8]) {
        self.stderr.push(bytes);
    }

    /// The agent's standard output has ended, or its process has. Every call ends with an error that
    /// carries `exit`.
    pub fn handle_eof(&mut self, exit: ExitInfo, now: Instant) {
        let mut decoder = std::mem::replace(&mut self.decoder, LineDecoder::new(0));
        decoder.finish(|line| self.handle_decoded(line, now));
        let stderr_tail = self.diagnostics();
        let error = AgentExited { exit, stderr_tail };
        self.end(LoadError::AgentExited(Box::new(error)), now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop(now) {
            self.handle_timer(timer, now);
        }
    }

    // What the host wants. `open_lane` is in `lanes`, `prompt` and `cancel` are in `turns`,
    // `answer_permission` and
    // `answer_request` are in `requests`.

    /// Ends every call with [`LoadError::Closed`] or [`GenerateError::Closed`]. The driver then ends the
    /// process.
    pub fn close(&mut self, now: Instant) {
        self.end(LoadError::Closed, now);
    }

    /// What to do next; call it until it says [`Output::Wait`], after every other call.
    pub fn poll_output(&mut self) -> Output {
        self.output
            .pop_front()
            .unwrap_or_else(|| Output::Wait(self.timers.next()))
    }

    fn handle_decoded(&mut self, line: Line<'_>, now: Instant) {
        match line {
            Line::Whole(bytes) => self.handle_line(bytes, now),
            Line::TooLong { len } => {
                let limit = self.options.max_line_len;
                self.note_noise(&format!("(a line of {len} bytes; the limit is {limit})"));
            }
        }
    }

    fn handle_timer(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::Initialize => {
                let error = self.startup_timeout(method::INITIALIZE);
                self.end(error, now);
            }
            Timer::OpenSession(lane) => self.open_session_timeout(lane, now),
            Timer::CloseSession(request) => self.close_session_timeout(request),
            Timer::Replay(lane) => self.replay_over(lane, now),
            Timer::Pause(lane) => self.start_next(lane, now),
            Timer::Idle(turn) => self.idle_timeout(turn, now),
            Timer::Deadline(turn) => self.deadline(turn, now),
            Timer::CancelAgain(turn) => self.cancel_again(turn),
            Timer::CancelGrace(turn) => self.cancel_grace_over(turn, now),
            Timer::Settle(turn) => self.settled(turn, now),
            Timer::Asked(key) => self.asked_timeout(key, now),
        }
    }

    /// Ends everything with this error. Later calls get it too.
    fn end(&mut self, error: LoadError, now: Instant) {
        if !self.is_open() {
            return;
        }
        self.timers.clear();
        self.pending.clear();
        if !matches!(error, LoadError::AgentExited(_)) {
            // The agent may still read: it is owed an answer.
            self.cancel_all_asked(now);
        }
        self.asked.clear();
        while let Some(mut turn) = self.turns.pop_first() {
            let id = turn.id;
            self.hand_out_events(&mut turn);
            // A turn that was answered and only waited for late text has its answer, and one that was
            // cancelled is cancelled, however the agent took it.
            let answered = turn.answer.is_some() && turn.fault().is_none();
            let result = if answered || turn.cancel.is_some() {
                turn.finish(&self.agent.auth_methods, &|| self.diagnostics())
            } else {
                Err(error.clone().into_turn(turn.into_partial()))
            };
            self.event(Event::TurnEnded(id, Box::new(result)));
        }
        let lanes: Vec<LaneId> = self.lanes.keys().collect();
        for id in lanes {
            if self.lanes.get_mut(&id).is_some_and(Lane::fail_if_opening) {
                self.output
                    .push_back(Output::Event(Event::LaneFailed(id, error.clone())));
            }
        }
        self.event(Event::Ended(error.clone()));
        self.phase = Phase::Ended(error);
    }

    fn startup_timeout(&self, method: &'static str) -> LoadError {
        LoadError::StartupTimeout {
            method,
            limit: self.options.startup_timeout.unwrap_or_default(),
            stderr_tail: self.diagnostics(),
        }
    }

    /// Keeps a line that is no message, for diagnostics.
    fn note_noise(&mut self, line: &str) {
        self.stray.noise += 1;
        self.noise.push(line.as_bytes());
        self.noise.push(b"\n");
    }

    /// Shows one line of the wire to whoever listens to the target `acp_core::wire`.
    fn trace(&self, direction: &'static str, line: &[u8]) {
        if tracing::level_filters::LevelFilter::current() < tracing::Level::TRACE {
            return;
        }
        let show = || {
            if tracing::enabled!(target: "acp_core::wire", tracing::Level::TRACE) {
                let line = String::from_utf8_lossy(line);
                let line = self.options.secrets.mask_line(line.trim_end());
                tracing::trace!(target: "acp_core::wire", direction, line = &*line);
            }
        };
        // A subscriber that panics has had its say; no turn is to end of it.
        let _shown = catch_unwind(AssertUnwindSafe(show));
    }

    /// Hands out what a turn that ends has left.
    fn hand_out_events(&mut self, turn: &mut Turn) {
        if turn.options.events {
            turn.flush();
            let events = turn.take_events();
            self.event(Event::TurnEvents(turn.id, events));
        }
    }

    fn event(&mut self, event: Event) {
        self.output.push_back(Output::Event(event));
    }

    fn send(&mut self, line: Vec<u8>) {
        self.trace("send", &line);
        self.output.push_back(Output::Send(line));
    }

    fn send_request<P: Serialize>(&mut self, call: Call, method: &str, params: P) {
        let line = wire::request(self.next_request, method, params);
        self.send_line(call, line);
    }

    /// Sends a request that was written under the next number.
    fn send_line(&mut self, call: Call, line: Vec<u8>) {
        self.pending.insert(self.next_request, call);
        self.next_request += 1;
        self.send(line);
    }

    fn new_key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        key
    }
}
