//! Many callers on a few processes.

mod held;
mod process;
mod turn;

use std::collections::HashMap;
use std::fmt;
use std::hash::RandomState;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::shared::Shared;
use crate::connection::LaneId;
use crate::driver::{Driven, TurnSlot};
use crate::error::{GenerateError, LoadError};
use crate::options::LoadOptions;
use crate::pool::{
    Action, Digests, Grant, Key, LaneNumber, PoolMetrics, PoolOptions, ProcessNumber, Router,
    Ticket, Used,
};
use crate::request::{GenerateRequest, GenerateResponse};
use crate::sync::lock;
use crate::turn::TurnOptions;
use held::{Held, Waits};
use process::Slot;
pub use turn::PoolTurn;

/// Many callers on a few processes of one agent.
///
/// Each request is the whole conversation, so callers need to know nothing of lanes: a request goes to the lane whose
/// session holds the rest of its conversation, or else to a session that was never used. No text of one caller
/// reaches another. `docs/pool.md` of the repository tells more.
///
/// ```no_run
/// use acp_core::tokio::{Pool, PoolOptions};
/// use acp_core::{GenerateRequest, LoadOptions};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let options = PoolOptions::new(LoadOptions::new(["gemini", "--acp"])).processes(1..=4);
/// let pool = Pool::load(options).await?;
/// let answer = pool.generate(&GenerateRequest::user("What is ACP?")).await?;
/// println!("{}", answer.content);
/// // Lanes that have served one tenant never serve another.
/// let answer = pool.generate_for("tenant-7", &GenerateRequest::user("And MCP?")).await?;
/// println!("{}\n{:?}", answer.content, pool.metrics());
/// pool.shutdown(std::time::Duration::from_secs(30)).await;
/// # Ok(())
/// # }
/// ```
///
/// Dropping the pool ends its processes, and turns that run or wait as `closed`, but does not wait for that: to let
/// them end in order, [shut it down](Pool::shutdown).
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Something has changed that somebody outside of the queue may wait for.
    news: Notify,
    /// There is something to be done earlier than the timer knows.
    alarm_set: Notify,
    load: LoadOptions,
    hasher: RandomState,
    runtime: Handle,
}

struct State {
    router: Router,
    waiters: HashMap<Ticket, Waiter>,
    processes: HashMap<ProcessNumber, Arc<Slot>>,
    /// The lanes that are open, in the process and under the name that its engine has for them.
    lanes: HashMap<LaneNumber, (Arc<Shared>, LaneId)>,
    /// When the timer looks again.
    alarm: Option<Instant>,
}

#[derive(Default)]
struct Waiter {
    waker: Option<Waker>,
    outcome: Option<Result<Grant, LoadError>>,
}

