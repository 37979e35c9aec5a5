//! A small ACP client with the driver that lets the conformance harness use it.
//!
//! It is written from the specification alone and shares no code with the client of this
//! repository. It proves that every transcript can be passed. With `MUTANT=name` it breaks one rule,
//! and proves that the transcripts notice.

mod client;
mod line;
mod mutant;
mod options;
mod output;
mod permission;
mod process;
mod prompt;
mod reply;
mod tools;
mod turn;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use serde_json::{Map, Value, json};

use client::Client;
use mutant::{Mutant, broken};
use options::{Options, State, limit};
use process::{Process, Program};
use tools::{extras, form};
use turn::{Failure, Turn, fields};

/// What the one thread that does the work waits for.
pub enum Event {
    /// A line of the harness.
    Request(String),
    /// The harness closed our input.
    Quit,
    /// A line of the agent process with this number.
    Line(u64, Vec<u8>),
    /// A line of that process was too long and is gone.
    LongLine(u64),
    /// The output of that process has ended.
    End(u64),
}

const CAPABILITIES: &[&str] = &[
    "cancel",
    "lanes",
    "cancel_grace",
    "process",
    "mode",
    "permission",
    "startup_timeout",
    "idle_timeout",
    "deadline",
    "parts",
    "allow_empty_turn",
    "dropped",
    "stderr_tail",
    "is_alive",
    "settle",
    "authenticate",
    "lenient_mode",
    "restart",
    "max_line",
    "permission_callback",
    "choices",
    "request_hook",
    "messages",
    "model_source",
    "state",
    "max_given_up_sessions",
    "tools",
    "resume_session",
    "config_options",
    "mcp_servers",
    "additional_directories",
];

fn main() -> ExitCode {
    if let Err(message) = mutant::choose_from_environment() {
        eprintln!("port-toy: {message}");
        return ExitCode::from(2);
    }
    let (events, inbox) = mpsc::channel();
    let requests = events.clone();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if requests.send(Event::Request(line)).is_err() {
                return;
            }
        }
        let _done = requests.send(Event::Quit);
    });
    Driver {
        events,
        client: None,
        program: Program::default(),
        started: 0,
    }
    .run(&inbox);
    ExitCode::SUCCESS
}

/// Answers a request of the harness with success.
pub fn succeed(seq: &Value, value: Value) {
    answer(&json!({"seq": seq, "ok": value}));
}

/// Answers a request of the harness with an error of the library.
pub fn fail(seq: &Value, (kind, mut fields): Failure) {
    fields.insert("kind".to_owned(), json!(kind));
    fields
        .entry("message")
        .or_insert_with(|| json!(kind.replace('_', " ")));
    answer(&json!({"seq": seq, "err": fields}));
}

struct Driver {
    events: Sender<Event>,
    client: Option<Client>,
    /// What was loaded last.
    program: Program,
    /// How many agent processes were started: the number of the current one.
    started: u64,
}

