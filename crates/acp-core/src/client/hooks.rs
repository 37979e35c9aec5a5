//! Functions of the host that see, and may change, what goes into a model and a tool and what comes out.

use std::ops::ControlFlow;

use super::tool::{RunContext, ToolResult};
use crate::message::ToolCall;
use crate::request::{GenerateRequest, GenerateResponse};

type BeforeModel =
    dyn Fn(&mut GenerateRequest, &RunContext) -> ControlFlow<GenerateResponse> + Send + Sync;
type AfterModel = dyn Fn(&mut GenerateResponse, &RunContext) + Send + Sync;
type BeforeTool = dyn Fn(&mut ToolCall, &RunContext) -> ControlFlow<ToolResult> + Send + Sync;
type AfterTool = dyn Fn(&ToolCall, &mut ToolResult, &RunContext) + Send + Sync;

/// Each kind in the order in which the host added them, which is that in which they are called.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) before_model: Vec<Box<BeforeModel>>,
    pub(super) after_model: Vec<Box<AfterModel>>,
    pub(super) before_tool: Vec<Box<BeforeTool>>,
    pub(super) after_tool: Vec<Box<AfterTool>>,
}

impl Hooks {
    /// The answer of the first hook that has one; the hooks after it are not called.
    pub(super) fn before_model(
        &self,
        request: &mut GenerateRequest,
        context: &RunContext,
    ) -> ControlFlow<GenerateResponse> {
        let mut hooks = self.before_model.iter();
        hooks.try_for_each(|hook| hook(request, context))
    }

    pub(super) fn after_model(&self, response: &mut GenerateResponse, context: &RunContext) {
        for hook in &self.after_model {
            hook(response, context);
        }
    }

    /// The result of the first hook that has one; the hooks after it are not called.
    pub(super) fn before_tool(
        &self,
        call: &mut ToolCall,
        context: &RunContext,
    ) -> ControlFlow<ToolResult> {
        let mut hooks = self.before_tool.iter();
        hooks.try_for_each(|hook| hook(call, context))
    }

    pub(super) fn after_tool(
        &self,
        call: &ToolCall,
        result: &mut ToolResult,
        context: &RunContext,
    ) {
        for hook in &self.after_tool {
            hook(call, result, context);
        }
    }
}
