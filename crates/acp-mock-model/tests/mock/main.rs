//! The model, by its sockets and as a program.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod client;
mod command;
mod server;
