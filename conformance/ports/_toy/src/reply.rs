//! What an agent's text says that was asked for one JSON object.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::mutant::{Mutant, broken};

/// What a request says about the reply to it.
pub struct Form {
    /// Names of the tools that the request has.
    pub tools: HashSet<String>,
    /// Ids of calls that the conversation has.
    pub ids: HashSet<String>,
    /// Whether the content is to be JSON.
    pub json: bool,
}

/// What a reply says.
pub struct Said {
    pub content: String,
    /// In the shape of chat completions.
    pub calls: Vec<Value>,
    /// Whether the content is the reply as it came.
    pub is_plain: bool,
}

impl Form {
    /// Reads a reply. The error is its fault.
    pub fn read(&self, text: &str) -> Result<Said, String> {
        let bare = without_fence(text);
        let objects = match text.contains("```") && broken(Mutant::FencesNotRead) {
            true => Vec::new(),
            false => objects_in(bare),
        };
        let calling = self.calling(&objects);
        let overlooked =
            broken(Mutant::CallsNotRead) || self.json && broken(Mutant::FormatOutranksCalls);
        if !calling.is_empty() && !overlooked {
            let beside = calling.iter().rev().find_map(|(beside, _)| beside.clone());
            let beside = beside.filter(|_| !broken(Mutant::ContentBesideCallsDropped));
            return Ok(Said {
                content: beside.unwrap_or_default(),
                calls: self.calls(calling.iter().flat_map(|(_, calls)| *calls))?,
                is_plain: false,
            });
        }
        // Prose may quote an object: only one that is nothing but an answer counts there.
        let saying = objects.iter().find_map(|(value, text)| {
            let message = holder(value, &content)?;
            let is_all = *text == bare || message.len() == 1;
            is_all.then_some(message)
        });
        let read = match saying.and_then(content) {
            Some(said) => self.read_content(&said, bare),
            None => self.read_text(text, bare, !objects.is_empty()),
        };
        if broken(Mutant::FaultIsContent) {
            return read.or_else(|_| Ok(plain(text)));
        }
        read
    }

    /// What an object says as its content.
    fn read_content(&self, said: &str, bare: &str) -> Result<Said, String> {
        if said.trim().is_empty() && !broken(Mutant::EmptyContentIsAnswer) {
            return Err("its content is empty".to_owned());
        }
        if self.json && !is_json(said) && !broken(Mutant::FormatNotChecked) {
            return Err("its content is not JSON".to_owned());
        }
        if broken(Mutant::ContentObjectIsText) {
            return Ok(plain(bare));
        }
        Ok(Said {
            is_plain: false,
            ..plain(said)
        })
    }

    /// A reply in which no object says anything.
    fn read_text(&self, text: &str, bare: &str, quotes: bool) -> Result<Said, String> {
        if self.json && is_json(bare) && !broken(Mutant::BareValueIsFault) {
            return Ok(plain(bare));
        }
        if self.json && !broken(Mutant::FormatNotChecked) {
            return Err("it is not JSON".to_owned());
        }
        let was_meant = bare.starts_with('{')
            || bare.contains("\"tool_calls\"") && !broken(Mutant::CallsInWordsAreContent)
            || quotes && broken(Mutant::QuotedObjectIsFault)
            || broken(Mutant::PlainTextIsFault);
        if !was_meant {
            return Ok(plain(text));
        }
        match serde_json::from_str::<Value>(bare) {
            Ok(_) => Err("it has neither content nor tool_calls".to_owned()),
            Err(error) => Err(format!("it cannot be read as JSON: {error}")),
        }
    }

    /// The objects that call tools, each with its content and its calls. One that comes again, from an agent
    /// that sends its answer again, calls nothing.
    fn calling<'a>(&self, objects: &'a [(Value, &str)]) -> Vec<(Option<String>, &'a [Value])> {
        let mut calling = Vec::new();
        for (value, _) in objects {
            let one = if self.is_call(value) && !broken(Mutant::BareCallNotRead) {
                Some((None, std::slice::from_ref(value)))
            } else {
                holder(value, &calls).and_then(|message| Some((content(message), calls(message)?)))
            };
            if let Some(one) = one
                && (broken(Mutant::RepeatedReplyCounts) || !calling.contains(&one))
            {
                calling.push(one);
            }
        }
        if broken(Mutant::FirstObjectOnly) {
            calling.truncate(1);
        }
        calling
    }

    /// Whether an object is itself a call of a tool of the request.
    fn is_call(&self, value: &Value) -> bool {
        let function = function(value);
        let name = function["name"].as_str();
        let named = |name| self.tools.contains(name) || broken(Mutant::AnyNameIsCall);
        name.is_some_and(named) && arguments(function).is_some()
    }

    fn calls<'a>(&self, list: impl Iterator<Item = &'a Value>) -> Result<Vec<Value>, String> {
        let mut ids = self.ids.clone();
        let mut calls = Vec::new();
        for (index, call) in list.enumerate() {
            let function = function(call);
            let name = function["name"].as_str().unwrap_or_default();
            if name.is_empty() && !broken(Mutant::NamelessCallAccepted) {
                return Err(format!("tool_calls[{index}] names no tool"));
            }
            if broken(Mutant::UnknownToolIsFault) && !self.tools.contains(name) {
                return Err(format!(
                    "tool_calls[{index}] names a tool that is not there"
                ));
            }
            let arguments = match arguments(function).unwrap_or(&Value::Null) {
                Value::Null if broken(Mutant::ArgumentsRequired) => "null".to_owned(),
                Value::Null => "{}".to_owned(),
                Value::String(_) if broken(Mutant::ArgumentsMustBeObject) => "text".to_owned(),
                Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            if !is_object(&arguments) && !broken(Mutant::AnyArgumentsAccepted) {
                return Err(format!(
                    "the arguments of tool_calls[{index}] are no JSON object"
                ));
            }
            let given = call["id"].as_str().unwrap_or_default().to_owned();
            let id = new_id(given, &mut ids);
            calls.push(json!({
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }));
            if broken(Mutant::FirstCallOnly) {
                break;
            }
        }
        Ok(calls)
    }
}

