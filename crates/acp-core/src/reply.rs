//! What an agent's text says, where a JSON object was asked for: content, or calls of tools.
//!
//! Agents wrap what they were asked for in prose and code fences, nest it as an API would, and write arguments
//! as text or as an object. All that is read. What a reply contains counts, not what it declares: calls are
//! calls whatever its `finish_reason` says. A reply without any JSON object of that kind is plain text, and
//! is the content. What was meant as one and cannot be read is a fault, never content.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::message::ToolCall;
use crate::request::GenerateRequest;

/// How often over a text may be looked at in search of objects. What is nested deep and broken far behind would
/// otherwise cost a look at all of it for each brace.
const MAX_LOOKS: usize = 4;
/// Objects within each other that are looked through for the message, as in `choices[0].message`.
const MAX_DEPTH: usize = 6;
/// Members of an object that is a message and nothing else, so that it counts in the midst of prose.
const OF_A_MESSAGE: [&str; 6] = [
    "content",
    "tool_calls",
    "role",
    "finish_reason",
    "stop_reason",
    "refusal",
];

/// What a reply says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Reply {
    /// `None` where it is the whole text as it came.
    pub(crate) content: Option<String>,
    pub(crate) calls: Vec<ToolCall>,
    /// Whether it says something else, or by other ids, than what the host gets of it.
    pub(crate) differs: bool,
}

/// What the request says of the reply to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// The tools that may be called, by name, with their parameters.
    tools: Map<String, Value>,
    /// Ids of calls that the conversation has already.
    used: HashSet<String>,
    /// Whether the content is to be JSON.
    json: bool,
}

impl Expected {
    /// What a request expects; `None` if any text will do.
    pub(crate) fn of(request: &GenerateRequest) -> Option<Self> {
        if !request.wants_object() {
            return None;
        }
        let mut expected = Self {
            json: request.wants_json(),
            ..Self::default()
        };
        for tool in &request.tools {
            let tool = match &tool["function"] {
                function @ Value::Object(_) => function,
                _ => tool,
            };
            if let Some(name) = tool["name"].as_str() {
                let parameters = tool["parameters"].clone();
                expected.tools.insert(name.to_owned(), parameters);
            }
        }
        for message in &request.messages {
            let calls = message.tool_calls().into_iter();
            expected.used.extend(calls.map(|call| call.id));
        }
        Some(expected)
    }

    /// Reads a reply. The error says what is wrong with it, in words for the agent.
    pub(crate) fn read(&self, text: &str) -> Result<Reply, String> {
        let objects = objects_in(text);
        let bare = unfenced(text);
        let mut messages = Vec::new();
        let mut end = 0;
        for object in &objects {
            let whole = bare == object.text;
            // An agent that sends its answer again has not called its tools twice; one that lists a call twice has.
            let is_listed = text[end..object.start].trim() == ",";
            end = object.start + object.text.len();
            if let Some(message) = self.message_in(&object.value, whole, 0)
                && (is_listed || !messages.contains(&message))
            {
                messages.push(message);
            }
        }
        let (calls, invented) = self.calls_of(&messages)?;
        let differs = invented || messages.len() != 1 || objects.iter().all(|one| one.text != bare);
        if self.json && calls.is_empty() {
            return self.json_content(&messages, &objects, bare);
        }
        let content = messages.iter().rev().find_map(content_of);
        match content {
            Some(content) if calls.is_empty() && content.trim().is_empty() => {
                Err("its `content` is empty and it calls no tool".to_owned())
            }
            None if calls.is_empty() && !messages.is_empty() => {
                Err("it has neither `content` nor a call in `tool_calls`".to_owned())
            }
            None if calls.is_empty() => match fault_of(bare, &objects) {
                Some(fault) => Err(fault),
                None => Ok(Reply::default()),
            },
            content => Ok(Reply {
                content: Some(content.unwrap_or_default()),
                calls,
                differs,
            }),
        }
    }

