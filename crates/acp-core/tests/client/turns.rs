//! The loop: turns, limits, and what a run comes to.

use acp_core::{
    CancelToken, ConversationStore, DEFAULT_CONVERSATION, GenerateError, GenerateRequest,
    GenerateResponse, InProcessClient, Message, RunError, RunRequest, StopReason, Tool, ToolCall,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Script, calling, results, text, tool};

#[derive(Deserialize)]
struct Pair {
    a: i64,
    b: i64,
}

fn arithmetic() -> [Tool; 2] {
    let parameters = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    });
    let sum = |pair: Pair| pair.a.checked_add(pair.b).ok_or("too large");
    let product = |pair: Pair| pair.a.checked_mul(pair.b).ok_or("too large");
    [
        Tool::new("sum", "Adds.", parameters.clone(), sum),
        Tool::new("product", "Multiplies.", parameters, product),
    ]
}

fn call(id: &str, name: &str, a: i64, b: i64) -> ToolCall {
    ToolCall::new(id, name, json!({"a": a, "b": b}))
}

#[test]
fn five_turns_with_two_tools() {
    let mut said = GenerateResponse::calling([call("c3", "sum", 20, 1)]);
    said.content = "One more.".to_owned();
    let model = Script::new([
        GenerateResponse::calling([call("c1", "sum", 1, 2), call("c2", "product", 4, 5)]),
        said,
        GenerateResponse::calling([call("c4", "product", 21, 2)]),
        GenerateResponse::calling([call("c5", "sum", 42, 0)]),
        text("It is 42."),
    ]);
    let [sum, product] = arithmetic();
    let client = InProcessClient::new(model).tool(sum).tool(product);
    let run = client.run("What is it?").unwrap();

    assert_eq!(run.text(), "It is 42.");
    assert_eq!(run.stop_reason(), Some(StopReason::EndTurn));
    assert_eq!(run.turns.len(), 5);
    let ran: Vec<_> = run.tools().map(|tool| &*tool.result.content).collect();
    assert_eq!(ran, ["3", "20", "21", "42", "42"]);
    let roles: Vec<_> = run.messages.iter().map(|message| &*message.role).collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
        ]
    );
    assert_eq!(run.messages[4].content.text(), "One more.");
    assert_eq!(run.messages[4].tool_calls(), [call("c3", "sum", 20, 1)]);

    let asked = client.model().asked();
    assert_eq!(asked.len(), 5);
    for (request, known) in asked.iter().zip([1, 4, 6, 8, 10]) {
        assert_eq!(request.messages, run.messages[..known]);
        let names: Vec<_> = request
            .tools
            .iter()
            .map(|tool| &tool["function"]["name"])
            .collect();
        assert_eq!(names, ["sum", "product"]);
    }
    let Ok(kept) = client.messages();
    assert_eq!(kept, run.messages);
    assert!(run.timings.total >= run.timings.model + run.timings.tools);
}

#[test]
fn faults_of_calls_are_told_to_the_model() {
    let model = Script::new([
        GenerateResponse::calling([
            ToolCall::new("c1", "sum", json!({"a": 1, "b": "two"})),
            ToolCall::new("c2", "difference", json!({})),
            ToolCall::new("c3", "sum", json!({"a": i64::MAX, "b": 1})),
            ToolCall::new("c4", "broken", Value::Null),
            ToolCall::new("c5", "sum", json!("{\"a\": 1,")),
        ]),
        text("I see."),
    ]);
    let [sum, product] = arithmetic();
    let broken = tool("broken", || panic!("a bug"));
    let client = InProcessClient::new(model)
        .tool(sum)
        .tool(product)
        .tool(broken);
    assert_eq!(client.ask("?").unwrap(), "I see.");
    let asked = client.model().asked();
    let expected = [
        (
            "c1",
            "error: the arguments do not fit: at `b`: invalid type: string \"two\", expected i64",
        ),
        (
            "c2",
            "error: there is no tool `difference`; there are `sum`, `product`, `broken`",
        ),
        ("c3", "error: too large"),
        ("c4", "error: the tool panicked: a bug"),
        (
            "c5",
            "error: the arguments do not fit: invalid type: string \"{\\\"a\\\": 1,\", expected struct Pair",
        ),
    ];
    let expected = expected.map(|(id, text)| (id.to_owned(), text.to_owned()));
    assert_eq!(results(&asked[1].messages), expected);
}

#[test]
fn a_model_that_calls_tools_of_a_client_without_any_is_told_so() {
    let client = InProcessClient::new(Script::new([calling(["look"]), text("oh")]));
    let run = client.run("?").unwrap();
    assert_eq!(
        results(&run.messages)[0].1,
        "error: there is no tool `look`; there are none"
    );
}

