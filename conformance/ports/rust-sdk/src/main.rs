//! The driver of the official Rust SDK as a client (`spec/driver-protocol.md`). It adapts and fixes
//! nothing: sessions and turns are the SDK's `ActiveSession`, and what the SDK leaves to its
//! application (the permission policy, and to cancel once what runs) is as plain as can be.

mod answer;
mod client;
mod permission;
mod turn;

use std::{cell::RefCell, collections::HashMap, io, rc::Rc};

use agent_client_protocol::v1::schema::ContentBlock;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    task::{self, LocalSet},
};

use crate::{
    answer::{Answer, unsupported},
    client::Client,
    turn::Turn,
};

/// The version of the SDK, which `Cargo.toml` pins.
const VERSION: &str = "5.2.0";

/// What the SDK's public surface has.
const CAPABILITIES: [&str; 9] = [
    "cancel",
    "is_alive",
    "lanes",
    "messages",
    "mode",
    "parts",
    "permission",
    "process",
    "stderr_tail",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    LocalSet::new().run_until(serve()).await
}

async fn serve() -> io::Result<()> {
    let driver = Rc::new(Driver::default());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let Request { seq, op, args } = serde_json::from_str(&line)?;
        if op == "bye" {
            println!("{}", json!({"seq": seq, "ok": {}}));
            break;
        }
        // Tasks start in the order in which they were asked for.
        let operation = Rc::clone(&driver).run(seq.to_string(), op, args);
        task::spawn_local(async move {
            let answer = match task::spawn_local(operation).await {
                Ok(answer) => answer,
                Err(panic) => Answer::Crash(panic.to_string()),
            };
            println!("{}", answer.line(&seq));
        });
    }
    Ok(())
}

#[derive(Deserialize)]
struct Request {
    seq: Value,
    op: String,
    args: Value,
}

#[derive(Default)]
struct Driver {
    client: RefCell<Option<Rc<Client>>>,
    turns: RefCell<HashMap<String, Rc<Turn>>>,
}

impl Driver {
    async fn run(self: Rc<Self>, seq: String, op: String, args: Value) -> Answer {
        let result = match op.as_str() {
            "hello" => Ok(json!({
                "protocol": 1,
                "port": {"name": "rust-sdk", "language": "rust", "version": VERSION},
                "capabilities": CAPABILITIES,
            })),
            "load" => match permission::Policy::of(&args) {
                Some(policy) => self.load(policy, &args).await,
                None => return unsupported("this permission"),
            },
            "close" => {
                if let Some(client) = self.client() {
                    client.close().await;
                }
                Ok(json!({}))
            }
            "cancel" => {
                let turn = self.turns.borrow().get(&args["seq"].to_string()).cloned();
                if let Some(turn) = turn {
                    turn.cancel();
                }
                Ok(json!({}))
            }
            "is_alive" => {
                let alive = self.client().is_some_and(|client| client.is_alive());
                Ok(json!({"alive": alive}))
            }
            "lane" | "generate" => match self.client() {
                None => Err(json!({"kind": "closed", "message": "nothing is loaded"})),
                Some(client) if op == "lane" => client.lane(lane_name(&args)).await,
                Some(client) => match client.turn(lane_name(&args)) {
                    None => return Answer::Crash("there is no such lane".into()),
                    Some(turn) => {
                        let turn = Rc::new(turn);
                        self.turns.borrow_mut().insert(seq, Rc::clone(&turn));
                        turn.run(prompt(&args)).await
                    }
                },
            },
            other => return unsupported(other),
        };
        result.into()
    }

    fn client(&self) -> Option<Rc<Client>> {
        self.client.borrow().clone()
    }

    async fn load(&self, policy: permission::Policy, args: &Value) -> Result<Value, Value> {
        let client = Client::load(policy, args).await?;
        let session_id = client.lane_id("main");
        *self.client.borrow_mut() = Some(Rc::new(client));
        Ok(json!({"session_id": session_id}))
    }
}

fn lane_name(args: &Value) -> &str {
    args["lane"].as_str().unwrap_or("main")
}

/// The last message of the role `user`: a text, or a list of parts.
fn prompt(args: &Value) -> Vec<ContentBlock> {
    let mut messages = args["messages"].as_array().into_iter().flatten().rev();
    let last = messages.find(|message| message["role"] == "user");
    match last.map(|message| &message["content"]) {
        Some(Value::String(text)) => vec![text.as_str().into()],
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.map(ContentBlock::from).collect()
        }
        _ => Vec::new(),
    }
}
