//! What stands around params and results: ids, methods, errors.

use super::*;

#[test]
fn the_envelope_of_a_request_is_matched_in_full() {
    let steps = [r#"{"want":"initialize"}"#, r#"{"want":"_x"}"#];
    let x = |id: &str| -> &'static str {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_x"}}"#).leak()
    };
    passes(&steps, &[Start, Line(INIT), Line(x("1"))]);
    passes(&steps, &[Start, Line(INIT), Line(x(r#""0""#))]);
    assert!(
        fails(&steps, &[Start, Line(INIT), Line(x("0"))])
            .message
            .contains("used before")
    );
    assert!(
        fails(&steps, &[Start, Line(INIT), Line(x("null"))])
            .message
            .contains("id null")
    );
    assert!(
        fails(&steps, &[Start, Line(INIT), Line(x("1.5"))])
            .message
            .contains("id 1.5")
    );
    let extra = r#"{"jsonrpc":"2.0","id":1,"method":"_x","extra":true}"#;
    assert!(
        fails(&steps, &[Start, Line(INIT), Line(extra)])
            .message
            .contains("\"extra\"")
    );
    let note = r#"{"jsonrpc":"2.0","method":"_x"}"#;
    assert!(
        fails(&steps, &[Start, Line(INIT), Line(note)])
            .message
            .contains("something else")
    );
    let none = r#"{"jsonrpc":"2.0"}"#;
    assert!(
        fails(&steps, &[Start, Line(INIT), Line(none)])
            .message
            .contains("neither a method")
    );
}

#[test]
fn an_answer_needs_the_id_of_its_request_with_its_type() {
    let steps = [
        r#"{"ask":"_a","as":"x"}"#,
        r#"{"ask":"_b","params":[1],"as":"y","id":"7"}"#,
        r#"{"want_reply":"x","result":{"ok":true}}"#,
        r#"{"want_reply":"y","error":{"code":-32601}}"#,
    ];
    let good = r#"{"jsonrpc":"2.0","id":0,"result":{"ok":true}}"#;
    let bad = r#"{"jsonrpc":"2.0","id":"7","error":{"code":-32601,"message":"m"}}"#;
    assert_eq!(
        passes(&steps, &[Start, Line(good), Line(bad)]),
        [
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"_a\"}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":\"_b\",\"params\":[1]}\n",
        ]
    );
    let failure = |line| fails(&steps, &[Start, Line(good), Line(line)]);
    let number = failure(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601}}"#);
    assert_eq!(number.path.as_deref(), Some("$.id"));
    assert_eq!(
        (number.want.as_deref(), number.got.as_deref()),
        (Some("\"7\""), Some("7"))
    );
    assert!(
        failure(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#)
            .message
            .contains("no error")
    );
    let code = failure(r#"{"jsonrpc":"2.0","id":"7","error":{"code":0}}"#);
    assert_eq!(code.path.as_deref(), Some("$.error.code"));
    let both = failure(r#"{"jsonrpc":"2.0","id":"7","result":{},"error":{}}"#);
    assert!(both.message.contains("both"));
    let error = fails(
        &steps,
        &[Start, Line(r#"{"jsonrpc":"2.0","id":0,"error":{}}"#)],
    );
    assert!(error.message.contains("it is an error"));
}

#[test]
fn the_agent_counts_its_requests() {
    let steps = [
        r#"{"ask":"_a","as":"x"}"#,
        r#"{"want_reply":"x","result":{}}"#,
        r#"{"ask":"_b","id":2}"#,
        r#"{"batch":[{"ask":"_c"},{"ask":"_d"}]}"#,
    ];
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
    let actions = passes(&steps, &[Start, Line(answer)]);
    assert!(
        actions[2].contains(r#""id":1,"#),
        "0 is used up: {actions:?}"
    );
    assert!(actions[2].contains(r#""id":3,"#), "2 is taken: {actions:?}");
}

#[test]
fn an_answer_under_another_id_or_beside_an_error_opens_no_session() {
    let steps = [READY[0], READY[1], READY[2]];
    let reply = |id| format!(r#"{{"reply":"n","result":{{"sessionId":"s1"}}{id}}}"#);
    for (id, opens) in [
        ("", true),
        (r#","id":99"#, false),
        (r#","id_as_string":true"#, true),
        (r#","error":{},"invalid":"both""#, false),
    ] {
        let reply = reply(id);
        let steps = [
            &steps[..],
            &[reply.as_str(), r#"{"want":"session/prompt"}"#],
        ]
        .concat();
        let (_, end) = run(Role::Both, &steps, &opened(vec![Line(PROMPT)]));
        assert_eq!(matches!(end, Action::Done), opens, "{end:?}");
    }
}

#[test]
fn an_invalid_answer_has_the_members_it_is_given() {
    let both = r#"{"reply":"i","result":1,"error":2,"invalid":"both"}"#;
    let neither = r#"{"reply":"i","invalid":"neither"}"#;
    let actions = passes(&[READY[0], both, neither], &[Start, Line(INIT)]);
    assert_eq!(
        actions.concat(),
        concat!(
            r#"{"jsonrpc":"2.0","id":0,"result":1,"error":2}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":0}"#,
            "\n"
        )
    );
}
