//! The seam between a host and its models.

use std::sync::Arc;

use super::cancel::CancelToken;
use crate::blocking::{AcpModel, Lane};
use crate::error::GenerateError;
use crate::request::{GenerateRequest, GenerateResponse};

/// A model: a request in, an answer out.
///
/// An ACP agent is one ([`AcpModel`], [`Lane`], and references to them), and so is an [`Arc`] of any, as
/// `Arc<dyn Generate>` for one that is chosen at run time. Every closure of this shape is one, too, which is all
/// that a test or another provider needs:
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

    /// Answers one request, and gives up early when the token is cancelled. [`AcpModel`] and [`Lane`] cancel
    /// the agent's turn then. A model that does not say how it is cancelled, as a closure, answers to the end.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Cancelled`] after a cancel, and those of [`Generate::generate`].
    fn generate_cancellable(
        &self,
        request: &GenerateRequest,
        cancel: &CancelToken,
    ) -> Result<GenerateResponse, GenerateError> {
        if cancel.is_cancelled() {
            return Err(GenerateError::Cancelled {
                partial: String::new(),
            });
        }
        self.generate(request)
    }
}

impl<F> Generate for F
where
    F: Fn(&GenerateRequest) -> Result<GenerateResponse, GenerateError>,
{
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        self(request)
    }
}

impl<G: Generate + ?Sized> Generate for Arc<G> {
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        (**self).generate(request)
    }

    fn generate_cancellable(
        &self,
        request: &GenerateRequest,
        cancel: &CancelToken,
    ) -> Result<GenerateResponse, GenerateError> {
        (**self).generate_cancellable(request, cancel)
    }
}

// Not for every reference: one to a closure is a closure, and has its implementation already.

impl Generate for &AcpModel {
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        AcpModel::generate(self, request)
    }

    fn generate_cancellable(
        &self,
        request: &GenerateRequest,
        cancel: &CancelToken,
    ) -> Result<GenerateResponse, GenerateError> {
        (**self).generate_cancellable(request, cancel)
    }
}

impl Generate for &Lane {
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        Lane::generate(self, request)
    }

    fn generate_cancellable(
        &self,
        request: &GenerateRequest,
        cancel: &CancelToken,
    ) -> Result<GenerateResponse, GenerateError> {
        (**self).generate_cancellable(request, cancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_is_not_asked_after_a_cancel() {
        let model = |_: &GenerateRequest| Ok(GenerateResponse::text("hi"));
        let (request, cancel) = (GenerateRequest::user("hi"), CancelToken::new());
        let chosen: Arc<dyn Generate> = Arc::new(model);
        let answer = chosen.generate_cancellable(&request, &cancel);
        assert_eq!(answer.unwrap().content, "hi");
        cancel.cancel();
        let error = model.generate_cancellable(&request, &cancel).unwrap_err();
        assert_eq!(error.kind(), "cancelled");
    }
}
