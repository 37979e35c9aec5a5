use super::*;
use crate::conversation::Role;

fn conversation(turns: &[(Role, &str)]) -> Conversation {
    let mut conversation = Conversation::default();
    for (role, text) in turns {
        conversation.push(*role, text);
    }
    conversation
}

fn said(script: Script, turns: &[(Role, &str)]) -> String {
    match script.answer(&conversation(turns)) {
        Say::Text { pieces, .. } => pieces.concat(),
        say => panic!("{say:?}"),
    }
}

#[test]
fn every_name_is_a_script() {
    for name in Script::NAMES {
        name.parse::<Script>().unwrap();
    }
    assert_eq!("error:503".parse(), Ok(Script::Error(503)));
    for name in ["", "Echo", "error:", "error:200", "error:600", "error:x"] {
        assert_eq!(name.parse::<Script>(), Err(UnknownScript), "{name}");
    }
}

#[test]
fn an_echo_is_the_end_of_the_last_text() {
    let long = format!("x{}", "é".repeat(ECHO_CHARS));
    let echo = said(Script::Echo, &[(Role::User, "no"), (Role::User, &long)]);
    assert_eq!(echo, format!("MOCK: {}", "é".repeat(ECHO_CHARS)));
    assert_eq!(said(Script::Echo, &[]), "MOCK: ");
}

#[test]
fn a_text_comes_in_pieces() {
    let Say::Text { pieces, pause } = Say::text("abcdefg") else {
        panic!()
    };
    assert_eq!(pieces, ["abc", "def", "g"]);
    assert_eq!(pause, Duration::ZERO);
    assert_eq!(in_three(""), [""; 0]);
}

/// What a host sends that has asked three questions, and tells by a marker which one it means.
const SENT: &str = "system: Is this terse?\nuser: one?\nassistant: MOCK: or\nuser: hm\nuser: two?\n\
                    SUPERSEDES-ALL-PRIOR: two?";

#[test]
fn questions_are_told_apart() {
    let turns = [
        (Role::User, "zero?"),
        (Role::Assistant, "or?"),
        (Role::User, SENT),
    ];
    assert_eq!(said(Script::First, &turns), "MOCK: zero?");
    assert_eq!(said(Script::First, &turns[1..]), "MOCK: one?");
    assert_eq!(said(Script::Last, &turns), "MOCK: two?");
    assert_eq!(said(Script::Marker, &turns), "MOCK: two?");
    assert_eq!(said(Script::Marker, &turns[..2]), "MOCK: zero?");
    for script in [Script::First, Script::Last, Script::Marker] {
        assert_eq!(said(script, &[]), "MOCK: ");
        assert_eq!(
            said(script, &[(Role::User, "no question")]),
            "MOCK: no question"
        );
    }
}

