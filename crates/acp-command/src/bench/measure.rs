//! Cold starts and warm turns, taken in turns so that noise meets both.

use std::time::{Duration, Instant};

use acp_core::{GenerateRequest, Implementation, Lane, LoadOptions, Message};

use super::samples::Samples;
use crate::agent::{AgentCommand, Running};
use crate::cli::{Bench, Size, State};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::terminal::{self, Spinner};
use crate::turn;

/// What every prompt begins with: 17 bytes, and little to do.
const QUESTION: &str = r#"Reply: only "ok"."#;

/// What longer ones go on with.
const FILLER: &str = "\nThe rest of this message is there for its length alone.";

/// Everything that was measured, as far as it came.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) agent: Subject,
    /// The demo agent, which does nothing: what it takes is the protocol's part, and this program's.
    pub(super) demo: Subject,
}

/// An agent, and what was measured of it.
#[derive(Debug, Default)]
pub(super) struct Subject {
    /// What it says of itself.
    pub(super) implementation: Option<Implementation>,
    pub(super) sizes: Vec<Sized>,
}

/// What was measured with prompts of one size.
#[derive(Debug)]
pub(super) struct Sized {
    pub(super) size: Size,
    pub(super) cold: Cold,
    pub(super) warm: Vec<Warm>,
}

/// One-shots: a process for each prompt.
#[derive(Debug, Default)]
pub(super) struct Cold {
    /// From the start of the process to the end of the turn.
    pub(super) answer: Samples,
    /// From the start of the process to the answer to `initialize`.
    pub(super) initialize: Samples,
    /// `session/new`, with `session/set_mode` where a mode is asked for.
    pub(super) session: Samples,
    /// The prompt, to the end of the turn.
    pub(super) turn: Samples,
    /// From the end of the turn until nothing of the process is left.
    pub(super) close: Samples,
}

/// A conversation that goes on in one process.
#[derive(Debug)]
pub(super) struct Warm {
    pub(super) state: State,
    /// The first prompt of the conversation.
    pub(super) first: Samples,
    /// Those after it.
    pub(super) turn: Samples,
}

/// Measures the agent and the demo agent side by side. What was measured when an error ends it stays.
pub(super) fn measure(
    measured: &mut Measured,
    args: &Bench,
    states: &[State],
    spinner: &Spinner,
) -> Result<(), Failure> {
    let interrupts = Interrupts::watch().map_err(Failure::signals)?;
    let command = AgentCommand::find(&args.start)?;
    spinner.message(format!("starting {}", command.name));
    measure_agent(measured, args, states, spinner, &command, &interrupts)
        .map_err(|failure| command.explain(failure))
}

fn measure_agent(
    measured: &mut Measured,
    args: &Bench,
    states: &[State],
    spinner: &Spinner,
    command: &AgentCommand,
    interrupts: &Interrupts,
) -> Result<(), Failure> {
    let options = command.options(&args.start, Some(&args.turn));
    let mut agent = Measurement::start(options, states, interrupts)?;
    measured.agent.implementation = agent.implementation();
    // What is asked of the agent's turns, such as a mode, the demo agent does not know.
    let options = AgentCommand::demo()?.options(&args.start, None);
    let mut demo = Measurement::start(options, states, interrupts)?;
    measured.demo.implementation = demo.implementation();

    for size in sizes(args) {
        terminal::log(format!("Measuring with prompts of {size}."));
        spinner.message(format!("{size}: opening conversations"));
        agent.open(&mut measured.agent, size)?;
        demo.open(&mut measured.demo, size)?;
        for i in 1..=args.turns {
            let progress = |what| format!("{size}, sample {i} of {}: {what}", args.turns);
            spinner.message(progress("a cold start"));
            agent.cold(&mut measured.agent)?;
            demo.cold(&mut measured.demo)?;
            spinner.message(progress("warm turns"));
            agent.warm(&mut measured.agent)?;
            demo.warm(&mut measured.demo)?;
        }
    }
    Ok(())
}

