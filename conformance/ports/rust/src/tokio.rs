//! The driver of `acp_core::tokio` (`spec/driver-protocol.md`), on one thread. It adapts and fixes nothing.

mod answer;
mod options;
mod protocol;

use std::{
    collections::{HashMap, VecDeque},
    future::{self, Future},
    io::{self, BufRead},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use acp_core::{
    GenerateRequest, PermissionDecision, PermissionRequest,
    tokio::{AcpModel, Canceller, Lane, load_acp},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{runtime, sync::mpsc};

use answer::Seq;
use options::{load_options, turn_options};
use protocol::{Request, answered, greeting, lane_name};

fn main() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (lines, requests) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    runtime.block_on(Arc::new(Driver::default()).run(requests))
}

#[derive(Default)]
struct Driver {
    model: Mutex<Option<Arc<AcpModel>>>,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
    turns: Mutex<HashMap<String, Canceller>>,
}

impl Driver {
    async fn run(self: Arc<Self>, mut lines: mpsc::UnboundedReceiver<String>) -> io::Result<()> {
        while let Some(line) = lines.recv().await {
            let request: Request = serde_json::from_str(&line)?;
            let seq = Seq(request.seq);
            let args = request.args;
            match request.op.as_str() {
                "hello" => seq.ok(greeting("rust-tokio")),
                // What may wait for the agent does so in a task of its own.
                "load" => self.spawn(seq, move |driver, seq| async move {
                    driver.load(seq, &args).await;
                }),
                "lane" => self.spawn(seq, move |driver, seq| async move {
                    driver.lane(seq, &args).await;
                }),
                "close" => self.spawn(seq, |driver, seq| async move { driver.close(seq).await }),
                // Turns start in the order in which they were asked for, and are waited for elsewhere.
                "generate" => self.generate(seq, &args).await,
                "cancel" => {
                    // A turn that could not be started has nothing to cancel.
                    if let Some(turn) = lock(&self.turns).get(&args["seq"].to_string()) {
                        turn.cancel();
                    }
                    seq.ok(json!({}));
                }
                "is_alive" => {
                    let alive = self.model().is_some_and(|model| model.is_alive());
                    seq.ok(json!({"alive": alive}));
                }
                "bye" => {
                    self.end().await;
                    seq.ok(json!({}));
                    return Ok(());
                }
                other => seq.unsupported(other),
            }
        }
        self.end().await;
        Ok(())
    }

    /// Goes on with a request in a task, and answers for it if that panics.
    fn spawn<F>(self: &Arc<Self>, seq: Seq, operation: impl FnOnce(Arc<Self>, Seq) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = tokio::spawn(operation(Arc::clone(self), Seq(seq.0.clone())));
        tokio::spawn(async move {
            if let Err(error) = task.await {
                seq.crash(&error.to_string());
            }
        });
    }

    fn model(&self) -> Option<Arc<AcpModel>> {
        lock(&self.model).clone()
    }

    async fn load(&self, seq: Seq, args: &Value) {
        let mut options = match load_options(args) {
            Ok(options) => options,
            Err(unsupported) => return seq.unsupported(&unsupported),
        };
        if args["permission"] == "ask" {
            options = options.ask_permission_async(host(&args["permission_answers"]));
        }
        if let Some(answers) = args["request_answers"].as_object().cloned() {
            options = options
                .on_request_async(move |method, _| future::ready(answers.get(&method).cloned()));
        }
        match load_acp(options).await {
            Ok(model) => {
                let session_id = model.session().session_id;
                lock(&self.lanes).clear();
                *lock(&self.model) = Some(Arc::new(model));
                seq.ok(json!({"session_id": session_id}));
            }
            Err(error) => seq.err(&error),
        }
    }

    async fn lane(&self, seq: Seq, args: &Value) {
        let Some(model) = self.model() else {
            return seq.not_loaded();
        };
        match model.lane().await {
            Ok(lane) => {
                let session_id = lane.session().session_id;
                lock(&self.lanes).insert(lane_name(args), Arc::new(lane));
                seq.ok(json!({"session_id": session_id}));
            }
            Err(error) => seq.err(&error),
        }
    }

    async fn generate(self: &Arc<Self>, seq: Seq, args: &Value) {
        let Some(model) = self.model() else {
            return seq.not_loaded();
        };
        let request = match GenerateRequest::deserialize(args) {
            Ok(request) => request,
            Err(error) => return seq.crash(&format!("the request cannot be read: {error}")),
        };
        let name = lane_name(args);
        let lane = lock(&self.lanes).get(&name).cloned();
        let lane = match &lane {
            Some(lane) => lane,
            None if name == "main" => model.main_lane(),
            None => return seq.crash(&format!("there is no lane {name}")),
        };
        let options = turn_options(lane.turn_options(), args);
        match lane.start(&request, options).await {
            Ok(turn) => {
                lock(&self.turns).insert(seq.key(), turn.canceller());
                self.spawn(seq, |_, seq| async move {
                    match turn.await {
                        Ok(response) => seq.ok(answered(&response)),
                        Err(error) => seq.err(&error),
                    }
                });
            }
            Err(error) => seq.err(&error),
        }
    }

    async fn close(&self, seq: Seq) {
        if let Some(model) = self.model() {
            model.close().await;
        }
        seq.ok(json!({}));
    }

    /// Waits for the end of an agent that nobody has closed.
    async fn end(&self) {
        if let Some(model) = self.model() {
            model.close().await;
        }
    }
}

/// A host that answers permission requests by a list.
fn host(answers: &Value) -> impl Fn(PermissionRequest) -> HostAnswer + Send + Sync + use<> {
    let answers: VecDeque<Value> = answers.as_array().cloned().unwrap_or_default().into();
    let answers = Mutex::new(answers);
    move |_| {
        let next = lock(&answers).pop_front();
        Box::pin(async move {
            match next {
                Some(Value::String(id)) => PermissionDecision::Select(id),
                Some(value) if value["cancelled"] == true => PermissionDecision::Cancelled,
                Some(value) if value["never"] == true => future::pending().await,
                _ => panic!("the host's function panics"),
            }
        })
    }
}

type HostAnswer = std::pin::Pin<Box<dyn Future<Output = PermissionDecision> + Send>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
