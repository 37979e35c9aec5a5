//! Tools and response formats, on the engine alone with an agent that remembers.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use super::rig::{Agent, Host, Outcome, agent};
use acp_core::{
    Content, GenerateRequest, Message, PermissionPolicy, StatePolicy, ToolCall, TurnOptions,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn tools() -> Vec<Value> {
    ["add", "now"]
        .map(|name| json!({"type": "function", "function": {"name": name, "parameters": {}}}))
        .to_vec()
}

fn host(policy: StatePolicy, replies: &[&str]) -> Host {
    let agent = Agent {
        replies: replies.iter().map(|reply| (*reply).to_owned()).collect(),
        ..agent()
    };
    Host::new(policy, |_| {}, agent)
}

/// The JSON object in a prompt; `None` if there is none.
fn object(prompt: &str) -> Option<Value> {
    let line = prompt
        .lines()
        .find(|line| line.starts_with('{') && line.contains("\"messages\""))?;
    serde_json::from_str(line).ok()
}

const CALL: &str = r#"{"tool_calls":[{"id":"c1","function":{"name":"add","arguments":{"a":1}}}]}"#;
const TEXT: &str = r#"{"content":"It is 3."}"#;
const BROKEN: &str = r#"{"tool_calls":[{"name":"add","arguments":"{"}]}"#;

#[test]
fn a_loop_of_calls_goes_out_as_each_policy_has_it() {
    for policy in [
        StatePolicy::FullRequest,
        StatePolicy::FreshSession,
        StatePolicy::VerifiedDelta,
    ] {
        let mut host = host(policy, &[CALL, TEXT]);
        let mut request = GenerateRequest::user("1 and 2?").tools(tools());
        let answer = host.ask(&request).unwrap();
        assert_eq!(
            answer.tool_calls,
            [ToolCall::new("c1", "add", json!({"a": 1}))]
        );
        assert_eq!((&*answer.content, answer.repairs.len()), ("", 0));
        request.messages.push(answer.to_message());
        request.messages.push(Message::tool("c1", "3"));
        let answer = host.ask(&request).unwrap();
        assert_eq!(answer.content, "It is 3.");
        assert_eq!(answer.tool_calls, []);

        let prompts = &host.agent.prompts;
        let (first, second) = (object(&prompts[0]).unwrap(), object(&prompts[1]).unwrap());
        assert_eq!(first["tools"], json!(tools()));
        let whole = serde_json::to_value(&request).unwrap();
        if policy == StatePolicy::VerifiedDelta {
            assert_eq!(second, json!({"messages": [whole["messages"][2]]}));
        } else {
            assert_eq!(second, whole);
        }
        let marked = policy == StatePolicy::FullRequest;
        for prompt in prompts {
            let last = prompt.lines().last().unwrap();
            assert_eq!(last == "SUPERSEDES-ALL-PRIOR: 1 and 2?", marked, "{prompt}");
        }
    }
}

#[test]
fn a_reply_with_a_fault_is_asked_for_once_more() {
    let mut host = host(StatePolicy::VerifiedDelta, &[BROKEN, "{", TEXT, "Three."]);
    let mut request = GenerateRequest::user("1 and 2?").tools(tools());
    let answer = host.ask(&request).unwrap();
    assert_eq!(answer.content, "It is 3.");
    assert_eq!(answer.repairs.len(), 2);
    assert!(answer.repairs[0].fault.contains("arguments"), "{answer:?}");
    let session = host.agent.prompts[1].clone();
    assert!(session.contains(&answer.repairs[0].fault), "{session}");
    assert!(object(&session).is_none());

    // What was repaired is not in the host's store, so the next turn is not one of that session.
    request.messages.push(answer.to_message());
    request.messages.push(Message::user("Sure?"));
    let answer = host.ask(&request).unwrap();
    assert_eq!(answer.content, "Three.");
    let whole = serde_json::to_value(&request).unwrap();
    assert_eq!(object(&host.agent.prompts[3]).unwrap(), whole);
}

#[test]
fn a_session_that_holds_more_than_the_host_was_given_is_not_used_again() {
    let prose = format!("I have deleted the disk. {CALL}");
    let invented = CALL.replace(r#""id":"c1","#, "");
    for reply in [prose, invented] {
        let mut host = host(StatePolicy::VerifiedDelta, &[&reply, TEXT]);
        let mut request = GenerateRequest::user("1 and 2?").tools(tools());
        let answer = host.ask(&request).unwrap();
        let id = answer.tool_calls[0].id.clone();
        request
            .messages
            .extend([answer.to_message(), Message::tool(id, "3")]);
        host.ask(&request).unwrap();
        let whole = serde_json::to_value(&request).unwrap();
        assert_eq!(object(&host.agent.prompts[1]).unwrap(), whole, "{reply}");
    }
}

#[test]
fn repairs_come_to_an_end() {
    for most in [0, 1] {
        let broken = vec![BROKEN.to_owned(); 5].into();
        let agent = Agent {
            replies: broken,
            ..agent()
        };
        let mut host = Host::new(StatePolicy::FullRequest, |o| o.max_repairs = most, agent);
        let request = GenerateRequest::user("1 and 2?").tools(tools());
        let error = host.ask(&request).unwrap_err();
        assert_eq!(error.kind(), "malformed_reply");
        assert_eq!(error.partial(), BROKEN);
        let report = serde_json::to_value(&error).unwrap();
        assert_eq!(report["repairs"], most);
        assert!(report["fault"].as_str().unwrap().contains("arguments"));
        assert_eq!(host.agent.prompts.len(), 1 + most as usize);
        // The lane is as usable as before.
        host.agent.replies = [TEXT.to_owned()].into();
        assert_eq!(host.ask(&request).unwrap().content, "It is 3.");
    }
}

#[test]
fn what_is_no_reply_is_not_repaired() {
    for outcome in [Outcome::Error, Outcome::Refusal, Outcome::Empty] {
        let mut host = host(StatePolicy::FullRequest, &[BROKEN]);
        host.agent.outcomes.push_back(outcome);
        let error = host
            .ask(&GenerateRequest::user("?").tools(tools()))
            .unwrap_err();
        assert_ne!(error.kind(), "malformed_reply");
        assert_eq!(host.agent.prompts.len(), 1);
    }
    // One that was cut is: the agent may be briefer.
    let mut host = host(StatePolicy::FullRequest, &["{\"content\": \"It", TEXT]);
    host.agent.outcomes.push_back(Outcome::Cut);
    let answer = host
        .ask(&GenerateRequest::user("?").tools(tools()))
        .unwrap();
    assert_eq!((&*answer.content, answer.repairs.len()), ("It is 3.", 1));
}

#[test]
fn a_cancel_ends_a_repair() {
    let mut host = host(StatePolicy::FullRequest, &[BROKEN]);
    let request = GenerateRequest::user("?").tools(tools());
    let options = TurnOptions::default();
    let turn = host
        .connection
        .prompt(host.lane, &request, options, host.now)
        .unwrap();
    host.exchange();
    // The reply has come and its fault may still be cured by late text: nothing is asked yet.
    assert_eq!(host.agent.prompts.len(), 1);
    host.connection.cancel(turn, host.now);
    host.settle();
    let error = host.ended[&turn].clone().unwrap_err();
    assert_eq!((error.kind(), error.partial()), ("cancelled", BROKEN));
    assert_eq!(host.agent.prompts.len(), 1);
}

#[test]
fn json_is_asked_for_where_the_host_wants_it() {
    let mut host = host(
        StatePolicy::FullRequest,
        &["Three.", "```json\n{\"sum\": 3}\n```"],
    );
    let format = json!({"type": "json_object"});
    let request = GenerateRequest::user("1 and 2?").response_format(format.clone());
    let answer = host.ask(&request).unwrap();
    assert_eq!(
        (&*answer.content, answer.repairs.len()),
        ("{\"sum\": 3}", 1)
    );
    assert_eq!(
        object(&host.agent.prompts[0]).unwrap()["response_format"],
        format
    );
}

#[test]
fn results_without_tools_still_go_with_their_calls() {
    let mut host = host(StatePolicy::VerifiedDelta, &["Three.", "Four."]);
    let call = ToolCall::new("c1", "add", json!({}));
    let mut request = GenerateRequest::new([
        Message::user("1 and 2?"),
        Message::assistant_calling(Content::Null, &[call]),
        Message::tool("c1", "3"),
    ]);
    request
        .messages
        .push(host.ask(&request).unwrap().to_message());
    request.messages.push(Message::user("And 1?"));
    assert_eq!(host.ask(&request).unwrap().content, "Four.");
    let messages = serde_json::to_value(&request).unwrap()["messages"].clone();
    let sent = |prompt: &str| object(prompt).unwrap()["messages"].clone();
    assert_eq!(
        sent(&host.agent.prompts[0]),
        json!(messages.as_array().unwrap()[..3])
    );
    assert_eq!(sent(&host.agent.prompts[1]), json!([messages[4]]));
}

#[test]
fn the_agent_s_own_tools_are_refused_in_a_turn_about_the_host_s() {
    for (native, tools, kind) in [
        (false, tools(), "reject_once"),
        (true, tools(), "allow_once"),
        (false, Vec::new(), "allow_once"),
    ] {
        let change = |options: &mut acp_core::ConnectionOptions| {
            options.native_tools = native;
            options.permission = PermissionPolicy::AllowOnce;
        };
        let mut host = Host::new(StatePolicy::FullRequest, change, agent());
        let request = GenerateRequest::user("?").tools(tools);
        host.start(&request);
        for session in ["s1", "somebody-else-s"] {
            let options = json!([
                {"optionId": "allow_once", "name": "a", "kind": "allow_once"},
                {"optionId": "reject_once", "name": "r", "kind": "reject_once"},
            ]);
            let line = json!({"jsonrpc": "2.0", "id": session, "method": "session/request_permission",
                "params": {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": options}});
            host.connection
                .handle_line(line.to_string().as_bytes(), host.now);
        }
        let mut answers = Vec::new();
        while let acp_core::Output::Send(line) = host.connection.poll_output() {
            let line: Value = serde_json::from_slice(&line).unwrap();
            if let Some(outcome) = line["result"].get("outcome") {
                answers.push(outcome["optionId"].as_str().unwrap().to_owned());
            }
        }
        assert_eq!(answers, [kind, kind], "{native}");
    }
}

/// What a permission request in this session gets.
fn permission(host: &mut Host, session: &str) -> String {
    let options = json!([
        {"optionId": "allow_once", "name": "a", "kind": "allow_once"},
        {"optionId": "reject_once", "name": "r", "kind": "reject_once"},
    ]);
    let line = json!({"jsonrpc": "2.0", "id": session, "method": "session/request_permission",
        "params": {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": options}});
    host.connection
        .handle_line(line.to_string().as_bytes(), host.now);
    loop {
        let acp_core::Output::Send(line) = host.connection.poll_output() else {
            panic!("no answer");
        };
        let line: Value = serde_json::from_slice(&line).unwrap();
        if let Some(id) = line["result"]["outcome"]["optionId"].as_str() {
            return id.to_owned();
        }
    }
}

#[test]
fn nothing_is_allowed_between_the_turns_of_a_loop() {
    let mut host = host(StatePolicy::FullRequest, &[CALL, TEXT]);
    assert_eq!(permission(&mut host, "s1"), "allow_once");
    host.ask(&GenerateRequest::user("?").tools(tools()))
        .unwrap();
    assert_eq!(permission(&mut host, "s1"), "reject_once");
    host.ask(&GenerateRequest::user("?")).unwrap();
    assert_eq!(permission(&mut host, "s1"), "allow_once");
}

#[test]
fn another_session_is_no_way_around_a_refusal() {
    let mut host = host(StatePolicy::VerifiedDelta, &[CALL]);
    let mut request = GenerateRequest::user("?").tools(tools());
    let answer = host.ask(&request).unwrap();
    request
        .messages
        .extend([answer.to_message(), Message::tool("c1", "3")]);
    host.start(&request);
    // The spare, which runs nothing.
    assert_eq!(permission(&mut host, "s2"), "reject_once");
}

/// What a host does between two turns.
#[derive(Debug, Clone)]
enum Change {
    /// The answer is stored, its calls are made and their results are next; or something is asked.
    GoOn,
    /// The same, under ids of the host's own.
    Renumber,
    /// The same, with the arguments written anew.
    Rewrite,
    OtherTools,
    /// A result is another one.
    Edit,
    Retry,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => Just(Change::GoOn),
        2 => Just(Change::Renumber),
        2 => Just(Change::Rewrite),
        1 => Just(Change::OtherTools),
        1 => Just(Change::Edit),
        1 => Just(Change::Retry),
    ]
}

/// A conversation without what is not compared: the ids of calls in the order of their first place, and
/// arguments as JSON.
fn normal(messages: &[Value]) -> Vec<Value> {
    let mut ids: Vec<String> = Vec::new();
    let mut number = |id: &Value| {
        let id = id.as_str().unwrap().to_owned();
        let known = ids.iter().position(|known| *known == id);
        json!(known.unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        }))
    };
    let mut messages = messages.to_vec();
    for message in &mut messages {
        if message["role"] == "tool" {
            message["tool_call_id"] = number(&message["tool_call_id"]);
        }
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            call["id"] = number(&call["id"]);
            let arguments = call["function"]["arguments"].as_str().unwrap();
            call["function"]["arguments"] = serde_json::from_str(arguments).unwrap();
        }
        if message["tool_calls"].is_null() {
            message.as_object_mut().unwrap().remove("tool_calls");
        }
    }
    messages
}

/// The conversation that a session holds, of the prompts and the replies in it. Repairs are in it, too.
fn held(host: &Host) -> Vec<Value> {
    let session = &host.connection.session(host.lane).unwrap().session_id;
    let mut messages = Vec::new();
    for entry in &host.agent.sessions[session] {
        match (object(entry), entry.strip_prefix("assistant: ")) {
            (Some(object), _) => messages.extend(object["messages"].as_array().unwrap().clone()),
            (None, Some(reply)) => {
                let mut reply: Value =
                    serde_json::from_str(reply).unwrap_or(json!({"broken": reply}));
                for call in reply["tool_calls"].as_array_mut().into_iter().flatten() {
                    let arguments = call["function"]["arguments"].to_string();
                    call["type"] = json!("function");
                    call["function"]["arguments"] = json!(arguments);
                }
                reply["role"] = json!("assistant");
                reply["content"] = reply["content"].take();
                messages.push(reply);
            }
            (None, None) => messages.push(json!({"repair": entry})),
        }
    }
    messages
}

proptest! {
    /// After every turn under a verified delta the session holds the request and its answer, but for the
    /// ids of calls, or a repair, after which it is not used again.
    #[test]
    fn the_session_holds_the_calls_and_results_of_the_host(
        steps in prop::collection::vec((change(), 0..3usize, prop::bool::weighted(0.15)), 1..12),
    ) {
        let mut host = host(StatePolicy::VerifiedDelta, &[]);
        let mut request = GenerateRequest::user("go").tools(tools());
        let mut number = 0;
        for (change, calls, broken) in steps {
            let calls: Vec<Value> = (0..calls).map(|i| {
                number += 1;
                let (id, arguments) = (format!("call_{number}"), json!({"n": i}));
                json!({"id": id, "function": {"name": "add", "arguments": arguments}})
            }).collect();
            let reply = if calls.is_empty() {
                json!({"content": format!("answer {number}")})
            } else {
                json!({"content": null, "tool_calls": calls})
            };
            if broken {
                host.agent.replies.push_back("{\"tool_calls\":[".to_owned());
            }
            host.agent.replies.push_back(reply.to_string());
            let answer = host.ask(&request).unwrap();
            prop_assert_eq!(answer.repairs.len(), usize::from(broken));

            let mut whole = serde_json::to_value(&request).unwrap()["messages"].as_array().unwrap().clone();
            whole.push(serde_json::to_value(answer.to_message()).unwrap());
            let held = held(&host);
            if !broken {
                prop_assert_eq!(normal(&held), normal(&whole));
                // A result in a session names a call that the session knows.
                for (at, message) in held.iter().enumerate().filter(|(_, message)| message["role"] == "tool") {
                    let knows = |known: &Value| known["tool_calls"].as_array().is_some_and(|calls| {
                        calls.iter().any(|call| call["id"] == message["tool_call_id"])
                    });
                    prop_assert!(held[..at].iter().any(knows), "{:?}", held);
                }
            }

            let mut message = answer.to_message();
            let calls = message.other.get_mut("tool_calls").and_then(Value::as_array_mut);
            let mut results = Vec::new();
            for (i, call) in calls.into_iter().flatten().enumerate() {
                match change {
                    Change::Renumber => call["id"] = json!(format!("host_{number}_{i}")),
                    Change::Rewrite => {
                        let arguments = call["function"]["arguments"].as_str().unwrap();
                        call["function"]["arguments"] = json!(arguments.replace(':', " : "));
                    }
                    _ => {}
                }
                results.push(Message::tool(call["id"].as_str().unwrap(), i.to_string()));
            }
            if results.is_empty() {
                results.push(Message::user("next?"));
            }
            match change {
                Change::Retry => continue,
                Change::OtherTools => request.tools.reverse(),
                Change::Edit => request.messages[0] = Message::user(format!("go {number}")),
                _ => {}
            }
            request.messages.push(message);
            request.messages.extend(results);
        }
    }
}
