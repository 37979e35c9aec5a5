//! A driver of the engine without anything real: the player is the agent and the host, and time is a
//! number.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use acp_core::{
    ChoicePolicy, ConfigValue, Connection, ConnectionOptions, Event, ExitInfo, GenerateError,
    GenerateRequest, GenerateResponse, LaneId, McpServer, MessageSpan, Output, PermissionDecision,
    PermissionId, PermissionPolicy, Resume, Settle, StatePolicy, TurnId, TurnOptions,
};
use acp_fake_server::control::{Command, Signal};
use acp_fake_server::fixture::Verb;
use acp_fake_server::{Action, Fixture, Input, Outcome, Player, Role};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// More actions than any transcript has: beyond it both sides only answer each other.
const MAX_ACTIONS: usize = 1_000_000;

/// Why a transcript says nothing about the engine, if it does not.
pub fn not_applicable(fixture: &Fixture) -> Option<String> {
    let verb = ["grandchild", "linger", "stop_reading"]
        .into_iter()
        .find(|verb| fixture.uses(verb));
    if let Some(verb) = verb {
        return Some(format!("`{verb}` needs a process, and the engine has none"));
    }
    let gives = |arg: &str| {
        let has = |verb: &Verb| matches!(verb, Verb::Call { args, .. } if args.get(arg).is_some());
        fixture.steps.iter().any(|step| has(&step.verb))
    };
    if gives("cwd") {
        return Some("the driver resolves the working directory".to_owned());
    }
    (gives("restart") || gives("max_given_up_sessions"))
        .then(|| "the driver starts processes, and starts them again".to_owned())
}

/// Plays a transcript; the error is the report of what did not match.
pub fn play(fixture: &Fixture) -> Result<(), String> {
    let mut rig = Rig::new(fixture);
    for _ in 0..MAX_ACTIONS {
        rig.drain();
        match rig.player.poll() {
            Action::Call { label, op, args } => rig.call(label, &op, &args)?,
            Action::Agent { process, command } => rig.agent(process, command),
            Action::Delay(time) => rig.delay(time),
            Action::Wait(waiting) => {
                if !rig.jump() {
                    return Err(format!(
                        "{waiting}: nothing is left that could happen\n{}",
                        rig.player.transcript()
                    ));
                }
            }
            Action::Done => return Ok(()),
            Action::Failed(mismatch) => return Err(mismatch.to_string()),
        }
    }
    Err("the transcript does not end".to_owned())
}

struct Rig {
    player: Player,
    now: Instant,
    /// How many agents were started; the last is the one that runs.
    processes: u32,
    connection: Option<Connection>,
    /// What the engine wants to be called for next.
    due: Option<Instant>,
    turn_options: TurnOptions,
    /// Lanes by their name, and the label of the call that opens them.
    lanes: HashMap<String, LaneId>,
    opening: HashMap<LaneId, String>,
    turns: HashMap<String, TurnId>,
    running: HashMap<TurnId, String>,
    /// What the host answers when it is asked, in order.
    permission_answers: VecDeque<Value>,
    request_answers: Value,
}

