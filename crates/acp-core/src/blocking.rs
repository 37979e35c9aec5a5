//! The blocking driver: the engine, a process, and three named threads, or more.
//!
//! | thread | does |
//! | --- | --- |
//! | `acp-reader` | reads standard output and standard error and hands them to the engine |
//! | `acp-timer` | calls the engine when something is due |
//! | `acp-wait` | waits for the exit of the process |
//! | `acp-writer` | writes to standard input what the pipe did not take at once, from the first time on |
//! | `acp-stderr` | drains standard error where standard output has ended before |
//!
//! All of them end with the model. A host that decides about permissions is called on `acp-permission`, one
//! thread for each request, and one that answers vendors' requests on `acp-request`; such a thread lasts as
//! long as the host's function does. Callers wait for their own turn and nothing else; no thread ever waits
//! for a caller, and the reader waits for nobody.

#![expect(
    clippy::disallowed_methods,
    reason = "a driver is where the clock is read and threads are started"
)]

mod agent;
mod alarm;
mod lane;
mod model;
mod pipe;
mod turn;
mod writer;

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStderr, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::Value;

pub use agent::AcpAgent;
pub use lane::Lane;
pub use model::{AcpModel, load_acp};
pub use turn::Turn;

use crate::connection::{Connection, PermissionId, RequestKey};
use crate::driver::{
    self, Driven, EXIT_WAIT, Pushed, READ_BUFFER, STDERR_BUFFER, STDERR_WAIT, Wake,
};
use crate::error::LoadError;
use crate::hooks::Hooks;
use crate::options::LoadOptions;
use crate::permission::{PermissionPolicy, PermissionRequest};
use crate::process::{AgentProcess, Spawned};
use crate::sync::{lock, wait_until};
use alarm::Alarm;
use pipe::{Stop, Stopped, stop_pipe};
use writer::Writer;

/// What the model, its lanes, its turns and its threads share.
struct Shared {
    /// When the process was started.
    started: Instant,
    core: Mutex<Core>,
    /// The handshake is over, a lane has opened or failed, or a stream has ended.
    changed: Condvar,
    writer: Writer,
    alarm: Alarm,
    process: AgentProcess,
    hooks: Hooks,
    closing: Mutex<Closing>,
}

/// What a thread of the driver does.
type ThreadBody = Box<dyn FnOnce(&Arc<Shared>) + Send>;

/// What the lock is about.
type Core = driver::Core<Arc<Condvar>>;

impl Wake for Arc<Condvar> {
    fn take(&mut self) -> Self {
        Arc::clone(self)
    }

    fn wake(self) {
        self.notify_all();
    }
}

/// What is needed to end the threads.
struct Closing {
    threads: Vec<JoinHandle<()>>,
    stop_writer: Option<Stop>,
    /// Until the writer is started, or will not be.
    writer_stopped: Option<Stopped>,
    stop_readers: Option<Stop>,
}

/// What ends the threads' waits, made before there is a process that would need them.
struct Stops {
    stop_writer: Stop,
    writer_stopped: Stopped,
    stop_readers: Stop,
    reader_stopped: Stopped,
    stderr_stopped: Stopped,
}

