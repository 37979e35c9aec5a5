//! Runs ACP transcripts against any client.
#![deny(missing_docs)]

pub mod cell;
pub mod driver;
pub mod known;
pub mod limits;
pub mod log;
pub mod port;
mod processes;
pub mod protocol;
pub mod tier;
pub mod verdict;
pub mod wire_schema;
