//! What a turn comes to, once the agent has answered its prompt or will not any more.

use serde_json::Value;

use super::{Answer, CancelCause, Turn};
use crate::error::{AuthRequired, GenerateError, InvalidResponse, MalformedReply, Rejected};
use crate::protocol::{AuthMethod, ErrorObject, method};
use crate::reply::Reply;
use crate::request::{GenerateResponse, StopReason};
use crate::wire::code;

impl Turn {
    /// What the turn came to. It is large, and taken apart where it is.
    pub(crate) fn finish(
        mut self: Box<Self>,
        auth_methods: &[AuthMethod],
        stderr_tail: &dyn Fn() -> String,
    ) -> Result<GenerateResponse, GenerateError> {
        self.flush();
        self.reply();
        let read = self.reply.take().unwrap_or_else(|| Ok(Reply::default()));
        let partial = std::mem::take(&mut self.text);
        match self.cancel {
            Some(CancelCause::Host) => return Err(GenerateError::Cancelled { partial }),
            Some(CancelCause::Idle(limit)) => {
                return Err(GenerateError::IdleTimeout { limit, partial });
            }
            Some(CancelCause::Deadline(limit)) => {
                return Err(GenerateError::DeadlineExceeded { limit, partial });
            }
            None => {}
        }
        let result = match self.answer.take() {
            Some(Answer::Result(result)) => result,
            Some(Answer::Error(error)) if error.code == code::AUTH_REQUIRED => {
                return Err(GenerateError::AuthRequired {
                    error: Box::new(AuthRequired {
                        method: method::SESSION_PROMPT,
                        methods: auth_methods.to_vec(),
                        message: error.message,
                    }),
                    partial,
                });
            }
            Some(Answer::Error(error)) => {
                return Err(GenerateError::Rejected {
                    error: Box::new(rejected(method::SESSION_PROMPT, error)),
                    partial,
                });
            }
            Some(Answer::Invalid(detail)) => {
                return Err(GenerateError::InvalidResponse {
                    error: Box::new(InvalidResponse {
                        method: method::SESSION_PROMPT,
                        detail,
                    }),
                    partial,
                });
            }
            None => return Err(GenerateError::Closed { partial }),
        };
        let Some(stop_reason) = read_stop_reason(&result.stop_reason) else {
            return Err(match result.stop_reason.as_str() {
                Some("refusal") => GenerateError::Refused { partial },
                Some("cancelled") => GenerateError::Cancelled { partial },
                _ => GenerateError::UnknownStopReason {
                    stop_reason: result.stop_reason,
                    partial,
                },
            });
        };
        if partial.is_empty() && stop_reason == StopReason::EndTurn && !self.options.allow_empty {
            return Err(GenerateError::EmptyTurn {
                dropped: Box::new(self.dropped),
                stderr_tail: stderr_tail(),
            });
        }
        let reply = match read {
            // Nothing at all says nothing, however it was asked for.
            _ if partial.is_empty() => Reply::default(),
            Ok(reply) => reply,
            Err(fault) => {
                let error = MalformedReply {
                    fault,
                    repairs: self.repairs,
                    usage: result.usage,
                };
                return Err(GenerateError::MalformedReply {
                    error: Box::new(error),
                    partial,
                });
            }
        };
        let (content, messages) = match reply.content {
            Some(content) => (content, Vec::new()),
            None => (partial, self.messages),
        };
        Ok(GenerateResponse {
            content,
            tool_calls: reply.calls,
            stop_reason,
            usage: result.usage,
            dropped: self.dropped,
            messages,
            repairs: self.repairs,
        })
    }
}

/// The stop reasons that end a turn with an answer.
pub(crate) fn read_stop_reason(stop_reason: &Value) -> Option<StopReason> {
    match stop_reason.as_str()? {
        "end_turn" => Some(StopReason::EndTurn),
        "max_tokens" => Some(StopReason::MaxTokens),
        "max_turn_requests" => Some(StopReason::MaxTurnRequests),
        _ => None,
    }
}

/// An error answer as the error that the caller sees.
pub(crate) fn rejected(method: &'static str, error: ErrorObject) -> Rejected {
    Rejected {
        method,
        code: error.code,
        message: error.message,
        data: error.data,
    }
}
