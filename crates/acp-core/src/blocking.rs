//! The blocking driver: the engine, a process, and five named threads.
//!
//! | thread | does |
//! | --- | --- |
//! | `acp-reader` | reads standard output and hands it to the engine |
//! | `acp-writer` | writes the queue of lines to standard input |
//! | `acp-stderr` | drains standard error |
//! | `acp-timer` | calls the engine when something is due |
//! | `acp-wait` | waits for the exit of the process |
//!
//! A host that decides about permissions is called on `acp-permission`, one thread for each request.
//! Callers wait for their own turn and nothing else; no thread ever waits for a caller, and the reader
//! waits for nobody. All of them end with the model.

#![expect(
    clippy::disallowed_methods,
    reason = "a driver is where the clock is read and threads are started"
)]

mod agent;
mod alarm;
mod model;
mod outbox;
mod pipe;

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use agent::AcpAgent;
pub use model::{AcpModel, Canceller, Lane, Turn, load_acp};

use crate::connection::{Connection, Event, LaneId, Output, PermissionId, TurnId};
use crate::error::{GenerateError, LoadError};
use crate::options::{LoadOptions, PermissionCallback};
use crate::permission::{PermissionDecision, PermissionRequest};
use crate::process::{AgentProcess, Spawned};
use crate::request::GenerateResponse;
use crate::sync::{lock, wait_until};
use alarm::Alarm;
use outbox::Outbox;
use pipe::{Stop, Stopped, stop_pipe};

/// How long the exit status may come after the end of output, and the end of output after the exit.
const EXIT_WAIT: Duration = Duration::from_millis(500);
/// How long the rest of standard error may come after the exit.
const STDERR_WAIT: Duration = Duration::from_millis(200);
/// Bytes read at once.
const READ_BUFFER: usize = 64 * 1024;

/// What the model, its lanes, its turns and its threads share.
struct Shared {
    /// When the process was started.
    started: Instant,
    core: Mutex<Core>,
    /// The handshake is over, a lane has opened or failed, or a stream has ended.
    changed: Condvar,
    outbox: Outbox,
    alarm: Alarm,
    process: AgentProcess,
    permission: Option<PermissionCallback>,
    closing: Mutex<Closing>,
}

/// What a thread of the driver does.
type ThreadBody = Box<dyn FnOnce(&Arc<Shared>) + Send>;

/// What the lock is about.
struct Core {
    connection: Connection,
    turns: HashMap<TurnId, TurnSlot>,
    lanes: HashMap<LaneId, Result<(), LoadError>>,
    /// When `initialize` was answered, or why it was not.
    initialized: Option<Result<Instant, LoadError>>,
    stdout_ended: bool,
    stderr_ended: bool,
}

/// A turn that somebody waits for.
struct TurnSlot {
    changed: Arc<Condvar>,
    /// Whether the caller wants the text as it comes.
    streams: bool,
    result: Option<Result<GenerateResponse, GenerateError>>,
}

/// What is needed to end the threads.
struct Closing {
    threads: Vec<JoinHandle<()>>,
    stop_writer: Option<Stop>,
    stop_readers: Option<Stop>,
}

impl Shared {
    /// Starts the process and the threads.
    fn start(options: &LoadOptions) -> Result<Arc<Self>, LoadError> {
        if options.connection.permission == crate::PermissionPolicy::Ask
            && options.permission_callback.is_none()
        {
            return Err(LoadError::InvalidOptions(
                "the permission policy is to ask, but nobody is named to be asked".to_owned(),
            ));
        }
        let cwd = options.resolve_cwd()?;
        let mut connection_options = options.connection.clone();
        connection_options.cwd = cwd
            .to_str()
            .ok_or_else(|| {
                LoadError::InvalidOptions(format!(
                    "the working directory `{}` is not Unicode, which ACP needs",
                    cwd.display()
                ))
            })?
            .to_owned();
        let started = Instant::now();
        let Spawned {
            process,
            child,
            stdin,
            stdout,
            stderr,
        } = AgentProcess::spawn(options, &cwd)?;
        let shared = Arc::new(Self {
            started,
            core: Mutex::new(Core {
                connection: Connection::new(connection_options, started),
                turns: HashMap::new(),
                lanes: HashMap::new(),
                initialized: None,
                stdout_ended: false,
                stderr_ended: false,
            }),
            changed: Condvar::new(),
            outbox: Outbox::default(),
            alarm: Alarm::default(),
            process,
            permission: options.permission_callback.clone(),
            closing: Mutex::new(Closing {
                threads: Vec::new(),
                stop_writer: None,
                stop_readers: None,
            }),
        });
        if let Err(error) = shared.start_threads(child, stdin, stdout, stderr) {
            shared.close();
            return Err(LoadError::SpawnFailed {
                program: options.command[0].to_string_lossy().into_owned(),
                reason: format!("this process cannot serve it: {error}"),
                source: Arc::new(error),
            });
        }
        shared.pump(&mut lock(&shared.core));
        Ok(shared)
    }

