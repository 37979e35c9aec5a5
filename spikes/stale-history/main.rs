//! Does an agent that remembers answer an old question? See `SPIKE.md`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use acp_core::{AcpAgent, GenerateRequest, Message, StatePolicy, render_text};
use acp_fake_server::agents::Builtin;
use clap::Parser;
use spikes::builtin;
use spikes::claims::{self, Claims};
use spikes::program::Program;
use spikes::raw::Raw;

/// What the host asks, one after the other.
const QUESTIONS: [&str; 4] = ["Is it red?", "Is it blue?", "Is it green?", "Is it grey?"];

/// Asks the fake server's `stale` agent, which answers the first question that it remembers of those in the
/// prompt, unless the prompt names another.
#[derive(Parser)]
struct Arguments {}

fn main() -> ExitCode {
    builtin::serve_if_asked().unwrap_or_else(|| {
        let Arguments {} = Arguments::parse();
        claims::conclude(measure())
    })
}

fn measure() -> io::Result<Claims> {
    let program = builtin::program(Builtin::Stale, "strict", Duration::ZERO)?;
    let asked = QUESTIONS.len();
    println!("| what goes out | right answers of {asked} |\n| --- | --- |");
    let naive = row("all of it, into one session", naive(&program)?);
    let of = |name, state| io::Result::Ok(row(name, with_policy(&program, state)?));
    let full = of("the same with the marker", StatePolicy::FullRequest)?;
    let fresh = of("all of it, into a fresh session", StatePolicy::FreshSession)?;
    let delta = of("what is new", StatePolicy::VerifiedDelta)?;

    let mut claims = Claims::default();
    claims.claim(
        "without a marker only the first answer is right",
        naive == 1,
    );
    claims.claim("the marker makes every answer right", full == asked);
    claims.claim("a fresh session without it does not", fresh == 1);
    claims.claim(
        "sending what is new makes every answer right",
        delta == asked,
    );
    Ok(claims)
}

fn row(name: &str, right: usize) -> usize {
    println!("| {name} | {right} |");
    right
}

/// What a client does that knows nothing of sessions: everything, each turn.
fn naive(program: &Program) -> io::Result<usize> {
    let mut agent = Raw::start(program)?;
    agent.initialize()?;
    let session = agent.session(program)?;
    let mut messages = Vec::new();
    let mut right = 0;
    for question in QUESTIONS {
        messages.push(Message::user(question));
        let text = render_text(&GenerateRequest::new(messages.clone()));
        // Without its last line, which is the marker.
        let text = text.rsplit_once('\n').map_or("", |(text, _)| text);
        agent.seen.clear();
        let id = agent.prompt(&session, text)?;
        let end = agent.answer(id, Duration::from_secs(10));
        end.ok_or_else(|| io::Error::other("the agent does not answer"))?;
        let answer: String = agent
            .seen
            .iter()
            .map(|message| &message["params"]["update"])
            .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
            .filter_map(|update| update["content"]["text"].as_str())
            .collect();
        right += usize::from(answer.contains(question));
        messages.push(Message::assistant(answer));
    }
    Ok(right)
}

fn with_policy(program: &Program, state: StatePolicy) -> io::Result<usize> {
    let agent = AcpAgent::start(program.options().state(state)).map_err(io::Error::other)?;
    let lane = agent.lane().map_err(io::Error::other)?;
    let mut messages = Vec::new();
    let mut right = 0;
    for question in QUESTIONS {
        messages.push(Message::user(question));
        let request = GenerateRequest::new(messages.clone());
        let answer = lane.generate(&request).map_err(io::Error::other)?;
        right += usize::from(answer.content.contains(question));
        messages.push(Message::assistant(answer.content));
    }
    Ok(right)
}
