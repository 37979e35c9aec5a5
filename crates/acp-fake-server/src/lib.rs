//! A scripted ACP agent for testing clients.
//!
//! A *transcript* states one behaviour of an ACP client as both sides of a conversation in one total
//! order (`spec/transcript-format.md`). This crate reads transcripts and plays them. It shares no
//! code with any client, so that one bug cannot sit on both ends of the pipe.
//!
//! In reading order:
//!
//! - [`pattern`]: what a value must look like; captures; the first difference
//! - [`fixture`]: a file to typed steps; every error names `file:line`
//! - [`profile`]: how agents in the field differ, as data
//! - `strict`: what agents in the field refuse, and how
//! - [`stale`]: the memory of an agent that answers an old question
//! - [`transcript`]: what went over the wire so far
//! - [`player`]: the interpreter, without clock, thread or I/O
//! - [`control`]: what a harness and a relay say to each other
//! - [`relay`]: the process a client under test starts, steered over [`control`]
//! - [`play`]: the agent's side of a transcript alone, on standard input and output
//! - [`recording`]: what was recorded of a real agent
//! - [`distill`]: from a recording to a transcript
//! - [`agents`]: small agents that need no transcript
//! - [`alone`]: one of them as a process
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod agents;
#[cfg(unix)]
pub mod alone;
pub mod control;
pub mod distill;
pub mod fixture;
mod lines;
mod message;
pub mod pattern;
#[cfg(unix)]
pub mod play;
pub mod player;
#[cfg(unix)]
mod process;
pub mod profile;
pub mod recording;
#[cfg(unix)]
pub mod relay;
pub mod stale;
mod strict;
pub mod transcript;

pub use fixture::{Fixture, FixtureError};
pub use player::{Action, Input, Mismatch, Outcome, Player, Role};
pub use profile::Profile;