    fn start_threads(
        self: &Arc<Self>,
        child: Child,
        stdin: ChildStdin,
        stdout: ChildStdout,
        stderr: ChildStderr,
    ) -> io::Result<()> {
        let (stop_writer, [writer_stopped]) = stop_pipe::<1>()?;
        let (stop_readers, [reader_stopped, stderr_stopped]) = stop_pipe::<2>()?;
        let mut closing = lock(&self.closing);
        closing.stop_writer = Some(stop_writer);
        closing.stop_readers = Some(stop_readers);
        let mut start = |name: &str, body: ThreadBody| {
            let shared = Arc::clone(self);
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || body(&shared))?;
            closing.threads.push(thread);
            io::Result::Ok(())
        };
        // First of all, because only what is waited for can be ended.
        start(
            "acp-wait",
            Box::new(move |shared| shared.wait_for_exit(child)),
        )?;
        pipe::set_nonblocking(&stdin)?;
        start(
            "acp-writer",
            Box::new(move |shared| shared.write_loop(stdin, &writer_stopped)),
        )?;
        start(
            "acp-stderr",
            Box::new(move |shared| shared.stderr_loop(stderr, &stderr_stopped)),
        )?;
        start("acp-timer", Box::new(|shared| shared.timer_loop()))?;
        start(
            "acp-reader",
            Box::new(move |shared| shared.read_loop(stdout, &reader_stopped)),
        )
    }

    /// Drains the engine. Every change to it ends here.
    fn pump(self: &Arc<Self>, core: &mut MutexGuard<'_, Core>) {
        loop {
            match core.connection.poll_output() {
                Output::Send(line) => self.outbox.push(line),
                Output::Event(event) => self.deliver(core, event),
                Output::Wait(at) => return self.alarm.set(at),
            }
        }
    }

    fn deliver(self: &Arc<Self>, core: &mut Core, event: Event) {
        match event {
            Event::TurnEnded(id, result) => {
                if let Some(slot) = core.turns.get_mut(&id) {
                    slot.result = Some(result);
                    slot.changed.notify_all();
                }
            }
            Event::LaneOpened(id) => {
                core.lanes.insert(id, Ok(()));
                self.changed.notify_all();
            }
            Event::LaneFailed(id, error) => {
                core.lanes.insert(id, Err(error));
                self.changed.notify_all();
            }
            Event::PermissionAsked(id, request) => self.ask(core, id, request),
            Event::Initialized => {
                core.initialized = Some(Ok(Instant::now()));
                self.changed.notify_all();
            }
            // Every other call has been told by an event of its own.
            Event::Ended(error) => {
                core.initialized.get_or_insert(Err(error));
                self.changed.notify_all();
            }
        }
    }

    /// Asks the host on a thread of its own, so that it may take its time.
    fn ask(self: &Arc<Self>, core: &mut Core, id: PermissionId, request: PermissionRequest) {
        let refuse = request.decide(crate::PermissionPolicy::Reject);
        let started = self.permission.clone().and_then(|decide| {
            let shared = Arc::clone(self);
            let refuse = refuse.clone();
            thread::Builder::new()
                .name("acp-permission".to_owned())
                .spawn(move || {
                    let decision = catch_unwind(AssertUnwindSafe(|| decide(&request)));
                    shared.answer(id, decision.unwrap_or(refuse));
                })
                .ok()
        });
        if started.is_none() {
            core.connection.answer_permission(id, refuse);
        }
    }

    fn answer(self: &Arc<Self>, id: PermissionId, decision: PermissionDecision) {
        let mut core = lock(&self.core);
        core.connection.answer_permission(id, decision);
        self.pump(&mut core);
    }

    fn read_loop(self: &Arc<Self>, mut stdout: ChildStdout, stopped: &Stopped) {
        let mut buffer = vec![0; READ_BUFFER];
        // An error of read(2) on a pipe is as final as its end.
        while let Ok(len @ 1..) = pipe::read(&mut stdout, stopped, &mut buffer) {
            let mut core = lock(&self.core);
            core.connection.handle_bytes(&buffer[..len], Instant::now());
            self.pump(&mut core);
            for slot in core.turns.values().filter(|slot| slot.streams) {
                slot.changed.notify_all();
            }
        }
        drop(stdout);
        self.output_ended();
    }

    /// The agent will say nothing more: tell every caller how it ended, then end what is left of it.
    fn output_ended(self: &Arc<Self>) {
        lock(&self.core).stdout_ended = true;
        self.changed.notify_all();
        let exit = self.process.wait(EXIT_WAIT);
        if exit.is_some() {
            let deadline = Instant::now() + STDERR_WAIT;
            let _ = wait_until(&self.changed, lock(&self.core), deadline, |core| {
                core.stderr_ended
            });
        }
        let mut core = lock(&self.core);
        let unexpected = core.connection.is_open();
        core.connection
            .handle_eof(exit.unwrap_or_default(), Instant::now());
        self.pump(&mut core);
        drop(core);
        if unexpected {
            self.process.end_now();
        }
    }

    fn write_loop(self: &Arc<Self>, mut stdin: ChildStdin, stopped: &Stopped) {
        while let Some(line) = self.outbox.next() {
            match pipe::write_all(&mut stdin, stopped, &line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    // An agent that reads no more can do nothing for us. If it has not exited by
                    // itself its end brings the end of its output, which tells every caller.
                    self.outbox.close();
                    drop(stdin);
                    if self.process.wait(EXIT_WAIT).is_none() {
                        self.process.end_now();
                    }
                    return;
                }
            }
        }
    }

    fn stderr_loop(&self, mut stderr: ChildStderr, stopped: &Stopped) {
        let mut buffer = vec![0; READ_BUFFER];
        while let Ok(len @ 1..) = pipe::read(&mut stderr, stopped, &mut buffer) {
            lock(&self.core).connection.handle_stderr(&buffer[..len]);
        }
        lock(&self.core).stderr_ended = true;
        self.changed.notify_all();
    }

    fn timer_loop(self: &Arc<Self>) {
        while self.alarm.wait() {
            let mut core = lock(&self.core);
            core.connection.handle_timeout(Instant::now());
            self.pump(&mut core);
        }
    }

    /// Waits for the process to exit. Something that it started may then still hold its output open, and
    /// without this every caller would wait for that.
    fn wait_for_exit(&self, child: Child) {
        self.process.reap(child);
        let deadline = Instant::now() + EXIT_WAIT;
        let (core, ended) = wait_until(&self.changed, lock(&self.core), deadline, |core| {
            core.stdout_ended
        });
        drop(core);
        if !ended {
            self.process.end_now();
            lock(&self.closing).stop_readers = None;
        }
    }

    fn is_alive(&self) -> bool {
        self.process.exit().is_none() && lock(&self.core).connection.is_open()
    }

    /// Ends everything; the process is gone when it returns. Later and simultaneous calls wait for the
    /// first.
    fn close(self: &Arc<Self>) {
        {
            let mut core = lock(&self.core);
            core.connection.close();
            self.pump(&mut core);
        }
        // The writer drops the agent's input, whether it waits for a line or for the agent to read.
        self.outbox.close();
        lock(&self.closing).stop_writer = None;
        let gone = self.process.end();
        self.alarm.stop();
        let threads = {
            let mut closing = lock(&self.closing);
            closing.stop_readers = None;
            std::mem::take(&mut closing.threads)
        };
        for thread in threads {
            // A process that survives SIGKILL would hold its waiting thread, and us with it.
            if gone && thread.thread().id() != thread::current().id() {
                // A panic in a thread of ours has been reported by the panic hook.
                let _ = thread.join();
            }
        }
    }
}
