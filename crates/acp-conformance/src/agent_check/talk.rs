//! One process of the agent, and a client for it that is polite and has no opinion.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{self, BufReader, Write as _},
    process::{Command, ExitStatus, Stdio},
    rc::Rc,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Limits, Options,
    left::{Left, Mark},
    wire::{self, Wire},
};
use crate::{
    driver::named,
    lines::{self, Next},
    processes,
    started::Group,
    tail::Tail,
};

/// Asked after a line that wants no answer: when this is answered, that line was dealt with. No agent
/// knows the method, and all answer it, as they must.
const FENCE: &str = "_acp-conformance/fence";

/// The longest line that an agent may write, in bytes. An image in a message takes some MiB; nothing takes
/// more.
const LONGEST_LINE: u64 = 8 << 20;

/// Lines of the agent that are read ahead of the check.
const LINES_AHEAD: usize = 1024;

/// How often it is looked for what has left the process group, when that is killed.
const ROUNDS: usize = 10;

/// Why a check ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The process ended, or closed its output.
    Died(String),
    /// It wrote a line without end.
    TooLong,
    /// What is named did not come.
    Timeout(String),
    /// There is nothing to check.
    NotApplicable(String),
    /// The operating system failed.
    System(io::Error),
}

/// What is said of a line without end.
pub(super) fn too_long() -> String {
    format!("a line of more than {} MiB", LONGEST_LINE >> 20)
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::System(error)
    }
}

/// A message of the agent.
#[derive(Debug, Clone)]
pub(super) enum Message {
    Answer(Answer),
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
}

/// A response of the agent.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// `None` if the member is missing.
    pub(super) id: Option<Value>,
    pub(super) result: Result<Value, RpcError>,
}

/// The error of a response.
#[derive(Debug, Clone)]
pub(super) struct RpcError {
    pub(super) code: i64,
    /// The message, with the data where there are any.
    pub(super) message: String,
}

/// A process of the agent. Dropping it kills its process group, and what has left that.
pub(super) struct Agent {
    group: Group,
    /// Until it is closed.
    stdin: Option<Sender<Vec<u8>>>,
    stdout: Receiver<Next>,
    /// What it and its children are known by.
    mark: Mark,
    stderr: Tail,
    limits: Limits,
    last_id: u64,
    /// The methods of the requests that were sent, by the JSON of their ids.
    asked: BTreeMap<String, String>,
    wire: Rc<RefCell<Wire>>,
}

