//! The blocking driver: the engine, a process, and two named threads, or more.
//!
//! | thread | does |
//! | --- | --- |
//! | `acp-reader` | reads standard output and standard error, and calls the engine when something is due, while no caller does |
//! | `acp-wait` | waits for the exit of the process |
//! | `acp-writer` | writes to standard input what the pipe did not take at once, from the first time on |
//! | `acp-stderr` | drains standard error where standard output has ended before |
//!
//! All of them end with the model. A host that decides about permissions is called on `acp-permission`, one
//! thread for each request, and one that answers vendors' requests on `acp-request`; such a thread lasts as
//! long as the host's function does.
//!
//! A caller that waits for the end of its turn does what the reader does while it waits, if no other one does
//! ([`seat`]). Callers wait for their own turn and nothing else; no thread ever waits for what a host does in its
//! own function, and who reads waits for nobody.

#![expect(
    clippy::disallowed_methods,
    reason = "a driver is where the clock is read and threads are started"
)]

mod agent;
mod alarm;
mod caller;
mod lane;
mod model;
mod pipe;
mod reader;
mod seat;
mod turn;
mod writer;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::Value;

pub use agent::AcpAgent;
pub use lane::Lane;
pub use model::{AcpModel, load_acp};
pub use turn::Turn;

use crate::connection::{Connection, PermissionId, RequestKey};
use crate::driver::{self, Driven, EXIT_WAIT, Few, Input, Pushed, STDERR_WAIT};
use crate::error::LoadError;
use crate::hooks::Hooks;
use crate::options::LoadOptions;
use crate::permission::{PermissionPolicy, PermissionRequest};
use crate::process::{AgentProcess, Spawned};
use crate::sync::{lock, wait_until};
use alarm::Alarm;
use caller::Caller;
use pipe::{Stop, Stopped};
use reader::Pipes;
use seat::Seat;
use writer::Writer;

/// What the model, its lanes, its turns and its threads share.
struct Shared {
    /// When the process was started.
    started: Instant,
    core: Mutex<Core>,
    input: Input<ChildStdout>,
    /// The handshake is over, a lane has opened or failed, or a stream has ended.
    changed: Condvar,
    writer: Writer,
    alarm: Arc<Alarm>,
    /// Who reads.
    seat: Seat<Box<Pipes>>,
    process: AgentProcess,
    hooks: Hooks,
    closing: Mutex<Closing>,
}

/// What a thread of the driver does.
type ThreadBody = Box<dyn FnOnce(&Arc<Shared>) + Send>;

/// What the lock is about.
type Core = driver::Core<Arc<Caller>>;

/// What is needed to end the threads, besides the alarm.
struct Closing {
    threads: Vec<JoinHandle<()>>,
    writer: WriterThread,
}

/// The thread that waits for a pipe that is full. Most agents never need it.
enum WriterThread {
    /// What stops it is there from the start: a host may have no file descriptor left when the pipe is full.
    NotNeeded(Stop, Stopped),
    Runs(#[expect(dead_code, reason = "held for its drop")] Stop),
    /// There will be none.
    Never,
}

impl Shared {
    /// Starts the process and the threads.
    fn start(options: &LoadOptions) -> Result<Arc<Self>, LoadError> {
        let can_ask = options.hooks.permission.is_some();
        let (connection_options, cwd) = driver::check(options, can_ask)?;
        let out_of = |error: io::Error| LoadError::SpawnFailed {
            program: options.command[0].to_string_lossy().into_owned(),
            reason: format!("this process cannot serve it: {error}"),
            source: Arc::new(error),
        };
        let (alarm, bell) = Alarm::new().map_err(out_of)?;
        let (stop, stopped) = pipe::stop_pipe().map_err(out_of)?;
        let started = Instant::now();
        let Spawned {
            process,
            child,
            stdin,
            stdout,
            stderr,
        } = AgentProcess::spawn(options, &cwd)?;
        let stdout = pipe::set_nonblocking(stdout).map(Arc::new);
        let (writer, stdout) = match Writer::new(stdin).and_then(|writer| Ok((writer, stdout?))) {
            Ok(ours) => ours,
            Err(error) => {
                process.abandon(&mut { child });
                return Err(out_of(error));
            }
        };
        let shared = Arc::new(Self {
            started,
            core: Mutex::new(Core::new(Connection::new(connection_options, started))),
            input: Input::new(&stdout),
            changed: Condvar::new(),
            writer,
            alarm: Arc::new(alarm),
            seat: Seat::default(),
            process,
            hooks: options.hooks.clone(),
            closing: Mutex::new(Closing {
                threads: Vec::new(),
                writer: WriterThread::NotNeeded(stop, stopped),
            }),
        });
        let pipes = Box::new(Pipes::new(stdout, stderr, bell));
        // The agent has something to do while we start the threads.
        shared.pump(lock(&shared.core));
        if let Err(error) = shared.start_threads(child, pipes) {
            shared.close();
            return Err(out_of(error));
        }
        Ok(shared)
    }

    fn start_threads(self: &Arc<Self>, child: Child, pipes: Box<Pipes>) -> io::Result<()> {
        let mut closing = lock(&self.closing);
        let mut start = |name, body| {
            closing.threads.push(self.on_thread(name, body)?);
            io::Result::Ok(())
        };
        // First of all, because only what is waited for can be ended.
        let child = Arc::new(Mutex::new(child));
        let waited_for = Arc::clone(&child);
        start(
            "acp-wait",
            Box::new(move |shared| shared.wait_for_exit(&waited_for)),
        )
        .inspect_err(|_| self.process.abandon(&mut lock(&child)))?;
        start(
            "acp-reader",
            Box::new(move |shared| shared.run_reader(pipes)),
        )
    }

