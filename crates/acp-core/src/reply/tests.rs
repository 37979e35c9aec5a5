use super::*;
use proptest::prelude::*;
use serde_json::json;

fn expected(json: bool) -> Expected {
    let mut request = GenerateRequest::user("go").tools([
        json!({"type": "function", "function": {"name": "add", "parameters": {}}}),
        json!({"type": "function", "function": {"name": "now"}}),
    ]);
    if json {
        request.tools.clear();
        request.response_format = Some(json!({"type": "json_object"}));
    }
    Expected::of(&request).unwrap()
}

fn calls(text: &str) -> Vec<(String, String, Value)> {
    let reply = expected(false)
        .read(text)
        .unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let calls = reply.calls.into_iter();
    calls
        .map(|call| (call.id, call.name, call.arguments))
        .collect()
}

fn content(text: &str) -> String {
    let reply = expected(false)
        .read(text)
        .unwrap_or_else(|fault| panic!("{text}: {fault}"));
    assert_eq!(reply.calls, [], "{text}");
    reply.content.unwrap_or_else(|| text.to_owned())
}

fn fault(text: &str) -> String {
    match expected(false).read(text) {
        Ok(reply) => panic!("{text}: {reply:?}"),
        Err(fault) => fault,
    }
}

#[test]
fn a_call_is_read_in_every_shape_it_comes_in() {
    let wanted = [("c1".to_owned(), "add".to_owned(), json!({"a": 1}))];
    let function = r#"{"name":"add","arguments":{"a":1}}"#;
    let call = format!(r#"{{"id":"c1","type":"function","function":{function}}}"#);
    let plain = format!(r#"{{"tool_calls":[{call}]}}"#);
    for text in [
        plain.clone(),
        format!("\n {plain} \n"),
        format!("```json\n{plain}\n```"),
        format!("```\n{plain}\n```"),
        format!("Warning: no such model.\n\n{plain}"),
        format!("Sure, I will call it:\n```json\n{plain}\n```\nOne moment {{please}}."),
        format!(r#"{{"choices":[{{"index":0,"message":{plain},"finish_reason":"stop"}}]}}"#),
        format!(r#"{{"message":{plain}}}"#),
        format!(r#"{{"tool_calls":{call}}}"#),
        format!(r#"{{"content":null,"tool_calls":[{call}],"finish_reason":"stop"}}"#),
        format!(r#"{{"tool_calls":[{call}],"x":1}}"#),
        plain.replace(r#"{"a":1}"#, r#""{\"a\": 1}""#),
        plain.replace(r#"{"a":1}"#, r#""\"{\\\"a\\\":1}\"""#),
        r#"{"tool_calls":[{"id":"c1","name":"add","input":{"a":1}}]}"#.to_owned(),
        format!("{call} "),
        format!("{plain}{plain}"),
    ] {
        assert_eq!(calls(&text), wanted, "{text}");
    }
}

#[test]
fn calls_without_an_id_or_with_a_used_one_get_one_of_their_own() {
    let text = r#"{"tool_calls":[{"function":{"name":"now"}},{"id":"x","name":"now"},{"id":"x","name":"now"}]}"#;
    let calls = calls(text);
    let ids: HashSet<&str> = calls.iter().map(|(id, ..)| &**id).collect();
    assert_eq!(ids.len(), 3, "{calls:?}");
    assert!(
        calls
            .iter()
            .all(|(_, _, arguments)| *arguments == json!({}))
    );

    let before = ToolCall::new("call_1", "now", json!({}));
    let message = crate::Message::assistant_calling(crate::Content::Null, &[before]);
    let request = GenerateRequest::new([message]).tools([json!({"name": "now"})]);
    let reply = Expected::of(&request)
        .unwrap()
        .read(r#"{"tool_calls":[{"id":"call_1","name":"now","arguments":""}]}"#);
    assert_ne!(reply.unwrap().calls[0].id, "call_1");
}

#[test]
fn calls_one_after_the_other_are_all_made() {
    let one = r#"{"tool_calls":[{"id":"a","name":"now"}]}"#;
    let two = r#"{"tool_calls":[{"id":"b","name":"add","arguments":{}}]}"#;
    let ids = |text: &str| {
        calls(text)
            .into_iter()
            .map(|(id, ..)| id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&format!("{one}\n{two}")), ["a", "b"]);
    assert_eq!(
        calls(r#"[{"name":"now","arguments":{}},{"name":"add","arguments":{}}]"#).len(),
        2
    );
    let both = r#"{"content":"Let me see.","tool_calls":[{"id":"a","name":"now"}]}"#;
    let reply = expected(false).read(both).unwrap();
    assert_eq!(reply.content.as_deref(), Some("Let me see."));
    assert_eq!(reply.calls.len(), 1);
}

#[test]
fn a_list_may_call_a_tool_twice_and_an_answer_that_comes_again_does_not() {
    let now = r#"{"name":"now","arguments":{}}"#;
    assert_eq!(calls(&format!("[{now},{now}]")).len(), 2);
    assert_eq!(calls(&format!("{now}\n{now}")).len(), 1);
    let message = r#"{"tool_calls":[{"name":"now"},{"name":"now"}]}"#;
    assert_eq!(calls(&format!("{message}\n\n{message}")).len(), 2);
}

#[test]
fn a_tool_that_is_quoted_is_not_called() {
    let tool =
        json!({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}});
    let request = GenerateRequest::user("go").tools([tool.clone()]);
    let read = |text: &str| Expected::of(&request).unwrap().read(text).unwrap();
    let quoted = format!("There is one tool: {tool}. Shall I use it?");
    assert_eq!(read(&quoted), Reply::default());
    let called = r#"I do: {"name":"add","parameters":{"type":"x"}}"#;
    assert_eq!(read(called).calls.len(), 1);
}

#[test]
fn what_is_plainly_text_is_content() {
    for text in [
        "It is noon.",
        "Use `{}` for that.",
        "Write {\"a\": 1} into the file.",
        "{",
        "An object {\"name\": \"add\"} and another {\"content\": \"x\", \"title\": \"y\"}.",
        "```json\n{\"a\": 1}\n```\nis what you asked for.",
    ] {
        if text == "{" {
            fault(text);
        } else {
            assert_eq!(content(text), text);
        }
    }
    for (text, wanted) in [
        (r#"{"content":"x"}"#, "x"),
        (r#"{"role":"assistant","content":"x","tool_calls":[]}"#, "x"),
        (
            r#"{"content":"x","tool_calls":null,"finish_reason":"tool_calls"}"#,
            "x",
        ),
        (r#"{"content":"x","confidence":0.5}"#, "x"),
        (
            r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            "ab",
        ),
        (r#"{"content":{"a":1}}"#, r#"{"a":1}"#),
        (r#"Here: {"content":"x"}"#, "x"),
        (r#"{"choices":[{"message":{"content":"x"}}]}"#, "x"),
        ("Warning.\n{\"content\":\"x\"}", "x"),
    ] {
        assert_eq!(content(text), wanted, "{text}");
    }
}

#[test]
fn what_was_meant_as_an_object_is_never_content() {
    for (text, wants) in [
        (r#"{"tool_calls":[{"name":"add""#, "not valid JSON"),
        ("```json\n{\"content\": \"x\n```", "not valid JSON"),
        (r#"I call {"tool_calls": [,]}"#, "not valid JSON"),
        (r#"{"answer":1}"#, "neither `content` nor `tool_calls`"),
        (r#"{"tool_calls":[]}"#, "neither"),
        (r#"{"content":null}"#, "neither"),
        (r#"{"content":" "}"#, "empty"),
        (r#"{"tool_calls":"add"}"#, "not a list"),
        (r#"{"tool_calls":[7]}"#, "`tool_calls[0]` is not an object"),
        (
            r#"{"tool_calls":[null],"name":"now","arguments":{}}"#,
            "`tool_calls[0]` is not an object",
        ),
        (
            r#"{"tool_calls":[{"name":"now","arguments":{}},{"name":"add","arguments":{"a""#,
            "not valid JSON",
        ),
        (
            r#"{"tool_calls":[{"arguments":{}}]}"#,
            "`tool_calls[0].function.name`",
        ),
        (
            r#"{"tool_calls":[{"name":"add","arguments":"{a}"}]}"#,
            "not valid JSON",
        ),
        (
            r#"{"tool_calls":[{"name":"add","arguments":[1]}]}"#,
            "not a JSON object",
        ),
        (r#"{"a":1} and {"b":2} {"#, "not one JSON object"),
    ] {
        let fault = fault(text);
        assert!(fault.contains(wants), "{text}: {fault}");
    }
}

#[test]
fn json_is_content_as_its_text_where_it_was_asked_for() {
    let read = |text: &str| expected(true).read(text);
    for (text, wanted) in [
        (r#"{"a":1}"#, r#"{"a":1}"#),
        ("```json\n{\"a\": 1}\n```", "{\"a\": 1}"),
        (r#"{"content":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"content":"{\"a\":1}"}"#, r#"{"a":1}"#),
        (
            r#"{"content":"x","title":"y"}"#,
            r#"{"content":"x","title":"y"}"#,
        ),
        (r#"{"content":"x"}"#, r#"{"content":"x"}"#),
        ("[1, 2]", "[1, 2]"),
        (r#"{"content":[]}"#, "[]"),
        (r#"{"content":[{"text":"1"}]}"#, r#"[{"text":"1"}]"#),
        (
            r#"{"output":{"content":"42"},"b":1}"#,
            r#"{"output":{"content":"42"},"b":1}"#,
        ),
        (
            r#"{"tool_calls":[{"name":"x"}]}"#,
            r#"{"tool_calls":[{"name":"x"}]}"#,
        ),
        ("Here you are: {\"a\":{\"b\":2}} {}", "{\"a\":{\"b\":2}}"),
    ] {
        assert_eq!(
            read(text).unwrap().content.as_deref(),
            Some(wanted),
            "{text}"
        );
    }
    for (text, wants) in [
        ("noon", "not JSON"),
        ("{\"a\":", "not valid JSON"),
        ("So: {\"content\":\"noon\"}", "`content` is not JSON"),
    ] {
        let fault = read(text).unwrap_err();
        assert!(fault.contains(wants), "{text}: {fault}");
    }
}

#[test]
fn a_reply_that_says_more_than_the_host_gets_is_told_from_one_that_does_not() {
    let differs = |text: &str| expected(false).read(text).unwrap().differs;
    let call = r#"{"tool_calls":[{"id":"a","name":"now"}]}"#;
    for same in [
        call,
        r#"{"content":"x"}"#,
        "plain",
        &format!("```json\n{call}\n```"),
    ] {
        assert!(!differs(same), "{same}");
    }
    for more in [
        &format!("I do: {call}"),
        &format!("{call}{call}"),
        r#"{"content":"x"} {"content":"y"}"#,
        r#"{"tool_calls":[{"name":"now"}]}"#,
    ] {
        assert!(differs(more), "{more}");
    }
}

#[test]
fn json_in_an_object_or_a_fence_is_all_that_a_reply_says() {
    let differs = |text: &str| expected(true).read(text).unwrap().differs;
    for same in [r#"{"content":{"a":1}}"#, "```json\n{\"a\": 1}\n```", "[1]"] {
        assert!(!differs(same), "{same}");
    }
    assert!(differs("So: {\"a\":1}"));
}

#[test]
fn hostile_replies_are_read_in_time() {
    // Each takes minutes where a brace or an id is looked at over and over.
    let nested = format!("{}[{}x", r#"{"a":"#.repeat(126), "1,".repeat(100_000));
    assert!(expected(false).read(&nested).is_err());
    let taken = (20_001..40_001).map(|i| format!(r#"{{"id":"call_{i}","name":"now"}}"#));
    let without = (0..20_000).map(|_| r#"{"name":"now"}"#.to_owned());
    let all: Vec<String> = taken.chain(without).collect();
    let reply = format!(r#"{{"tool_calls":[{}]}}"#, all.join(","));
    assert_eq!(expected(false).read(&reply).unwrap().calls.len(), 40_000);
}

#[test]
fn a_request_for_text_expects_nothing() {
    assert!(Expected::of(&GenerateRequest::user("hi")).is_none());
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in r#"[{}\[\]",:a`\\ \n]{0,200}|\PC{0,100}"#) {
        for json in [false, true] {
            let _ = expected(json).read(&text);
        }
    }

    #[test]
    fn what_is_called_is_read_back(
        arguments in prop::collection::btree_map("[a-z{}\"`]{1,5}", "\\PC{0,20}", 0..4),
        before in "[^{}\"]{0,20}",
        fenced: bool,
        as_text: bool,
    ) {
        let object = json!(arguments);
        let sent = if as_text { json!(object.to_string()) } else { object.clone() };
        let mut text = json!({"tool_calls": [{"id": "c", "function": {"name": "add", "arguments": sent}}]}).to_string();
        if fenced {
            text = format!("```json\n{text}\n```");
        }
        prop_assert_eq!(calls(&format!("{before}{text}")), [("c".to_owned(), "add".to_owned(), object)]);
    }
}
