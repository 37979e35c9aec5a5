//! What the spikes share. Each spike is a question, a program that answers it, and a page (`SPIKE.md`) that
//! says what came out, in a directory of its own beside this one.
//!
//! - [`real`]: real agents, each with a home of its own and the mock model behind it
//! - [`memory`]: what a process and all that it started hold
//! - [`times`]: medians

#![deny(missing_docs)]

pub mod memory;
pub mod real;
pub mod times;