impl Stops {
    fn new() -> io::Result<Self> {
        let (stop_writer, [writer_stopped]) = stop_pipe::<1>()?;
        let (stop_readers, [reader_stopped, stderr_stopped]) = stop_pipe::<2>()?;
        Ok(Self {
            stop_writer,
            writer_stopped,
            stop_readers,
            reader_stopped,
            stderr_stopped,
        })
    }
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
        let stops = Stops::new().map_err(out_of)?;
        let started = Instant::now();
        let Spawned {
            process,
            child,
            stdin,
            stdout,
            stderr,
        } = AgentProcess::spawn(options, &cwd)?;
        let writer = match Writer::new(stdin) {
            Ok(writer) => writer,
            Err(error) => {
                process.abandon(&mut { child });
                return Err(out_of(error));
            }
        };
        let shared = Arc::new(Self {
            started,
            core: Mutex::new(Core::new(Connection::new(connection_options, started))),
            changed: Condvar::new(),
            writer,
            alarm: Alarm::default(),
            process,
            hooks: options.hooks.clone(),
            closing: Mutex::new(Closing {
                threads: Vec::new(),
                stop_writer: None,
                writer_stopped: None,
                stop_readers: None,
            }),
        });
        if let Err(error) = shared.start_threads(child, stdout, stderr, stops) {
            shared.close();
            return Err(out_of(error));
        }
        shared.pump(lock(&shared.core));
        Ok(shared)
    }

    fn start_threads(
        self: &Arc<Self>,
        child: Child,
        stdout: ChildStdout,
        stderr: ChildStderr,
        stops: Stops,
    ) -> io::Result<()> {
        let Stops {
            stop_writer,
            writer_stopped,
            stop_readers,
            reader_stopped,
            stderr_stopped,
        } = stops;
        let mut closing = lock(&self.closing);
        closing.stop_writer = Some(stop_writer);
        closing.writer_stopped = Some(writer_stopped);
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
        let child = Arc::new(Mutex::new(child));
        let waited_for = Arc::clone(&child);
        start(
            "acp-wait",
            Box::new(move |shared| shared.wait_for_exit(&waited_for)),
        )
        .inspect_err(|_| self.process.abandon(&mut lock(&child)))?;
        start("acp-timer", Box::new(|shared| shared.timer_loop()))?;
        start(
            "acp-reader",
            Box::new(move |shared| {
                let rest = shared.read_loop(stdout, stderr, &reader_stopped);
                if let Some(stderr) = rest {
                    shared.start_stderr(stderr, stderr_stopped);
                }
                shared.output_ended();
            }),
        )
    }

    /// Runs a function of the host, which may take its time. False if the system has no thread for it.
    fn on_thread(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> bool {
        let shared = Arc::clone(self);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&shared))
            .is_ok()
    }

    /// Starts the thread that waits for the pipe, unless it runs. Most agents never need it.
    fn start_writer(self: &Arc<Self>) {
        let mut closing = lock(&self.closing);
        let Some(stopped) = closing.writer_stopped.take() else {
            return;
        };
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("acp-writer".to_owned());
        match thread.spawn(move || shared.write_loop(&stopped)) {
            Ok(thread) => closing.threads.push(thread),
            // What waits will never be read. The end of the process tells every caller.
            Err(_) => self.process.kill(),
        }
    }

    /// Reads until the end of standard output; standard error is handed out if it has not ended.
    fn read_loop(
        self: &Arc<Self>,
        mut stdout: ChildStdout,
        stderr: ChildStderr,
        stopped: &Stopped,
    ) -> Option<ChildStderr> {
        let mut buffer = vec![0; READ_BUFFER];
        let mut stderr = Some(stderr);
        loop {
            // An error of poll(2) or read(2) on a pipe is as final as its end.
            let Ok(ready) = pipe::wait_readable(&stdout, stderr.as_ref(), stopped) else {
                return stderr;
            };
            if ready.second
                && let Some(pipe) = &mut stderr
                && !self.read_stderr(pipe, &mut buffer[..STDERR_BUFFER])
            {
                stderr = None;
            }
            if ready.first {
                match stdout.read(&mut buffer) {
                    Ok(len @ 1..) => {
                        let mut core = lock(&self.core);
                        core.connection.handle_bytes(&buffer[..len], Instant::now());
                        self.pump(core);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return stderr,
                }
            } else if !ready.second {
                self.stderr_ended();
                return None;
            }
        }
    }

    /// Reads what is there of standard error. False at its end.
    fn read_stderr(&self, stderr: &mut ChildStderr, buffer: &mut [u8]) -> bool {
        match stderr.read(buffer) {
            Ok(len @ 1..) => lock(&self.core).connection.handle_stderr(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                self.stderr_ended();
                return false;
            }
        }
        true
    }

    fn stderr_ended(&self) {
        lock(&self.core).stderr_ended = true;
        self.changed.notify_all();
    }

    /// Starts the thread that drains what is left of standard error.
    fn start_stderr(self: &Arc<Self>, mut stderr: ChildStderr, stopped: Stopped) {
        let shared = Arc::clone(self);
        let drain = move || {
            let mut buffer = vec![0; STDERR_BUFFER];
            while let Ok(len @ 1..) = pipe::read(&mut stderr, &stopped, &mut buffer) {
                lock(&shared.core).connection.handle_stderr(&buffer[..len]);
            }
            shared.stderr_ended();
        };
        let mut closing = lock(&self.closing);
        let thread = thread::Builder::new().name("acp-stderr".to_owned());
        match thread.spawn(drain) {
            Ok(thread) => closing.threads.push(thread),
            Err(_) => {
                drop(closing);
                self.stderr_ended();
            }
        }
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
        self.pump(core);
        if unexpected {
            self.process.end_now();
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

    fn timer_loop(self: &Arc<Self>) {
        while self.alarm.wait() {
            let mut core = lock(&self.core);
            core.connection.handle_timeout(Instant::now());
            self.pump(core);
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
            lock(&self.closing).stop_readers = None;
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
        // The writer drops the agent's input, whether it waits for a line or for the agent to read.
        self.writer.close();
        let has_writer = {
            let mut closing = lock(&self.closing);
            closing.stop_writer = None;
            closing.writer_stopped.take().is_none()
        };
        if !has_writer {
            self.writer.abandon();
        }
        let gone = self.process.end();
        // What it wrote last is still in the pipes. They end with it, unless something that escaped holds
        // them open.
        let deadline = Instant::now() + STDERR_WAIT;
        let ended = |core: &mut Core| core.stdout_ended && core.stderr_ended;
        drop(wait_until(&self.changed, lock(&self.core), deadline, ended));
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

impl Driven for Shared {
    type Wake = Arc<Condvar>;

    fn core(&self) -> &Mutex<Core> {
        &self.core
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
            self.on_thread("acp-permission", move |shared| {
                let decision = catch_unwind(AssertUnwindSafe(|| decide(&request)));
                let mut core = lock(&shared.core);
                core.connection
                    .answer_permission(id, decision.unwrap_or(refuse), Instant::now());
                shared.pump(core);
            })
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
            self.on_thread("acp-request", move |shared| {
                let result = catch_unwind(AssertUnwindSafe(|| answer(&method, &params)));
                let mut core = lock(&shared.core);
                let result = result.ok().flatten();
                core.connection.answer_request(key, result, Instant::now());
                shared.pump(core);
            })
        });
        if !started {
            core.connection.answer_request(key, None, Instant::now());
        }
    }

    fn send(self: &Arc<Self>, lines: Vec<Vec<u8>>, core: MutexGuard<'_, Core>) {
        match self.writer.push(lines, core) {
            Pushed::Done => {}
            Pushed::Waits => self.start_writer(),
            // It asks faster than it reads our answers, and would go on until we have no memory. Its end brings
            // the end of its output, which tells every caller.
            Pushed::Flood => self.process.kill(),
        }
    }

    fn set_alarm(&self, at: Option<Instant>) {
        self.alarm.set(at);
    }

    fn start(options: &LoadOptions) -> Result<Arc<Self>, LoadError> {
        Self::start(options)
    }

    fn replace(self: &Arc<Self>) {
        self.close();
    }
}
