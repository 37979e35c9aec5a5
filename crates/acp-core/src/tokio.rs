//! The driver for hosts that run on tokio: the engine, a process, and a few tasks.
//!
//! It has the options, the errors and the rules of the blocking driver ([`load_acp`](crate::load_acp)); calls
//! are `async`, and a turn is a future and a stream of what happens within it. Dropping a turn's future
//! cancels the turn; the process stays warm.
//!
//! ```no_run
//! use acp_core::tokio::load_acp;
//! use acp_core::{GenerateRequest, LoadOptions, TurnEvent};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let model = load_acp(LoadOptions::new(["gemini", "--acp"])).await?;
//! let answer = model.generate(&GenerateRequest::user("What is ACP?")).await?;
//! println!("{}", answer.content);
//!
//! let options = model.main_lane().turn_options().events(true);
//! let mut turn = model.start(&GenerateRequest::user("And MCP?"), options).await?;
//! while let Some(event) = turn.next_event().await {
//!     if let TurnEvent::Text(text) = event {
//!         print!("{text}");
//!     }
//! }
//! println!("\n{:?}", turn.await?.stop_reason);
//! model.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! The runtime needs IO and time, as `enable_all` and `#[tokio::main]` give it; in one that lacks them nothing is
//! started, and tokio prints why.
//!
//! One thread for each process waits for its exit; all else are tasks of the runtime in which the agent was
//! started. No task waits for a consumer: text waits in the turn, and other events up to a bound.

#![expect(
    clippy::disallowed_methods,
    reason = "a driver is where the clock is read and threads are started"
)]

mod agent;
mod lane;
mod model;
mod pool;
mod shared;
mod tasks;
mod turn;

pub use crate::driver::Canceller;
pub use agent::AcpAgent;
pub use lane::Lane;
pub use model::{AcpModel, load_acp};
pub use pool::{Pool, PoolTurn};
pub use turn::Turn;

pub use crate::pool::{PoolMetrics, PoolOptions};
