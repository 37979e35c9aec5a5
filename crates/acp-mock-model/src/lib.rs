//! A model on loopback that says what a script says, so that real agents can be driven without a real one.
//!
//! It speaks what agents speak to their models: OpenAI's chat completions and responses, Anthropic's
//! messages and Gemini, streaming and not. It also answers what agents ask on the side: which models there
//! are, how many tokens a text has, a JSON value that fits a schema.
//!
//! ```
//! use acp_mock_model::{MockModel, Script};
//!
//! let model = MockModel::start(Script::Echo)?;
//! println!("OPENAI_BASE_URL={}/v1", model.url());
//! println!("GOOGLE_GEMINI_BASE_URL={}", model.url());
//! // ... run an agent; afterwards:
//! for request in model.requests() {
//!     println!("{} {} bytes", request.path, request.bytes);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The server is a thread for each connection on plain sockets: what is known of small HTTP servers either
//! holds back what is streamed, or leaves threads behind when it is dropped.
//!
//! In reading order:
//!
//! - [`Script`]: what is said
//! - `conversation`: what an agent asked, whichever way it asked
//! - `schema`: a JSON value that fits a schema
//! - `api`: the four APIs, each to a conversation and from an answer
//! - `http`: requests and responses on a socket
//! - [`MockModel`]: the server

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod api;
mod conversation;
mod http;
mod schema;
mod script;
mod server;

pub use script::{ECHO_CHARS, MARKER, SLOW_PAUSE, SLOW_PIECES, Script, UnknownScript};
pub use server::{MockModel, Request};
