//! Cancels, in every phase of a run.

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use acp_core::{
    CancelToken, Generate, GenerateError, GenerateRequest, GenerateResponse, InProcessClient, Run,
    RunContext, RunError, RunRequest, Tool,
};
use serde_json::{Value, json};

use crate::model::{Script, calling, results, text, tool};

/// Longer than anything here may take.
const LONG: Duration = Duration::from_secs(60);

fn cancelled<G: Generate>(client: &InProcessClient<G>, token: &CancelToken) -> Run {
    let error = client.run(RunRequest::user("?").cancel(token)).unwrap_err();
    assert_eq!(error.kind(), "cancelled");
    assert_eq!(error.to_string(), "the run was cancelled");
    let Ok(kept) = client.messages();
    assert_eq!(kept, []);
    error.run().unwrap().clone()
}

#[test]
fn before_the_first_turn() {
    let token = CancelToken::new();
    token.cancel();
    let client = InProcessClient::new(Script::new([text("hi")]))
        .before_model(|_, _| unreachable!("it was cancelled"));
    let run = cancelled(&client, &token);
    assert_eq!(run.turns.len(), 0);
    assert_eq!(client.model().asked().len(), 0);
}

/// A model that thinks until it is cancelled.
struct Thinks(mpsc::Sender<()>);

impl Generate for Thinks {
    fn generate(&self, _: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        unreachable!("a run has a token")
    }

    fn generate_cancellable(
        &self,
        _: &GenerateRequest,
        cancel: &CancelToken,
    ) -> Result<GenerateResponse, GenerateError> {
        self.0.send(()).unwrap();
        assert!(cancel.wait_timeout(LONG));
        Err(GenerateError::Cancelled {
            partial: "Well".to_owned(),
        })
    }
}

#[test]
fn while_the_model_thinks() {
    let (begun, begins) = mpsc::channel();
    let (client, token) = (InProcessClient::new(Thinks(begun)), CancelToken::new());
    let started = Instant::now();
    let error = thread::scope(|scope| {
        let run = scope.spawn(|| client.run(RunRequest::user("?").cancel(&token)));
        begins.recv_timeout(LONG).unwrap();
        token.cancel();
        run.join().unwrap().unwrap_err()
    });
    assert!(started.elapsed() < LONG);
    assert!(matches!(&error, RunError::Cancelled { partial, .. } if partial == "Well"));
    assert_eq!(error.partial(), "Well");
    let report =
        json!({"kind": "cancelled", "message": "the run was cancelled", "partial": "Well"});
    assert_eq!(serde_json::to_value(&error).unwrap(), report);
    assert!(error.run().unwrap().timings.model > Duration::ZERO);
}

#[test]
fn a_turn_that_the_agent_cancels_is_an_error_of_the_model() {
    let model = |_: &GenerateRequest| {
        Err(GenerateError::Cancelled {
            partial: "Hm".to_owned(),
        })
    };
    let error = InProcessClient::new(model).ask("?").unwrap_err();
    assert!(matches!(error, RunError::Model { .. }));
    assert_eq!((error.kind(), error.partial()), ("cancelled", "Hm"));
}

#[test]
fn a_model_that_answers_all_the_same_has_its_tools_not_run() {
    let token = CancelToken::new();
    let inner = token.clone();
    let model = move |_: &GenerateRequest| {
        inner.cancel();
        Ok(calling(["never", "never"]))
    };
    let client = InProcessClient::new(model)
        .tool(tool("never", || unreachable!("it was cancelled")))
        .before_tool(|_, _| unreachable!("it was cancelled"))
        .after_tool(|_, _, _| unreachable!("it was cancelled"));
    let run = cancelled(&client, &token);
    assert_eq!(run.turns.len(), 1);
    let why = "error: the tool was not run: the run was cancelled".to_owned();
    let expected = [("c0".to_owned(), why.clone()), ("c1".to_owned(), why)];
    assert_eq!(results(&run.messages), expected);
}

#[test]
fn an_answer_that_comes_after_the_cancel_is_none() {
    let token = CancelToken::new();
    let inner = token.clone();
    let client = InProcessClient::new(move |_: &GenerateRequest| {
        inner.cancel();
        Ok(text("too late"))
    });
    assert_eq!(cancelled(&client, &token).text(), "too late");
}

#[test]
fn while_a_tool_runs() {
    let (begun, begins) = mpsc::channel();
    let begun = Mutex::new(begun);
    let waits = Tool::new_with(
        "waits",
        "",
        json!({"type": "object"}),
        move |_: Value, context: &RunContext| {
            begun.lock().unwrap().send(()).unwrap();
            match context.cancel.wait_timeout(LONG) {
                true => Err::<(), _>("gave up"),
                false => Err("was not told"),
            }
        },
    );
    let after = tool("after", || unreachable!("it was cancelled")).serial();
    let client = InProcessClient::new(Script::new([calling(["waits", "waits", "after"])]))
        .tool(waits)
        .tool(after);
    let token = CancelToken::new();
    let run = thread::scope(|scope| {
        let run = scope.spawn(|| cancelled(&client, &token));
        for _ in 0..2 {
            begins.recv_timeout(LONG).unwrap();
        }
        token.cancel();
        run.join().unwrap()
    });
    let texts: Vec<_> = results(&run.messages)
        .into_iter()
        .map(|result| result.1)
        .collect();
    let not_run = "error: the tool was not run: the run was cancelled";
    assert_eq!(texts, ["error: gave up", "error: gave up", not_run]);
    assert_eq!(client.model().asked().len(), 1);
}

#[test]
fn by_a_hook() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let client = InProcessClient::new(Script::new([calling(["never", "never"])]))
        .tool(tool("never", || unreachable!("it was cancelled")))
        .before_tool(move |call, context| {
            seen.lock().unwrap().push(call.id.clone());
            context.cancel.cancel();
            ControlFlow::Continue(())
        });
    // The token is the run's own, so nothing else is cancelled.
    let error = client.run("?").unwrap_err();
    assert_eq!(error.kind(), "cancelled");
    assert_eq!(*log.lock().unwrap(), ["c0"]);
    client.model().then(text("hi"));
    assert_eq!(client.ask("?").unwrap(), "hi");
}

#[test]
fn a_client_within_a_tool_is_cancelled_with_the_one_around_it() {
    let (begun, begins) = mpsc::channel();
    let inner = Mutex::new(InProcessClient::new(Thinks(begun)));
    let research = Tool::new_with(
        "research",
        "",
        json!({"type": "object"}),
        move |_: Value, context: &RunContext| {
            let question = RunRequest::user("Look it up.").cancel(&context.cancel);
            inner.lock().unwrap().ask(question)
        },
    );
    let client = InProcessClient::new(Script::new([calling(["research"])])).tool(research);
    let token = CancelToken::new();
    let run = thread::scope(|scope| {
        let run = scope.spawn(|| cancelled(&client, &token));
        begins.recv_timeout(LONG).unwrap();
        token.cancel();
        run.join().unwrap()
    });
    assert_eq!(results(&run.messages)[0].1, "error: the run was cancelled");
}