impl Agent {
    pub(super) fn start(options: &Options, wire: &Rc<RefCell<Wire>>) -> io::Result<Agent> {
        let (program, arguments) = options
            .command
            .split_first()
            .ok_or_else(|| io::Error::other("the command is empty"))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut mark = Mark::put_on(&mut command);
        let mut group = Group::spawn(command)
            .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
        let no_pipe = || io::Error::other("a standard stream is not piped");
        let child = group.child();
        let mut stdin = child.stdin().take().ok_or_else(no_pipe)?;
        let stdout = child.stdout().take().ok_or_else(no_pipe)?;
        let stderr = child.stderr().take().ok_or_else(no_pipe)?;
        mark.add_pipe(&stdin)?;
        mark.add_pipe(&stdout)?;
        mark.add_pipe(&stderr)?;

        // An agent that does not read must not stop the clock, so a thread writes. It ends, and closes
        // the pipe, with the sender.
        let (to_agent, queue) = mpsc::channel::<Vec<u8>>();
        named("agent-stdin", move || {
            while let Ok(line) = queue.recv() {
                if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
                    break;
                }
            }
        })?;
        // A flood waits in the pipe, not in our memory.
        let (from_agent, from_stdout) = mpsc::sync_channel(LINES_AHEAD);
        named("agent-stdout", move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let next = lines::next(&mut stdout, LONGEST_LINE);
                let is_last = !matches!(next, Next::Line(_));
                if from_agent.send(next).is_err() || is_last {
                    break;
                }
            }
        })?;
        let tail = Tail::default();
        let kept = tail.clone();
        named("agent-stderr", move || kept.keep(stderr))?;
        Ok(Agent {
            group,
            stdin: Some(to_agent),
            stdout: from_stdout,
            mark,
            stderr: tail,
            limits: options.limits,
            last_id: 0,
            asked: BTreeMap::new(),
            wire: Rc::clone(wire),
        })
    }

    /// How long it may take.
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What it has started, and itself, as far as they run.
    pub(super) fn left(&mut self) -> Vec<Left> {
        let group = self.pid();
        self.mark.left(group)
    }

    /// The process id of the leader, which is also the id of the group.
    pub(super) fn pid(&mut self) -> u32 {
        self.group.child().id()
    }

    /// Writes `line` as it is, and a newline.
    pub(super) fn write(&self, line: &[u8]) {
        if let Some(stdin) = &self.stdin {
            // A process that has ended is found out by its output.
            let _ = stdin.send([line, b"\n"].concat());
        }
    }

    pub(super) fn notify(&self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.write(message.to_string().as_bytes());
    }

    /// Sends a request under the next id.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.send_as(&id, method, params);
        id
    }

    /// Takes an answer under this id for one to a request that was written by hand.
    pub(super) fn expect(&mut self, id: &Value, method: &str) {
        self.asked.insert(id.to_string(), method.to_owned());
    }

    /// Sends a request under an id of the check's own.
    pub(super) fn send_as(&mut self, id: &Value, method: &str, params: &Value) {
        self.expect(id, method);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(message.to_string().as_bytes());
    }

    /// Answers a request of the agent.
    pub(super) fn reply(&self, id: &Value, result: &Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.write(message.to_string().as_bytes());
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Result<Answer, Stop> {
        let id = self.send(method, params);
        self.answer_to(&id, self.limits.answer)
    }

    /// Waits for the answer to the request with this id.
    pub(super) fn answer_to(&mut self, id: &Value, limit: Duration) -> Result<Answer, Stop> {
        let mut answer = None;
        self.until(limit, "an answer", |message| {
            if let Message::Answer(one) = message
                && one.id.as_ref() == Some(id)
            {
                answer = Some(one.clone());
            }
            answer.is_some()
        })?;
        answer.ok_or_else(|| Stop::Timeout("no answer".to_owned()))
    }

    /// Waits until everything that was written was dealt with, and returns the answers to nothing that
    /// came meanwhile.
    pub(super) fn fence(&mut self) -> Result<Vec<Answer>, Stop> {
        let fence = self.send(FENCE, &json!({}));
        let mut others = Vec::new();
        self.until(
            self.limits.answer,
            "an answer to a request after it",
            |message| {
                match message {
                    Message::Answer(answer) if answer.id.as_ref() == Some(&fence) => return true,
                    Message::Answer(answer) => others.push(answer.clone()),
                    _ => {}
                }
                false
            },
        )?;
        Ok(others)
    }

    /// Reads messages up to the first that `is_last`, and returns it. Requests of the agent before it are
    /// answered as a client does that grants nothing; the last message is the caller's to answer.
    pub(super) fn until(
        &mut self,
        limit: Duration,
        what: &str,
        mut is_last: impl FnMut(&Message) -> bool,
    ) -> Result<Message, Stop> {
        let deadline = Instant::now() + limit;
        loop {
            let Some(message) = self.next(deadline)? else {
                return Err(Stop::Timeout(format!("no {what}").replace("no an ", "no ")));
            };
            if is_last(&message) {
                return Ok(message);
            }
            if let Message::Request { id, method, params } = &message {
                self.refuse(id, method, params);
            }
        }
    }

    /// Answers a request of the agent with a no.
    pub(super) fn refuse(&self, id: &Value, method: &str, params: &Value) {
        if method == "session/request_permission" {
            return self.reply(id, &reject(params));
        }
        let error = json!({"code": -32601, "message": "Method not found"});
        let message = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.write(message.to_string().as_bytes());
    }

    /// Closes the agent's standard input.
    pub(super) fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for the leader of the process group to end. `None` if it does not.
    pub(super) fn wait_for_end(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        self.group.wait_until(Instant::now() + limit)
    }

    /// Reads what is left of the output. Ends with the process at the latest.
    pub(super) fn drain(&mut self) {
        while let Ok(next) = self.stdout.try_recv() {
            match next {
                Next::Line(line) => drop(self.read(&line)),
                Next::TooLong => self.wire.borrow_mut().too_long(&too_long()),
                Next::End => {}
            }
        }
    }

    /// The next message, or `None` at the deadline. Lines that are no messages are noted as faults.
    fn next(&mut self, deadline: Instant) -> Result<Option<Message>, Stop> {
        loop {
            // Looked at each time: an agent that floods has always something more.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.stdout.recv_timeout(left) {
                Ok(Next::Line(line)) => {
                    if let Some(message) = self.read(&line) {
                        return Ok(Some(message));
                    }
                }
                Ok(Next::TooLong) => {
                    self.wire.borrow_mut().too_long(&too_long());
                    return Err(Stop::TooLong);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Ok(Next::End) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Stop::Died(self.last_words()));
                }
            }
        }
    }

    fn read(&mut self, line: &[u8]) -> Option<Message> {
        let mut wire = self.wire.borrow_mut();
        wire::read(line, &mut self.asked, &mut wire)
    }

    /// How the process ended.
    fn last_words(&mut self) -> String {
        let ended = match self.wait_for_end(self.limits.settle) {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "it closed its output and runs on".to_owned(),
            Err(error) => format!("its end is unknown: {error}"),
        };
        let stderr = self.stderr.text();
        // Many end with a bracket or with the frames of a stack.
        let says =
            |line: &&str| line.contains(char::is_alphabetic) && !line.trim().starts_with("at ");
        match stderr.lines().rfind(says) {
            Some(line) => format!("{ended}; {}", line.trim()),
            None => ended,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Nothing can be done about a group that cannot be killed, least of all in a destructor.
        let _ = self.group.kill();
        // What is killed cannot start others, and what it has started before is found in the next round.
        for _ in 0..ROUNDS {
            let left = self.left();
            let mut others = left.iter().filter(|one| one.has_left_group).peekable();
            if others.peek().is_none() {
                break;
            }
            others.filter_map(|one| one.pid).for_each(processes::kill);
        }
    }
}

/// The outcome that grants nothing.
fn reject(params: &Value) -> Value {
    let options = params.get("options").and_then(Value::as_array);
    let reject = options.into_iter().flatten().find(|option| {
        let kind = option.get("kind").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.starts_with("reject"))
    });
    match reject.and_then(|option| option.get("optionId")) {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}
