//! The host's side: a client that gives any model tools, a conversation and limits.

#![expect(
    clippy::disallowed_methods,
    reason = "a run is timed, and its tools run on threads"
)]

mod calls;
mod cancel;
mod error;
mod generate;
mod hooks;
mod run;
#[cfg(feature = "schema")]
mod schema;
mod store;
mod tool;
mod turns;

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub use cancel::{CancelToken, OnCancel};
pub use error::RunError;
pub use generate::Generate;
pub use run::{Run, RunRequest, RunTurn, Timings, ToolRun, UsageSum};
pub use store::{ConversationStore, MemoryStore};
pub use tool::{RunContext, Tool, ToolResult};

use crate::message::{Message, ToolCall};
use crate::request::{GenerateRequest, GenerateResponse};
use crate::sync::lock;
use error::Stop;
use hooks::Hooks;
use turns::Runner;

/// The conversation of a [`RunRequest`] that names none.
pub const DEFAULT_CONVERSATION: &str = "default";

/// A client of any model: it keeps conversations and sends them whole with every turn, as stateless clients
/// do, and runs the tools that the model calls until it calls none.
///
/// ```
/// use acp_core::{GenerateError, GenerateRequest, GenerateResponse, InProcessClient};
///
/// let model = |request: &GenerateRequest| -> Result<GenerateResponse, GenerateError> {
///     Ok(GenerateResponse::text(format!("{} so far", request.messages.len())))
/// };
/// let client = InProcessClient::new(model).system("Be terse.");
/// assert_eq!(client.ask("One?")?, "2 so far");
/// assert_eq!(client.ask("Two?")?, "4 so far");
/// # Ok::<(), acp_core::RunError>(())
/// ```
///
/// With a tool, and all that a run comes to; the model is one that knows only to call it:
///
/// ```
/// use acp_core::{GenerateError, GenerateRequest, GenerateResponse, InProcessClient, Tool, ToolCall};
/// use serde_json::{Value, json};
///
/// let model = |request: &GenerateRequest| -> Result<GenerateResponse, GenerateError> {
///     match request.messages.last() {
///         Some(result) if result.role == "tool" => Ok(GenerateResponse::text(result.content.text())),
///         _ => Ok(GenerateResponse::calling([ToolCall::new("c1", "length", json!({"of": "Lima"}))])),
///     }
/// };
/// let length = Tool::new(
///     "length",
///     "The length of a text.",
///     json!({"type": "object", "properties": {"of": {"type": "string"}}}),
///     |arguments: Value| arguments["of"].as_str().map(str::len).ok_or("`of` is no text"),
/// );
/// let client = InProcessClient::new(model).tool(length);
/// let run = client.run("How long is `Lima`?")?;
/// assert_eq!(run.text(), "4");
/// assert_eq!(run.turns.len(), 2);
/// assert_eq!(run.tools().next().unwrap().call.name, "length");
/// # Ok::<(), acp_core::RunError>(())
/// ```
///
/// # One run, in order
///
/// 1. The conversation is loaded from the [store](ConversationStore).
/// 2. Each turn: the `before_model` hooks, the model, the `after_model` hooks. If the answer calls tools: the
///    `before_tool` hooks for all calls, the tools, the `after_tool` hooks for all calls, and the next turn.
/// 3. The messages of the run are appended to the store: all of them, or after an error none.
///
/// Hooks of one kind are called in the order in which they were added, always on the thread of the run, and
/// for several calls in the order of the calls. Tools run side by side, on the thread of the run and others,
/// unless they are [serial](Tool::serial); the run waits for all of them, also after a cancel. So a tool that
/// takes long should look at its [context](RunContext)'s token.
///
/// Nothing is tried twice. There is no limit of time but those of the model and of a token that the host
/// cancels.
///
/// | option | default |
/// | --- | --- |
/// | [`max_turns`](InProcessClient::max_turns) | 10 |
/// | [`tools_side_by_side`](InProcessClient::tools_side_by_side) | 8 |
/// | [`abort_on_tool_error`](InProcessClient::abort_on_tool_error) | no: the model is told |
/// | [`with_store`](InProcessClient::with_store) | in memory |
///
/// A client can be shared by threads if its model and store can; runs in different conversations then go on
/// side by side as far as the model lets them. The turns of one [`Lane`](crate::Lane) wait for each other.
pub struct InProcessClient<G, S = MemoryStore> {
    model: G,
    store: S,
    system: Vec<Message>,
    tools: Vec<Tool>,
    hooks: Hooks,
    max_turns: u32,
    side_by_side: NonZeroUsize,
    abort_on_tool_error: bool,
    /// The conversations in which a run goes on.
    occupied: Mutex<HashSet<String>>,
}

impl<G: Generate> InProcessClient<G> {
    /// A client of this model, without tools, whose conversations are kept in memory.
    pub fn new(model: G) -> Self {
        Self {
            model,
            store: MemoryStore::new(),
            system: Vec::new(),
            tools: Vec::new(),
            hooks: Hooks::default(),
            max_turns: 10,
            side_by_side: const { NonZeroUsize::new(8).unwrap() },
            abort_on_tool_error: false,
            occupied: Mutex::default(),
        }
    }
}

impl<G: Generate, S> InProcessClient<G, S> {
    /// Keeps conversations elsewhere.
    #[must_use]
    pub fn with_store<T: ConversationStore>(self, store: T) -> InProcessClient<G, T> {
        InProcessClient {
            model: self.model,
            store,
            system: self.system,
            tools: self.tools,
            hooks: self.hooks,
            max_turns: self.max_turns,
            side_by_side: self.side_by_side,
            abort_on_tool_error: self.abort_on_tool_error,
            occupied: self.occupied,
        }
    }