impl Driver {
    fn run(mut self, inbox: &Receiver<Event>) {
        loop {
            let event = match self.client.as_ref().and_then(Client::next_timeout) {
                Some(at) => inbox.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match (event, &mut self.client) {
                (Ok(Event::Request(line)), _) => {
                    if !self.handle_request(&line) {
                        break;
                    }
                }
                (Ok(Event::Line(number, line)), Some(client)) if number == self.started => {
                    client.handle_line(&line)
                }
                (Ok(Event::LongLine(number)), Some(client)) if number == self.started => {
                    client.handle_long_line();
                }
                (Ok(Event::End(number)), Some(client)) if number == self.started => {
                    client.handle_end();
                    if broken(Mutant::RestartsUnasked) && client.wants_restart() {
                        let _failure = self.restart();
                    }
                }
                // What a process that is no longer ours still had to say.
                (Ok(Event::Line(..) | Event::LongLine(_) | Event::End(_)), _)
                | (Err(RecvTimeoutError::Timeout), _) => {}
                (Ok(Event::Quit) | Err(RecvTimeoutError::Disconnected), _) => break,
            }
            if let Some(client) = &mut self.client {
                client.handle_timeout();
            }
        }
        self.close();
    }

    /// Returns whether there is more to come.
    fn handle_request(&mut self, line: &str) -> bool {
        let Ok(request) = serde_json::from_str::<Value>(line) else {
            eprintln!("port-toy: not JSON: {line}");
            return true;
        };
        let (seq, args) = (request["seq"].clone(), &request["args"]);
        let lane = args["lane"].as_str().unwrap_or("main");
        match (request["op"].as_str().unwrap_or_default(), &mut self.client) {
            ("hello", _) => {
                let port = json!({"name": "toy", "language": "rust", "version": env!("CARGO_PKG_VERSION")});
                succeed(
                    &seq,
                    json!({"protocol": 1, "port": port, "capabilities": CAPABILITIES}),
                );
            }
            ("load", Some(_)) if broken(Mutant::LoadsOnce) => fail(&seq, ("closed", Map::new())),
            ("load", _) => self.load(seq, args),
            ("generate", Some(client)) if client.wants_restart() || client.is_worn_out() => {
                client.close();
                if let Err(failure) = self.restart() {
                    fail(&seq, failure);
                } else {
                    return self.handle_request(line);
                }
            }
            ("generate", Some(client)) => {
                let messages = list(&args["messages"]).to_vec();
                let extras = extras(args);
                let turn = Turn {
                    seq,
                    form: form(&messages, &extras),
                    messages,
                    extras,
                    repairs: 0,
                    deadline: limit(args, "deadline_ms").unwrap_or(client.options.deadline),
                    idle_timeout: limit(args, "idle_timeout_ms")
                        .unwrap_or(client.options.idle_timeout),
                    ends_at: None,
                    idle_at: None,
                    cancel: None,
                };
                client.generate(lane, turn);
            }
            ("lane", Some(client)) => client.open_lane(lane, seq),
            ("cancel", Some(client)) => {
                client.cancel(&args["seq"]);
                succeed(&seq, json!({}));
            }
            ("close", Some(client)) if client.is_over() && broken(Mutant::CloseTwiceIsError) => {
                fail(&seq, ("closed", Map::new()));
            }
            ("close", _) => {
                self.close();
                succeed(&seq, json!({}));
            }
            ("is_alive", client) => {
                let alive = client.as_mut().is_some_and(Client::is_alive);
                succeed(&seq, json!({"alive": alive}));
            }
            ("bye", _) => {
                self.close();
                succeed(&seq, json!({}));
                return false;
            }
            ("generate" | "lane" | "cancel", None) => fail(&seq, ("closed", Map::new())),
            (other, _) => answer(&json!({"seq": seq, "unsupported": other})),
        }
        true
    }

    fn load(&mut self, seq: Value, args: &Value) {
        self.close();
        let asked = args["cwd"].as_str().unwrap_or(".");
        let cwd = match std::path::absolute(asked) {
            Ok(cwd) if cwd.is_dir() || broken(Mutant::CwdNotChecked) => cwd,
            _ => {
                let message = json!({"message": format!("there is no directory {asked}")});
                return fail(&seq, ("invalid_options", fields(message)));
            }
        };
        let program = Program {
            command: strings(&args["command"]),
            env: fields(args["env"].clone()),
            cwd: cwd.clone(),
            max_line: args["max_line_bytes"].as_u64(),
        };
        let mut options = Options::read(args, cwd);
        if options.resume.is_some()
            && options.state != State::Full
            && !broken(Mutant::ResumeWithAnyState)
        {
            let message = json!({"message": "a session that goes on gets full requests"});
            return fail(&seq, ("invalid_options", fields(message)));
        }
        match self.start(program) {
            Ok(process) => {
                if broken(Mutant::RelativeCwd) {
                    options.cwd = asked.into();
                }
                self.client = Some(Client::start(process, options, Some(seq)));
            }
            Err(failure) => fail(&seq, failure),
        }
    }

    /// Starts what was loaded last once more.
    fn restart(&mut self) -> Result<(), Failure> {
        let process = self.start(self.program.clone())?;
        self.client = self.client.take().map(|old| old.restarted(process));
        Ok(())
    }

    fn start(&mut self, program: Program) -> Result<Process, Failure> {
        self.started += 1;
        let process = Process::start(&program, self.started, &self.events);
        let process = process.map_err(|error| {
            let message = format!("{:?}: {error}", program.command);
            ("spawn_failed", fields(json!({"message": message})))
        });
        self.program = program;
        process
    }

    fn close(&mut self) {
        if let Some(client) = &mut self.client {
            client.close();
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn strings(words: &Value) -> Vec<String> {
    let items = list(words).iter();
    items
        .filter_map(|item| Some(item.as_str()?.to_owned()))
        .collect()
}

fn answer(value: &Value) {
    let mut stdout = std::io::stdout().lock();
    // A harness that is gone also closes our input, which ends the program.
    let _gone = writeln!(stdout, "{value}").and_then(|()| stdout.flush());
}