#[test]
fn a_model_that_never_ends_is_stopped() {
    let endless = |_: &GenerateRequest| Ok(calling(["again"]));
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&counted);
    let again = tool("again", move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok("done".to_owned())
    });
    let client = InProcessClient::new(endless).tool(again);
    let error = client.run("?").unwrap_err();
    assert_eq!(error.kind(), "max_turns");
    assert_eq!(
        error.to_string(),
        "the model still calls tools after 10 turns"
    );
    let run = error.run().unwrap();
    assert_eq!(run.turns.len(), 10);
    // Nobody would have read the last one's result.
    assert_eq!(counted.load(std::sync::atomic::Ordering::Relaxed), 9);
    let results = results(&run.messages);
    assert_eq!(results.len(), 10);
    assert_eq!(results[8].1, "done");
    assert_eq!(
        results[9].1,
        "error: the tool was not run: the run may take no further turn"
    );
    let Ok(kept) = client.messages();
    assert_eq!(kept, []);

    let none = client.max_turns(0).run("?").unwrap_err();
    assert_eq!(none.run().unwrap().turns.len(), 0);
}

#[test]
fn a_run_that_failed_can_be_kept_and_gone_on_with() {
    let model = Script::new([calling(["look"]), calling(["look"])]);
    let look = tool("look", || Ok("a wall".to_owned()));
    let client = InProcessClient::new(model).tool(look).max_turns(2);
    let error = client.run("Where?").unwrap_err();
    let so_far = &error.run().unwrap().messages;
    let Ok(()) = client.store().append(DEFAULT_CONVERSATION, so_far);
    client.model().then(text("At a wall."));
    assert_eq!(client.ask(RunRequest::resume()).unwrap(), "At a wall.");
    assert_eq!(client.model().asked()[2].messages, *so_far);
    let Ok(kept) = client.messages();
    assert_eq!(kept[..kept.len() - 1], *so_far);
}

#[test]
fn an_error_of_the_model_ends_the_run_without_a_retry() {
    let client = InProcessClient::new(Script::new([calling(["look"])]));
    let error = client.run("?").unwrap_err();
    assert!(matches!(
        &error,
        RunError::Model { error, .. } if matches!(**error, GenerateError::Model(_))
    ));
    assert_eq!(error.kind(), "model");
    assert_eq!(client.model().asked().len(), 2);
    let run = error.run().unwrap();
    assert_eq!(run.turns.len(), 1);
    assert_eq!(run.messages.last().unwrap().role, "tool");
    let Ok(kept) = client.messages();
    assert_eq!(kept, []);
    let report = serde_json::to_value(&error).unwrap();
    assert_eq!(report["kind"], "model");
}

#[test]
fn a_host_may_want_an_error_of_a_tool_to_end_the_run() {
    let fails = || tool("fails", || Err("no disk".to_owned()));
    let works = || tool("works", || Ok("fine".to_owned()));
    let model = || Script::new([calling(["works", "fails", "works", "gone"]), text("?")]);
    let client = InProcessClient::new(model()).tool(fails()).tool(works());
    let error = client.abort_on_tool_error(true).run("?").unwrap_err();
    assert_eq!(error.kind(), "tool_failed");
    assert_eq!(error.to_string(), "the tool `fails` failed: no disk");
    let results = results(&error.run().unwrap().messages);
    assert_eq!(results.len(), 4);
    assert_eq!(results[2].1, "fine");

    // In the last turn it was not run, so it has not failed.
    let client = InProcessClient::new(model()).tool(fails()).tool(works());
    let client = client.abort_on_tool_error(true).max_turns(1);
    assert_eq!(client.run("?").unwrap_err().kind(), "max_turns");

    // What a hook has mended is no error.
    let client = InProcessClient::new(model()).tool(fails()).tool(works());
    let client = client.abort_on_tool_error(true).after_tool(|_, result, _| {
        result.is_error = false;
    });
    assert_eq!(client.ask("?").unwrap(), "?");
}

#[test]
fn what_the_request_says_reaches_the_model() {
    let model = Script::new([calling(["look"]), text("{}")]);
    let client = InProcessClient::new(model)
        .system("Be terse.")
        .system("Be kind.");
    let request = RunRequest::new([Message::user("a"), Message::user("b")])
        .tool_choice(json!("required"))
        .response_format(json!({"type": "json_object"}))
        .cancel(&CancelToken::new());
    let run = client.run(request).unwrap();
    let asked = client.model().asked();
    let system = [Message::system("Be terse."), Message::system("Be kind.")];
    assert_eq!(asked[0].messages[..2], system);
    assert_eq!(
        asked[0].messages[2..],
        [Message::user("a"), Message::user("b")]
    );
    assert_eq!(asked[0].tool_choice, Some(json!("required")));
    assert_eq!(asked[1].tool_choice, None);
    for request in &asked {
        assert_eq!(
            request.response_format,
            Some(json!({"type": "json_object"}))
        );
    }
    client.model().then(text(""));
    client.run("c").unwrap();
    assert_eq!(
        client.model().asked()[2].messages[..3],
        asked[0].messages[..3]
    );
    // The system messages are the client's and not the conversation's.
    assert_eq!(run.messages[..2], [Message::user("a"), Message::user("b")]);
}

#[test]
fn a_tool_with_the_same_name_takes_the_place_of_the_first() {
    let model = Script::new([calling(["look"]), text("")]);
    let client = InProcessClient::new(model)
        .tool(tool("look", || Ok("old".to_owned())))
        .tool(tool("look", || Ok("new".to_owned())));
    let run = client.run("?").unwrap();
    assert_eq!(results(&run.messages)[0].1, "new");
    assert_eq!(client.model().asked()[0].tools.len(), 1);
}
