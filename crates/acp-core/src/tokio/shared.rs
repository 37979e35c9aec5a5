//! What the agent, its lanes, its turns and its tasks share.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::catch_unwind;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use super::tasks::Supervised;
use crate::connection::{Connection, PermissionId, RequestKey};
use crate::driver::{self, Driven, Few, Input, Outbox, Pushed, STDERR_WAIT, TryWrite, Wake};
use crate::error::{ExitInfo, LoadError};
use crate::hooks::Hooks;
use crate::options::LoadOptions;
use crate::permission::{PermissionPolicy, PermissionRequest};
use crate::process::{AgentProcess, Spawned};
use crate::sync::lock;

/// What the lock is about. It is never held across an await.
pub(super) type Core = driver::Core<Option<Waker>>;

impl Wake for Option<Waker> {
    fn take(&mut self) -> Self {
        Option::take(self)
    }

    fn wake(self) {
        if let Some(waker) = self {
            waker.wake();
        }
    }
}

pub(super) struct Shared {
    /// When the process was started.
    pub(super) started: Instant,
    pub(super) core: Mutex<Core>,
    /// The handshake is over, a lane has opened or failed, or a stream has ended.
    pub(super) changed: Notify,
    pub(super) input: Input<pipe::Receiver>,
    pub(super) process: AgentProcess,
    pub(super) outbox: Mutex<Outbox<Pipe>>,
    /// The writer has something to do.
    pub(super) written: Notify,
    /// The engine's next instant, and that it has become an earlier one.
    pub(super) alarm: Mutex<Option<Instant>>,
    pub(super) alarm_set: Notify,
    /// The process has exited.
    exited: Notify,
    hooks: Hooks,
    runtime: Handle,
    tasks: Mutex<Vec<AbortHandle>>,
    writer: Mutex<Option<AbortHandle>>,
    /// What waits for functions of the host.
    asked: Mutex<Vec<AbortHandle>>,
}

/// The end of the pipe, which the writer holds while it waits for it.
#[derive(Clone)]
pub(super) struct Pipe(pub(super) Arc<pipe::Sender>);

impl TryWrite for Pipe {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }
}

impl Driven for Shared {
    type Wake = Option<Waker>;
    type Output = pipe::Receiver;

    fn core(&self) -> &Mutex<Core> {
        &self.core
    }

    fn input(&self) -> &Input<pipe::Receiver> {
        &self.input
    }

    fn process(&self) -> &AgentProcess {
        &self.process
    }

    fn started(&self) -> Instant {
        self.started
    }

    fn changed(&self) {
        self.changed.notify_waiters();
    }

    fn ask(self: &Arc<Self>, _: &mut Core, id: PermissionId, request: PermissionRequest) {
        let refuse = request.decide(PermissionPolicy::Reject);
        let decision = self.hooks.decide(&self.runtime, request);
        let shared = Arc::clone(self);
        self.wait_for_host(
            decision.as_ref().map(JoinHandle::abort_handle),
            async move {
                let decision = match decision {
                    Some(decision) => decision.await.unwrap_or(refuse),
                    None => refuse,
                };
                let mut core = lock(&shared.core);
                core.connection
                    .answer_permission(id, decision, Instant::now());
                shared.pump(core);
            },
        );
    }

    fn hand_over(self: &Arc<Self>, _: &mut Core, key: RequestKey, method: String, params: Value) {
        let answer = self.hooks.answer(&self.runtime, method, params);
        let shared = Arc::clone(self);
        self.wait_for_host(answer.as_ref().map(JoinHandle::abort_handle), async move {
            let result = match answer {
                Some(answer) => answer.await.ok().flatten(),
                None => None,
            };
            let mut core = lock(&shared.core);
            core.connection.answer_request(key, result, Instant::now());
            shared.pump(core);
        });
    }

    fn send(self: &Arc<Self>, lines: Few<Vec<u8>>, core: MutexGuard<'_, Core>) {
        let mut outbox = lock(&self.outbox);
        drop(core);
        let pushed = outbox.push_all(lines);
        drop(outbox);
        match pushed {
            Pushed::Done => {}
            Pushed::Waits => self.written.notify_one(),
            // It asks faster than it reads our answers, and would go on until we have no memory. Its end brings
            // the end of its output, which tells every caller.
            Pushed::Flood => self.process.kill(),
        }
    }

