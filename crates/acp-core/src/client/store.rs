//! Where conversations are kept.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::message::Message;
use crate::sync::lock;

/// Keeps conversations, each under a name of the host's choice.
///
/// A run of [`InProcessClient`](crate::InProcessClient) loads its conversation once, before its first turn,
/// and appends once, after its last: the question, what the model said, the results of its tools. A run that
/// fails appends nothing, so that the conversation is as it was and the question can be asked again; what the
/// run had come to is in its error. Two runs of one client in one conversation at once are refused, so a load
/// and its append are not mixed with another's, as long as clients do not share conversations.
///
/// A reference to a store and an [`Arc`] of one are stores too, for a host that needs it elsewhere.
pub trait ConversationStore {
    /// Why a conversation cannot be loaded or kept.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The messages of a conversation, oldest first. One that nobody has appended to is empty.
    ///
    /// # Errors
    ///
    /// The run that wanted it ends before its first turn.
    fn load(&self, conversation: &str) -> Result<Vec<Message>, Self::Error>;

    /// Adds messages to the end of a conversation: all of them, or with an error none.
    ///
    /// # Errors
    ///
    /// The run whose messages they are ends with an error that has them, although its model and tools were
    /// done.
    fn append(&self, conversation: &str, messages: &[Message]) -> Result<(), Self::Error>;

    /// Puts these messages in the place of all that a conversation has; none of them forgets it. No run does
    /// this: it is for hosts that summarize or edit.
    ///
    /// # Errors
    ///
    /// The conversation is then as it was.
    fn replace(&self, conversation: &str, messages: &[Message]) -> Result<(), Self::Error>;
}

/// Keeps conversations in memory, as long as it lives. It never fails, so `let Ok(messages) = …` reads it.
#[derive(Debug, Default)]
pub struct MemoryStore {
    conversations: Mutex<HashMap<String, Vec<Message>>>,
}

impl MemoryStore {
    /// A store without conversations.
    pub fn new() -> Self {
        Self::default()
    }
}

impl ConversationStore for MemoryStore {
    type Error = Infallible;

    fn load(&self, conversation: &str) -> Result<Vec<Message>, Infallible> {
        let conversations = lock(&self.conversations);
        Ok(conversations.get(conversation).cloned().unwrap_or_default())
    }

    fn append(&self, conversation: &str, messages: &[Message]) -> Result<(), Infallible> {
        let mut conversations = lock(&self.conversations);
        let kept = conversations.entry(conversation.to_owned()).or_default();
        kept.extend_from_slice(messages);
        Ok(())
    }

    fn replace(&self, conversation: &str, messages: &[Message]) -> Result<(), Infallible> {
        let mut conversations = lock(&self.conversations);
        if messages.is_empty() {
            conversations.remove(conversation);
        } else {
            conversations.insert(conversation.to_owned(), messages.to_vec());
        }
        Ok(())
    }
}

impl<S: ConversationStore + ?Sized> ConversationStore for &S {
    type Error = S::Error;

    fn load(&self, conversation: &str) -> Result<Vec<Message>, S::Error> {
        (**self).load(conversation)
    }

    fn append(&self, conversation: &str, messages: &[Message]) -> Result<(), S::Error> {
        (**self).append(conversation, messages)
    }

    fn replace(&self, conversation: &str, messages: &[Message]) -> Result<(), S::Error> {
        (**self).replace(conversation, messages)
    }
}

impl<S: ConversationStore + ?Sized> ConversationStore for Arc<S> {
    type Error = S::Error;

    fn load(&self, conversation: &str) -> Result<Vec<Message>, S::Error> {
        (**self).load(conversation)
    }

    fn append(&self, conversation: &str, messages: &[Message]) -> Result<(), S::Error> {
        (**self).append(conversation, messages)
    }

    fn replace(&self, conversation: &str, messages: &[Message]) -> Result<(), S::Error> {
        (**self).replace(conversation, messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_are_kept_apart() {
        let store = Arc::new(MemoryStore::new());
        let by_reference: &dyn ConversationStore<Error = Infallible> = &&*store;
        let by_arc: &dyn ConversationStore<Error = Infallible> = &store;
        let (a, b) = ([Message::user("a")], [Message::user("b")]);
        let Ok(()) = store.append("one", &a);
        let Ok(()) = by_reference.append("one", &b);
        let Ok(()) = by_arc.append("two", &b);
        let messages = |conversation| {
            let Ok(messages) = by_reference.load(conversation);
            let Ok(same) = by_arc.load(conversation);
            assert_eq!(messages, same);
            messages
        };
        assert_eq!(messages("one"), [a[0].clone(), b[0].clone()]);
        assert_eq!(messages("two"), b);
        let Ok(()) = by_arc.replace("one", &b);
        let Ok(()) = by_reference.replace("two", &[]);
        assert_eq!(messages("one"), b);
        assert_eq!(messages("two"), []);
    }
}
