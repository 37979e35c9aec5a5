//! Functions of the host that answer what the agent asks.

use std::sync::Arc;

use serde_json::Value;

use crate::permission::{PermissionDecision, PermissionRequest};

#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) permission: Option<Arc<PermissionHook>>,
    pub(crate) request: Option<Arc<RequestHook>>,
    #[cfg(feature = "tokio")]
    pub(crate) permission_async: Option<Arc<AsyncPermissionHook>>,
    #[cfg(feature = "tokio")]
    pub(crate) request_async: Option<Arc<AsyncRequestHook>>,
}

pub(crate) type PermissionHook = dyn Fn(&PermissionRequest) -> PermissionDecision + Send + Sync;
pub(crate) type RequestHook = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

#[cfg(feature = "tokio")]
pub(crate) use asynchronous::{AsyncPermissionHook, AsyncRequestHook};

#[cfg(feature = "tokio")]
mod asynchronous {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;

    use tokio::runtime::Handle;
    use tokio::task::JoinHandle;

    use super::*;

    type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
    pub(crate) type AsyncPermissionHook =
        dyn Fn(PermissionRequest) -> BoxFuture<PermissionDecision> + Send + Sync;
    pub(crate) type AsyncRequestHook =
        dyn Fn(String, Value) -> BoxFuture<Option<Value>> + Send + Sync;

    impl Hooks {
        /// Whether there is somebody to be asked about permissions.
        pub(crate) fn can_ask_async(&self) -> bool {
            self.permission.is_some() || self.permission_async.is_some()
        }

        /// Asks about a permission, in a task of its own or on a thread that may wait.
        pub(crate) fn decide(
            &self,
            runtime: &Handle,
            request: PermissionRequest,
        ) -> Option<JoinHandle<PermissionDecision>> {
            if let Some(decide) = self.permission_async.clone() {
                return Some(runtime.spawn(async move { decide(request).await }));
            }
            let decide = self.permission.clone()?;
            spawn_blocking(runtime, move || decide(&request))
        }

        /// Asks for the answer to a vendor's request in the same way.
        pub(crate) fn answer(
            &self,
            runtime: &Handle,
            method: String,
            params: Value,
        ) -> Option<JoinHandle<Option<Value>>> {
            if let Some(answer) = self.request_async.clone() {
                return Some(runtime.spawn(async move { answer(method, params).await }));
            }
            let answer = self.request.clone()?;
            spawn_blocking(runtime, move || answer(&method, &params))
        }
    }

    /// Runs what may wait on a thread of the runtime; none where the system gives no thread, which would be a panic
    /// of whoever reads what the agent says.
    fn spawn_blocking<T: Send + 'static>(
        runtime: &Handle,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> Option<JoinHandle<T>> {
        catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(run))).ok()
    }
}
