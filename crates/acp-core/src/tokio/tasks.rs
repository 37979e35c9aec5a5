//! What runs for each process: who reads, who writes what the pipe did not take, who keeps time, and who waits for
//! the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use super::shared::Shared;
use crate::driver::{Driven, EXIT_WAIT, Flushed, STDERR_BUFFER, STDERR_WAIT, Taken, is_transient};
use crate::process::AgentProcess;
use crate::sync::lock;

impl Shared {
    pub(super) async fn read_loop(self: Arc<Self>, stdout: Arc<pipe::Receiver>) {
        // An error of read(2) on a pipe is as final as its end. Waiting for it to be readable, also where it
        // is, lets other tasks have their turn.
        while stdout.readable().await.is_ok() {
            match self.read(pipe::Receiver::try_read) {
                Ok(Taken::Some { .. }) => {}
                Err(error) if is_transient(&error) => {}
                Ok(Taken::Ended) | Err(_) => return,
            }
        }
    }

    pub(super) async fn stderr_loop(self: Arc<Self>, stderr: pipe::Receiver) {
        let mut buffer = vec![0; STDERR_BUFFER];
        while stderr.readable().await.is_ok() {
            match stderr.try_read(&mut buffer) {
                Ok(len @ 1..) => lock(&self.core).connection.handle_stderr(&buffer[..len]),
                Err(error) if is_transient(&error) => {}
                Ok(0) | Err(_) => break,
            }
        }
        lock(&self.core).stderr_ended = true;
    }

    /// Waits for the end of the agent, and tells every caller how it ended.
    pub(super) async fn supervise(
        self: Arc<Self>,
        _supervised: Supervised,
        mut stdout: JoinHandle<()>,
        mut stderr: JoinHandle<()>,
    ) {
        let exited = async { while self.exit_within(Duration::MAX).await.is_none() {} };
        tokio::select! {
            _ = &mut stdout => {}
            () = exited => {
                // Something that it started may still hold its output open, and without this every caller
                // would wait for that.
                if timeout(EXIT_WAIT, &mut stdout).await.is_err() {
                    self.end_process(AgentProcess::end_now).await;
                    stdout.abort();
                }
            }
        }
        self.input.end();
        lock(&self.core).stdout_ended = true;
        self.changed.notify_waiters();
        let exit = self.exit_within(EXIT_WAIT).await;
        if exit.is_some() {
            // What has not come by then is not in the error, and no more.
            let _rest = timeout(STDERR_WAIT, &mut stderr).await;
        }
        let unexpected = {
            let mut core = lock(&self.core);
            let unexpected = core.connection.is_open();
            core.connection
                .handle_eof(exit.unwrap_or_default(), Instant::now());
            self.pump(core);
            unexpected
        };
        if unexpected {
            self.end_process(AgentProcess::end_now).await;
        }
        stderr.abort();
    }

    pub(super) async fn write_loop(self: Arc<Self>) {
        loop {
            let (flushed, pipe) = {
                let mut outbox = lock(&self.outbox);
                (outbox.flush(), outbox.pipe().cloned())
            };
            match (flushed, pipe) {
                (Flushed::Idle, _) => self.written.notified().await,
                (Flushed::Full, Some(pipe)) => {
                    if pipe.0.writable().await.is_err() {
                        lock(&self.outbox).abandon();
                        break;
                    }
                }
                (Flushed::Ended | Flushed::Full, _) => return,
                (Flushed::Broken, _) => break,
            }
        }
        // An agent that reads no more can do nothing for us. If it has not exited by itself its end brings
        // the end of its output, which tells every caller.
        if self.exit_within(EXIT_WAIT).await.is_none() {
            self.end_process(AgentProcess::end_now).await;
        }
    }

    pub(super) async fn timer_loop(self: Arc<Self>) {
        loop {
            let at = *lock(&self.alarm);
            match at {
                None => self.alarm_set.notified().await,
                Some(at) if Instant::now() < at => {
                    tokio::select! {
                        () = sleep_until(at.into()) => {}
                        () = self.alarm_set.notified() => {}
                    }
                }
                Some(_) => {
                    *lock(&self.alarm) = None;
                    self.catch_up();
                    let mut core = lock(&self.core);
                    core.handle_timeout(Instant::now());
                    self.pump(core);
                }
            }
        }
    }
}

/// Tells every caller, and ends the process, if the runtime ends before the agent does. The task is given it from
/// outside: a runtime may end before it has run the task at all.
pub(super) struct Supervised(pub(super) Arc<Shared>);

impl Drop for Supervised {
    fn drop(&mut self) {
        self.0.input.end();
        let is_open = lock(&self.0.core).connection.is_open();
        if is_open {
            self.0.process.kill();
            self.0.end_calls();
        }
    }
}
