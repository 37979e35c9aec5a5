//! Ctrl-C: the first one ends what runs in good order, the second at once, and so does the first where
//! good order takes too long.
//!
//! The agent runs in a process group of its own, so the terminal's SIGINT reaches only this process,
//! and it is for us to pass the wish on. SIGTERM and SIGHUP are taken in the same way, so that no agent
//! is left behind.

use std::io;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use acp_core::{AcpAgent, Canceller};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, signal_code};
use crate::terminal;

/// How long the command may take to end in good order. The main thread may never come back: it may be
/// writing to a pipe that nobody reads.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the main thread then has to tell of the end of the agent, if it can.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What has been asked for by signal, and what is to be done about it.
#[derive(Clone)]
pub(crate) struct Interrupts(Arc<Mutex<State>>);

struct State {
    /// The first signal, until it is taken.
    signal: Option<i32>,
    /// Those that run: one, unless several are compared.
    agents: Vec<Arc<AcpAgent>>,
    activity: Activity,
    /// Whether Ctrl-C in a turn ends only the turn.
    outlives_ctrl_c: bool,
}

/// What the main thread does.
#[derive(Clone)]
enum Activity {
    /// It waits for the agent, and comes back when the agent is closed.
    Agent,
    /// It waits for a turn, and comes back when the turn is cancelled.
    Turn(Canceller),
    /// It waits for a person, and comes back when they type something.
    Person,
}

impl Interrupts {
    /// Takes signals from now on, on a thread of its own.
    pub(crate) fn watch() -> io::Result<Self> {
        let interrupts = Self(Arc::new(Mutex::new(State {
            signal: None,
            agents: Vec::new(),
            activity: Activity::Person,
            outlives_ctrl_c: false,
        })));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let watcher = interrupts.clone();
        thread::Builder::new()
            .name("acp-signals".to_owned())
            .spawn(move || signals.forever().for_each(|signal| watcher.handle(signal)))?;
        Ok(interrupts)
    }

    /// From now on a Ctrl-C in a turn ends the turn and not the command, however long that takes.
    pub(crate) fn outlive_ctrl_c(&self) {
        self.state().outlives_ctrl_c = true;
    }

    /// Starts the agent that the main thread then waits for, unless a signal has come. None is handled in
    /// between, so that none can miss it.
    pub(crate) fn start_agent(
        &self,
        start: impl FnOnce() -> Result<AcpAgent, Failure>,
    ) -> Result<Arc<AcpAgent>, Failure> {
        let mut state = self.state();
        if let Some(signal) = state.signal {
            return Err(Failure::Interrupted {
                signal,
                partial: String::new(),
            });
        }
        let agent = Arc::new(start()?);
        state.agents.push(Arc::clone(&agent));
        state.activity = Activity::Agent;
        Ok(agent)
    }

    /// This agent is closed.
    pub(crate) fn agent_ended(&self, agent: &Arc<AcpAgent>) {
        let mut state = self.state();
        state.agents.retain(|it| !Arc::ptr_eq(it, agent));
    }

    /// The main thread waits for this turn.
    pub(crate) fn turn_starts(&self, canceller: Canceller) {
        let mut state = self.state();
        if state.signal.is_some() {
            // It came when there was no turn yet.
            canceller.cancel();
        }
        state.activity = Activity::Turn(canceller);
    }

    /// The turn is over. Returns the signal that cancelled it, if it came in time.
    pub(crate) fn turn_ended(&self) -> Option<i32> {
        let mut state = self.state();
        state.activity = Activity::Agent;
        state.signal
    }

    /// The main thread waits for a person, unless this returns the signal that has come before.
    pub(crate) fn person_is_asked(&self) -> Option<i32> {
        let mut state = self.state();
        state.activity = Activity::Person;
        state.signal
    }

    /// The main thread goes on with the agent.
    pub(crate) fn person_has_answered(&self) {
        self.state().activity = Activity::Agent;
    }

    /// The signal that came first.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.state().signal
    }

    /// Forgets a Ctrl-C that has done its work.
    pub(crate) fn take_ctrl_c(&self) -> bool {
        let mut state = self.state();
        let was_ctrl_c = state.signal == Some(SIGINT);
        if was_ctrl_c {
            state.signal = None;
        }
        was_ctrl_c
    }

    fn handle(&self, signal: i32) {
        let mut state = self.state();
        let is_first = state.signal.is_none();
        state.signal.get_or_insert(signal);
        let agents = state.agents.clone();
        if agents.is_empty() {
            exit(signal);
        }
        if !is_first {
            kill(&agents);
            exit(signal);
        }
        let activity = state.activity.clone();
        let outlived =
            state.outlives_ctrl_c && signal == SIGINT && matches!(activity, Activity::Turn(_));
        drop(state);
        if !outlived {
            // First, because nothing below is sure to return: standard error may be unread as well.
            end_at_last(agents.clone(), signal);
        }
        // The note comes first, so that it stands before whatever the main thread says next. What the
        // main thread does in the meantime does no harm: a turn that has ended is not cancelled.
        match activity {
            Activity::Turn(turn) => {
                terminal::note("Cancelling the turn; Ctrl-C ends the agent at once.");
                turn.cancel();
            }
            Activity::Agent => {
                terminal::note("Ending the agent; Ctrl-C ends it at once.");
                close(agents, None);
            }
            Activity::Person => close(agents, Some(signal)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; if it did, the state would still be whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills the agents and exits, unless the command has ended in good order by then.
fn end_at_last(agents: Vec<Arc<AcpAgent>>, signal: i32) {
    let killed = agents.clone();
    let started = thread::Builder::new()
        .name("acp-at-last".to_owned())
        .spawn(move || {
            thread::sleep(PATIENCE);
            kill(&killed);
            thread::sleep(LAST_WORDS);
            exit(signal);
        });
    if started.is_err() {
        // Without a thread to wait on there is no good order.
        kill(&agents);
        exit(signal);
    }
}

/// Closes the agents, which takes a while, and then exits if the main thread cannot.
fn close(agents: Vec<Arc<AcpAgent>>, exit_for: Option<i32>) {
    let closed = agents.clone();
    let started = thread::Builder::new()
        .name("acp-close".to_owned())
        .spawn(move || {
            closed.iter().for_each(|agent| agent.close());
            if let Some(signal) = exit_for {
                exit(signal);
            }
        });
    if started.is_err() {
        // Without a thread to wait on there is no good order.
        kill(&agents);
        if let Some(signal) = exit_for {
            exit(signal);
        }
    }
}

fn kill(agents: &[Arc<AcpAgent>]) {
    agents.iter().for_each(|agent| agent.kill());
}

fn exit(signal: i32) -> ! {
    process::exit(signal_code(signal).into())
}