    fn on_thread(self: &Arc<Self>, name: &str, body: ThreadBody) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || body(&shared))
    }

    /// Starts the thread that waits for the pipe, unless it runs.
    fn start_writer(self: &Arc<Self>) {
        let mut closing = lock(&self.closing);
        let (stop, stopped) = match std::mem::replace(&mut closing.writer, WriterThread::Never) {
            WriterThread::NotNeeded(stop, stopped) => (stop, stopped),
            other => {
                closing.writer = other;
                return;
            }
        };
        let run: ThreadBody = Box::new(move |shared| shared.write_loop(&stopped));
        match self.on_thread("acp-writer", run) {
            Ok(thread) => {
                closing.writer = WriterThread::Runs(stop);
                closing.threads.push(thread);
            }
            // What waits will never be read. The end of the process tells every caller.
            Err(_) => self.process.kill(),
        }
    }

    fn write_loop(self: &Arc<Self>, stopped: &Stopped) {
        if self.writer.run(stopped) {
            return;
        }
        // An agent that reads no more can do nothing for us. If it has not exited by itself its end brings
        // the end of its output, which tells every caller.
        if self.process.wait(EXIT_WAIT).is_none() {
            self.process.end_now();
        }
    }

    /// Waits for the process to exit. Something that it started may then still hold its output open, and
    /// without this every caller would wait for that.
    fn wait_for_exit(&self, child: &Mutex<Child>) {
        self.process.reap(&mut lock(child));
        let deadline = Instant::now() + EXIT_WAIT;
        let (core, ended) = wait_until(&self.changed, lock(&self.core), deadline, |core| {
            core.stdout_ended
        });
        drop(core);
        if !ended {
            self.process.end_now();
            self.alarm.stop();
        }
    }

    /// Ends everything; the process is gone when it returns. Later and simultaneous calls wait for the
    /// first.
    fn close(self: &Arc<Self>) {
        {
            let mut core = lock(&self.core);
            core.connection.close(Instant::now());
            self.pump(core);
        }
        self.seat.rouse();
        // The writer drops the agent's input, whether it waits for a line or for the agent to read.
        self.writer.close();
        let writer = std::mem::replace(&mut lock(&self.closing).writer, WriterThread::Never);
        if !matches!(writer, WriterThread::Runs(_)) {
            self.writer.abandon();
        }
        drop(writer);
        let gone = self.process.end();
        // What it wrote last is still in the pipes. They end with it, unless something that escaped holds
        // them open.
        let deadline = Instant::now() + STDERR_WAIT;
        let ended = |core: &mut Core| core.stdout_ended && core.stderr_ended;
        drop(wait_until(&self.changed, lock(&self.core), deadline, ended));
        self.alarm.stop();
        let threads = std::mem::take(&mut lock(&self.closing).threads);
        for thread in threads {
            // A process that survives SIGKILL would hold its waiting thread, and us with it.
            if gone && thread.thread().id() != thread::current().id() {
                // A panic in a thread of ours has been reported by the panic hook.
                let _ = thread.join();
            }
        }
    }
}

impl Driven for Shared {
    type Wake = Arc<Caller>;
    type Output = ChildStdout;

    fn core(&self) -> &Mutex<Core> {
        &self.core
    }

    fn input(&self) -> &Input<ChildStdout> {
        &self.input
    }

    fn process(&self) -> &AgentProcess {
        &self.process
    }

    fn started(&self) -> Instant {
        self.started
    }

    fn changed(&self) {
        self.changed.notify_all();
    }

    fn ask(self: &Arc<Self>, core: &mut Core, id: PermissionId, request: PermissionRequest) {
        let refuse = request.decide(PermissionPolicy::Reject);
        let started = self.hooks.permission.clone().is_some_and(|decide| {
            let refuse = refuse.clone();
            let ask: ThreadBody = Box::new(move |shared| {
                let decision = catch_unwind(AssertUnwindSafe(|| decide(&request)));
                let mut core = lock(&shared.core);
                core.connection
                    .answer_permission(id, decision.unwrap_or(refuse), Instant::now());
                shared.pump(core);
            });
            self.on_thread("acp-permission", ask).is_ok()
        });
        if !started {
            core.connection
                .answer_permission(id, refuse, Instant::now());
        }
    }

    fn hand_over(
        self: &Arc<Self>,
        core: &mut Core,
        key: RequestKey,
        method: String,
        params: Value,
    ) {
        let started = self.hooks.request.clone().is_some_and(|answer| {
            let hand_over: ThreadBody = Box::new(move |shared| {
                let result = catch_unwind(AssertUnwindSafe(|| answer(&method, &params)));
                let mut core = lock(&shared.core);
                let result = result.ok().flatten();
                core.connection.answer_request(key, result, Instant::now());
                shared.pump(core);
            });
            self.on_thread("acp-request", hand_over).is_ok()
        });
        if !started {
            core.connection.answer_request(key, None, Instant::now());
        }
    }

    fn send(self: &Arc<Self>, lines: Few<Vec<u8>>, core: MutexGuard<'_, Core>) {
        match self.writer.push(lines, core) {
            Pushed::Done => {}
            Pushed::Waits => self.start_writer(),
            // It asks faster than it reads our answers, and would go on until we have no memory. Its end brings
            // the end of its output, which tells every caller.
            Pushed::Flood => self.process.kill(),
        }
    }

    fn set_alarm(&self, at: Instant) {
        self.alarm.set(at);
    }

    fn start(options: &LoadOptions) -> Result<Arc<Self>, LoadError> {
        Self::start(options)
    }

    fn replace(self: &Arc<Self>) {
        self.close();
    }
}
