//! The driver of `acp-core` (`spec/driver-protocol.md`). It adapts and fixes nothing.

mod answer;
mod options;
mod protocol;

use std::{
    collections::HashMap,
    io::{self, BufRead},
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use acp_core::{AcpModel, Canceller, GenerateRequest, Lane, Turn, load_acp};
use serde::Deserialize;
use serde_json::{Value, json};

use answer::Seq;
use options::{load_options, turn_options};
use protocol::{Request, answered, greeting, lane_name};

fn main() -> io::Result<()> {
    let driver = Arc::new(Driver::default());
    for line in io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let seq = Seq(request.seq);
        let args = request.args;
        match request.op.as_str() {
            "hello" => seq.ok(greeting("rust")),
            // What may wait for the agent does so on a thread of its own.
            "load" => driver.spawn(seq, move |driver, seq| driver.load(seq, &args)),
            "lane" => driver.spawn(seq, move |driver, seq| driver.lane(seq, &args)),
            "close" => driver.spawn(seq, |driver, seq| driver.close(seq)),
            // Turns start in the order in which they were asked for, and are waited for elsewhere.
            "generate" => driver.generate(seq, &args),
            "cancel" => driver.cancel(seq, &args),
            "is_alive" => {
                let alive = driver.model().is_some_and(|model| model.is_alive());
                seq.ok(json!({"alive": alive}));
            }
            "bye" => {
                seq.ok(json!({}));
                return Ok(());
            }
            other => seq.unsupported(other),
        }
    }
    Ok(())
}

#[derive(Default)]
struct Driver {
    model: Mutex<Option<Arc<AcpModel>>>,
    lanes: Mutex<HashMap<String, Lane>>,
    turns: Mutex<HashMap<String, Canceller>>,
}

impl Driver {
    fn spawn(self: &Arc<Self>, seq: Seq, operation: impl FnOnce(&Driver, Seq) + Send + 'static) {
        let driver = Arc::clone(self);
        on_thread(seq, move |seq| operation(&driver, seq));
    }

    fn model(&self) -> Option<Arc<AcpModel>> {
        lock(&self.model).clone()
    }

    fn load(&self, seq: Seq, args: &Value) {
        let options = match load_options(args) {
            Ok(options) => options,
            Err(unsupported) => return seq.unsupported(&unsupported),
        };
        match load_acp(options) {
            Ok(model) => {
                let session_id = model.session().session_id;
                lock(&self.lanes).clear();
                *lock(&self.model) = Some(Arc::new(model));
                seq.ok(json!({"session_id": session_id}));
            }
            Err(error) => seq.err(&error),
        }
    }

    fn lane(&self, seq: Seq, args: &Value) {
        let Some(model) = self.model() else {
            return seq.not_loaded();
        };
        match model.lane() {
            Ok(lane) => {
                let session_id = lane.session().session_id;
                lock(&self.lanes).insert(lane_name(args), lane);
                seq.ok(json!({"session_id": session_id}));
            }
            Err(error) => seq.err(&error),
        }
    }

    fn generate(&self, seq: Seq, args: &Value) {
        let Some(model) = self.model() else {
            return seq.not_loaded();
        };
        let request = match GenerateRequest::deserialize(args) {
            Ok(request) => request,
            Err(error) => return seq.crash(&format!("the request cannot be read: {error}")),
        };
        let lanes = lock(&self.lanes);
        let name = lane_name(args);
        let lane = match lanes.get(&name) {
            Some(lane) => lane,
            None if name == "main" => model.main_lane(),
            None => return seq.crash(&format!("there is no lane {name}")),
        };
        let options = turn_options(lane.turn_options(), args);
        match lane.start(&request, options) {
            Ok(turn) => {
                lock(&self.turns).insert(seq.key(), turn.canceller());
                on_thread(seq, |seq| wait(seq, turn));
            }
            Err(error) => seq.err(&error),
        }
    }

    fn cancel(&self, seq: Seq, args: &Value) {
        // A turn that could not be started has nothing to cancel.
        if let Some(turn) = lock(&self.turns).get(&args["seq"].to_string()) {
            turn.cancel();
        }
        seq.ok(json!({}));
    }

    fn close(&self, seq: Seq) {
        if let Some(model) = self.model() {
            model.close();
        }
        seq.ok(json!({}));
    }
}

/// Goes on with a request on a thread, and answers for it if that panics.
fn on_thread(seq: Seq, operation: impl FnOnce(Seq) + Send + 'static) {
    let again = Seq(seq.0.clone());
    thread::spawn(move || {
        // Nothing is looked at after a panic but the request's number.
        let done = panic::catch_unwind(AssertUnwindSafe(|| operation(again)));
        if let Err(payload) = done {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied());
            seq.crash(text.unwrap_or("a panic without words"));
        }
    });
}

fn wait(seq: Seq, turn: Turn) {
    match turn.wait() {
        Ok(response) => seq.ok(answered(&response)),
        Err(error) => seq.err(&error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
