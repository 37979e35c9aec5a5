//! A client on plain sockets, for each of the four APIs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use acp_mock_model::MockModel;
use serde_json::{Value, json};

/// One way to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Chat,
    Responses,
    Messages,
    Gemini,
}

impl Api {
    pub const ALL: [Api; 4] = [Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

    pub fn path(self, streams: bool) -> &'static str {
        match (self, streams) {
            (Api::Chat, _) => "/v1/chat/completions",
            (Api::Responses, _) => "/v1/responses",
            (Api::Messages, _) => "/v1/messages?beta=true",
            (Api::Gemini, true) => "/v1beta/models/mock-model:streamGenerateContent?alt=sse",
            (Api::Gemini, false) => "/v1beta/models/mock-model:generateContent",
        }
    }

    /// What the user said, with one tool to call; after it, if there is one, the tool's result.
    pub fn body(self, said: &str, result: Option<&str>, streams: bool) -> Value {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        match self {
            Api::Chat => {
                let mut messages = vec![json!({"role": "user", "content": said})];
                messages.extend(result.map(|text| json!({"role": "tool", "content": text})));
                let function = json!({"name": "write_file", "parameters": schema});
                json!({
                    "model": "m", "stream": streams, "messages": messages,
                    "tools": [{"type": "function", "function": function}],
                })
            }
            Api::Responses => {
                let mut input = vec![json!({"role": "user", "content": said})];
                input.extend(
                    result.map(|text| json!({"type": "function_call_output", "output": text})),
                );
                json!({
                    "model": "m", "stream": streams, "input": input,
                    "tools": [{"type": "function", "name": "write_file", "parameters": schema}],
                })
            }
            Api::Messages => {
                let mut messages = vec![json!({"role": "user", "content": said})];
                messages.extend(result.map(|text| {
                    json!({"role": "user", "content": [{"type": "tool_result", "content": text}]})
                }));
                json!({
                    "model": "m", "stream": streams, "messages": messages,
                    "tools": [{"name": "write_file", "input_schema": schema}],
                })
            }
            Api::Gemini => {
                let mut contents = vec![json!({"role": "user", "parts": [{"text": said}]})];
                contents.extend(result.map(|text| {
                    let response = json!({"name": "write_file", "response": {"output": text}});
                    json!({"role": "user", "parts": [{"functionResponse": response}]})
                }));
                let function = json!({"name": "write_file", "parameters": schema});
                json!({"contents": contents, "tools": [{"functionDeclarations": [function]}]})
            }
        }
    }

    /// What the model answered, as a client of this API would put it together.
    pub fn answer(self, reply: &Reply, streams: bool) -> Answer {
        match (self, streams) {
            (Api::Chat, false) => {
                let message = &reply.json()["choices"][0]["message"];
                match &message["tool_calls"][0]["function"] {
                    Value::Null => Answer::Text(string(&message["content"])),
                    function => call(&function["name"], &string(&function["arguments"])),
                }
            }
            (Api::Chat, true) => {
                let events = reply.events();
                assert_eq!(events.last().unwrap().data, "[DONE]");
                let chunks = events[..events.len() - 1].iter().map(Event::json);
                let mut parts = Parts::default();
                for chunk in chunks {
                    let delta = &chunk["choices"][0]["delta"];
                    parts.text(&delta["content"]);
                    let function = &delta["tool_calls"][0]["function"];
                    parts.call(&function["name"], &function["arguments"]);
                }
                parts.into_answer()
            }
            (Api::Responses, false) => of_item(&reply.json()["output"][0]),
            (Api::Responses, true) => {
                let events = reply.named_events();
                let mut parts = Parts::default();
                for (number, event) in events.iter().enumerate() {
                    assert_eq!(event["sequence_number"], number);
                    match event["type"].as_str().unwrap() {
                        "response.output_text.delta" => parts.text(&event["delta"]),
                        "response.output_item.added" => {
                            parts.call(&event["item"]["name"], &json!(""))
                        }
                        "response.function_call_arguments.delta" => {
                            parts.call(&Value::Null, &event["delta"]);
                        }
                        _ => {}
                    }
                }
                let last = events.last().unwrap();
                assert_eq!(last["type"], "response.completed");
                let answer = parts.into_answer();
                assert_eq!(of_item(&last["response"]["output"][0]), answer);
                answer
            }
            (Api::Messages, false) => {
                let block = &reply.json()["content"][0];
                match &block["text"] {
                    Value::String(text) => Answer::Text(text.clone()),
                    _ => call(&block["name"], &block["input"].to_string()),
                }
            }
            (Api::Messages, true) => {
                let events = reply.named_events();
                let mut parts = Parts::default();
                for event in &events {
                    parts.call(
                        &event["content_block"]["name"],
                        &event["delta"]["partial_json"],
                    );
                    parts.text(&event["delta"]["text"]);
                }
                assert_eq!(events[0]["type"], "message_start");
                assert_eq!(events.last().unwrap()["type"], "message_stop");
                parts.into_answer()
            }
            (Api::Gemini, _) => {
                let chunks = match streams {
                    true => reply.events().iter().map(Event::json).collect(),
                    false => vec![reply.json()],
                };
                Self::gemini(&chunks)
            }
        }
    }