/// Where a call has its name and its arguments.
fn function(call: &Value) -> &Value {
    match &call["function"] {
        _ if broken(Mutant::FunctionRequired) => &call["function"],
        Value::Object(_) => &call["function"],
        _ => call,
    }
}

/// The arguments of a call, by any of their names.
fn arguments(function: &Value) -> Option<&Value> {
    let names: &[&str] = if broken(Mutant::ArgumentsByOneName) {
        &["arguments"]
    } else {
        &["arguments", "parameters", "input"]
    };
    names.iter().find_map(|name| function.get(name))
}

fn plain(text: &str) -> Said {
    Said {
        content: text.to_owned(),
        calls: Vec::new(),
        is_plain: true,
    }
}

/// The id of a call: as it was given, unless that is no id or the conversation has it.
fn new_id(given: String, ids: &mut HashSet<String>) -> String {
    let is_new = !ids.contains(&given) || broken(Mutant::ReusedIdKept);
    let is_id = !given.is_empty() || broken(Mutant::MissingIdKept);
    let id = if is_new && is_id {
        given
    } else {
        let mut numbers = 1..;
        numbers
            .find_map(|number: u64| {
                let id = format!("toy_{number}");
                (!ids.contains(&id)).then_some(id)
            })
            .unwrap_or_default()
    };
    ids.insert(id.clone());
    id
}

/// What a code fence around the whole text holds, or the text.
pub fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"));
    // The first line names the language.
    match inner.and_then(|text| text.split_once('\n')) {
        Some((_, inside)) => inside.trim(),
        None => text,
    }
}

/// The JSON objects in a text, each with its own text, without those that are within another.
fn objects_in(text: &str) -> Vec<(Value, &str)> {
    if broken(Mutant::ProseNotRead) {
        let whole = serde_json::from_str(text).ok();
        return whole.into_iter().map(|value| (value, text)).collect();
    }
    if broken(Mutant::ObjectsWithinLines) {
        let lines = text.lines();
        return lines
            .filter_map(|line| Some((serde_json::from_str(line).ok()?, line)))
            .collect();
    }
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let here = &rest[at..];
        let mut values = serde_json::Deserializer::from_str(here).into_iter();
        let length = match values.next() {
            Some(Ok(value)) => {
                let length = values.byte_offset();
                found.push((value, &here[..length]));
                length
            }
            _ => 1,
        };
        rest = &here[length..];
    }
    found
}

/// The object of which `part` is something: `value` itself, or the first one within it.
fn holder<'a, T>(
    value: &'a Value,
    part: &dyn Fn(&'a Map<String, Value>) -> Option<T>,
) -> Option<&'a Map<String, Value>> {
    match value {
        Value::Object(members) => match part(members) {
            Some(_) => Some(members),
            None if broken(Mutant::NestedReplyNotRead) => None,
            None => members.values().find_map(|inner| holder(inner, part)),
        },
        Value::Array(items) => items.iter().find_map(|inner| holder(inner, part)),
        _ => None,
    }
}

fn calls(message: &Map<String, Value>) -> Option<&[Value]> {
    let declared = message
        .get("finish_reason")
        .is_none_or(|why| why == "tool_calls");
    let calls = match message.get("tool_calls")? {
        Value::Array(calls) => calls,
        call @ Value::Object(_) if !broken(Mutant::CallsMustBeList) => std::slice::from_ref(call),
        _ => return None,
    };
    let counts = !calls.is_empty() && (declared || !broken(Mutant::FinishReasonCounts));
    counts.then_some(calls)
}

/// The content of a message: text, or JSON that is not in quotes.
fn content(message: &Map<String, Value>) -> Option<String> {
    match message.get("content")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

fn is_object(text: &str) -> bool {
    matches!(serde_json::from_str(text), Ok(Value::Object(_)))
}
