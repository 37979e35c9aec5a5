//! Conversations: what a run keeps, and when it keeps nothing.

use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use acp_core::{
    ConversationStore, GenerateRequest, GenerateResponse, InProcessClient, MemoryStore, Message,
    RunRequest,
};

use crate::model::{Script, text};

fn count(request: &GenerateRequest) -> Result<GenerateResponse, acp_core::GenerateError> {
    Ok(GenerateResponse::text(request.messages.len().to_string()))
}

#[test]
fn conversations_do_not_know_of_each_other() {
    let store = MemoryStore::new();
    let client = InProcessClient::new(count).with_store(&store).system("s");
    let ask = |name: &str| {
        client
            .ask(RunRequest::user("?").conversation(name))
            .unwrap()
    };
    assert_eq!(ask("one"), "2");
    assert_eq!(ask("one"), "4");
    assert_eq!(ask("two"), "2");
    assert_eq!(client.ask("?").unwrap(), "2");
    // They outlive the client.
    let another = InProcessClient::new(count).with_store(&store);
    let request = RunRequest::user("?").conversation("one");
    assert_eq!(another.ask(request).unwrap(), "5");
    let Ok(kept) = store.load("two");
    assert_eq!(kept, [Message::user("?"), Message::assistant("2")]);
}

/// Keeps conversations while it can.
#[derive(Default)]
struct Disk {
    memory: MemoryStore,
    unreadable: AtomicBool,
    full: AtomicBool,
}

impl Disk {
    fn kept(&self) -> Vec<Message> {
        let Ok(kept) = self.memory.load("default");
        kept
    }
}

impl ConversationStore for Disk {
    type Error = io::Error;

    fn load(&self, conversation: &str) -> Result<Vec<Message>, io::Error> {
        if self.unreadable.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let Ok(messages) = self.memory.load(conversation);
        Ok(messages)
    }

    fn append(&self, conversation: &str, messages: &[Message]) -> Result<(), io::Error> {
        if self.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let Ok(()) = self.memory.append(conversation, messages);
        Ok(())
    }

    fn replace(&self, conversation: &str, messages: &[Message]) -> Result<(), io::Error> {
        let Ok(()) = self.memory.replace(conversation, messages);
        Ok(())
    }
}

#[test]
fn a_store_that_fails_is_an_error_with_what_it_did_not_take() {
    let disk = Arc::new(Disk::default());
    let model = Script::new([text("a"), text("b"), text("c")]);
    let client = InProcessClient::new(model).with_store(Arc::clone(&disk));
    client.ask("first").unwrap();
    let kept = disk.kept();

    disk.unreadable.store(true, Ordering::Relaxed);
    let error = client.ask("second").unwrap_err();
    assert_eq!(error.kind(), "store_failed");
    assert_eq!(
        error.to_string(),
        "the conversation store failed: permission denied"
    );
    assert_eq!(error.run().unwrap().turns.len(), 0);
    assert_eq!(client.model().asked().len(), 1);

    disk.unreadable.store(false, Ordering::Relaxed);
    disk.full.store(true, Ordering::Relaxed);
    let error = client.ask("third").unwrap_err();
    assert_eq!(error.kind(), "store_failed");
    let run = error.run().unwrap();
    assert_eq!(run.text(), "b");
    assert_eq!(
        run.messages,
        [Message::user("third"), Message::assistant("b")]
    );
    assert_eq!(disk.kept(), kept);
    assert_eq!(client.messages().unwrap(), kept);

    disk.full.store(false, Ordering::Relaxed);
    assert_eq!(client.ask("third").unwrap(), "c");
}

type Nested = InProcessClient<Box<Model>>;
type Model =
    dyn Fn(&GenerateRequest) -> Result<GenerateResponse, acp_core::GenerateError> + Send + Sync;

#[test]
fn one_run_at_a_time_in_a_conversation() {
    // The model itself asks in a conversation of its own, and in the one that waits for it.
    let client: Arc<OnceLock<Nested>> = Arc::default();
    let inner = Arc::clone(&client);
    let model = move |request: &GenerateRequest| {
        let client = inner.get().unwrap();
        if request.messages.len() > 1 {
            return count(request);
        }
        let busy = client.ask("again?").unwrap_err();
        assert_eq!(busy.kind(), "busy");
        assert_eq!(
            busy.to_string(),
            "another run goes on in the conversation `default`"
        );
        assert!(busy.run().is_none());
        let two = vec![Message::user("a"), Message::user("b")];
        let other = client.ask(RunRequest::new(two).conversation("other"));
        Ok(GenerateResponse::text(other.unwrap()))
    };
    let client = client.get_or_init(|| InProcessClient::new(Box::new(model)));
    assert_eq!(client.ask("?").unwrap(), "2");
    assert_eq!(client.ask("?").unwrap(), "3");
}

#[test]
fn a_panic_in_a_hook_leaves_the_conversation_free_and_as_it_was() {
    let once = AtomicBool::new(true);
    let client = InProcessClient::new(count).before_model(move |_, _| {
        assert!(!once.swap(false, Ordering::Relaxed), "a bug in a hook");
        ControlFlow::Continue(())
    });
    assert!(catch_unwind(AssertUnwindSafe(|| client.ask("?"))).is_err());
    assert_eq!(client.ask("?").unwrap(), "1");
}

#[test]
fn conversations_run_side_by_side() {
    let meeting = crate::model::Meeting::default();
    let model = |_: &GenerateRequest| Ok(GenerateResponse::text(meeting.of(2).to_string()));
    let client = InProcessClient::new(model);
    std::thread::scope(|scope| {
        let runs = ["one", "two"].map(|name| {
            let request = RunRequest::user("?").conversation(name);
            scope.spawn(|| client.ask(request))
        });
        for run in runs {
            assert_eq!(run.join().unwrap().unwrap(), "true");
        }
    });
}
