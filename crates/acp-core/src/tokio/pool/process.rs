//! One process of a pool, from its start to its end.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::{Inner, trace};
use crate::driver::Driven;
use crate::pool::ProcessNumber;
use crate::sync::lock;
use crate::tokio::shared::Shared;

/// What the pool knows of a process.
#[derive(Default)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    ending: Notify,
}

#[derive(Default)]
struct SlotState {
    shared: Option<Arc<Shared>>,
    ending: bool,
}

impl Slot {
    pub(super) fn shared(&self) -> Option<Arc<Shared>> {
        lock(&self.state).shared.clone()
    }

    /// Has the process ended by the task that runs it.
    pub(super) fn end(&self) {
        lock(&self.state).ending = true;
        self.ending.notify_waiters();
    }

    /// Ends the process without waiting for anything, even if no task runs any more.
    pub(super) fn close_behind(&self) {
        self.end();
        if let Some(shared) = self.shared() {
            shared.replace();
        }
    }

    fn is_ending(&self) -> bool {
        lock(&self.state).ending
    }

    async fn wait_ending(&self) {
        loop {
            let ending = self.ending.notified();
            if self.is_ending() {
                return;
            }
            ending.await;
        }
    }

    /// Takes the process; whether it is wanted still.
    fn put(&self, shared: &Arc<Shared>) -> bool {
        let mut state = lock(&self.state);
        state.shared = Some(Arc::clone(shared));
        !state.ending
    }
}

/// Starts a process, has the router know what becomes of it, and ends it.
pub(super) async fn run(inner: Arc<Inner>, number: ProcessNumber, slot: Arc<Slot>) {
    if !slot.is_ending() {
        match Shared::start(&inner.load) {
            Ok(shared) => {
                trace(|| {
                    let id = shared.process.id();
                    tracing::info!(target: "acp_core::pool", process = id, "started");
                });
                if slot.put(&shared) {
                    serve(&inner, number, &slot, &shared).await;
                }
                shared.close().await;
            }
            Err(error) => {
                trace(|| {
                    tracing::warn!(target: "acp_core::pool", kind = error.kind(), "not started: {error}");
                });
                inner.update(|router, now| router.process_failed(number, &error, now));
            }
        }
    }
    lock(&inner.state).processes.remove(&number);
    inner.update(|router, now| router.process_gone(number, now));
}

async fn serve(inner: &Arc<Inner>, number: ProcessNumber, slot: &Slot, shared: &Arc<Shared>) {
    let ready = tokio::select! {
        () = slot.wait_ending() => return,
        ready = shared.wait_ready() => ready,
    };
    let error = match ready {
        Ok(()) => {
            inner.update(|router, now| router.process_ready(number, now));
            tokio::select! {
                () = slot.wait_ending() => return,
                error = shared.wait_ended() => error,
            }
        }
        Err(error) => error,
    };
    trace(|| {
        let id = shared.process.id();
        tracing::warn!(target: "acp_core::pool", process = id, kind = error.kind(), "ended: {error}");
    });
    inner.update(|router, now| router.process_failed(number, &error, now));
}