    /// The message that an object is or holds.
    fn message_in<'a>(
        &self,
        value: &'a Value,
        whole: bool,
        depth: usize,
    ) -> Option<&'a Map<String, Value>> {
        let object = value.as_object()?;
        if depth > MAX_DEPTH {
            return None;
        }
        let is_message = object.keys().all(|key| OF_A_MESSAGE.contains(&&**key));
        let has_content = object.contains_key("content") && (is_message || whole && !self.json);
        let has_calls = object.contains_key("tool_calls") && !self.tools.is_empty();
        if has_calls || has_content || self.is_call(object) {
            return Some(object);
        }
        let inner = match object.get("choices").and_then(Value::as_array) {
            Some(choices) => choices.first(),
            // Among others such a member is data, not a wrapping.
            None if object.len() > 1 && self.json => None,
            None => ["message", "response", "output", "assistant"]
                .iter()
                .find_map(|name| object.get(*name)),
        };
        self.message_in(inner?, true, depth + 1)
    }

    /// Whether an object is itself a call of a tool of the request.
    fn is_call(&self, object: &Map<String, Value>) -> bool {
        let function = object.get("function").and_then(Value::as_object);
        let function = function.unwrap_or(object);
        let name = function.get("name").and_then(Value::as_str);
        let tool = name.and_then(|name| self.tools.get(name));
        // A tool that is quoted is not called: what it has as parameters is their schema.
        tool.is_some_and(|schema| {
            arguments_of(function).is_some() && function.get("parameters") != Some(schema)
        })
    }

    /// The calls, and whether one was given an id that the agent did not say.
    fn calls_of(&self, messages: &[&Map<String, Value>]) -> Result<(Vec<ToolCall>, bool), String> {
        let mut ids = Ids {
            used: self.used.clone(),
            next: self.used.len() + 1,
            invented: false,
        };
        let mut calls = Vec::new();
        for message in messages {
            let listed: &[Value] = match message.get("tool_calls") {
                Some(Value::Array(calls)) => calls,
                Some(call @ Value::Object(_)) => std::slice::from_ref(call),
                Some(Value::Null) => &[],
                None if self.is_call(message) => {
                    let place = format!("tool_calls[{}]", calls.len());
                    calls.push(read_call(message, &place, &mut ids)?);
                    &[]
                }
                None => &[],
                Some(_) => return Err("its `tool_calls` is not a list".to_owned()),
            };
            for call in listed {
                let place = format!("tool_calls[{}]", calls.len());
                let Value::Object(call) = call else {
                    return Err(format!("`{place}` is not an object"));
                };
                calls.push(read_call(call, &place, &mut ids)?);
            }
        }
        Ok((calls, ids.invented))
    }

    /// The content, where it is to be JSON: as its text.
    fn json_content(
        &self,
        messages: &[&Map<String, Value>],
        objects: &[Object<'_>],
        bare: &str,
    ) -> Result<Reply, String> {
        let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let of_message = messages
            .iter()
            .rev()
            .find_map(|message| match message.get("content") {
                Some(content @ Value::Array(_)) => Some(content.to_string()),
                _ => content_of(message),
            });
        let of_message = of_message.map(|content| unfenced(&content).to_owned());
        let longest = objects.iter().max_by_key(|object| object.text.len());
        let content = match (of_message, longest) {
            (Some(content), _) if is_json(&content) => content,
            _ if is_json(bare) => bare.to_owned(),
            (None, Some(object)) => object.text.to_owned(),
            (Some(_), _) => {
                return Err("its `content` is not JSON, as `response_format` asks".to_owned());
            }
            (None, None) => {
                let why = "it is not JSON, as `response_format` asks".to_owned();
                return Err(fault_of(bare, objects).unwrap_or(why));
            }
        };
        Ok(Reply {
            differs: !is_json(bare),
            content: Some(content),
            calls: Vec::new(),
        })
    }
}

/// One JSON object in a text, and what it is.
struct Object<'a> {
    /// Where it begins, in bytes.
    start: usize,
    text: &'a str,
    value: Value,
}

