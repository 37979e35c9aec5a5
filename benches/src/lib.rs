//! What the programs of the bench share. They run on Linux, which is where a process can be bound to a CPU and asked
//! for its peak memory.
//!
//! | program | is |
//! | --- | --- |
//! | `acp-bench` | the harness: starts the clients in turn, and compares what they report |
//! | `bench-client` | the clients in Rust that need nothing but this workspace, and the hand-written floor |
//! | `bench-agent` | the agent that all of them talk to |
//!
//! Clients that need more are in `peers`. All of them take one [`Order`](order::Order) as their only argument and
//! print one [`Outcome`](order::Outcome).

#![cfg(target_os = "linux")]
#![deny(missing_docs)]

pub mod order;
pub mod usage;
