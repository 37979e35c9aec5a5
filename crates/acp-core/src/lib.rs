//! A coding agent that speaks the [Agent Client Protocol](https://agentclientprotocol.com) as a warm,
//! in-process model source.
//!
//! [`load_acp`] starts the agent once and keeps its session warm; [`AcpModel::generate`] is then the
//! function that an in-process LLM client takes as its model. Tools, skills and sub-agents above it stay
//! as they are. [`InProcessClient`] is such a client, with conversations, [tools](Tool), hooks and cancels.
//!
//! ```no_run
//! use acp_core::{InProcessClient, LoadOptions, load_acp};
//!
//! let model = load_acp(LoadOptions::new(["gemini", "--acp"]).cwd("."))?;
//! let client = InProcessClient::new(&model);
//! println!("{}", client.ask("What does this project do?")?);
//! println!("{}", client.ask("And who is it for?")?); // the same process, the same session
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a warm session saves is the agent's own start-up, which every turn would pay for. It makes neither the
//! agent nor the protocol faster.
//!
//! # Recipes
//!
//! The text as it comes, and a cancel from elsewhere:
//!
//! ```no_run
//! # use acp_core::{GenerateRequest, LoadOptions, load_acp};
//! # let model = load_acp(LoadOptions::new(["gemini", "--acp"]))?;
//! let turn = model.start(&GenerateRequest::user("Count to a million."), model.main_lane().turn_options())?;
//! let stop = turn.canceller();
//! std::thread::spawn(move || {
//!     std::thread::sleep(std::time::Duration::from_secs(5));
//!     stop.cancel();
//! });
//! match turn.wait_with(|text| print!("{text}")) {
//!     Ok(answer) => println!("\n{:?}", answer.stop_reason),
//!     Err(error) if error.kind() == "cancelled" => println!("\n{} bytes had come", error.partial().len()),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Conversations side by side in one process, each on a [`Lane`] of its own:
//!
//! ```no_run
//! # use acp_core::{GenerateError, GenerateRequest, LoadOptions, load_acp};
//! # let model = load_acp(LoadOptions::new(["gemini", "--acp"]))?;
//! let lanes = [model.lane()?, model.lane()?];
//! std::thread::scope(|scope| {
//!     for (lane, question) in lanes.iter().zip(["Why?", "Why not?"]) {
//!         scope.spawn(move || lane.generate(&GenerateRequest::user(question)));
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Permissions decided by the host, a limit for each turn, and a new process after a death:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use acp_core::{GenerateError, GenerateRequest, LoadOptions, PermissionDecision, load_acp};
//! let options = LoadOptions::new(["gemini", "--acp"])
//!     .ask_permission(|request| {
//!         let read_only = request.tool_call["kind"] == "read";
//!         let allow = request.options.iter().find(|option| option.kind == "allow_once");
//!         match allow {
//!             Some(option) if read_only => PermissionDecision::Select(option.option_id.clone()),
//!             _ => PermissionDecision::Cancelled,
//!         }
//!     })
//!     .deadline(Duration::from_secs(600))
//!     .restart(true);
//! let model = load_acp(options)?;
//! match model.generate(&GenerateRequest::user("Tidy up.")) {
//!     Ok(answer) => println!("{}", answer.content),
//!     Err(GenerateError::AgentExited { error, .. }) => eprintln!("{error}; the next turn starts another"),
//!     Err(error) => eprintln!("{}: {error}", error.kind()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Tools of the host, which the agent calls as a model does, and a cancel of it all:
//!
//! ```no_run
//! # use acp_core::{CancelToken, InProcessClient, LoadOptions, RunRequest, Tool, load_acp};
//! # use serde_json::{Value, json};
//! # let model = load_acp(LoadOptions::new(["gemini", "--acp"]))?;
//! let weather = Tool::new(
//!     "weather",
//!     "What the weather is like in a city.",
//!     json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
//!     |arguments: Value| match arguments["city"].as_str() {
//!         Some("Lima") => Ok("grey, 18 °C"),
//!         _ => Err("there are no stations but in Lima"),
//!     },
//! );
//! let client = InProcessClient::new(&model).tool(weather).max_turns(5);
//! let stop = CancelToken::new(); // its clones cancel from anywhere
//! let run = client.run(RunRequest::user("Do I need a coat in Lima?").cancel(&stop))?;
//! println!("{} ({} turns, {:?})", run.text(), run.turns.len(), run.timings.total);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What happens within a turn, for a host that shows it:
//!
//! ```no_run
//! # use acp_core::{GenerateRequest, LoadOptions, TurnEvent, load_acp};
//! # let model = load_acp(LoadOptions::new(["gemini", "--acp"]))?;
//! let options = model.main_lane().turn_options().events(true);
//! let answer = model.start(&GenerateRequest::user("Tidy up."), options)?.wait_with_events(|event| match event {
//!     TurnEvent::Text(text) => print!("{text}"),
//!     TurnEvent::ToolCall(update) => eprintln!("{} {}", update["title"], update["status"]),
//!     _ => {}
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On tokio, with the feature `tokio`: the module `tokio` has the same calls as `async` ones.
//!
//! Every error has a [`kind`](GenerateError::kind), one for each thing a caller can do about it, and
//! serializes as a JSON object with the fields of `spec/errors.md`.
//!
//! # The engine and its drivers
//!
//! [`Connection`] is the protocol without a clock, a thread or a pipe: a state machine for one agent
//! process with many sessions. The blocking driver behind [`load_acp`] is one way to run it. The contract
//! for any driver is: *after every call, drain [`Connection::poll_output`] until it says
//! [`Output::Wait`]; then wait for bytes, or for that instant.* This is the whole loop:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::time::Instant;
//!
//! use acp_core::{Connection, ConnectionOptions, Event, ExitInfo, GenerateRequest, Output, TurnOptions};
//!
//! /// One turn over any pair of pipes.
//! fn ask(
//!     mut from_agent: impl Read,
//!     mut to_agent: impl Write,
//!     question: &str,
//! ) -> Result<String, Box<dyn std::error::Error>> {
//!     let mut connection = Connection::new(ConnectionOptions::new("/tmp"), Instant::now());
//!     connection.open_lane(Instant::now());
//!     let mut buffer = [0; 8192];
//!     loop {
//!         // Drain.
//!         let _due = loop {
//!             match connection.poll_output() {
//!                 Output::Send(line) => to_agent.write_all(&line)?,
//!                 Output::Event(Event::LaneOpened(lane)) => {
//!                     let request = GenerateRequest::user(question);
//!                     connection.prompt(lane, &request, TurnOptions::default(), Instant::now())?;
//!                 }
//!                 Output::Event(Event::TurnEnded(_, result)) => return Ok((*result)?.content),
//!                 Output::Event(Event::LaneFailed(_, error)) => return Err(error.into()),
//!                 Output::Wait(due) => break due,
//!                 _ => {}
//!             }
//!         };
//!         // Wait. A driver with limits also wakes at `_due` and calls `handle_timeout`.
//!         match from_agent.read(&mut buffer)? {
//!             0 => connection.handle_eof(ExitInfo::default(), Instant::now()),
//!             len => connection.handle_bytes(&buffer[..len], Instant::now()),
//!         }
//!     }
//! }
//!
//! let agent = concat!(
//!     r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#, "\n",
//!     r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#, "\n",
//!     r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","#,
//!     r#""update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi."}}}}"#, "\n",
//!     r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#, "\n",
//! );
//! // (A byte at a time, because this agent answers before it is asked.)
//! struct Slow<'a>(&'a [u8]);
//! impl Read for Slow<'_> {
//!     fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
//!         self.0.read(&mut buffer[..1])
//!     }
//! }
//! assert_eq!(ask(Slow(agent.as_bytes()), std::io::sink(), "Hello?")?, "Hi.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Seeing the wire
//!
//! Every line both ways is an event of the level TRACE and the target `acp_core::wire` for whatever
//! [`tracing`](https://docs.rs/tracing) subscriber the host has, with secrets masked.
//!
//! # Features
//!
//! `schema` adds `Tool::typed`, for tools whose parameters are derived from a Rust type, and re-exports
//! `schemars`. `tokio` adds the driver for tokio, and a pool of agents on it: the module `tokio`. Both are off by
//! default.
//!
//! # Platforms
//!
//! Linux is tested; other Unix systems should work. Windows is not supported yet, because process
//! ownership there needs job objects.