    fn set_alarm(&self, at: Instant) {
        *lock(&self.alarm) = Some(at);
        self.alarm_set.notify_one();
    }

    fn start(options: &LoadOptions) -> Result<Arc<Self>, LoadError> {
        let (connection, cwd) = driver::check(options, options.hooks.can_ask_async())?;
        let out_of = |error: io::Error| LoadError::SpawnFailed {
            program: options.command[0].to_string_lossy().into_owned(),
            reason: format!("this process cannot serve it: {error}"),
            source: Arc::new(error),
        };
        let runtime = Handle::try_current().map_err(|error| out_of(io::Error::other(error)))?;
        try_runtime().map_err(out_of)?;
        let started = Instant::now();
        let Spawned {
            process,
            mut child,
            stdin,
            stdout,
            stderr,
        } = AgentProcess::spawn(options, &cwd)?;
        let pipes = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).and_then(|stdin| {
            let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
            let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;
            Ok((stdin, stdout, stderr))
        });
        let (stdin, stdout, stderr) = match pipes {
            Ok(pipes) => pipes,
            Err(error) => {
                process.abandon(&mut child);
                return Err(out_of(error));
            }
        };
        let stdout = Arc::new(stdout);
        let shared = Arc::new(Self {
            started,
            core: Mutex::new(Core::new(Connection::new(connection, started))),
            input: Input::new(&stdout),
            changed: Notify::new(),
            process,
            outbox: Mutex::new(Outbox::new(Pipe(Arc::new(stdin)))),
            written: Notify::new(),
            alarm: Mutex::new(None),
            alarm_set: Notify::new(),
            exited: Notify::new(),
            hooks: options.hooks.clone(),
            runtime,
            tasks: Mutex::new(Vec::new()),
            writer: Mutex::new(None),
            asked: Mutex::new(Vec::new()),
        });
        // The agent has something to do while we start the tasks.
        shared.pump(lock(&shared.core));
        shared.wait_on_thread(child).map_err(out_of)?;
        shared.start_tasks(stdout, stderr);
        Ok(shared)
    }

    fn replace(self: &Arc<Self>) {
        self.close_behind();
    }
}

impl Shared {
    /// Waits for the answer to `initialize`.
    pub(super) async fn wait_ready(&self) -> Result<(), LoadError> {
        loop {
            let changed = self.changed.notified();
            if let Some(result) = &lock(&self.core).initialized {
                return result.clone().map(drop);
            }
            changed.await;
        }
    }

    /// Waits for the end of the connection.
    pub(super) async fn wait_ended(&self) -> LoadError {
        loop {
            let changed = self.changed.notified();
            if let Some(error) = lock(&self.core).connection.end_error() {
                return error.clone();
            }
            changed.await;
        }
    }

    /// Ends everything; the process is gone when it returns. If nobody waits for that any more it is ended behind.
    pub(super) async fn close(self: &Arc<Self>) {
        self.end_calls();
        let mut closing = Closing(Some(self));
        let exit = self.exit_within(self.process.eof_grace()).await;
        if exit.is_none() || !self.process.is_gone() {
            self.end_process(AgentProcess::end_now).await;
        }
        // What it wrote last is still in the pipes. They end with it, unless something that escaped holds
        // them open.
        let ended = async {
            loop {
                let changed = self.changed.notified();
                if lock(&self.core).stdout_ended {
                    return;
                }
                changed.await;
            }
        };
        // The end of the wait is no failure: the tasks are ended all the same.
        let _ended = timeout(STDERR_WAIT, ended).await;
        self.end_tasks();
        closing.0 = None;
    }

    /// Ends everything without waiting for it, on a thread of its own.
    pub(super) fn close_behind(self: &Arc<Self>) {
        self.end_calls();
        // So that nothing is left even of a host that exits right now.
        self.process.terminate();
        let shared = Arc::clone(self);
        let end = move || {
            shared.process.end_now();
            shared.end_tasks();
        };
        if thread::Builder::new()
            .name("acp-close".to_owned())
            .spawn(end)
            .is_err()
        {
            self.process.kill();
            self.end_tasks();
        }
    }

