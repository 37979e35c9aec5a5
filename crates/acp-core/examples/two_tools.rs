//! A loop of two tools over any ACP agent:
//! `cargo run -p acp-core --features schema --example two_tools -- gemini --acp`.

use std::error::Error;
use std::ops::ControlFlow;
use std::process::ExitCode;

use acp_core::schemars::{self, JsonSchema};
use acp_core::{InProcessClient, LoadOptions, Run, StatePolicy, Tool, load_acp};
use serde::Deserialize;

const QUESTION: &str = "What do three anvils and ten ropes cost?";

#[derive(Deserialize, JsonSchema)]
struct Price {
    /// One of `anvil`, `rope` and `magnet`.
    article: String,
}

fn price(ask: Price) -> Result<f64, String> {
    match &*ask.article {
        "anvil" => Ok(49.5),
        "rope" => Ok(7.25),
        "magnet" => Ok(12.0),
        other => Err(format!("there is no `{other}` in this shop")),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Total {
    /// What is bought.
    items: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    /// The price of one piece, in euros.
    price: f64,
    /// How many pieces.
    count: u32,
}

fn total(cart: Total) -> Result<String, String> {
    let cost = |item: &Item| item.price * f64::from(item.count);
    Ok(format!("{:.2}", cart.items.iter().map(cost).sum::<f64>()))
}

pub fn ask(command: Vec<String>) -> Result<Run, Box<dyn Error>> {
    let options = LoadOptions::new(command)
        // Only what is new goes out each turn, as long as the session verifiably holds the rest.
        .state(StatePolicy::VerifiedDelta);
    let model = load_acp(options)?;
    let client = InProcessClient::new(&model)
        .system("You are the till of a shop. Use the tools for prices and sums.")
        .tool(Tool::typed("price", "What an article costs.", price))
        .tool(Tool::typed("total", "What a purchase costs.", total))
        .before_tool(|call, _| {
            println!("-> {} {}", call.name, call.arguments);
            ControlFlow::Continue(())
        })
        .after_tool(|call, result, _| println!("<- {} {}", call.name, result.content));
    let run = client.run(QUESTION)?;
    model.close();
    Ok(run)
}

fn main() -> ExitCode {
    let command: Vec<String> = std::env::args().skip(1).collect();
    if command.is_empty() {
        eprintln!("name an agent, as in `two_tools gemini --acp`");
        return ExitCode::FAILURE;
    }
    match ask(command) {
        Ok(run) => {
            println!("{}", run.text());
            let (turns, timings) = (run.turns.len(), run.timings);
            println!(
                "{turns} turns in {:.1?}, {:.1?} of it the model",
                timings.total, timings.model
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