#![deny(missing_docs)]

#[cfg(not(unix))]
compile_error!("acp-core needs process groups and signals, so it runs on Unix only");

// In reading order. The engine:
mod connection;
mod ids;
mod lines;
mod mcp;
mod message;
mod permission;
mod prompt;
mod protocol;
mod reply;
mod request;
mod secrets;
mod tail;
mod text;
mod timer;
mod turn;
mod wire;

// The drivers, and what a host holds:
mod blocking;
mod client;
mod command;
mod driver;
mod error;
mod hooks;
mod options;
#[cfg(feature = "tokio")]
mod pool;
mod process;
mod sync;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use blocking::{AcpAgent, AcpModel, Lane, Turn, load_acp};
pub use client::{
    CancelToken, ConversationStore, DEFAULT_CONVERSATION, Generate, InProcessClient, MemoryStore,
    OnCancel, Run, RunContext, RunError, RunRequest, RunTurn, Timings, Tool, ToolResult, ToolRun,
    UsageSum,
};
pub use command::split_command;
pub use connection::{
    Connection, ConnectionOptions, Event, LaneId, Output, PermissionId, RequestKey, Resume,
    SETTLE_LIMIT, SETTLE_WINDOW, Settle, StatePolicy, TurnId,
};
pub use driver::Canceller;
pub use error::{
    AgentExited, AuthRequired, ExitInfo, GenerateError, InvalidResponse, LoadError, MalformedReply,
    Rejected, RejectedClass,
};
pub use mcp::McpServer;
pub use message::{Content, Message, Part, ToolCall};
pub use options::LoadOptions;
pub use permission::{
    ChoicePolicy, PermissionDecision, PermissionOption, PermissionPolicy, PermissionRequest,
};
pub use prompt::{SUPERSEDES_MARKER, render_text};
pub use protocol::{
    AgentInfo, AuthMethod, ConfigValue, Implementation, McpCapabilities, PROTOCOL_VERSION,
    PromptCapabilities, SessionInfo,
};
pub use request::{Dropped, GenerateRequest, GenerateResponse, MessageSpan, Repair, StopReason};
#[cfg(feature = "schema")]
pub use schemars;
pub use secrets::Secrets;
pub use turn::{IDLE_STRETCH, TurnEvent, TurnOptions};