    pub(super) fn end_calls(self: &Arc<Self>) {
        let mut core = lock(&self.core);
        core.connection.close(Instant::now());
        self.pump(core);
        let mut outbox = lock(&self.outbox);
        outbox.close();
        outbox.abandon();
        drop(outbox);
        // The writer holds the pipe while it waits for it, and the agent's input would not end. Functions of the
        // host that still think have nobody to answer to, but one of them may be closing the agent right here.
        let asked = std::mem::take(&mut *lock(&self.asked));
        let here = tokio::task::try_id();
        for task in lock(&self.writer).take().into_iter().chain(asked) {
            if Some(task.id()) != here {
                task.abort();
            }
        }
    }

    fn end_tasks(&self) {
        self.input.end();
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }

    /// Waits for a function of the host in a task that ends with the connection, and the function with it as
    /// far as it awaits.
    fn wait_for_host(
        &self,
        function: Option<AbortHandle>,
        answer: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.runtime.spawn(answer).abort_handle();
        let mut asked = lock(&self.asked);
        asked.retain(|task| !task.is_finished());
        asked.extend(function);
        asked.push(task);
    }

    fn wait_on_thread(self: &Arc<Self>, child: Child) -> io::Result<()> {
        let child = Arc::new(Mutex::new(child));
        let (shared, waited_for) = (Arc::clone(self), Arc::clone(&child));
        let wait = move || {
            shared.process.reap(&mut lock(&waited_for));
            shared.exited.notify_waiters();
        };
        let thread = thread::Builder::new().name("acp-wait".to_owned());
        match thread.spawn(wait) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.process.abandon(&mut lock(&child));
                Err(error)
            }
        }
    }

    fn start_tasks(self: &Arc<Self>, stdout: Arc<pipe::Receiver>, stderr: pipe::Receiver) {
        let runtime = &self.runtime;
        let stdout = runtime.spawn(Arc::clone(self).read_loop(stdout));
        let stderr = runtime.spawn(Arc::clone(self).stderr_loop(stderr));
        let mut tasks = vec![stdout.abort_handle(), stderr.abort_handle()];
        let writer = runtime.spawn(Arc::clone(self).write_loop());
        *lock(&self.writer) = Some(writer.abort_handle());
        let supervised = Supervised(Arc::clone(self));
        for task in [
            runtime.spawn(Arc::clone(self).supervise(supervised, stdout, stderr)),
            runtime.spawn(Arc::clone(self).timer_loop()),
        ] {
            tasks.push(task.abort_handle());
        }
        *lock(&self.tasks) = tasks;
    }

    /// How the process ended, if it does in time.
    pub(super) async fn exit_within(&self, limit: Duration) -> Option<ExitInfo> {
        let exit = async {
            loop {
                let exited = self.exited.notified();
                if let Some(exit) = self.process.exit() {
                    return exit;
                }
                exited.await;
            }
        };
        // A wait of ages is more than some clocks can say.
        timeout(limit.min(Duration::from_secs(3600)), exit)
            .await
            .ok()
    }

    /// Ends the process on a thread of its own, because that waits, and the runtime's may all be taken by
    /// functions of the host.
    pub(super) async fn end_process(
        self: &Arc<Self>,
        end: impl FnOnce(&AgentProcess) -> bool + Send + 'static,
    ) {
        let shared = Arc::clone(self);
        let (done, ended) = tokio::sync::oneshot::channel();
        let thread = thread::Builder::new().name("acp-end".to_owned());
        let spawned = thread.spawn(move || {
            end(&shared.process);
            // Nobody may wait any more.
            let _gone = done.send(());
        });
        if spawned.is_err() || ended.await.is_err() {
            self.process.kill();
        }
    }
}

/// Whether the runtime has what the tasks need, which can only be tried: tokio panics where it has not.
fn try_runtime() -> io::Result<()> {
    let (reader, _writer) = io::pipe()?;
    catch_unwind(|| {
        drop(tokio::time::sleep(Duration::ZERO));
        pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map(drop)
    })
    .unwrap_or_else(|_| {
        let lacks = "the tokio runtime has no IO or no time, which `enable_all` gives it";
        Err(io::Error::other(lacks))
    })
}

/// A close that has begun. It is finished without its caller if that does not wait for the end.
struct Closing<'a>(Option<&'a Arc<Shared>>);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.close_behind();
        }
    }
}
