//! One cell: a transcript played against a port.
//!
//! Three parties meet here and each runs on threads of its own: the driver process, the relays that
//! the client under test starts, and this one, which owns the player and all time. Whatever happens
//! arrives on one channel, in an order in which it can have happened.

mod needs;

use std::{
    collections::HashMap,
    io,
    process::ExitStatus,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use acp_fake_server::{
    Action, Fixture, Input, Outcome, Player, Role,
    control::{CONTROL_ENV, RelayEvent},
    player::{Fault, Waiting},
    transcript::LogEntry,
};
use serde_json::{Value, json};

use crate::{
    agents::{AgentEvent, Agents},
    driver::{Driver, DriverEvent, LONGEST_LINE},
    limits::Limits,
    log,
    port::Port,
    protocol::{self, Answer, Body, Greeting},
    verdict::{Cell, Verdict},
};

pub use self::needs::not_applicable;

/// What every cell of a run has in common.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The argument vector that starts a relay, the agent process that the client under test sees.
    pub relay: Vec<String>,
    /// How long anything may take.
    pub limits: Limits,
}

/// Plays `fixture` against `port`. The verdict does not consider the port's known failures.
pub fn play(fixture: &Fixture, port: &Port, stage: &Stage) -> Cell {
    play_logged(fixture, port, stage).0
}

/// The same, and everything that happened.
pub fn play_logged(fixture: &Fixture, port: &Port, stage: &Stage) -> (Cell, Vec<LogEntry>) {
    let started = Instant::now();
    let mut cell = Cell::new(port, fixture);
    let mut happened = Vec::new();
    match Play::start(fixture, port, stage) {
        Err(verdict) => cell.verdict = verdict,
        Ok(mut play) => {
            let verdict = play.run().err().unwrap_or(Verdict::Pass);
            play.clean_up();
            cell.verdict = log::check_schema(verdict, play.player.log());
            cell.greeting = play.greeting.take();
            cell.steps_done = play.player.steps_done();
            cell.steps_total = play.player.steps_total();
            cell.transcript = log::render(play.player.log());
            cell.stderr_tail = play.driver.stderr_tail();
            happened = play.player.log().to_vec();
        }
    }
    cell.elapsed = started.elapsed();
    (cell, happened)
}

/// The verdict on a cell that `outcome` would be alone, given what `known.toml` says.
///
/// `broken` is nobody's known failure. An entry for a cell that passes, or that does not apply, is
/// stale and fails the cell.
pub fn judge(outcome: Verdict, port: &Port, fixture: &str) -> Verdict {
    match (port.known.get(fixture), outcome) {
        (Some(entry), outcome) if outcome.is_caught() => Verdict::Known {
            reason: entry.reason.clone(),
            link: entry.link.clone(),
            failure: Box::new(outcome),
        },
        (Some(_), Verdict::Pass) => {
            Verdict::Fail("known.toml lists it as a known failure, but it passes".into())
        }
        (Some(_), Verdict::NotApplicable { missing }) => Verdict::Fail(format!(
            "known.toml lists it as a known failure, but it is n/a for want of {}",
            missing.join(", ")
        )),
        (_, outcome) => outcome,
    }
}

enum Event {
    Driver(DriverEvent),
    Agent(AgentEvent),
}

struct Play<'a> {
    fixture: &'a Fixture,
    port: &'a Port,
    stage: &'a Stage,
    player: Player,
    driver: Driver,
    events: Receiver<Event>,
    agents: Agents,
    calls: HashMap<u64, Call>,
    greeting: Option<Greeting>,
    /// The wait that is going on and when it runs out.
    waiting: Option<(Waiting, Instant)>,
    delay_until: Option<Instant>,
    /// Agent processes that ran on when the last `close` had returned.
    survivors: Vec<String>,
    /// Whether the client has written a line to an agent.
    has_written: bool,
}

/// A call of the host program that has not returned.
struct Call {
    label: String,
    op: String,
    limit: Duration,
    /// How many agent processes there had been when it began.
    agents_before: usize,
}

