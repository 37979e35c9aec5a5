//! The seam between a host and its models, and the smallest client on the host's side of it.

use crate::error::GenerateError;
use crate::message::Message;
use crate::request::{GenerateRequest, GenerateResponse};

/// A model: a request in, an answer out.
///
/// An ACP agent is one ([`AcpModel`](crate::AcpModel), [`Lane`](crate::Lane)), and so is every closure of
/// this shape, which is all that a test or another provider needs:
///
/// ```
/// use acp_core::{Generate, GenerateError, GenerateRequest, GenerateResponse};
///
/// let echo = |request: &GenerateRequest| -> Result<GenerateResponse, GenerateError> {
///     Ok(GenerateResponse::text(format!("{} messages", request.messages.len())))
/// };
/// assert_eq!(echo.generate(&GenerateRequest::user("hi"))?.content, "1 messages");
/// # Ok::<(), GenerateError>(())
/// ```
pub trait Generate {
    /// Answers one request. The request is the whole conversation: nothing is remembered by the caller's
    /// leave.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`]; a model that is no ACP agent uses [`GenerateError::Model`].
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError>;
}

impl<F> Generate for F
where
    F: Fn(&GenerateRequest) -> Result<GenerateResponse, GenerateError>,
{
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        self(request)
    }
}

/// A conversation with any model.
///
/// It holds the messages and sends them all with every turn, as stateless clients do.
///
/// ```
/// use acp_core::{GenerateError, GenerateRequest, GenerateResponse, InProcessClient};
///
/// let model = |request: &GenerateRequest| -> Result<GenerateResponse, GenerateError> {
///     Ok(GenerateResponse::text(format!("{} so far", request.messages.len())))
/// };
/// let mut client = InProcessClient::new(model).system("Be terse.");
/// assert_eq!(client.ask("One?")?, "2 so far");
/// assert_eq!(client.ask("Two?")?, "4 so far");
/// # Ok::<(), GenerateError>(())
/// ```
#[derive(Debug)]
pub struct InProcessClient<G> {
    model: G,
    messages: Vec<Message>,
}

impl<G: Generate> InProcessClient<G> {
    /// An empty conversation with this model.
    pub fn new(model: G) -> Self {
        Self {
            model,
            messages: Vec::new(),
        }
    }

    /// Adds a system message.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.messages.push(Message::system(text));
        self
    }

    /// Asks the next question and adds it and its answer to the conversation. After an error the
    /// conversation is as it was before, so that the question can be asked again.
    ///
    /// # Errors
    ///
    /// Those of the model.
    pub fn ask(&mut self, question: impl Into<String>) -> Result<&str, GenerateError> {
        let mut request = GenerateRequest::new(self.messages.clone());
        request.messages.push(Message::user(question));
        let answer = self.model.generate(&request)?;
        self.messages = request.messages;
        self.messages.push(Message::assistant(answer.content));
        Ok(match self.messages.last().map(|message| &message.content) {
            Some(crate::Content::Text(text)) => text,
            _ => "",
        })
    }

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The model.
    pub fn model(&self) -> &G {
        &self.model
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_failed_turn_leaves_the_conversation_as_it_was() {
        let fail = Cell::new(true);
        let model = |request: &GenerateRequest| {
            if fail.get() {
                return Err(GenerateError::Cancelled {
                    partial: String::new(),
                });
            }
            Ok(GenerateResponse::text(request.messages.len().to_string()))
        };
        let mut client = InProcessClient::new(model);
        assert_eq!(client.ask("a").unwrap_err().kind(), "cancelled");
        assert_eq!(client.messages(), []);
        fail.set(false);
        assert_eq!(client.ask("a").unwrap(), "1");
        assert_eq!(
            client.messages(),
            [Message::user("a"), Message::assistant("1")]
        );
    }
}