impl Rig {
    fn new(fixture: &Fixture) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "an instant cannot be made otherwise; from here on the clock is virtual"
        )]
        let now = Instant::now();
        Self {
            player: Player::new(fixture, Role::Both),
            now,
            processes: 0,
            connection: None,
            due: None,
            turn_options: TurnOptions::default(),
            lanes: HashMap::new(),
            opening: HashMap::new(),
            turns: HashMap::new(),
            running: HashMap::new(),
            permission_answers: VecDeque::new(),
            request_answers: Value::Null,
        }
    }

    fn call(&mut self, label: String, op: &str, args: &Value) -> Result<(), String> {
        match op {
            "load" => self.load(label, args)?,
            "lane" => {
                if let Some(connection) = &mut self.connection {
                    let lane = connection.open_lane(self.now);
                    self.lanes.insert(text(args, "lane"), lane);
                    self.opening.insert(lane, label);
                } else {
                    self.returned(&label, closed());
                }
            }
            "generate" => self.generate(label, args)?,
            "cancel" => {
                if let (Some(connection), Some(&turn)) =
                    (&mut self.connection, self.turns.get(&text(args, "call")))
                {
                    connection.cancel(turn, self.now);
                }
                self.returned(&label, Outcome::Ok(json!({})));
            }
            "is_alive" => {
                let alive = self.connection.as_ref().is_some_and(Connection::is_open);
                self.returned(&label, Outcome::Ok(json!({ "alive": alive })));
            }
            "close" => {
                if let Some(connection) = &mut self.connection {
                    connection.close(self.now);
                }
                self.drain();
                self.end_process();
                self.returned(&label, Outcome::Ok(json!({})));
            }
            other => return Err(format!("an operation this rig does not have: {other}")),
        }
        Ok(())
    }

    fn load(&mut self, label: String, args: &Value) -> Result<(), String> {
        let mut options = ConnectionOptions::new("/work");
        options.mode = args["mode"].as_str().map(str::to_owned);
        options.permission = match args["permission"].as_str() {
            None | Some("first_allow") => PermissionPolicy::FirstAllow,
            Some("allow_once") => PermissionPolicy::AllowOnce,
            Some("reject") => PermissionPolicy::Reject,
            Some("ask") => PermissionPolicy::Ask,
            Some(other) => return Err(format!("an unknown permission policy: {other}")),
        };
        options.settle = match args["settle"].as_str() {
            None | Some("adaptive") => Settle::Adaptive,
            Some("always") => Settle::Always,
            Some("never") => Settle::Never,
            Some(other) => return Err(format!("an unknown settle: {other}")),
        };
        options.choices = match args["choices"].as_str() {
            None | Some("first") => ChoicePolicy::First,
            Some("reject") => ChoicePolicy::Reject,
            Some(other) => return Err(format!("an unknown policy of choices: {other}")),
        };
        options.state = match args["state"].as_str() {
            None | Some("full_request") => StatePolicy::FullRequest,
            Some("fresh_session") => StatePolicy::FreshSession,
            Some("verified_delta") => StatePolicy::VerifiedDelta,
            Some(other) => return Err(format!("an unknown state policy: {other}")),
        };
        options.spare_session = args["spare_session"].as_bool().unwrap_or(true);
        options.authenticate = args["authenticate"].as_str().map(str::to_owned);
        options.mode_required = args["mode_required"].as_bool().unwrap_or(true);
        if let Some(bytes) = args["max_line_bytes"].as_u64() {
            options.max_line_len = usize::try_from(bytes).map_err(|error| error.to_string())?;
        }
        let answers = args["permission_answers"].as_array();
        self.permission_answers = answers.cloned().unwrap_or_default().into();
        self.request_answers = args["request_answers"].clone();
        options.forward_requests = self.request_answers.is_object();
        limit(
            args,
            "permission_timeout_ms",
            &mut options.permission_timeout,
        );
        limit(args, "startup_timeout_ms", &mut options.startup_timeout);
        limit(args, "cancel_grace_ms", &mut options.cancel_grace);
        if let Some(most) = args["max_repairs"].as_u64() {
            options.max_repairs = u32::try_from(most).map_err(|error| error.to_string())?;
        }
        options.native_tools = args["native_tools"] == true;
        session_options(&mut options, args)?;
        if let Err(error) = options.check() {
            // What `load_acp` does: nothing is started.
            let value = serde_json::to_value(&error).expect("a report");
            self.returned(&label, Outcome::Err(value));
            return Ok(());
        }
        self.turn_options = turn_options(TurnOptions::default(), args)
            .allow_empty(args["allow_empty_turn"].as_bool().unwrap_or(false));
        let mut connection = Connection::new(options, self.now);
        self.processes += 1;
        self.player.handle(Input::Started);
        let lane = connection.open_lane(self.now);
        self.lanes.clear();
        self.lanes.insert("main".to_owned(), lane);
        self.opening.insert(lane, label);
        self.connection = Some(connection);
        Ok(())
    }

    fn generate(&mut self, label: String, args: &Value) -> Result<(), String> {
        let request = GenerateRequest::deserialize(args).map_err(|error| error.to_string())?;
        let lane = args["lane"].as_str().unwrap_or("main");
        let (Some(connection), Some(&lane)) = (&mut self.connection, self.lanes.get(lane)) else {
            self.returned(&label, closed());
            return Ok(());
        };
        let options = turn_options(self.turn_options, args);
        match connection.prompt(lane, &request, options, self.now) {
            Ok(turn) => {
                self.turns.insert(label.clone(), turn);
                self.running.insert(turn, label);
            }
            Err(error) => self.returned(&label, failed(&error)),
        }
        Ok(())
    }

    /// Carries out what the scripted agent does.
    fn agent(&mut self, process: u32, command: Command) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        if process != self.processes {
            return;
        }
        match command {
            Command::Stdout(bytes) => connection.handle_bytes(&bytes, self.now),
            Command::Stderr(bytes) => connection.handle_stderr(&bytes),
            Command::Exit(code) => connection.handle_eof(ExitInfo::code(code), self.now),
            Command::Signal(signal) => {
                connection.handle_eof(ExitInfo::signal(number(signal)), self.now);
            }
            Command::CloseStdout => connection.handle_eof(ExitInfo::default(), self.now),
            Command::StopReading(_) | Command::Linger(_) | Command::Grandchild => {
                unreachable!("such transcripts are left out")
            }
        }
    }

    /// Takes everything that the engine has to say.
    fn drain(&mut self) {
        while let Some(connection) = &mut self.connection {
            match connection.poll_output() {
                Output::Send(line) => {
                    assert_eq!(line.last(), Some(&b'\n'), "a whole line");
                    let line = &line[..line.len() - 1];
                    let process = self.processes;
                    self.player.handle(Input::Line { process, line });
                }
                Output::Event(event) => self.event(event),
                Output::Wait(due) => {
                    self.due = due;
                    return;
                }
                other => panic!("an output this rig does not have: {other:?}"),
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Initialized => {}
            Event::LaneOpened(lane) => {
                let label = self
                    .opening
                    .remove(&lane)
                    .expect("a lane that was asked for");
                let connection = self.connection.as_ref().expect("it speaks");
                let session = connection.session(lane).expect("it is open");
                let value = json!({ "session_id": session.session_id });
                self.returned(&label, Outcome::Ok(value));
            }
            Event::LaneFailed(lane, error) => {
                let label = self
                    .opening
                    .remove(&lane)
                    .expect("a lane that was asked for");
                if label == "load" {
                    // What `load_acp` does: nothing is left of an agent that could not be loaded.
                    self.end_process();
                }
                let value = serde_json::to_value(&error).expect("a report");
                self.returned(&label, Outcome::Err(value));
            }
            Event::TurnEnded(turn, result) => {
                let label = self.running.remove(&turn).expect("each turn ends once");
                let outcome = match *result {
                    Ok(response) => Outcome::Ok(json!({
                        "content": response.content,
                        "stop_reason": response.stop_reason.as_str(),
                        "usage": response.usage,
                        "dropped": response.dropped,
                        "messages": messages(&response),
                        "tool_calls": response.tool_calls,
                        "repairs": response.repairs.len(),
                    })),
                    Err(error) => failed(&error),
                };
                self.returned(&label, outcome);
            }
            Event::PermissionAsked(id, _) => self.decide(id),
            Event::RequestReceived(key, method, _) => {
                let answer = self.request_answers.get(&method).cloned();
                let connection = self.connection.as_mut().expect("it speaks");
                connection.answer_request(key, answer, self.now);
            }
            Event::Ended(_) => {
                let process = self.processes;
                self.player.handle(Input::Gone { process });
            }
            other => panic!("an event this rig does not have: {other:?}"),
        }
    }

    /// What the host's function does. Of one that panics the driver makes an option that is not offered.
    fn decide(&mut self, id: PermissionId) {
        let decision = match self.permission_answers.pop_front() {
            Some(Value::String(id)) => PermissionDecision::Select(id),
            Some(value) if value["never"] == true => return,
            Some(value) if value["cancelled"] == true => PermissionDecision::Cancelled,
            _ => PermissionDecision::Select("a panic is a refusal".to_owned()),
        };
        let connection = self.connection.as_mut().expect("it speaks");
        connection.answer_permission(id, decision, self.now);
    }

    /// Lets time pass up to the engine's next instant. False if it has none.
    fn jump(&mut self) -> bool {
        let (Some(connection), Some(due)) = (&mut self.connection, self.due) else {
            return false;
        };
        self.now = self.now.max(due);
        connection.handle_timeout(self.now);
        true
    }

    fn delay(&mut self, time: Duration) {
        let end = self.now + time;
        while self.due.is_some_and(|due| due <= end) && self.jump() {
            self.drain();
        }
        self.now = end;
        self.player.handle(Input::Elapsed);
    }

    fn end_process(&mut self) {
        self.connection = None;
        self.due = None;
        let process = self.processes;
        if process > 0 {
            self.player.handle(Input::Eof { process });
        }
    }

    fn returned(&mut self, label: &str, outcome: Outcome) {
        self.player.handle(Input::Returned { label, outcome });
    }
}

