//! What the application answers when the agent asks for a permission. The SDK leaves that to it.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use agent_client_protocol::v1::schema::{
    PermissionOptionKind::{self, AllowAlways, AllowOnce, RejectAlways, RejectOnce},
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId,
};
use serde_json::Value;

/// The kinds of options to look for, each a group of equals.
#[derive(Clone, Copy)]
pub struct Policy(&'static [&'static [PermissionOptionKind]]);

impl Policy {
    /// The policy that `load` asks for, if there is such a one.
    pub fn of(args: &Value) -> Option<Self> {
        match args["permission"].as_str() {
            None | Some("first_allow") => Some(Self(&[&[AllowOnce, AllowAlways]])),
            Some("allow_once") => Some(Self(&[&[AllowOnce], &[AllowAlways]])),
            Some("reject") => Some(Self(&[&[RejectOnce], &[RejectAlways]])),
            Some(_) => None,
        }
    }

    /// The answer to `request`: cancelled where nothing fits.
    pub fn answer(self, request: &RequestPermissionRequest) -> RequestPermissionResponse {
        let offered = |kinds: &&[PermissionOptionKind]| {
            let fits = |kind| kinds.contains(kind);
            request.options.iter().find(|option| fits(&option.kind))
        };
        let Some(option) = self.0.iter().find_map(offered) else {
            return cancelled();
        };
        let selected = SelectedPermissionOutcome::new(option.option_id.clone());
        RequestPermissionResponse::new(RequestPermissionOutcome::Selected(selected))
    }
}

/// The answer in a turn that was cancelled.
pub fn cancelled() -> RequestPermissionResponse {
    RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled)
}

/// The sessions whose turn was cancelled: ACP has their permission requests answered so too.
#[derive(Clone, Default)]
pub struct CancelledTurns(Arc<Mutex<HashSet<SessionId>>>);

impl CancelledTurns {
    /// Whether the turn of `session` was cancelled.
    pub fn contains(&self, session: &SessionId) -> bool {
        self.lock().contains(session)
    }

    /// The turn of `session` was cancelled, or it has a new one.
    pub fn set(&self, session: &SessionId, cancelled: bool) {
        if cancelled {
            self.lock().insert(session.clone());
        } else {
            self.lock().remove(session);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