impl Pool {
    /// Starts the agent and waits until the first session is open. The other processes and sessions follow in the
    /// background. All tasks run in the runtime of the caller, and the pool ends with it.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; `invalid_options` also for options of the pool that cannot work. Nothing of the agent is
    /// left running then.
    pub async fn load(options: PoolOptions) -> Result<Self, LoadError> {
        let bounds = options.bounds()?;
        let load = options.into_load();
        let runtime = Handle::try_current().map_err(|error| LoadError::SpawnFailed {
            program: load.command.first().map_or_else(String::new, |program| {
                program.to_string_lossy().into_owned()
            }),
            reason: format!("this process cannot serve it: {error}"),
            source: Arc::new(std::io::Error::other(error)),
        })?;
        let now = Instant::now();
        let state = State {
            router: Router::new(bounds, now),
            waiters: HashMap::new(),
            processes: HashMap::new(),
            lanes: HashMap::new(),
            alarm: None,
        };
        let inner = Arc::new(Inner {
            state: Mutex::new(state),
            news: Notify::new(),
            alarm_set: Notify::new(),
            load,
            hasher: RandomState::new(),
            runtime,
        });
        let attended = Attended(Arc::clone(&inner));
        inner.runtime.spawn(Arc::clone(&inner).timer_loop(attended));
        let pool = Self { inner };
        let probe = Digests::of(&GenerateRequest::default(), &pool.inner.hasher);
        let first = pool
            .inner
            .enqueue(None, probe)
            .map_err(|_| LoadError::Closed)?;
        match first.granted().await {
            Ok(held) => {
                held.release(Used::Not);
                Ok(pool)
            }
            Err(error) => {
                pool.shutdown(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    /// Runs a turn with the limits of the options and waits for its answer. Dropping the future cancels the turn, or
    /// leaves the queue.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`]: `busy` if the queue is full, `closed` after [`Pool::shutdown`].
    pub async fn generate(
        &self,
        request: &GenerateRequest,
    ) -> Result<GenerateResponse, GenerateError> {
        self.start(request, self.turn_options()).await?.await
    }

    /// Runs a turn for callers of this key: on no lane that has ever served another, nor a caller without one.
    ///
    /// # Errors
    ///
    /// See [`Pool::generate`].
    pub async fn generate_for(
        &self,
        key: &str,
        request: &GenerateRequest,
    ) -> Result<GenerateResponse, GenerateError> {
        self.start_for(key, request, self.turn_options())
            .await?
            .await
    }

    /// Waits for a lane and begins a turn with limits of its own. Their time begins with the turn.
    ///
    /// # Errors
    ///
    /// Those that are known before anything is sent: `busy`, `invalid_request`, `closed`, and why no lane could be
    /// opened.
    pub async fn start(
        &self,
        request: &GenerateRequest,
        options: TurnOptions,
    ) -> Result<PoolTurn, GenerateError> {
        self.inner.start(None, request, options).await
    }

    /// As [`Pool::start`], for callers of this key.
    ///
    /// # Errors
    ///
    /// See [`Pool::start`].
    pub async fn start_for(
        &self,
        key: &str,
        request: &GenerateRequest,
        options: TurnOptions,
    ) -> Result<PoolTurn, GenerateError> {
        self.inner.start(Some(key.into()), request, options).await
    }

    /// The limits of turns that do not bring their own.
    pub fn turn_options(&self) -> TurnOptions {
        self.inner.load.turn
    }

    /// What the pool has done and what it holds now.
    pub fn metrics(&self) -> PoolMetrics {
        lock(&self.inner.state).router.metrics()
    }

    /// Takes nobody new, lets those who are here be served for at most this long, then ends all turns that are
    /// left with `closed`, and the processes with all that they started. They are gone when this returns. Says
    /// whether all turns had ended by themselves.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.inner.update(|router, _| router.close());
        let drained = self.inner.wait_until(Router::is_drained);
        // A wait of ages is more than some clocks can say.
        let limit = limit.min(Duration::from_secs(86_400 * 365));
        let drained = timeout(limit, drained).await.is_ok();
        self.inner.update(|router, _| router.end());
        self.inner.wait_until(Router::is_gone).await;
        drained
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.inner.end_behind();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("metrics", &self.metrics())
            .finish_non_exhaustive()
    }
}

impl Inner {
    async fn start(
        self: &Arc<Self>,
        key: Key,
        request: &GenerateRequest,
        options: TurnOptions,
    ) -> Result<PoolTurn, GenerateError> {
        let digests = Digests::of(request, &self.hasher);
        loop {
            let waiting = self.enqueue(key.clone(), digests.clone());
            let waiting = waiting.inspect_err(|error| {
                trace(|| {
                    tracing::debug!(target: "acp_core::pool", kind = error.kind(), "turned away");
                })
            })?;
            let granted = waiting.granted().await;
            let held = granted.map_err(|error| error.into_turn(String::new()))?;
            let Some((shared, lane)) = held.lane() else {
                // Its process has ended since.
                held.release(Used::Unusable);
                continue;
            };
            shared.catch_up();
            let mut core = lock(&shared.core);
            let begun = core
                .connection
                .prompt(lane, request, options, Instant::now());
            let id = match begun {
                Ok(id) => id,
                // Nothing was sent, so another lane may do it.
                Err(_) if !core.connection.is_open() => {
                    drop(core);
                    held.release(Used::Unusable);
                    continue;
                }
                Err(error) => {
                    drop(core);
                    let used = match error {
                        GenerateError::InvalidRequest(_) => Used::Not,
                        _ => Used::Unusable,
                    };
                    held.release(used);
                    return Err(error);
                }
            };
            core.turns.insert(id, TurnSlot::new(None));
            shared.pump(core);
            let grant = held.grant;
            lock(&self.state).router.begun(&grant);
            trace(|| {
                tracing::debug!(
                    target: "acp_core::pool",
                    hit = grant.continues,
                    queue_time = ?grant.waited,
                    "turn"
                );
            });
            let turn = super::Turn::new(shared, id);
            return Ok(PoolTurn::new(turn, held, digests));
        }
    }

    /// Ends everything without waiting for it.
    fn end_behind(self: &Arc<Self>) {
        self.update(|router, _| router.end());
        // No process is started from here on.
        let slots: Vec<Arc<Slot>> = {
            let state = lock(&self.state);
            state.processes.values().map(Arc::clone).collect()
        };
        for slot in slots {
            slot.close_behind();
        }
    }

    fn enqueue(self: &Arc<Self>, key: Key, request: Digests) -> Result<Waits, GenerateError> {
        self.update(|router, now| router.acquire(key, request, now))
            .map(|ticket| Waits::new(self, ticket))
    }

    /// Tells the router something, and does what it says.
    fn update<T>(self: &Arc<Self>, tell: impl FnOnce(&mut Router, Instant) -> T) -> T {
        self.update_state(|state, now| tell(&mut state.router, now))
    }

    fn update_state<T>(self: &Arc<Self>, tell: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = lock(&self.state);
        let now = Instant::now();
        let told = tell(&mut state, now);
        while let Some(action) = state.router.poll_action() {
            self.act(&mut state, action, now);
        }
        let at = state.router.next_timeout();
        if let Some(at) = at
            && state.alarm.is_none_or(|set| at < set)
        {
            state.alarm = Some(at);
            self.alarm_set.notify_one();
        }
        drop(state);
        self.news.notify_waiters();
        told
    }

    fn act(self: &Arc<Self>, state: &mut State, action: Action, now: Instant) {
        match action {
            Action::Grant(ticket, grant) => state.tell(ticket, Ok(grant)),
            Action::Fail(ticket, error) => state.tell(ticket, Err(error)),
            Action::StartProcess(number) => {
                let slot = Arc::new(Slot::default());
                state.processes.insert(number, Arc::clone(&slot));
                let inner = Arc::clone(self);
                self.runtime.spawn(process::run(inner, number, slot));
            }
            Action::EndProcess(number) => {
                if let Some(slot) = state.processes.get(&number) {
                    slot.end();
                    if let Some(ends) = slot.shared() {
                        state
                            .lanes
                            .retain(|_, (shared, _)| !Arc::ptr_eq(shared, &ends));
                    }
                }
            }
            Action::OpenLane(process, lane) => {
                let slot = state.processes.get(&process);
                if let Some(shared) = slot.and_then(|slot| slot.shared()) {
                    self.open_lane(&shared, lane);
                }
            }
            Action::CloseLane(number) => {
                if let Some((shared, lane)) = state.lanes.remove(&number) {
                    shared.close_lane(lane, Instant::now());
                    if lock(&shared.core).connection.has_piled_up() {
                        state.retire(&shared, now);
                    }
                }
            }
        }
    }

    fn open_lane(self: &Arc<Self>, shared: &Arc<Shared>, number: LaneNumber) {
        let opening = super::lane::Opening::begin(shared, lock(&shared.core));
        let (inner, shared) = (Arc::clone(self), Arc::clone(shared));
        self.runtime.spawn(async move {
            match opening.opened().await {
                Ok(lane) => {
                    lock(&inner.state)
                        .lanes
                        .insert(number, (Arc::clone(&shared), lane));
                    if !inner.update(|router, now| router.lane_opened(number, now)) {
                        lock(&inner.state).lanes.remove(&number);
                        shared.close_lane(lane, Instant::now());
                    }
                }
                Err(error) => {
                    trace(|| {
                        tracing::warn!(target: "acp_core::pool", kind = error.kind(), "no session: {error}");
                    });
                    inner.update(|router, now| router.lane_failed(number, &error, now));
                }
            }
        });
    }

    async fn wait_until(&self, is_so: impl Fn(&Router) -> bool) {
        loop {
            let news = self.news.notified();
            if is_so(&lock(&self.state).router) {
                return;
            }
            news.await;
        }
    }

    /// Runs as long as there is anything to attend to.
    async fn timer_loop(self: Arc<Self>, _attended: Attended) {
        let is_gone = self.wait_until(|router| router.is_ended() && router.is_gone());
        let mut is_gone = std::pin::pin!(is_gone);
        loop {
            let alarm = lock(&self.state).alarm;
            let due = async {
                match alarm {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {
                    lock(&self.state).alarm = None;
                    self.update(Router::handle_timeout);
                }
                () = self.alarm_set.notified() => {}
                () = &mut is_gone => return,
            }
        }
    }
}

/// Ends the pool, and tells whoever waits, if the runtime ends before the pool does: no task of its own would.
struct Attended(Arc<Inner>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.end_behind();
        self.0.update_state(|state, now| {
            for (number, _) in state.processes.drain() {
                state.router.process_gone(number, now);
            }
        });
    }
}

impl State {
    fn tell(&mut self, ticket: Ticket, outcome: Result<Grant, LoadError>) {
        let waiter = self.waiters.entry(ticket).or_default();
        waiter.outcome = Some(outcome);
        if let Some(waker) = waiter.waker.take() {
            waker.wake();
        }
    }

    fn retire(&mut self, shared: &Arc<Shared>, now: Instant) {
        let is_this = |slot: &Slot| slot.shared().is_some_and(|own| Arc::ptr_eq(&own, shared));
        let number = self.processes.iter().find(|(_, slot)| is_this(slot));
        if let Some((&number, _)) = number {
            self.router.retire(number, now);
        }
    }
}

/// Shows something to whoever listens. A subscriber that panics has had its say; no turn is to end of it.
fn trace(show: impl FnOnce()) {
    let _shown = catch_unwind(AssertUnwindSafe(show));
}
