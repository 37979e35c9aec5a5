//! What the spikes share. Each spike is a question, a program that answers it, and a page (`SPIKE.md`) that
//! says what came out, in a directory of its own beside this one.
//!
//! - [`program`]: an agent's command line, for this library or for a client that does less
//! - [`builtin`]: the fake server's own agents, which every spike can be
//! - [`real`]: real agents, each with a home of its own and the mock model behind it
//! - [`which`]: which of these a spike asks
//! - [`raw`]: a client that does only what it is told
//! - [`memory`], [`times`]: what is measured
//! - [`claims`]: what is held against it

#![deny(missing_docs)]

pub mod builtin;
pub mod claims;
pub mod memory;
pub mod program;
pub mod raw;
pub mod real;
pub mod times;
pub mod which;