/// What every session is given, and which one goes on.
fn session_options(options: &mut ConnectionOptions, args: &Value) -> Result<(), String> {
    let list = |name: &str| args[name].as_array().into_iter().flatten();
    for option in list("config_options") {
        let value = match option["value"].as_bool() {
            Some(on) => ConfigValue::Bool(on),
            None => ConfigValue::Id(text(option, "value")),
        };
        options.config_options.push((text(option, "id"), value));
    }
    for server in list("mcp_servers") {
        options.mcp_servers.push(McpServer::from_value(server)?);
    }
    let directories = list("additional_directories").filter_map(Value::as_str);
    options
        .additional_directories
        .extend(directories.map(str::to_owned));
    let resume = &args["resume_session"];
    if let Some(id) = resume["session_id"].as_str() {
        options.resume = Some(match resume["required"] == true {
            true => Resume::required(id),
            false => Resume::or_new(id),
        });
    }
    Ok(())
}

fn messages(response: &GenerateResponse) -> Vec<Value> {
    let text = |span: &MessageSpan| {
        let text = &response.content[span.range.clone()];
        json!({ "message_id": span.message_id, "text": text })
    };
    response.messages.iter().map(text).collect()
}

fn text(args: &Value, key: &str) -> String {
    args[key].as_str().unwrap_or_default().to_owned()
}

/// Reads a time in milliseconds: 0 is off, absent keeps what is set.
fn limit(args: &Value, key: &str, set: &mut Option<Duration>) {
    if let Some(ms) = args[key].as_u64() {
        *set = (ms > 0).then(|| Duration::from_millis(ms));
    }
}

fn turn_options(mut options: TurnOptions, args: &Value) -> TurnOptions {
    limit(args, "idle_timeout_ms", &mut options.idle_timeout);
    limit(args, "deadline_ms", &mut options.deadline);
    options
}

fn failed(error: &GenerateError) -> Outcome {
    Outcome::Err(serde_json::to_value(error).expect("a report"))
}

fn closed() -> Outcome {
    failed(&GenerateError::Closed {
        partial: String::new(),
    })
}

fn number(signal: Signal) -> i32 {
    match signal {
        Signal::Hup => 1,
        Signal::Int => 2,
        Signal::Abrt => 6,
        Signal::Kill => 9,
        Signal::Segv => 11,
        Signal::Term => 15,
    }
}