/// The sizes that are asked for, smallest first: what an agent fails at is rather the largest.
fn sizes(args: &Bench) -> Vec<Size> {
    let mut sizes = args.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// An agent that is measured.
struct Measurement {
    options: LoadOptions,
    states: Vec<State>,
    interrupts: Interrupts,
    question: String,
    // Before the processes, so that conversations are given back while somebody is there to take them.
    conversations: Vec<Conversation>,
    /// One for each state policy.
    warm: Vec<Running>,
}

struct Conversation {
    lane: Lane,
    messages: Vec<Message>,
}

impl Measurement {
    /// Starts the processes that stay warm.
    fn start(
        options: LoadOptions,
        states: &[State],
        interrupts: &Interrupts,
    ) -> Result<Self, Failure> {
        let mut warm = Vec::new();
        for &state in states {
            let running = Running::spawn(options.clone().state(state.into()), interrupts.clone())?;
            running.wait_ready()?;
            warm.push(running);
        }
        Ok(Self {
            options,
            states: states.to_vec(),
            interrupts: interrupts.clone(),
            question: String::new(),
            conversations: Vec::new(),
            warm,
        })
    }

    fn implementation(&self) -> Option<Implementation> {
        self.warm.first()?.agent().info().implementation
    }

    /// Begins conversations with questions of this size, and takes their first turns.
    fn open(&mut self, subject: &mut Subject, size: Size) -> Result<(), Failure> {
        self.question = question(size);
        self.conversations.clear();
        let of_state = |&state| Warm {
            state,
            first: Samples::default(),
            turn: Samples::default(),
        };
        subject.sizes.push(Sized {
            size,
            cold: Cold::default(),
            warm: self.states.iter().map(of_state).collect(),
        });
        for running in &self.warm {
            self.conversations.push(Conversation {
                lane: running.lane()?,
                messages: Vec::new(),
            });
        }
        self.take_turns(subject, |warm| &mut warm.first)
    }

    /// One more turn of each conversation.
    fn warm(&mut self, subject: &mut Subject) -> Result<(), Failure> {
        self.take_turns(subject, |warm| &mut warm.turn)
    }

    fn take_turns(
        &mut self,
        subject: &mut Subject,
        samples: impl Fn(&mut Warm) -> &mut Samples,
    ) -> Result<(), Failure> {
        let Some(sized) = subject.sizes.last_mut() else {
            return Ok(());
        };
        let conversations = self.warm.iter().zip(&mut self.conversations);
        for (warm, (running, conversation)) in sized.warm.iter_mut().zip(conversations) {
            samples(warm).add(conversation.ask(running, &self.question)?);
        }
        Ok(())
    }

    /// A process for one prompt.
    fn cold(&self, subject: &mut Subject) -> Result<(), Failure> {
        let Some(cold) = subject.sizes.last_mut().map(|sized| &mut sized.cold) else {
            return Ok(());
        };
        let started = Instant::now();
        // There is no next turn, so no session for it.
        let mut options = self.options.clone().spare_session(false);
        if let Some(&state) = self.states.first() {
            options = options.state(state.into());
        }
        let running = Running::spawn(options, self.interrupts.clone())?;
        let lane = running.open()?;
        let mut conversation = Conversation {
            lane,
            messages: Vec::new(),
        };
        let turn = conversation.ask(&running, &self.question)?;
        let answered = Instant::now();
        cold.answer.add(answered - started);
        if let Some(initialize) = running.agent().startup_time() {
            cold.initialize.add(initialize);
        }
        cold.session.add(conversation.lane.open_time());
        cold.turn.add(turn);
        drop(conversation);
        drop(running);
        cold.close.add(answered.elapsed());
        Ok(())
    }
}

impl Conversation {
    /// Asks the next question. A host holds the whole conversation, and so does this.
    fn ask(&mut self, running: &Running, question: &str) -> Result<Duration, Failure> {
        self.messages.push(Message::user(question));
        let request = GenerateRequest::new(self.messages.clone());
        let (response, times) = turn::run(running, &self.lane, &request, |_| Ok(()))
            .map_err(|failure| running.explain(failure))?;
        self.messages.push(Message::assistant(response.content));
        Ok(times.turn)
    }
}

/// A question of exactly this many bytes.
fn question(size: Size) -> String {
    let filler = FILLER.bytes().cycle();
    QUESTION
        .bytes()
        .chain(filler)
        .take(size.0)
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_the_size_that_is_asked_for() {
        assert_eq!(question(Size(17)), QUESTION);
        for size in [1, 16, 18, 12 << 10] {
            assert_eq!(question(Size(size)).len(), size);
        }
    }
}
