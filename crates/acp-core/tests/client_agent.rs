//! A client with two tools over an agent that is a process: the fake one, which plays a transcript. And the
//! example of one.
//!
//! The agent is this program too, so that the test needs no other to be built first.

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a trial or its agent fails"
)]

#[path = "../examples/two_tools.rs"]
#[expect(dead_code, reason = "its `main` is not called")]
mod two_tools;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use acp_core::schemars::JsonSchema;
use acp_core::{InProcessClient, LoadOptions, Tool, UsageSum, load_acp};
use acp_fake_server::{Fixture, play};
use libtest_mimic::{Arguments, Trial};
use serde::Deserialize;

/// The argument that makes an agent of this program; the transcript follows.
const PLAY: &str = "--play-the-agent";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    if let [_, play, transcript] = words.as_slice()
        && play == PLAY
    {
        return be_the_agent(transcript);
    }
    let trials = vec![
        Trial::test("two_tools_over_five_turns", || {
            two_tools_over_five_turns();
            Ok(())
        }),
        Trial::test("the_example_finds_the_price", || {
            the_example_finds_the_price();
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn agent(transcript: &str) -> Vec<String> {
    let program = env::current_exe().unwrap().into_os_string();
    let program = program.into_string().unwrap();
    vec![program, PLAY.to_owned(), transcript.to_owned()]
}

fn be_the_agent(transcript: &str) -> ExitCode {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(transcript);
    let fixture = Fixture::load(&path).unwrap();
    match play::run(&fixture).unwrap() {
        Ok(()) => ExitCode::SUCCESS,
        Err(mismatch) => {
            eprintln!("{mismatch}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Price {
    article: String,
}

#[derive(Deserialize, JsonSchema)]
struct Total {
    price: f64,
    count: u32,
}

fn two_tools_over_five_turns() {
    let price = |Price { article }| match &*article {
        "anvil" => Ok(49.5),
        _ => Err(format!("there is no `{article}`")),
    };
    let total =
        |Total { price, count }| Ok::<_, String>(format!("{:.2}", price * f64::from(count)));
    let agent = agent("tests/client-agent/five-turns.jsonl");
    let model = load_acp(LoadOptions::new(agent)).unwrap();
    let client = InProcessClient::new(&model)
        .tool(Tool::typed("price", "The price of an article.", price))
        .tool(Tool::typed("total", "The price of some pieces.", total));

    let run = match client.run("What do three anvils cost?") {
        Ok(run) => run,
        // The agent says on standard error what it did not like.
        Err(error) => panic!("{error}"),
    };
    assert_eq!(run.text(), "They cost 148.50.");
    assert_eq!(run.turns.len(), 5);
    let results: Vec<_> = run
        .tools()
        .map(|tool| (&*tool.call.name, &*tool.result.content))
        .collect();
    assert_eq!(
        results,
        [
            ("price", "49.5"),
            (
                "total",
                "the arguments do not fit: at `price`: invalid type: string \"?\", expected f64"
            ),
            ("total", "148.50"),
            ("price", "there is no `piano`"),
            ("total", "99.00"),
            ("total", "49.50"),
        ]
    );
    assert_eq!(run.repairs(), 1);
    let usage: Vec<_> = run
        .usage()
        .map(|usage| usage.unwrap()["inputTokens"].clone())
        .collect();
    assert_eq!(usage, [100, 200, 300, 400, 500, 600]);
    let sum = run.usage_sum();
    assert_eq!(
        (sum.input_tokens, sum.output_tokens, sum.total_tokens),
        (Some(2100), Some(210), Some(2310))
    );

    let run = client.run("And four?").unwrap();
    assert_eq!(run.text(), "198.00.");
    assert_eq!(run.usage_sum(), UsageSum::default());
    model.close();
}

fn the_example_finds_the_price() {
    let run = two_tools::ask(agent("examples/two-tools.jsonl"));
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run.text(), "Three anvils and ten ropes cost 221.00 euros.");
    assert_eq!(run.turns.len(), 3);
}
