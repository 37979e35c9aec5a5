//! The calls of one answer, side by side.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::hooks::Hooks;
use super::run::ToolRun;
use super::tool::{RunContext, Tool, ToolResult};
use crate::message::ToolCall;

/// How calls are run.
pub(super) struct Caller<'a> {
    pub(super) tools: &'a [Tool],
    pub(super) hooks: &'a Hooks,
    /// Most calls at once.
    pub(super) side_by_side: NonZeroUsize,
}

/// One call on its way.
struct Job<'a> {
    call: ToolCall,
    /// The tool that it names, if there is one.
    tool: Option<&'a Tool>,
    /// What it came to, and how long that took; set once.
    done: OnceLock<(ToolResult, Duration)>,
}

impl Caller<'_> {
    /// Runs the calls of an answer, and says how long the tools took, without the hooks. The results are in
    /// the order of the calls, and each call has one.
    ///
    /// All hooks of before are called before the first tool runs, and all hooks of after when the last one
    /// has ended, in the order of the calls and on this thread.
    pub(super) fn run(&self, calls: &[ToolCall], context: &RunContext) -> (Vec<ToolRun>, Duration) {
        let jobs: Vec<Job<'_>> = calls
            .iter()
            .map(|call| self.prepare(call, context))
            .collect();
        let started = Instant::now();
        // A serial tool is a batch of its own.
        let is_serial = |job: &Job<'_>| job.tool.is_some_and(Tool::is_serial);
        for batch in jobs.chunk_by(|a, b| !is_serial(a) && !is_serial(b)) {
            self.run_batch(batch, context);
        }
        let duration = started.elapsed();
        let runs = jobs.into_iter().zip(calls);
        let runs = runs.map(|(job, asked)| self.finish(job, asked, context));
        (runs.collect(), duration)
    }

    /// Asks the hooks about a call and looks for its tool.
    fn prepare(&self, call: &ToolCall, context: &RunContext) -> Job<'_> {
        let mut call = call.clone();
        let done = OnceLock::new();
        if !context.cancel.is_cancelled()
            && let ControlFlow::Break(result) = self.hooks.before_tool(&mut call, context)
        {
            // It is empty, so this cannot fail.
            let _ = done.set((result, Duration::ZERO));
        }
        let tool = self.tools.iter().find(|tool| tool.name() == call.name);
        Job { call, tool, done }
    }

    fn run_batch(&self, batch: &[Job<'_>], context: &RunContext) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(job) = batch.get(next.fetch_add(1, Ordering::Relaxed)) {
                if context.cancel.is_cancelled() {
                    return;
                }
                job.done.get_or_init(|| self.run_one(job, context));
            }
        };
        thread::scope(|scope| {
            for _ in 1..batch.len().min(self.side_by_side.get()) {
                let thread = thread::Builder::new().name("acp-tool".to_owned());
                if thread.spawn_scoped(scope, work).is_err() {
                    // The system has no thread: those that it had, and this one, run all the calls.
                    break;
                }
            }
            work();
        });
    }

    fn run_one(&self, job: &Job<'_>, context: &RunContext) -> (ToolResult, Duration) {
        let Some(tool) = job.tool else {
            return (self.unknown(&job.call.name), Duration::ZERO);
        };
        let started = Instant::now();
        let result = tool.call(job.call.arguments.clone(), context);
        (result, started.elapsed())
    }

    fn unknown(&self, name: &str) -> ToolResult {
        let names: Vec<&str> = self.tools.iter().map(Tool::name).collect();
        let known = match names.as_slice() {
            [] => "there are none".to_owned(),
            names => format!("there are `{}`", names.join("`, `")),
        };
        ToolResult::error(format!("there is no tool `{name}`; {known}"))
    }

    fn finish(&self, job: Job<'_>, asked: &ToolCall, context: &RunContext) -> ToolRun {
        match job.done.into_inner() {
            Some((mut result, duration)) => {
                self.hooks.after_tool(&job.call, &mut result, context);
                ToolRun {
                    call: job.call,
                    result,
                    duration,
                }
            }
            // Only a cancel keeps a call from being run.
            None => not_run(asked, "the run was cancelled"),
        }
    }
}

/// What the model is told of a call that was not run.
pub(super) fn not_run(call: &ToolCall, why: &str) -> ToolRun {
    ToolRun {
        call: call.clone(),
        result: ToolResult::error(format!("the tool was not run: {why}")),
        duration: Duration::ZERO,
    }
}
