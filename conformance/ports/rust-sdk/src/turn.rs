//! The turns of a session.

use std::{cell::Cell, rc::Rc};

use agent_client_protocol::{
    Agent,
    util::MatchDispatch,
    v1::{
        ActiveSession, SessionMessage,
        schema::{
            CancelNotification, ContentBlock, ContentChunk, MessageId, PromptResponse, SessionId,
            SessionNotification, SessionUpdate, StopReason,
        },
    },
};
use serde_json::{Value, json};
use tokio::{
    select,
    sync::{Mutex, Notify},
};

use crate::client::{Connection, Failed};

/// A session of the SDK.
pub struct Lane {
    session_id: SessionId,
    /// A turn has the session for itself, as the SDK has one stream for all that comes of it.
    session: Mutex<ActiveSession<'static, Agent>>,
}

impl Lane {
    pub fn new(session: ActiveSession<'static, Agent>) -> Self {
        Self {
            session_id: session.session_id().clone(),
            session: Mutex::new(session),
        }
    }

    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }
}

#[derive(Clone, Copy)]
enum State {
    Waiting,
    Running,
    Over,
}

/// A turn, which waits for those before it on its lane.
pub struct Turn {
    connection: Rc<Connection>,
    lane: Rc<Lane>,
    state: Cell<State>,
    withdrawn: Notify,
}

impl Turn {
    pub fn new(connection: Rc<Connection>, lane: Rc<Lane>) -> Self {
        Self {
            connection,
            lane,
            state: Cell::new(State::Waiting),
            withdrawn: Notify::new(),
        }
    }

    /// Sends the prompt and reads to the end of the turn.
    pub async fn run(&self, prompt: Vec<ContentBlock>) -> Result<Value, Value> {
        let mut session = select! {
            biased;
            () = self.withdrawn.notified() => return Err(cancelled()),
            session = self.lane.session.lock() => session,
        };
        self.state.set(State::Running);
        self.connection.cancelled.set(&self.lane.session_id, false);
        let mut text = Text::default();
        let result = self.exchange(&mut session, prompt, &mut text).await;
        self.state.set(State::Over);
        result.map_err(|mut error| {
            if !text.0.is_empty() {
                error["partial"] = text.content().into();
            }
            error
        })
    }

    /// Cancels the turn, where it is not over or cancelled already. One that waits is not sent.
    pub fn cancel(&self) {
        match self.state.replace(State::Over) {
            State::Waiting => self.withdrawn.notify_one(),
            State::Running => {
                let session = &self.lane.session_id;
                self.connection.cancelled.set(session, true);
                let cancel = CancelNotification::new(session.clone());
                // Where the connection is gone the turn fails of itself.
                let _ = self.connection.to.send_notification_to(Agent, cancel);
            }
            State::Over => {}
        }
    }

    async fn exchange(
        &self,
        session: &mut ActiveSession<'static, Agent>,
        prompt: Vec<ContentBlock>,
        text: &mut Text,
    ) -> Result<Value, Value> {
        let response = match self.read(session, prompt, text).await {
            Ok(Some(response)) => response,
            Ok(None) => return Err(self.connection.gone().await),
            Err((method, error)) => return Err(self.connection.failed(method, &error).await),
        };
        match response.stop_reason {
            StopReason::Cancelled => Err(cancelled()),
            StopReason::Refusal => {
                Err(json!({"kind": "refused", "message": "the agent refused to go on"}))
            }
            reason => Ok(json!({
                "content": text.content(),
                "messages": text.messages(),
                "stop_reason": reason,
            })),
        }
    }

    /// What `ActiveSession::read_to_string` does, but for the stop reason, which that does not give.
    async fn read(
        &self,
        session: &mut ActiveSession<'static, Agent>,
        prompt: Vec<ContentBlock>,
        text: &mut Text,
    ) -> Result<Option<PromptResponse>, Failed> {
        let prompted = |error| ("session/prompt", error);
        let updated = |error| ("session/update", error);
        session.send_prompt_blocks(prompt).map_err(prompted)?;
        loop {
            let message = select! {
                biased;
                message = session.read_update() => message.map_err(prompted)?,
                // The SDK drops what is open when a connection ends with an error.
                _ = self.connection.ended() => return Ok(None),
            };
            match message {
                SessionMessage::PromptResponse(response) => {
                    return response.map(Some).map_err(prompted);
                }
                SessionMessage::Message(dispatch) => MatchDispatch::new(dispatch.into_raw())
                    .if_notification(async |notification: SessionNotification| {
                        if let SessionUpdate::AgentMessageChunk(ContentChunk {
                            content: ContentBlock::Text(chunk),
                            message_id,
                            ..
                        }) = notification.update
                        {
                            text.push(message_id, &chunk.text);
                        }
                        Ok(())
                    })
                    .await
                    .otherwise_ignore()
                    .map_err(updated)?,
                _ => {}
            }
        }
    }
}

/// The text of an answer, by the messages that it came in.
#[derive(Default)]
struct Text(Vec<(Option<MessageId>, String)>);

impl Text {
    fn push(&mut self, id: Option<MessageId>, chunk: &str) {
        match self.0.last_mut() {
            Some((last, text)) if *last == id => text.push_str(chunk),
            _ => self.0.push((id, chunk.to_owned())),
        }
    }

    fn content(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    fn messages(&self) -> Vec<Value> {
        let message = |(id, text): &_| json!({"message_id": id, "text": text});
        self.0.iter().map(message).collect()
    }
}

fn cancelled() -> Value {
    json!({"kind": "cancelled", "message": "the turn was cancelled"})
}
