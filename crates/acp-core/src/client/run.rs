//! What a run is asked, and what it comes to.

use std::time::Duration;

use serde_json::Value;

use super::cancel::CancelToken;
use super::tool::ToolResult;
use crate::message::{Message, ToolCall};
use crate::request::{GenerateResponse, StopReason};

/// What [`InProcessClient::run`](crate::InProcessClient::run) is asked.
///
/// A string or a message is one, and so is a list of messages. With none at all the run goes on with what the
/// conversation ends with, see [`RunRequest::resume`].
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    pub(super) messages: Vec<Message>,
    pub(super) conversation: Option<String>,
    pub(super) cancel: CancelToken,
    pub(super) tool_choice: Option<Value>,
    pub(super) response_format: Option<Value>,
}

impl RunRequest {
    /// Asks these messages.
    pub fn new(messages: impl Into<Vec<Message>>) -> Self {
        Self {
            messages: messages.into(),
            ..Self::default()
        }
    }

    /// Asks this question.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new([Message::user(text)])
    }

    /// Asks nothing new: the conversation ends with what is to be answered, as it does when the host has
    /// appended the messages of a run that failed.
    pub fn resume() -> Self {
        Self::default()
    }

    /// The conversation that it belongs to. Without this it is the one that is called
    /// [`DEFAULT_CONVERSATION`](crate::DEFAULT_CONVERSATION).
    #[must_use]
    pub fn conversation(mut self, name: impl Into<String>) -> Self {
        self.conversation = Some(name.into());
        self
    }

    /// What cancels the run.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// Which tools the model may or must call in the run's first turn, as in OpenAI chat completions: `auto`,
    /// `none`, `required`, or one function. The turns after it are free, because one that must call a tool
    /// never ends a run.
    #[must_use]
    pub fn tool_choice(mut self, choice: Value) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// The form of the answer's text, see
    /// [`GenerateRequest::response_format`](crate::GenerateRequest::response_format).
    #[must_use]
    pub fn response_format(mut self, format: Value) -> Self {
        self.response_format = Some(format);
        self
    }
}

impl From<&str> for RunRequest {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for RunRequest {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

impl From<Message> for RunRequest {
    fn from(message: Message) -> Self {
        Self::new([message])
    }
}

impl From<Vec<Message>> for RunRequest {
    fn from(messages: Vec<Message>) -> Self {
        Self::new(messages)
    }
}

/// What a run came to; within a [`RunError`](crate::RunError), what it had come to.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// The messages that it added to the conversation: those it was asked, and then, for each turn, the
    /// model's and the results of the tools that it called. Every call has its result, also in a run that
    /// failed, where it may be that the call was not run.
    pub messages: Vec<Message>,
    /// Its turns, one for each answer of the model.
    pub turns: Vec<RunTurn>,
    /// Where its time went.
    pub timings: Timings,
}

/// One answer of the model, and the tools that it called.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunTurn {
    /// The answer as the hooks left it, with its usage and its repairs.
    pub response: GenerateResponse,
    /// From the request to the answer; zero if a hook answered.
    pub duration: Duration,
    /// The calls, in the order of the answer.
    pub tools: Vec<ToolRun>,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolRun {
    /// The call as the hooks left it. What the model asked for is in its answer.
    pub call: ToolCall,
    /// Its result as the hooks left it.
    pub result: ToolResult,
    /// How long the tool took; zero if it was not run.
    pub duration: Duration,
}

/// Where the time of a run went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// From the call to its end, the store and the hooks included.
    pub total: Duration,
    /// All turns of the model together.
    pub model: Duration,
    /// The waits for tools together, without the hooks. Tools side by side are waited for once, so this may be
    /// less than the sum of their durations.
    pub tools: Duration,
}

/// Tokens of all turns of a run together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsageSum {
    /// The sum of `inputTokens`.
    pub input_tokens: Option<u64>,
    /// The sum of `outputTokens`.
    pub output_tokens: Option<u64>,
    /// The sum of `totalTokens`.
    pub total_tokens: Option<u64>,
}

