//! Tools of the host: a loop of five turns, in which the model calls two of them by turns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use acp_core::{InProcessClient, StatePolicy, Tool};
use acp_mock_model::Script;
use serde_json::{Value, json};

use super::{
    drive::{Cell, start},
    pins::{Agent, Answers},
    place::Place,
};

/// What the mock model says at the end.
const DONE: &str = "MOCK: 4 tools were called";

pub fn drive(agent: &Agent, place: Result<Place, String>) -> Cell {
    if agent.pin.answers != Answers::Model {
        return Cell::Lacks("it has no model that could call them".to_owned());
    }
    match place.and_then(|place| call(&place)) {
        Ok(took) => Cell::Took(took),
        Err(why) => Cell::Failed(why),
    }
}

fn call(place: &Place) -> Result<Duration, String> {
    place.model.set_script(Script::ToolsJson);
    let (model, _) = start(place.options().state(StatePolicy::VerifiedDelta))?;
    let calls = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let tool = |name: &str, calls: &Arc<AtomicUsize>| {
        let calls = Arc::clone(calls);
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        Tool::new(name, "Counts.", schema, move |_: Value| {
            Ok::<_, String>(calls.fetch_add(1, Ordering::Relaxed) + 1)
        })
    };
    let client = InProcessClient::new(&model)
        .tool(tool("first", &calls[0]))
        .tool(tool("second", &calls[1]));
    let begun = Instant::now();
    let run = client.run("Count.").map_err(|error| error.to_string())?;
    let took = begun.elapsed();
    let counts = calls.map(|calls| calls.load(Ordering::Relaxed));
    let turns = run.turns.len();
    // Beyond the first request only the results may go out.
    let tools = place
        .model
        .requests()
        .iter()
        .map(|request| request.body.to_string().matches("\\\"tools\\\":[").count())
        .max();
    model.close();
    if !run.text().contains(DONE) || counts != [2, 2] || turns != 5 {
        let text = run.text();
        return Err(format!(
            "after {turns} turns with {counts:?} calls it answered `{text}`"
        ));
    }
    match tools {
        Some(1) => Ok(took),
        copies => Err(format!(
            "the model was sent the tools {copies:?} times, and not once"
        )),
    }
}