/// The objects in a text that are in no other one.
fn objects_in(text: &str) -> Vec<Object<'_>> {
    let mut objects = Vec::new();
    let mut at = 0;
    let mut wasted = 0;
    while wasted <= MAX_LOOKS * text.len()
        && let Some(start) = text[at..].find('{').map(|found| at + found)
    {
        let rest = &text[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        at = match values.next() {
            Some(Ok(value)) => {
                let end = start + values.byte_offset();
                let text = &text[start..end];
                objects.push(Object { start, text, value });
                end
            }
            // What is in an object without an end was meant with the rest of it.
            Some(Err(error)) if error.is_eof() && start + 1 < text.len() => break,
            Some(Err(error)) => {
                wasted += looked_at(rest, &error);
                start + 1
            }
            None => break,
        };
    }
    objects
}

/// How many bytes of a text were read until this error.
fn looked_at(text: &str, error: &serde_json::Error) -> usize {
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines
        .by_ref()
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    before + error.column()
}

/// A text without white space around it, and without the code fence around all of it.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let fenced = text
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"));
    match fenced.and_then(|text| text.split_once('\n')) {
        // The rest of the fence's own line is the name of a language.
        Some((_, text)) if !text.contains("```") => text.trim(),
        _ => text,
    }
}

/// What is wrong with a reply that holds no message, if it was meant to hold one.
fn fault_of(bare: &str, objects: &[Object<'_>]) -> Option<String> {
    let meant = bare.starts_with('{') || bare.contains("\"tool_calls\"");
    if !meant {
        return None;
    }
    if objects.iter().any(|object| object.text == bare) {
        return Some("it has neither `content` nor `tool_calls`".to_owned());
    }
    let start = bare.find('{').unwrap_or(0);
    let mut values = serde_json::Deserializer::from_str(&bare[start..]).into_iter::<Value>();
    match values.next() {
        Some(Err(error)) => Some(format!("it is not valid JSON: {error}")),
        _ => Some("it is not one JSON object".to_owned()),
    }
}

/// The text of a message's `content`, of parts or of a value that stands for JSON.
fn content_of(message: &&Map<String, Value>) -> Option<String> {
    match message.get("content")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) if parts.iter().all(|part| part["text"].is_string()) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            Some(texts.collect())
        }
        other => Some(other.to_string()),
    }
}

fn arguments_of(function: &Map<String, Value>) -> Option<&Value> {
    ["arguments", "parameters", "input"]
        .iter()
        .find_map(|name| function.get(*name))
}

fn read_call(call: &Map<String, Value>, place: &str, ids: &mut Ids) -> Result<ToolCall, String> {
    let function = call.get("function").and_then(Value::as_object);
    let function = function.unwrap_or(call);
    let Some(name) = function.get("name").and_then(Value::as_str) else {
        return Err(format!("`{place}.function.name` is missing or not a text"));
    };
    let arguments = read_arguments(arguments_of(function))
        .map_err(|why| format!("`{place}.function.arguments` {why}"))?;
    let given = call.get("id").and_then(Value::as_str).unwrap_or_default();
    Ok(ToolCall::new(ids.take(given), name, arguments))
}

/// The ids of calls.
struct Ids {
    used: HashSet<String>,
    next: usize,
    /// Whether one was made up.
    invented: bool,
}

impl Ids {
    /// The id that the agent gives, or another one: one that the conversation has already would be taken for
    /// that of the other call.
    fn take(&mut self, given: &str) -> String {
        if !given.is_empty() && self.used.insert(given.to_owned()) {
            return given.to_owned();
        }
        self.invented = true;
        loop {
            let id = format!("call_{}", self.next);
            self.next += 1;
            if self.used.insert(id.clone()) {
                return id;
            }
        }
    }
}

/// Arguments as an object, or as its text, which some agents quote twice.
fn read_arguments(value: Option<&Value>) -> Result<Value, String> {
    let mut value = value.cloned().unwrap_or_default();
    for _ in 0..2 {
        match &value {
            Value::String(text) if text.trim().is_empty() => value = Value::Null,
            Value::String(text) => {
                value = serde_json::from_str(text)
                    .map_err(|error| format!("is not valid JSON: {error}"))?;
            }
            _ => break,
        }
    }
    match value {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(value),
        _ => Err("is not a JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests;
