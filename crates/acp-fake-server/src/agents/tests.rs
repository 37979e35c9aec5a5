use super::*;

const OPEN: [&str; 2] = [
    r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
];

/// What the agent writes for what the client writes, without what opens the session.
fn talk(agent: Builtin, lines: &[String]) -> Vec<Value> {
    let input = [OPEN.map(str::to_owned).as_slice(), lines]
        .concat()
        .join("\n");
    let mut output = Vec::new();
    serve(agent, input.as_bytes(), &mut output).unwrap();
    let lines: Vec<Value> = output
        .split(|b| *b == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(lines[0]["id"], "i");
    assert_eq!(lines[1]["result"]["sessionId"], "s1");
    lines[2..].to_vec()
}

fn prompt(id: u32, text: &str) -> String {
    let params = json!({"sessionId": "s1", "prompt": [{"type": "text", "text": text}]});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}).to_string()
}

/// The text of the answer: the message chunks alone.
fn text(lines: &[Value]) -> String {
    let update = |line: &Value| line.pointer("/params/update").cloned().unwrap_or_default();
    lines
        .iter()
        .map(update)
        .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|update| update["content"]["text"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn echo_says_what_the_user_said_last_in_several_chunks_among_noise() {
    let lines = talk(
        Builtin::Echo,
        &[prompt(2, "user: one\nassistant: two\nuser: three four")],
    );
    assert_eq!(text(&lines), "You said: three four");
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.pointer("/params/update/sessionUpdate")?.as_str())
        .collect();
    assert_eq!(kinds.first(), Some(&"agent_thought_chunk"));
    assert_eq!(kinds.last(), Some(&"usage_update"));
    assert!(
        kinds
            .iter()
            .filter(|kind| **kind == "agent_message_chunk")
            .count()
            > 1
    );
    let end = lines.last().unwrap();
    assert_eq!(
        (&end["id"], &end["result"]),
        (&json!(2), &json!({"stopReason": "end_turn"}))
    );

    assert_eq!(
        text(&talk(Builtin::Echo, &[prompt(2, "plain")])),
        "You said: plain"
    );
    let marked = prompt(2, "user: one\nSUPERSEDES-ALL-PRIOR: two");
    assert_eq!(text(&talk(Builtin::Echo, &[marked])), "You said: two");
}

#[test]
fn stale_answers_the_first_question_unless_another_is_named() {
    let first = prompt(2, "user: one?");
    let lines = talk(
        Builtin::Stale,
        &[first.clone(), prompt(3, "user: one?\nuser: two?")],
    );
    assert_eq!(text(&lines), "answer to: one?answer to: one?");
    let named = prompt(3, "user: one?\nuser: two?\nSUPERSEDES-ALL-PRIOR: two?");
    assert_eq!(
        text(&talk(Builtin::Stale, &[first, named])),
        "answer to: one?answer to: two?"
    );
}

#[test]
fn hanging_says_nothing_until_it_is_answered_or_cancelled() {
    let silent = talk(Builtin::Hanging, &[prompt(2, "hi")]);
    assert_eq!(silent.len(), 1);
    assert_eq!(silent[0]["method"], "session/request_permission");

    let answer = |outcome: Value| {
        let result = json!({"outcome": outcome});
        json!({"jsonrpc": "2.0", "id": 0, "result": result}).to_string()
    };
    let allow = answer(json!({"outcome": "selected", "optionId": "allow_once"}));
    let lines = talk(Builtin::Hanging, &[prompt(2, "hi"), allow.clone(), allow]);
    assert_eq!(text(&lines), "The answer was allow_once.");
    assert_eq!(
        lines.iter().filter(|line| line["id"] == 2).count(),
        1,
        "answered once"
    );

    let cancelled = answer(json!({"outcome": "cancelled"}));
    let lines = talk(Builtin::Hanging, &[prompt(2, "hi"), cancelled]);
    assert_eq!(lines[1]["result"]["stopReason"], "cancelled");

    let cancel = |session: &str| {
        let params = json!({"sessionId": session});
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}).to_string()
    };
    let lines = talk(
        Builtin::Hanging,
        &[prompt(2, "hi"), cancel("s1"), cancel("s1")],
    );
    assert_eq!(lines[1]["result"]["stopReason"], "cancelled");
    assert_eq!(lines.len(), 2);
    assert_eq!(
        talk(Builtin::Hanging, &[prompt(2, "hi"), cancel("s2")]).len(),
        1
    );
}

#[test]
fn every_agent_is_strict_and_holds_several_sessions() {
    for agent in Builtin::ALL {
        let error = |line: &str| talk(agent, &[line.to_owned()])[0]["error"]["code"].clone();
        assert_eq!(error("junk"), -32700);
        assert_eq!(error(&OPEN[1].replace("/w", ".")), -32602);
        assert_eq!(error(&prompt(2, "x").replace("s1", "s9")), -32002);
        assert_eq!(
            error(&prompt(2, "x").replace("sessionId", "session")),
            -32602
        );
        assert_eq!(
            error(r#"{"jsonrpc":"2.0","id":2,"method":"_vendor"}"#),
            -32601
        );
        assert_eq!(
            error(r#"{"jsonrpc":"2.0","id":2,"method":"session/list"}"#),
            -32601
        );
        assert!(talk(agent, &[r#"{"jsonrpc":"2.0","method":"_note"}"#.to_owned()]).is_empty());
        let second = talk(agent, &[OPEN[1].replace("\"id\":1", "\"id\":2")]);
        assert_eq!(second[0]["result"]["sessionId"], "s2");
    }
}
