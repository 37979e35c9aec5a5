//! Every API with every script, over sockets.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Answer, Api, Client};
use acp_mock_model::{MockModel, SLOW_PAUSE, Script};
use serde_json::{Value, json};

/// What the model says to this, on each API, as a whole and streamed.
fn on_every_api(script: Script, said: &str, result: Option<&str>, want: &Answer) {
    let model = MockModel::start(script).unwrap();
    let mut client = Client::new(&model);
    for api in Api::ALL {
        for streams in [false, true] {
            let body = api.body(said, result, streams);
            let reply = client.post(api.path(streams), &body);
            assert_eq!(reply.status, 200, "{api:?} {streams}");
            assert_eq!(api.answer(&reply, streams), *want, "{api:?} {streams}");
        }
    }
}

fn text(text: &str) -> Answer {
    Answer::Text(text.to_owned())
}

#[test]
fn it_echoes() {
    on_every_api(Script::Echo, "Hi, “you”!", None, &text("MOCK: Hi, “you”!"));
}

#[test]
fn it_calls_a_tool_and_reads_the_result() {
    let said = "use a tool path=/x";
    let call = Answer::Call("write_file".to_owned(), json!({"path": "/x"}));
    on_every_api(Script::Obey, said, None, &call);
    let model = MockModel::start(Script::Obey).unwrap();
    for api in Api::ALL {
        let reply = Client::new(&model).post(api.path(true), &api.body(said, Some("done"), true));
        let Answer::Text(text) = api.answer(&reply, true) else {
            panic!("{reply:?}");
        };
        assert!(
            text.starts_with("MOCK: the tool gave: ") && text.contains("done"),
            "{text}"
        );
    }
}

#[test]
fn it_answers_the_question_it_is_told_to() {
    let said = "user: one?\nassistant: yes?\nuser: two?\nuser: three?\nSUPERSEDES-ALL-PRIOR: two?";
    on_every_api(Script::First, said, None, &text("MOCK: one?"));
    on_every_api(Script::Last, "one?\ntwo?", None, &text("MOCK: two?"));
    on_every_api(Script::Marker, said, None, &text("MOCK: two?"));
}

#[test]
fn it_calls_tools_in_text() {
    let said = json!({"tools": [{"name": "t"}], "messages": []}).to_string();
    // The order of members is that of the build's JSON library.
    let function = json!({"name": "t", "arguments": "{}"});
    let call = json!({"tool_calls": [{"id": "call_1", "type": "function", "function": function}]});
    on_every_api(Script::ToolsJson, &said, None, &text(&call.to_string()));
}

#[test]
fn errors_have_the_shape_of_their_api() {
    let model = MockModel::start(Script::Error(503)).unwrap();
    for api in Api::ALL {
        for streams in [false, true] {
            let reply = Client::new(&model).post(api.path(streams), &api.body("hi", None, streams));
            assert_eq!(reply.status, 503, "{api:?}");
            let error = &reply.json()["error"];
            assert_eq!(error["message"], "mock error");
            let kind = match api {
                Api::Gemini => &error["status"],
                _ => &error["type"],
            };
            assert!(kind.is_string(), "{error}");
        }
    }
    let body = Api::Messages.body("hi", None, false);
    model.set_script("error".parse().unwrap());
    assert_eq!(Client::new(&model).post("/v1/messages", &body).status, 400);
}