    /// Adds a system message. It goes before every conversation and is not kept with it.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system.push(Message::system(text));
        self
    }

    /// Adds a tool. It takes the place of one with the same name.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.retain(|other| other.name() != tool.name());
        self.tools.push(tool);
        self
    }

    /// Most turns of one run, which are answers of the model. If the last one still calls tools, these are not
    /// run and the run is an error.
    #[must_use]
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = turns;
        self
    }

    /// Most tools of one answer that run at once; 1 runs them one after the other.
    #[must_use]
    pub fn tools_side_by_side(mut self, tools: NonZeroUsize) -> Self {
        self.side_by_side = tools;
        self
    }

    /// Whether a result that [is an error](ToolResult::is_error) when the hooks have seen it ends the run, in
    /// place of being told to the model. The other calls of the same answer are run all the same: the model
    /// asked for all of them before it knew of any.
    #[must_use]
    pub fn abort_on_tool_error(mut self, abort: bool) -> Self {
        self.abort_on_tool_error = abort;
        self
    }

    /// Calls this before each turn of the model. It may change the request, which is this turn's alone: the
    /// conversation stays as it is. With `Break` it answers in the place of the model and of the hooks after
    /// it, and the turn counts as any.
    #[must_use]
    pub fn before_model(
        mut self,
        hook: impl Fn(&mut GenerateRequest, &RunContext) -> ControlFlow<GenerateResponse>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.hooks.before_model.push(Box::new(hook));
        self
    }

    /// Calls this after each answer, also one that a hook gave; not after an error, which ends the run. What
    /// it makes of the answer is what the conversation gets and whose tools are run.
    #[must_use]
    pub fn after_model(
        mut self,
        hook: impl Fn(&mut GenerateResponse, &RunContext) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.after_model.push(Box::new(hook));
        self
    }

    /// Calls this before each call of a tool, also of one that does not exist. It may change the tool and the
    /// arguments, of which the conversation knows nothing. With `Break` it gives the result in the place of
    /// the tool and of the hooks after it.
    #[must_use]
    pub fn before_tool(
        mut self,
        hook: impl Fn(&mut ToolCall, &RunContext) -> ControlFlow<ToolResult> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.before_tool.push(Box::new(hook));
        self
    }

    /// Calls this for each call that has a result, also one that a hook gave, but not for those that a cancel
    /// or an abort kept from being run. What it makes of the result is what the model is told.
    #[must_use]
    pub fn after_tool(
        mut self,
        hook: impl Fn(&ToolCall, &mut ToolResult, &RunContext) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.after_tool.push(Box::new(hook));
        self
    }

    /// The model.
    pub fn model(&self) -> &G {
        &self.model
    }

    /// Where the conversations are.
    pub fn store(&self) -> &S {
        &self.store
    }
}

impl<G: Generate, S: ConversationStore> InProcessClient<G, S> {
    /// Runs until the model has answered, and gives the answer's text.
    ///
    /// # Errors
    ///
    /// See [`RunError`]; the conversation is then as it was before, so that the question can be asked again.
    pub fn ask(&self, request: impl Into<RunRequest>) -> Result<String, RunError> {
        let mut run = self.run(request)?;
        let last = run.turns.pop();
        Ok(last.map(|turn| turn.response.content).unwrap_or_default())
    }

    /// Runs until the model has answered, and gives all that the run has come to.
    ///
    /// # Errors
    ///
    /// See [`RunError`]; the conversation is then as it was before, and the error has what the run had come
    /// to.
    pub fn run(&self, request: impl Into<RunRequest>) -> Result<Run, RunError> {
        let started = Instant::now();
        let request = request.into();
        let conversation = request.conversation.clone();
        let conversation = conversation.as_deref().unwrap_or(DEFAULT_CONVERSATION);
        let _occupied = Occupied::new(&self.occupied, conversation)?;
        let failed = |error| Stop::StoreFailed(Arc::new(error));
        let (mut run, mut result) = match self.store.load(conversation) {
            Ok(history) => Runner::new(self, request, conversation, history).finish(),
            Err(error) => (Run::default(), Err(failed(error))),
        };
        if result.is_ok() {
            let kept = self.store.append(conversation, &run.messages);
            result = kept.map_err(failed);
        }
        run.timings.total = started.elapsed();
        match result {
            Ok(()) => Ok(run),
            Err(stop) => Err(stop.with(run)),
        }
    }

    /// The messages of the conversation called [`DEFAULT_CONVERSATION`]; those of others are in the
    /// [store](InProcessClient::store).
    ///
    /// # Errors
    ///
    /// Those of the store. The one in memory has none, so that `let Ok(messages) = client.messages();` will do.
    pub fn messages(&self) -> Result<Vec<Message>, S::Error> {
        self.store.load(DEFAULT_CONVERSATION)
    }
}

impl<G, S> fmt::Debug for InProcessClient<G, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessClient")
            .field("tools", &self.tools)
            .field("max_turns", &self.max_turns)
            .finish_non_exhaustive()
    }
}

/// A conversation in which a run goes on, until this is dropped.
struct Occupied<'a> {
    all: &'a Mutex<HashSet<String>>,
    conversation: &'a str,
}

impl<'a> Occupied<'a> {
    fn new(all: &'a Mutex<HashSet<String>>, conversation: &'a str) -> Result<Self, RunError> {
        if lock(all).insert(conversation.to_owned()) {
            Ok(Self { all, conversation })
        } else {
            Err(RunError::Busy {
                conversation: conversation.to_owned(),
            })
        }
    }
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(self.conversation);
    }
}