#[test]
fn a_schema_is_fitted_by_every_script_but_the_error() {
    let mut conversation = conversation(&[(Role::User, "go slow")]);
    conversation.schema =
        Some(json!({"type": "object", "properties": {"title": {"type": "string"}}}));
    for name in Script::NAMES {
        let script: Script = name.parse().unwrap();
        let want = match script {
            Script::Error(status) => Say::Error(status),
            _ => Say::text(r#"{"title":"mock"}"#),
        };
        assert_eq!(script.answer(&conversation), want, "{name}");
    }
}

#[test]
fn phrases_are_obeyed() {
    let obey = |text: &str| Script::Obey.answer(&conversation(&[(Role::User, text)]));
    assert_eq!(obey("please go slow"), Say::slow());
    assert_eq!(obey("go err"), Say::Error(400));
    let Say::Text { pieces, .. } = obey("go big") else {
        panic!()
    };
    assert_eq!(pieces.concat().len(), 300_000);
    assert_eq!(
        obey("use a tool"),
        Say::text("MOCK: use a tool"),
        "there is none"
    );
    // What was said before is not done again.
    assert_eq!(
        obey("user: go err\nuser: hi"),
        Say::text("MOCK: user: go err\nuser: hi")
    );
    let result = [(Role::User, "use a tool"), (Role::Tool, "done")];
    assert_eq!(said(Script::Obey, &result), "MOCK: the tool gave: done");
}

#[test]
fn a_tool_is_called_by_name_or_because_it_is_known() {
    let tool = |name: &str, required: &[&str]| Tool {
        name: name.into(),
        parameters: json!({
            "properties": {"file_path": {"type": "string"}, "n": {"type": "integer"}},
            "required": required,
        }),
    };
    let call = |tools: &[Tool], text: &str| {
        let mut conversation = conversation(&[(Role::User, text)]);
        conversation.tools = tools.to_vec();
        match Script::Obey.answer(&conversation) {
            Say::Call { name, arguments } => (name, arguments),
            say => panic!("{say:?}"),
        }
    };
    let tools = [
        tool("look", &["n"]),
        tool("Write", &["file_path"]),
        tool("bash", &[]),
    ];
    let (name, arguments) = call(&tools, "use a tool path=/x/y");
    assert_eq!((&*name, arguments), ("Write", json!({"file_path": "/x/y"})));
    let (name, arguments) = call(
        &tools,
        r#"use a tool tool=look args={"n": 2, "m": [1]} now"#,
    );
    assert_eq!((&*name, arguments), ("look", json!({"n": 2, "m": [1]})));
    let (name, arguments) = call(&tools[..1], "use a tool args=nonsense");
    assert_eq!((&*name, arguments), ("look", json!({"n": 1})));
    let (_, arguments) = call(&tools[1..2], "use a tool");
    assert!(
        arguments["file_path"]
            .as_str()
            .unwrap()
            .ends_with("mock-model.txt")
    );
}

#[test]
fn tools_of_the_host_are_called_in_text() {
    let answer = |messages: Value, tools: Value| -> Value {
        let text = format!(
            "Answer {{ with JSON }}: {} Thanks.",
            json!({"tools": tools, "messages": messages})
        );
        serde_json::from_str(&said(Script::ToolsJson, &[(Role::User, &text)])).unwrap()
    };
    let schema = json!({"properties": {"n": {"type": "integer"}}});
    let tools = json!([
        {"type": "function", "function": {"name": "one", "parameters": schema}},
        {"name": "two", "parameters": {}},
    ]);
    let (user, tool) = (json!({"role": "user"}), json!({"role": "tool"}));
    let call = |id: &str, name: &str, arguments: &str| {
        json!({"tool_calls": [{
            "id": id, "type": "function", "function": {"name": name, "arguments": arguments},
        }]})
    };
    let first = answer(json!([user]), tools.clone());
    assert_eq!(first, call("call_1", "one", r#"{"n":1}"#));
    let second = answer(json!([user, tool]), tools.clone());
    assert_eq!(second, call("call_2", "two", "{}"));
    let third = answer(json!([tool, tool]), tools.clone());
    assert_eq!(third["tool_calls"][0]["function"]["name"], "one");
    let done = json!({"content": "MOCK: 4 tools were called"});
    assert_eq!(
        answer(json!([user, tool, user, tool, tool, tool]), tools.clone()),
        done
    );

    // A session that was told the tools before, and a whole request anew.
    let whole = json!({"tools": tools, "messages": [user]}).to_string();
    let rest = json!({"messages": [tool]}).to_string();
    let after = |texts: &[&str]| -> Value {
        let turns: Vec<_> = texts.iter().map(|text| (Role::User, *text)).collect();
        serde_json::from_str(&said(Script::ToolsJson, &turns)).unwrap()
    };
    assert_eq!(after(&[&whole, &rest])["tool_calls"][0]["id"], "call_2");
    assert_eq!(after(&[&whole, &rest, &rest, &rest, &rest]), done);
    assert_eq!(
        after(&[&whole, &rest, &whole])["tool_calls"][0]["id"],
        "call_1"
    );
    assert_eq!(
        answer(json!([]), json!([]))["content"],
        "MOCK: 0 tools were called"
    );
    assert_eq!(said(Script::ToolsJson, &[(Role::User, "{}")]), "MOCK: {}");
}

#[test]
fn objects_are_found_in_any_text() {
    assert_eq!(objects(r#"{ {"a":{"b":1}} } {"#), [json!({"a": {"b": 1}})]);
    assert_eq!(objects(""), [Value::Null; 0]);
    assert_eq!(objects(&"{".repeat(100_000)), [Value::Null; 0]);
}
