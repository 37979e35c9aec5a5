//! What must be in `session/new`? See `SPIKE.md`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use acp_fake_server::Profile;
use acp_fake_server::agents::Builtin;
use acp_mock_model::Script;
use clap::Parser;
use serde_json::{Value, json};
use spikes::builtin;
use spikes::claims::{self, Claims};
use spikes::program::Program;
use spikes::raw::Raw;
use spikes::which::Which;

/// Opens sessions with parameters that some agents refuse.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    which: Which,
}

fn main() -> ExitCode {
    builtin::serve_if_asked().unwrap_or_else(|| claims::conclude(measure(&Arguments::parse())))
}

fn measure(arguments: &Arguments) -> io::Result<Claims> {
    let mut rows = Vec::new();
    if arguments.which.is_builtin() {
        for name in Profile::names() {
            let program = builtin::program(Builtin::Echo, name, Duration::ZERO)?;
            rows.push((name, outcomes(&program)?));
        }
    } else {
        let agent = arguments.which.agent(Builtin::Echo, Script::Echo)?;
        rows.push(("the agent", outcomes(&agent.program)?));
    }
    let cwd = std::env::current_dir()?;
    let names: Vec<&str> = variants(&cwd.to_string_lossy())
        .iter()
        .map(|(name, _)| *name)
        .collect();
    println!(
        "| agent | {} |\n|{}",
        names.join(" | "),
        " --- |".repeat(names.len() + 1)
    );
    for (name, outcomes) in &rows {
        println!("| {name} | {} |", outcomes.join(" | "));
    }
    let refuses = |variant: usize| rows.iter().any(|(_, outcomes)| outcomes[variant] != "ok");
    let mut claims = Claims::default();
    claims.claim(
        "a cwd that is absolute, and mcpServers, is taken by all",
        !refuses(0),
    );
    if arguments.which.is_builtin() {
        claims.claim("without mcpServers it is refused by some", refuses(1));
        claims.claim("and so it is with a relative cwd", refuses(2));
        claims.claim("or one that does not exist", refuses(3));
    }
    Ok(claims)
}

/// What is sent; the first is how it should be.
fn variants(cwd: &str) -> [(&'static str, Value); 4] {
    [
        ("as it should be", json!({"cwd": cwd, "mcpServers": []})),
        ("no mcpServers", json!({"cwd": cwd})),
        ("relative cwd", json!({"cwd": ".", "mcpServers": []})),
        (
            "cwd that does not exist",
            json!({"cwd": format!("{cwd}/nowhere-at-all"), "mcpServers": []}),
        ),
    ]
}

/// `ok` or an error code for each variant, each on a process of its own.
fn outcomes(program: &Program) -> io::Result<Vec<String>> {
    variants(&program.cwd.to_string_lossy())
        .into_iter()
        .map(|(_, params)| {
            let mut agent = Raw::start(program)?;
            agent.initialize()?;
            let id = agent.request("session/new", params)?;
            Ok(match agent.answer(id, Duration::from_secs(30)) {
                Some(answer) if answer["result"]["sessionId"].is_string() => "ok".to_owned(),
                Some(answer) => format!("error {}", answer["error"]["code"]),
                None => "no answer".to_owned(),
            })
        })
        .collect()
}
