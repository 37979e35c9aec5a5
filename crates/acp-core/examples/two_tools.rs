//! A loop of two tools over any ACP agent:
//! `cargo run -p acp-core --features schema --example two_tools -- gemini --acp`.

use std::error::Error;
use std::ops::ControlFlow;

use acp_core::schemars::{self, JsonSchema};
use acp_core::{InProcessClient, LoadOptions, PermissionPolicy, Tool, load_acp};
use serde::Deserialize;

/// The catalogue of a shop.
const PRICES: [(&str, f64); 3] = [("anvil", 49.5), ("rope", 7.25), ("magnet", 12.0)];

#[derive(Deserialize, JsonSchema)]
struct Price {
    /// One of `anvil`, `rope` and `magnet`.
    article: String,
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

fn main() -> Result<(), Box<dyn Error>> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    if command.is_empty() {
        return Err("say which agent to run, as in `two_tools gemini --acp`".into());
    }

    let price = Tool::typed(
        "price",
        "The price of an article, in euros.",
        |ask: Price| {
            let known = PRICES.iter().find(|(article, _)| *article == ask.article);
            known
                .map(|(_, price)| *price)
                .ok_or_else(|| format!("there is no `{}` in this shop", ask.article))
        },
    );
    let total = Tool::typed(
        "total",
        "What a purchase costs, in euros.",
        |cart: Total| {
            let sum: f64 = cart
                .items
                .iter()
                .map(|item| item.price * f64::from(item.count))
                .sum();
            Ok::<_, String>(format!("{sum:.2}"))
        },
    );

    // The agent has tools of its own, and here it should use ours only.
    let options = LoadOptions::new(command).permission(PermissionPolicy::Reject);
    let model = load_acp(options)?;
    let client = InProcessClient::new(&model)
        .system("You are the till of a shop. Look prices up and add them with the tools that you are given.")
        .tool(price)
        .tool(total)
        .before_tool(|call, _| {
            println!("-> {} {}", call.name, call.arguments);
            ControlFlow::Continue(())
        })
        .after_tool(|_, result, _| println!("<- {}", result.content));

    let run = client.run("What do three anvils and ten ropes cost?")?;
    println!("\n{}", run.text());
    println!(
        "\n{} turns, {} repairs; {:.1?} in all, {:.1?} of it the model",
        run.turns.len(),
        run.repairs(),
        run.timings.total,
        run.timings.model,
    );
    for usage in run.usage().flatten() {
        println!("usage: {usage}");
    }
    model.close();
    Ok(())
}
