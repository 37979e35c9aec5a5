//! A model that says what a test wants, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use acp_core::{
    Generate, GenerateError, GenerateRequest, GenerateResponse, Message, Tool, ToolCall,
};
use serde_json::{Map, Value, json};

/// Gives these answers in order, and fails when it has none left.
#[derive(Default)]
pub struct Script {
    answers: Mutex<VecDeque<GenerateResponse>>,
    asked: Mutex<Vec<GenerateRequest>>,
}

impl Script {
    pub fn new(answers: impl IntoIterator<Item = GenerateResponse>) -> Self {
        Self {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
        }
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<GenerateRequest> {
        self.asked.lock().unwrap().clone()
    }

    pub fn then(&self, answer: GenerateResponse) {
        self.answers.lock().unwrap().push_back(answer);
    }
}

impl Generate for Script {
    fn generate(&self, request: &GenerateRequest) -> Result<GenerateResponse, GenerateError> {
        self.asked.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        answer.ok_or_else(|| {
            let over: Box<dyn std::error::Error + Send + Sync> = "the script is over".into();
            GenerateError::Model(over.into())
        })
    }
}

pub fn text(content: &str) -> GenerateResponse {
    GenerateResponse::text(content)
}

/// An answer that calls these tools, without arguments, with the ids `c0`, `c1` and so on.
pub fn calling<const N: usize>(tools: [&str; N]) -> GenerateResponse {
    GenerateResponse::calling(
        tools
            .iter()
            .enumerate()
            .map(|(number, name)| ToolCall::new(format!("c{number}"), *name, json!({})))
            .collect::<Vec<_>>(),
    )
}

/// A tool without parameters.
pub fn tool(
    name: &str,
    function: impl Fn() -> Result<String, String> + Send + Sync + 'static,
) -> Tool {
    let parameters = json!({"type": "object"});
    Tool::new(name, "", parameters, move |_: Map<String, Value>| {
        function()
    })
}

/// The texts of the messages with the role `tool`, with the ids of their calls.
pub fn results(messages: &[Message]) -> Vec<(String, String)> {
    let results = messages.iter().filter(|message| message.role == "tool");
    results
        .map(|message| {
            let id = message.other["tool_call_id"].as_str().unwrap().to_owned();
            (id, message.content.text().into_owned())
        })
        .collect()
}

/// A place where a number of threads meet.
#[derive(Default)]
pub struct Meeting {
    here: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    /// Waits for this many, and says whether they came.
    pub fn of(&self, count: usize) -> bool {
        let mut here = self.here.lock().unwrap();
        *here += 1;
        self.changed.notify_all();
        let wait = Duration::from_secs(10);
        let result = self
            .changed
            .wait_timeout_while(here, wait, |here| *here < count)
            .unwrap();
        !result.1.timed_out()
    }
}
