//! Is every text that an agent sends in a turn its answer? See `SPIKE.md`.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use acp_core::{AcpAgent, GenerateRequest};
use acp_fake_server::agents::Builtin;
use acp_mock_model::Script;
use clap::Parser;
use spikes::builtin;
use spikes::claims::{self, Claims};
use spikes::raw::Raw;
use spikes::which::Which;

/// What is asked; the fake agent says it back.
const QUESTION: &str = "Which text is the answer?";

/// Takes all text of a turn for the answer, and then what acp-core takes for it.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    which: Which,
}

fn main() -> ExitCode {
    builtin::serve_if_asked().unwrap_or_else(|| claims::conclude(measure(&Arguments::parse())))
}

fn measure(arguments: &Arguments) -> io::Result<Claims> {
    let agent = arguments.which.agent(Builtin::Echo, Script::Obey)?;
    let mut raw = Raw::start(&agent.program)?;
    raw.initialize()?;
    let session = raw.session(&agent.program)?;
    let id = raw.prompt(&session, QUESTION)?;
    let end = raw.answer(id, Duration::from_secs(30));
    end.ok_or_else(|| io::Error::other("the agent does not answer"))?;
    // What comes in the moment after the end is seen, too.
    let _none = raw.wait_for(Duration::from_millis(500), |_| false);
    let mut kinds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for message in &raw.seen {
        let update = &message["params"]["update"];
        if let Some(kind) = update["sessionUpdate"].as_str() {
            let (count, text) = kinds.entry(kind.to_owned()).or_default();
            *count += 1;
            text.push_str(update["content"]["text"].as_str().unwrap_or_default());
        }
    }
    println!("| update | how many | their text |\n| --- | --- | --- |");
    for (kind, (count, text)) in &kinds {
        println!("| `{kind}` | {count} | {} |", one_line(text));
    }
    let naive: String = kinds.values().map(|(_, text)| text.as_str()).collect();
    drop(raw);

    let model = AcpAgent::start(agent.program.options()).map_err(io::Error::other)?;
    let lane = model.lane().map_err(io::Error::other)?;
    let answer = lane
        .generate(&GenerateRequest::user(QUESTION))
        .map_err(io::Error::other)?;
    println!("\nacp-core's answer: {}", one_line(&answer.content));
    let dropped: Vec<String> = answer
        .dropped
        .nonzero()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    println!("and what is none of it: {}", dropped.join(", "));

    let mut claims = Claims::default();
    if arguments.which.is_builtin() {
        let right = format!("You said: {QUESTION}");
        claims.claim("all text of a turn is not the answer", naive != right);
        claims.claim(
            "the text of agent_message_chunk is",
            answer.content == right,
        );
        claims.claim("what is left out is counted", !dropped.is_empty());
    } else {
        claims.claim(
            "an agent sends updates that are no part of its answer",
            kinds.keys().any(|kind| kind != "agent_message_chunk"),
        );
    }
    Ok(claims)
}

fn one_line(text: &str) -> String {
    let mut line: String = text.chars().take(160).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line.replace('\n', " ").replace('|', "\\|")
}
