//! One policy, and the conversation that it is measured with.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use acp_core::{AcpAgent, GenerateError, GenerateRequest, Lane, LoadError, Message, StatePolicy};
use acp_mock_model::{Request, Script};
use clap::ValueEnum;
use spikes::memory::{self, Memory};
use spikes::real::{Home, Recipe};

use crate::context;

/// How the conversation of a host meets an agent's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// All of it each turn, into one session, with the marker.
    FullRequest,
    /// All of it each turn, into a session opened for it.
    Fresh,
    /// The same, with the session opened after the turn before.
    FreshSpare,
    /// As `fresh`, and no session is ever closed.
    FreshUnclosed,
    /// What is new where the session holds the rest, and else as `fresh-spare`.
    Delta,
    /// All of it each turn, into a process started for it.
    Cold,
}

impl Policy {
    pub fn name(self) -> &'static str {
        match self {
            Self::FullRequest => "full request",
            Self::Fresh => "fresh session",
            Self::FreshSpare => "fresh session, spare",
            Self::FreshUnclosed => "fresh session, not closed",
            Self::Delta => "verified delta, spare",
            Self::Cold => "cold process",
        }
    }

    fn state(self) -> StatePolicy {
        match self {
            // A lane for each turn makes a fresh session of it that is closed with the lane.
            Self::FullRequest | Self::FreshUnclosed => StatePolicy::FullRequest,
            Self::Fresh | Self::FreshSpare | Self::Cold => StatePolicy::FreshSession,
            Self::Delta => StatePolicy::VerifiedDelta,
        }
    }
}

/// What one turn came to.
pub struct Turn {
    /// From the request to the end of the turn, and under [`Policy::Cold`] from the start of the process.
    pub wall: Duration,
    /// What the model got of it.
    pub requests: Vec<Request>,
    /// What the model got on the side, until the next turn.
    pub side: Vec<Request>,
    /// Once the agent had its pause.
    pub memory: Memory,
}

impl Turn {
    /// The context of the turn's request.
    pub fn context(&self) -> String {
        self.requests
            .last()
            .map(|request| context::context(&request.body))
            .unwrap_or_default()
    }

    /// Bytes of the turn's requests, and of those on the side.
    pub fn bytes(&self) -> (usize, usize) {
        let bytes = |requests: &[Request]| requests.iter().map(|request| request.bytes).sum();
        (bytes(&self.requests), bytes(&self.side))
    }
}

/// A policy while it is measured.
pub struct Subject {
    pub policy: Policy,
    home: Home,
    pause: Duration,
    messages: Vec<Message>,
    warm: Option<Warm>,
    /// Lanes that are never dropped, and so their sessions never closed.
    kept: Vec<Lane>,
    pub turns: Vec<Turn>,
    /// `session/new`, where it is part of a turn.
    pub opened: Vec<Duration>,
    /// Why the policy is given up.
    pub failed: Option<String>,
}

// Dropped in this order, so that the session is closed while the agent is there.
struct Warm {
    lane: Lane,
    agent: AcpAgent,
}

impl Subject {
    /// Starts the agent, unless the policy does so for each turn.
    pub fn start(policy: Policy, recipe: &Recipe, pause: Duration) -> io::Result<Self> {
        let mut subject = Self {
            policy,
            home: Home::new(recipe, Script::Echo)?,
            pause,
            messages: Vec::new(),
            warm: None,
            kept: Vec::new(),
            turns: Vec::new(),
            opened: Vec::new(),
            failed: None,
        };
        if policy != Policy::Cold {
            subject.warm = Some(subject.spawn().map_err(io::Error::other)?);
        }
        Ok(subject)
    }

    fn spawn(&self) -> Result<Warm, LoadError> {
        let spare = matches!(self.policy, Policy::FreshSpare | Policy::Delta);
        let options = self
            .home
            .program()
            .options()
            .state(self.policy.state())
            .spare_session(spare)
            .deadline(Duration::from_secs(120));
        let agent = AcpAgent::start(options)?;
        let lane = agent.lane()?;
        Ok(Warm { lane, agent })
    }

    /// Begins a conversation, with what the host's system says.
    pub fn begin(&mut self, system: &str) {
        self.messages = vec![Message::system(system)];
    }

    /// Replaces the first thing that the user said.
    pub fn edit_first(&mut self, text: &str) {
        if let Some(first) = self
            .messages
            .iter_mut()
            .find(|message| message.role == "user")
        {
            *first = Message::user(text);
        }
    }

    /// Asks, and gives the agent its pause. `question` tells the turn's request from those on the side.
    pub fn turn(&mut self, text: &str, question: &str) {
        if self.failed.is_some() {
            return;
        }
        self.messages.push(Message::user(text));
        let begun = Instant::now();
        let answer = self.ask();
        let wall = begun.elapsed();
        match answer {
            Ok(answer) => self.messages.push(Message::assistant(answer)),
            Err(error) => {
                let turn = self.turns.len() + 1;
                self.failed = Some(format!("turn {turn}: {error}"));
                return;
            }
        }
        thread::sleep(self.pause);
        let memory = match &self.warm {
            Some(warm) => memory::of_group(warm.agent.process_id()),
            None => Memory::default(),
        };
        let (requests, side) = self
            .home
            .model
            .take_requests()
            .into_iter()
            .partition(|request| context::is_turn(&request.body, question));
        self.turns.push(Turn {
            wall,
            requests,
            side,
            memory,
        });
    }

    fn ask(&mut self) -> Result<String, GenerateError> {
        let request = GenerateRequest::new(self.messages.clone());
        let closed = |error: LoadError| GenerateError::Model(Arc::new(error));
        let answer = match &self.warm {
            None => {
                let warm = self.spawn().map_err(closed)?;
                return Ok(warm.lane.generate(&request)?.content);
            }
            Some(warm) if self.policy == Policy::FreshUnclosed => {
                let lane = warm.agent.lane().map_err(closed)?;
                self.opened.push(lane.open_time());
                let answer = lane.generate(&request);
                self.kept.push(lane);
                answer
            }
            Some(warm) => warm.lane.generate(&request),
        };
        Ok(answer?.content)
    }

    /// Asks these one after the other, in a conversation of their own with a model that has this script, and
    /// counts the answers that have the question in them.
    pub fn right_answers(&mut self, script: Script, questions: &[String]) -> Result<usize, String> {
        self.home.model.set_script(script);
        if let Some(warm) = &mut self.warm {
            warm.lane = warm.agent.lane().map_err(|error| error.to_string())?;
        }
        self.begin("Answer in one line.");
        let mut right = 0;
        for question in questions {
            self.messages.push(Message::user(question.as_str()));
            let answer = self.ask().map_err(|error| error.to_string())?;
            right += usize::from(answer.contains(question.as_str()));
            self.messages.push(Message::assistant(answer));
            thread::sleep(self.pause);
        }
        let _side = self.home.model.take_requests();
        Ok(right)
    }
}
