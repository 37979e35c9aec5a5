//! One run: turns of a model and the tools that it calls, until it calls none.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::{Caller, not_run};
use super::error::Stop;
use super::run::{Run, RunRequest, RunTurn, ToolRun};
use super::tool::{RunContext, Tool};
use super::{Generate, InProcessClient};
use crate::error::GenerateError;
use crate::message::Message;
use crate::request::{GenerateRequest, GenerateResponse};

/// A run that goes on.
pub(super) struct Runner<'a, G, S> {
    client: &'a InProcessClient<G, S>,
    request: RunRequest,
    conversation: Arc<str>,
    /// What the conversation had before.
    history: Vec<Message>,
    run: Run,
}

impl<'a, G: Generate, S> Runner<'a, G, S> {
    pub(super) fn new(
        client: &'a InProcessClient<G, S>,
        mut request: RunRequest,
        conversation: &str,
        history: Vec<Message>,
    ) -> Self {
        let run = Run {
            messages: std::mem::take(&mut request.messages),
            ..Run::default()
        };
        Self {
            client,
            request,
            conversation: conversation.into(),
            history,
            run,
        }
    }

    /// Takes turns until the model calls no tool.
    pub(super) fn finish(mut self) -> (Run, Result<(), Stop>) {
        let limit = self.client.max_turns;
        for turn in 1..=limit {
            match self.turn(turn) {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(result) => return (self.run, result),
            }
        }
        (self.run, Err(Stop::MaxTurns(limit)))
    }

    fn turn(&mut self, turn: u32) -> ControlFlow<Result<(), Stop>> {
        let context = RunContext {
            conversation: Arc::clone(&self.conversation),
            turn,
            cancel: self.request.cancel.clone(),
        };
        if context.cancel.is_cancelled() {
            return ControlFlow::Break(Err(Stop::Cancelled(String::new())));
        }
        let (response, duration) = match self.ask(&context) {
            Ok(answer) => answer,
            Err(error) if context.cancel.is_cancelled() => {
                let partial = error.partial().to_owned();
                return ControlFlow::Break(Err(Stop::Cancelled(partial)));
            }
            Err(error) => return ControlFlow::Break(Err(Stop::Model(error))),
        };
        self.run.messages.push(response.to_message());
        let tools = self.call_tools(&response, &context);
        // The results go under the ids that the answer has, whatever a hook has made of the calls.
        for (asked, tool) in response.tool_calls.iter().zip(&tools) {
            let message = Message::tool(&*asked.id, tool.result.to_text());
            self.run.messages.push(message);
        }
        let failed = tools.iter().find(|tool| tool.result.is_error).cloned();
        let done = response.tool_calls.is_empty();
        let is_last = turn == self.client.max_turns;
        self.run.turns.push(RunTurn {
            response,
            duration,
            tools,
        });
        if context.cancel.is_cancelled() {
            return ControlFlow::Break(Err(Stop::Cancelled(String::new())));
        }
        if done {
            return ControlFlow::Break(Ok(()));
        }
        match failed {
            Some(tool) if self.client.abort_on_tool_error && !is_last => {
                ControlFlow::Break(Err(Stop::ToolFailed(tool)))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Asks the model, or a hook that answers in its place.
    fn ask(&mut self, context: &RunContext) -> Result<(GenerateResponse, Duration), GenerateError> {
        let hooks = &self.client.hooks;
        let mut request = self.next_request(context.turn);
        let (mut response, duration) = match hooks.before_model(&mut request, context) {
            ControlFlow::Break(response) => (response, Duration::ZERO),
            ControlFlow::Continue(()) => {
                let started = Instant::now();
                let answer = self
                    .client
                    .model
                    .generate_cancellable(&request, &context.cancel);
                let duration = started.elapsed();
                self.run.timings.model += duration;
                (answer?, duration)
            }
        };
        hooks.after_model(&mut response, context);
        Ok((response, duration))
    }

    fn next_request(&self, turn: u32) -> GenerateRequest {
        let client = self.client;
        let messages = [&client.system, &self.history, &self.run.messages];
        let mut request = GenerateRequest::new(messages.map(Vec::as_slice).concat());
        request.tools = client.tools.iter().map(Tool::definition).collect();
        request.response_format = self.request.response_format.clone();
        if turn == 1 {
            request.tool_choice = self.request.tool_choice.clone();
        }
        request
    }

    fn call_tools(&mut self, response: &GenerateResponse, context: &RunContext) -> Vec<ToolRun> {
        let calls = &response.tool_calls;
        if calls.is_empty() {
            return Vec::new();
        }
        if context.turn == self.client.max_turns {
            // Nobody would read what they come to.
            let why = "the run may take no further turn";
            return calls.iter().map(|call| not_run(call, why)).collect();
        }
        let caller = Caller {
            tools: &self.client.tools,
            hooks: &self.client.hooks,
            side_by_side: self.client.side_by_side,
        };
        let (tools, duration) = caller.run(calls, context);
        self.run.timings.tools += duration;
        tools
    }
}