#[test]
fn a_slow_answer_comes_bit_by_bit() {
    let model = MockModel::start(Script::Slow).unwrap();
    for api in Api::ALL {
        let mut client = Client::new(&model);
        let begun = Instant::now();
        let body = api.body("hi", None, true).to_string();
        let (path, length) = (api.path(true), body.len());
        client.send(
            format!("POST {path} HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes(),
        );
        client.head();
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains("slow1 ") {
            assert!(client.chunk(&mut read));
        }
        assert!(begun.elapsed() >= 2 * SLOW_PAUSE, "{api:?}");
        assert!(
            !String::from_utf8_lossy(&read).contains("slow9 "),
            "{api:?}"
        );
        // The client leaves in the middle. The drop of the model shows that nothing hangs on it.
    }
    let mut client = Client::new(&model);
    thread::scope(|scope| {
        let whole = scope.spawn(|| {
            let body = Api::Chat.body("hi", None, false).to_string();
            let length = body.len();
            let head =
                format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
            client.send((head + &body).as_bytes());
            client.is_closed()
        });
        let requests = || model.requests().len();
        while requests() < Api::ALL.len() + 1 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(model);
        assert!(
            whole.join().unwrap(),
            "a whole answer that is slow is not there at once"
        );
    });
}

#[test]
fn gemini_streams_an_array_too() {
    let model = MockModel::start(Script::Echo).unwrap();
    let body = Api::Gemini.body("hi", None, true);
    let reply = Client::new(&model).post("/v1beta/models/m:streamGenerateContent", &body);
    let chunks: Vec<Value> = serde_json::from_str(&reply.body).unwrap();
    assert!(chunks.len() > 1);
    assert_eq!(Api::gemini(&chunks), text("MOCK: hi"));
}

#[test]
fn side_calls_are_answered() {
    let model = MockModel::start(Script::Error(500)).unwrap();
    let mut client = Client::new(&model);
    for (path, member) in [
        ("/v1/messages/count_tokens", "input_tokens"),
        ("/v1/responses/input_tokens", "input_tokens"),
        ("/v1beta/models/m:countTokens", "totalTokens"),
    ] {
        let reply = client.post(path, &json!({"messages": []}));
        assert_eq!(reply.json()[member], 4, "{path}");
    }
    let models = client.request("GET", "/v1/models?limit=1000", "");
    assert_eq!(models.json()["data"][0]["id"], "mock-model");
    assert_eq!(client.request("GET", "/", "").status, 200);
    assert_eq!(
        client
            .request("POST", "/api/event_logging/batch", "{}")
            .status,
        404
    );
    // Last on its connection, as this reply has a length and no body.
    client.send(b"HEAD / HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    assert!(client.is_closed());
}

#[test]
fn a_schema_gets_json_that_fits() {
    let model = MockModel::start(Script::Echo).unwrap();
    let schema = json!({"type": "OBJECT", "properties": {"score": {"type": "INTEGER"}}});
    let mut body = Api::Gemini.body("How hard is it?", None, false);
    body["generationConfig"] = json!({"responseSchema": schema});
    let reply = Client::new(&model).post(Api::Gemini.path(false), &body);
    assert_eq!(Api::Gemini.answer(&reply, false), text(r#"{"score":1}"#));
}

#[test]
fn requests_are_kept_as_they_came() {
    let model = MockModel::start(Script::Echo).unwrap();
    let mut client = Client::new(&model);
    let body = r#"{ "messages": [{"role": "user", "content": "hi"}] }"#;
    client.request("POST", "/v1/messages?x=y", body);
    client.request("GET", "/v1/models", "");
    let requests = model.requests();
    let paths: Vec<_> = requests.iter().map(|request| &*request.path).collect();
    assert_eq!(paths, ["/v1/messages?x=y", "/v1/models"]);
    let first = &requests[0];
    assert_eq!((&*first.method, first.bytes), ("POST", body.len()));
    assert_eq!(first.body["messages"][0]["content"], "hi");
    assert!(first.at <= requests[1].at);
    assert_eq!(requests[1].body, Value::Null);
    assert_eq!(model.take_requests(), requests);
    assert_eq!(model.requests(), []);
}

#[test]
fn bad_input_is_refused_and_the_next_client_served() {
    let model = MockModel::start(Script::Echo).unwrap();
    for api in Api::ALL {
        // JSON that is broken, that is none, and none at all; the connection lives on.
        let mut client = Client::new(&model);
        for body in ["{\"messages\":", "\u{0}garbage", ""] {
            let reply = client.request("POST", api.path(false), body);
            assert_eq!(reply.status, 400, "{api:?} {body:?}");
            assert!(
                reply.json()["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("no JSON")
            );
        }
        for body in [
            json!(null),
            json!([1]),
            json!({"messages": 1, "input": 1, "contents": 1}),
        ] {
            let reply = client.post(api.path(false), &body);
            assert_eq!(api.answer(&reply, false), text("MOCK: "), "{api:?} {body}");
        }
    }
    for (bytes, status) in [
        (&b"\x16\x03\x01\x00\xff"[..], 400),
        (b"what?\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\ncontent-length: 9999999999\r\n\r\n",
            413,
        ),
    ] {
        let mut client = Client::new(&model);
        client.send(bytes);
        assert_eq!(client.reply().status, status);
        assert!(client.is_closed());
    }
    let before = model.requests().len();
    let mut early = Client::new(&model);
    early.send(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 100\r\n\r\n{");
    drop(early);
    let reply = Client::new(&model).post("/v1/messages", &Api::Messages.body("hi", None, false));
    assert_eq!(Api::Messages.answer(&reply, false), text("MOCK: hi"));
    assert_eq!(model.requests().len(), before + 1, "half a request is none");
}

#[test]
fn big_bodies_and_big_answers_are_carried() {
    let model = MockModel::start(Script::Obey).unwrap();
    let said = format!("{}\ngo big", "x".repeat(8_000_000));
    let body = Api::Chat.body(&said, None, true);
    let reply = Client::new(&model).post(Api::Chat.path(true), &body);
    assert_eq!(Api::Chat.answer(&reply, true), text(&"B".repeat(300_000)));
    assert!(model.requests()[0].bytes > 8_000_000);
}

#[test]
fn bodies_in_chunks_and_old_clients_are_understood() {
    let model = MockModel::start(Script::Echo).unwrap();
    let body = Api::Messages.body("hi", None, true).to_string();
    let (first, second) = body.split_at(10);
    let mut client = Client::new(&model);
    client.send(b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
    for chunk in [first, second] {
        client.send(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes());
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(
        Api::Messages.answer(&client.reply(), true),
        text("MOCK: hi")
    );
    // HTTP/1.0 knows no chunks: the answer ends with the connection.
    let mut old = Client::new(&model);
    let length = body.len();
    old.send(
        format!("POST /v1/messages HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes(),
    );
    assert_eq!(Api::Messages.answer(&old.reply(), true), text("MOCK: hi"));
}

#[test]
fn clients_are_served_side_by_side() {
    let model = MockModel::start(Script::Echo).unwrap();
    // One that says nothing, one that never ends its request, and one that never reads its answers.
    let _silent = Client::new(&model);
    let mut half = Client::new(&model);
    half.send(b"POST /v1/messages HTTP/1.1\r\n");
    thread::scope(|scope| {
        for i in 0..8 {
            let model = &model;
            scope.spawn(move || {
                let mut client = Client::new(model);
                for j in 0..20 {
                    let said = format!("{i} {j}");
                    let reply = client.post("/v1/messages", &Api::Messages.body(&said, None, true));
                    assert_eq!(
                        Api::Messages.answer(&reply, true),
                        text(&format!("MOCK: {said}"))
                    );
                }
            });
        }
    });
    assert_eq!(model.requests().len(), 160);
}