    pub fn gemini(chunks: &[Value]) -> Answer {
        let mut parts = Parts::default();
        for chunk in chunks {
            let part = &chunk["candidates"][0]["content"]["parts"][0];
            parts.text(&part["text"]);
            if let Some(call) = part["functionCall"].as_object() {
                parts.call(&call["name"], &json!(call["args"].to_string()));
            }
        }
        let last = &chunks.last().unwrap()["candidates"][0];
        assert_eq!(last["finishReason"], "STOP");
        parts.into_answer()
    }
}

#[derive(Debug, PartialEq)]
pub enum Answer {
    Text(String),
    Call(String, Value),
}

#[derive(Default)]
struct Parts {
    text: String,
    name: String,
    arguments: String,
}

impl Parts {
    fn text(&mut self, text: &Value) {
        self.text += text.as_str().unwrap_or_default();
    }

    fn call(&mut self, name: &Value, arguments: &Value) {
        self.name += name.as_str().unwrap_or_default();
        self.arguments += arguments.as_str().unwrap_or_default();
    }

    fn into_answer(self) -> Answer {
        match &*self.name {
            "" => Answer::Text(self.text),
            name => call(&json!(name), &self.arguments),
        }
    }
}

fn call(name: &Value, arguments: &str) -> Answer {
    Answer::Call(string(name), serde_json::from_str(arguments).unwrap())
}

fn of_item(item: &Value) -> Answer {
    match item["type"].as_str().unwrap() {
        "function_call" => call(&item["name"], &string(&item["arguments"])),
        _ => Answer::Text(string(&item["content"][0]["text"])),
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A response, with its chunks put together.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

pub struct Event {
    pub name: Option<String>,
    pub data: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn events(&self) -> Vec<Event> {
        let events = self.body.strip_suffix("\n\n").unwrap().split("\n\n");
        events
            .map(|event| match event.split_once('\n') {
                Some((name, data)) => Event {
                    name: Some(name.strip_prefix("event: ").unwrap().to_owned()),
                    data: data.strip_prefix("data: ").unwrap().to_owned(),
                },
                None => Event {
                    name: None,
                    data: event.strip_prefix("data: ").unwrap().to_owned(),
                },
            })
            .collect()
    }

    /// Events whose name is the type in their data.
    fn named_events(&self) -> Vec<Value> {
        let events = self.events();
        let values = events.iter().map(|event| {
            let value = event.json();
            assert_eq!(event.name.as_deref(), value["type"].as_str());
            value
        });
        values.collect()
    }
}

impl Event {
    fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// A connection, for one request after another.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn new(model: &MockModel) -> Client {
        Client::at(model.url())
    }

    pub fn at(url: &str) -> Client {
        let socket = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
        // What is waited for in vain is to fail a test rather than hang it.
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Client {
            reader: BufReader::new(socket),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    pub fn request(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let length = body.len();
        self.send(
            format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        );
        self.reply()
    }

    pub fn post(&mut self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, &body.to_string())
    }

    pub fn reply(&mut self) -> Reply {
        let head = self.head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let header = |name: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let mut body = Vec::new();
        match (header("content-length"), header("transfer-encoding")) {
            (Some(length), None) => {
                body.resize(length.parse().unwrap(), 0);
                self.reader.read_exact(&mut body).unwrap();
            }
            (None, Some("chunked")) => while self.chunk(&mut body) {},
            (None, None) => {
                self.reader.read_to_end(&mut body).unwrap();
            }
            both => panic!("{both:?}"),
        }
        let body = String::from_utf8(body).unwrap();
        Reply { status, body }
    }

    /// Status line and headers.
    pub fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(
                self.reader.read_line(&mut head).unwrap(),
                0,
                "the end after {head}"
            );
        }
        head
    }

    /// Reads one chunk. False after the last one.
    pub fn chunk(&mut self, body: &mut Vec<u8>) -> bool {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        assert!(chunk.ends_with(b"\r\n"));
        body.extend(&chunk[..length]);
        length > 0
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        // A connection that is reset is closed, too.
        self.reader.read(&mut [0]).map_or(true, |read| read == 0)
    }
}