impl<'a> Play<'a> {
    fn start(fixture: &'a Fixture, port: &'a Port, stage: &'a Stage) -> Result<Play<'a>, Verdict> {
        let (sender, events) = mpsc::channel();
        // In both, the receiver is gone when the cell is over; nobody is left to tell.
        let reports = sender.clone();
        let agents = Agents::listen(move |event| {
            let _ = reports.send(Event::Agent(event));
        })
        .map_err(|error| {
            Verdict::Broken(format!("failed to listen for agent processes: {error}"))
        })?;
        let driver = Driver::spawn(port, move |event| {
            let _ = sender.send(Event::Driver(event));
        })
        .map_err(|error| {
            let program = port.command.first().map_or("", String::as_str);
            Verdict::Broken(format!("failed to start the driver {program}: {error}"))
        })?;
        Ok(Play {
            fixture,
            port,
            stage,
            player: Player::new(fixture, Role::Both),
            driver,
            events,
            agents,
            calls: HashMap::new(),
            greeting: None,
            waiting: None,
            delay_until: None,
            survivors: Vec::new(),
            has_written: false,
        })
    }

    fn run(&mut self) -> Result<(), Verdict> {
        let missing = self.greet()?;
        if missing.is_empty() {
            while self.advance()? {
                self.pump()?;
            }
        }
        self.part()?;
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Verdict::NotApplicable { missing })
        }
    }

    /// Says hello and returns the capabilities the transcript needs and the port lacks.
    fn greet(&mut self) -> Result<Vec<String>, Verdict> {
        let answer = self.ask("hello", &protocol::hello_args())?;
        let greeting = Greeting::parse(&answer)
            .map_err(|error| Verdict::Broken(format!("the driver wrote {error}")))?;
        if greeting.name != self.port.name {
            return Err(Verdict::Broken(format!(
                "the driver says that it drives {}, but port.toml says {}",
                greeting.name, self.port.name
            )));
        }
        needs::missing(self.fixture, self.port, self.greeting.insert(greeting))
    }

    /// Carries out what the player wants done. False when there is nothing more to play.
    fn advance(&mut self) -> Result<bool, Verdict> {
        loop {
            match self.player.poll() {
                Action::Call { label, op, args } => self.call(label, op, args)?,
                Action::Agent { process, command } => {
                    let sent = self.agents.send(process, &command).ok_or_else(|| {
                        Verdict::Broken(format!("agent process {process} was never started"))
                    })?;
                    // A process that is gone tells so itself, in order with what it did before.
                    if let Err(error) = sent
                        && error.kind() == io::ErrorKind::TimedOut
                    {
                        return Err(Verdict::Broken(format!(
                            "the agent process did not do its part: {error}"
                        )));
                    }
                }
                Action::Delay(delay) => self.delay_until = Some(Instant::now() + delay),
                Action::Wait(waiting) => {
                    if self.waiting.as_ref().is_none_or(|(old, _)| *old != waiting) {
                        let limit = self.wait_limit();
                        self.waiting = Some((waiting, Instant::now() + limit));
                    }
                    return Ok(true);
                }
                Action::Done => return Ok(false),
                Action::Failed(mismatch) => {
                    return Err(match mismatch.fault {
                        Fault::Client => Verdict::Fail(mismatch.to_string()),
                        Fault::Fixture => Verdict::Broken(mismatch.to_string()),
                    });
                }
            }
        }
    }

    /// Waits for one thing to happen.
    fn pump(&mut self) -> Result<(), Verdict> {
        let now = Instant::now();
        if self.delay_until.is_some_and(|until| until <= now) {
            self.delay_until = None;
            self.waiting = None;
            self.player.handle(Input::Elapsed);
            return Ok(());
        }
        let Some((waiting, deadline)) = &self.waiting else {
            return Err(Verdict::Broken("the player waits for nothing".into()));
        };
        let until = self.delay_until.unwrap_or(*deadline);
        match self
            .events
            .recv_timeout(until.saturating_duration_since(now))
        {
            Ok(event) => self.handle(event),
            Err(RecvTimeoutError::Timeout) if self.delay_until.is_some() => Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                Err(Verdict::Timeout(format!("nothing came for {waiting}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Verdict::Broken("the harness lost its own threads".into()))
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), Verdict> {
        match event {
            Event::Driver(DriverEvent::Line(line)) => {
                let answer = self.driver.settle(&line)?;
                self.returned(answer)
            }
            Event::Driver(DriverEvent::TooLong) => Err(Verdict::Broken(format!(
                "the driver wrote a line of more than {} MiB",
                LONGEST_LINE >> 20
            ))),
            Event::Driver(DriverEvent::Ended) => Err(Verdict::Crash(match self.exit_status() {
                Ok(status) => format!("the driver ended early, with {status}"),
                Err(fault) => format!("the driver ended early: {fault}"),
            })),
            Event::Agent(AgentEvent::Started(conn)) => {
                self.agents.add(conn);
                self.player.handle(Input::Started);
                Ok(())
            }
            Event::Agent(AgentEvent::Relay { process, event }) => {
                self.agents.note(process, &event);
                self.has_written |= matches!(event, RelayEvent::Line(_));
                match &event {
                    RelayEvent::Line(line) => self.player.handle(Input::Line { process, line }),
                    RelayEvent::Eof => self.player.handle(Input::Eof { process }),
                    RelayEvent::Gone => self.player.handle(Input::Gone { process }),
                    RelayEvent::Grandchild { .. } => {}
                }
                Ok(())
            }
            Event::Agent(AgentEvent::Failed(error)) => Err(Verdict::Broken(format!(
                "an agent process failed to report itself: {error}"
            ))),
        }
    }

    /// Starts an operation of the host program.
    fn call(&mut self, label: String, op: String, mut args: Value) -> Result<(), Verdict> {
        let broken = |what: String| Verdict::Broken(format!("the call {label}: {what}"));
        let Some(members) = args.as_object_mut() else {
            return Err(broken("its arguments are not an object".into()));
        };
        match op.as_str() {
            "load" => {
                members
                    .entry("command")
                    .or_insert_with(|| json!(self.stage.relay));
                let env = members.entry("env").or_insert_with(|| json!({}));
                env[CONTROL_ENV] = json!(self.agents.address());
            }
            "cancel" => {
                let target = members.remove("call");
                let target = target.as_ref().and_then(Value::as_str).unwrap_or_default();
                let seq = self.latest_call(target).ok_or_else(|| {
                    broken(format!("there is no call {target} that it could cancel"))
                })?;
                members.insert("seq".into(), json!(seq));
            }
            _ => {}
        }
        let limit = members
            .iter()
            .filter(|(key, _)| key.ends_with("_ms"))
            .filter_map(|(_, value)| value.as_u64())
            .max()
            .map_or(Duration::ZERO, Duration::from_millis);
        let seq = self.driver.request(&op, &args);
        let agents_before = self.agents.count();
        let call = Call {
            label,
            op,
            limit,
            agents_before,
        };
        self.calls.insert(seq, call);
        Ok(())
    }

    /// The latest call with that label, returned or not: cancelling what is over must do no harm.
    fn latest_call(&self, label: &str) -> Option<u64> {
        self.calls
            .iter()
            .filter(|(_, call)| call.label == label)
            .map(|(seq, _)| *seq)
            .max()
    }

    fn returned(&mut self, answer: Answer) -> Result<(), Verdict> {
        let Some(call) = self.calls.get(&answer.seq) else {
            return Err(Verdict::Broken("an answer to no call".into()));
        };
        let outcome = match answer.body {
            Body::Ok(value) => Outcome::Ok(value),
            Body::Err(error) => Outcome::Err(error),
            // Not for the player: it would wait for what comes before the return first.
            Body::Unsupported(what) => {
                return Err(Verdict::Fail(format!(
                    "{} is unsupported, though every capability it needs is declared: {what}",
                    call.op
                )));
            }
            Body::Crash(text) => {
                return Err(Verdict::Crash(format!("{} crashed: {text}", call.op)));
            }
        };
        match call.op.as_str() {
            "close" => self.survivors = self.survivors(0),
            "load" if matches!(outcome, Outcome::Err(_)) => {
                let left = self.survivors(call.agents_before);
                if !left.is_empty() {
                    return Err(Verdict::Fail(format!(
                        "when load had failed there still was {}",
                        left.join(" and ")
                    )));
                }
            }
            _ => {}
        }
        self.player.handle(Input::Returned {
            label: &call.label,
            outcome,
        });
        Ok(())
    }

    /// The agent processes, but for the first few, that are still there once the system had the time
    /// to end them.
    fn survivors(&self, skipped: usize) -> Vec<String> {
        let deadline = Instant::now() + self.stage.limits.settle;
        self.agents.survivors(skipped, deadline)
    }

    /// How long a wait may take: the harness's own limit beyond any deadline of the transcript's.
    fn wait_limit(&self) -> Duration {
        let own = self
            .driver
            .unanswered()
            .filter_map(|seq| self.calls.get(&seq));
        let longest = own.map(|call| call.limit).max().unwrap_or_default();
        let limits = &self.stage.limits;
        let ours = if self.has_written {
            limits.wait
        } else {
            limits.start
        };
        ours + longest
    }

    /// Ends the conversation with the driver, and sees that nothing is left over.
    fn part(&mut self) -> Result<(), Verdict> {
        if !self.survivors.is_empty() {
            return Err(Verdict::Fail(format!(
                "when the last close had returned there still was {}",
                self.survivors.join(" and ")
            )));
        }
        self.ask("bye", &json!({}))?;
        let status = self.exit_status().map_err(Verdict::Timeout)?;
        if !status.success() {
            return Err(Verdict::Crash(format!(
                "the driver ended with {status} after bye"
            )));
        }
        // Now the client is gone, and what it wrote last is on its way at most.
        let deadline = Instant::now() + self.stage.limits.settle;
        while !self.agents.inputs_have_ended() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Driver(_)) => {}
                Ok(event) => {
                    self.handle(event)?;
                    self.advance()?;
                }
                Err(_) => break,
            }
        }
        let left = self.survivors(0);
        if left.is_empty() {
            return Ok(());
        }
        Err(Verdict::Fail(format!(
            "when the driver had exited there still was {}",
            left.join(" and ")
        )))
    }

    /// A request that is about the driver itself, and its answer's `ok`.
    fn ask(&mut self, op: &str, args: &Value) -> Result<Value, Verdict> {
        let seq = self.driver.request(op, args);
        let deadline = Instant::now() + self.stage.limits.hello;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(event) = self.events.recv_timeout(left) else {
                return Err(Verdict::Timeout(format!("the driver did not answer {op}")));
            };
            let Event::Driver(DriverEvent::Line(line)) = event else {
                self.handle(event)?;
                self.advance()?;
                continue;
            };
            let answer = self.driver.settle(&line)?;
            if answer.seq != seq {
                self.returned(answer)?;
                self.advance()?;
                continue;
            }
            return match answer.body {
                Body::Ok(value) => Ok(value),
                Body::Crash(text) => Err(Verdict::Crash(format!("{op} crashed: {text}"))),
                Body::Err(error) => Err(Verdict::Broken(format!("{op} was answered {error}"))),
                Body::Unsupported(what) => {
                    Err(Verdict::Broken(format!("{op} is unsupported: {what}")))
                }
            };
        }
    }

    fn exit_status(&mut self) -> Result<ExitStatus, String> {
        let deadline = Instant::now() + self.stage.limits.hello;
        match self.driver.wait_until(deadline) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err("the driver did not exit".into()),
            Err(error) => Err(format!("the driver cannot be waited for: {error}")),
        }
    }

    /// Ends the driver, and takes in what is needed to end the agent processes, too.
    fn clean_up(&mut self) {
        // A failure changes no verdict, and there is no better way left to end a process.
        let _ = self.driver.kill();
        for event in self.events.try_iter() {
            match event {
                Event::Agent(AgentEvent::Started(conn)) => self.agents.add(conn),
                Event::Agent(AgentEvent::Relay { process, event }) => {
                    self.agents.note(process, &event);
                    self.has_written |= matches!(event, RelayEvent::Line(_));
                }
                Event::Agent(AgentEvent::Failed(_)) | Event::Driver(_) => {}
            }
        }
    }
}