impl Run {
    /// The text of the last answer, which in a run that has ended well is the answer to what was asked.
    pub fn text(&self) -> &str {
        self.turns
            .last()
            .map_or("", |turn| turn.response.content.as_str())
    }

    /// Why the last turn ended: the text of one that has not ended with
    /// [`EndTurn`](StopReason::EndTurn) may be cut.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.turns.last().map(|turn| turn.response.stop_reason)
    }

    /// The calls of all turns, in their order.
    pub fn tools(&self) -> impl Iterator<Item = &ToolRun> {
        self.turns.iter().flat_map(|turn| &turn.tools)
    }

    /// What the model reported as usage, as it came: for each reply in order, those included that had to be
    /// repaired. Agents name and count things differently, and not all report something.
    pub fn usage(&self) -> impl Iterator<Item = Option<&Value>> {
        self.turns.iter().flat_map(|turn| {
            let response = &turn.response;
            let repairs = response.repairs.iter().map(|repair| repair.usage.as_ref());
            repairs.chain([response.usage.as_ref()])
        })
    }

    /// The sums of the members that ACP names in a prompt's usage, each only where every reply has it.
    ///
    /// They are right for agents that report what each turn used. ACP does not settle that: its draft also
    /// speaks of the whole session, and for an agent that counts so the last of [`Run::usage`] is what there
    /// is to know. Know your agent before you bill by this.
    pub fn usage_sum(&self) -> UsageSum {
        let sum = |name| {
            if self.turns.is_empty() {
                return None;
            }
            self.usage()
                .map(|usage| usage?.get(name)?.as_u64())
                .try_fold(0_u64, |sum, tokens| sum.checked_add(tokens?))
        };
        UsageSum {
            input_tokens: sum("inputTokens"),
            output_tokens: sum("outputTokens"),
            total_tokens: sum("totalTokens"),
        }
    }

    /// How many replies of the model were not in the form that was asked for, so that it was asked again.
    pub fn repairs(&self) -> usize {
        self.turns
            .iter()
            .map(|turn| turn.response.repairs.len())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Repair;
    use serde_json::json;

    fn turn(usage: Option<Value>, repairs: &[Option<Value>]) -> RunTurn {
        let mut response = GenerateResponse::text("t");
        response.usage = usage;
        response.repairs = repairs
            .iter()
            .map(|usage| Repair {
                fault: "no JSON".to_owned(),
                usage: usage.clone(),
                duration: Duration::ZERO,
            })
            .collect();
        RunTurn {
            response,
            duration: Duration::ZERO,
            tools: Vec::new(),
        }
    }

    #[test]
    fn usage_is_summed_only_where_every_reply_has_it() {
        let usage = |input: u64, output: Value| {
            Some(json!({"inputTokens": input, "outputTokens": output, "cost": 1}))
        };
        let mut run = Run::default();
        assert_eq!(run.usage_sum(), UsageSum::default());
        run.turns
            .push(turn(usage(10, json!(1)), &[usage(100, json!(null))]));
        run.turns.push(turn(usage(1000, json!(2)), &[]));
        let sum = UsageSum {
            input_tokens: Some(1110),
            ..UsageSum::default()
        };
        assert_eq!(run.usage_sum(), sum);
        assert_eq!(run.repairs(), 1);
        let inputs: Vec<_> = run
            .usage()
            .map(|usage| usage.map(|usage| usage["inputTokens"].clone()))
            .collect();
        assert_eq!(inputs, [100, 10, 1000].map(|input| Some(json!(input))));
        run.turns.push(turn(usage(u64::MAX, json!(2)), &[]));
        assert_eq!(run.usage_sum().input_tokens, None);
        run.turns[2] = turn(None, &[]);
        assert_eq!(run.usage_sum(), UsageSum::default());
        assert_eq!(run.usage().count(), 4);
    }
}
