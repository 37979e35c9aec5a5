//! What it costs to find the new message in a request that holds the whole conversation.

use std::time::{Duration, Instant};

use acp_bench::{order::Outcome, usage};
use acp_core::{AcpModel, GenerateRequest, LoadOptions, Message, StatePolicy, load_acp};

use crate::{Result, nanos};

/// More than the line of a prompt with one short message, and less than that of any conversation.
const SHORT: usize = 512;

/// Runs turns of a long conversation and of one that has only begun, one of each in turn, so that both have the same
/// noise. See `Work::History`.
pub fn run(agent: &[String], bytes: usize, turns: usize, count: usize) -> Result<Outcome> {
    let mut long = Conversation::open(agent, past(bytes, turns))?;
    let mut short = Conversation::open(agent, Vec::new())?;
    for _ in 0..2 {
        long.turn()?;
        short.turn()?;
    }
    let mut outcome = Outcome::default();
    let cpu = usage::cpu_ns();
    for _ in 0..count {
        outcome.samples_ns.push(nanos(long.turn()?));
        outcome.baseline_ns.push(nanos(short.turn()?));
    }
    outcome.cpu_ns = usage::cpu_ns() - cpu;
    outcome.peak_rss = usage::peak_rss();
    Ok(outcome)
}

/// Messages in turns, as long as each other.
fn past(bytes: usize, turns: usize) -> Vec<Message> {
    let text = "x".repeat(bytes / (2 * turns));
    let pair = || [Message::user(&*text), Message::assistant(&*text)];
    (0..turns).flat_map(|_| pair()).collect()
}

/// A host's store of messages, and the model that it asks.
struct Conversation {
    model: AcpModel,
    request: GenerateRequest,
}

impl Conversation {
    /// The first turn brings the past into the session.
    fn open(agent: &[String], past: Vec<Message>) -> Result<Self> {
        let options = LoadOptions::new(agent).state(StatePolicy::VerifiedDelta);
        let mut conversation = Self {
            model: load_acp(options)?,
            request: GenerateRequest::new(past),
        };
        conversation.ask()?;
        Ok(conversation)
    }

    fn turn(&mut self) -> Result<Duration> {
        let (duration, sent) = self.ask()?;
        if sent > SHORT {
            return Err(format!("{sent} bytes were sent where one message was new").into());
        }
        Ok(duration)
    }

    /// Asks how many bytes were sent, and adds question and answer to the store. How long the question takes is
    /// what is measured.
    fn ask(&mut self) -> Result<(Duration, usize)> {
        self.request.messages.push(Message::user("bench size"));
        let start = Instant::now();
        let answer = self.model.generate(&self.request)?;
        let duration = start.elapsed();
        self.request.messages.push(answer.to_message());
        Ok((duration, answer.content.parse()?))
    }
}
