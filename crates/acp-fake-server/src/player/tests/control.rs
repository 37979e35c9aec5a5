//! Steps that steer: order, choice, memory, fences and time.

use super::*;

#[test]
fn any_order_takes_each_step_once_in_the_order_that_comes() {
    let steps = [
        r#"{"call":"load"}"#,
        r#"{"ask":"_a","as":"x"}"#,
        r#"{"ask":"_b","as":"y"}"#,
        r#"{"any_order":[{"want_reply":"x","result":"$any"},{"want_reply":"y","result":"$any"},{"returns":"load","ok":{}},{"want_eof":true}]}"#,
    ];
    const X: &str = r#"{"jsonrpc":"2.0","id":0,"result":null}"#;
    const Y: &str = r#"{"jsonrpc":"2.0","id":1,"result":null}"#;
    passes(
        &steps,
        &[Start, Line(Y), Ok("load", json!({})), Line(X), Eof(1)],
    );
    passes(
        &steps,
        &[Start, Line(X), Line(Y), Eof(1), Ok("load", json!({}))],
    );
    assert!(waits(&steps, &[Start, Line(X)]).contains("the answer to \"y\", or"));
    assert!(
        fails(&steps, &[Start, Line(X), Line(X)])
            .message
            .contains("none of")
    );
    assert!(
        fails(&steps, &[Start, Line(X), Eof(1)])
            .message
            .contains("closed")
    );
    let wrong = fails(&steps, &[Start, Ok("load", json!([]))]);
    assert_eq!(wrong.path.as_deref(), Some("$.ok"));
}

#[test]
fn choose_plays_the_first_case_that_matches() {
    let choose = r#"{"choose":"p","cases":[{"when":{"prompt":[{"text":{"$contains":"red"}}]},"steps":[{"say":"R"},{"reply":"p","result":{}}]},{"when":{"prompt":[{"text":{"$contains":"blue"}}]},"steps":[]}]}"#;
    let steps = ready(&[
        r#"{"want":"session/prompt","as":"p"}"#,
        choose,
        r#"{"note":"end"}"#,
    ]);
    let actions = passes(&steps, &opened(vec![Line(PROMPT)]));
    assert!(actions[2].contains(r#""text":"R""#) && actions[3].contains(r#""id":2"#));
    let blue = PROMPT.replace("red", "blue").leak();
    assert_eq!(passes(&steps, &opened(vec![Line(blue)])).len(), 2);
    let green = PROMPT.replace("red", "green").leak();
    assert!(
        fails(&steps, &opened(vec![Line(green)]))
            .message
            .contains("no case matches")
    );
}

#[test]
fn the_stale_agent_answers_what_it_remembers() {
    let steps = ready(&[
        r#"{"want":"session/prompt","as":"p"}"#,
        r#"{"stale":"p","answers":{"red?":"R","blue?":"B"}}"#,
        r#"{"want":"session/prompt","as":"p"}"#,
        r#"{"stale":"p","answers":{"red?":"R","blue?":"B"}}"#,
    ]);
    let second = |text: &str| -> Do {
        let line = PROMPT
            .replace("user: red?", text)
            .replace("\"id\":2", "\"id\":3");
        Line(line.leak())
    };
    let answers = |text: &str| {
        let actions = passes(&steps, &opened(vec![Line(PROMPT), second(text)]));
        assert_eq!(
            actions[5],
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}\n"
        );
        actions[4].clone()
    };
    assert!(answers("user: red?\\nuser: blue?").contains(r#""text":"R""#));
    assert!(answers("red? blue?\\nSUPERSEDES-ALL-PRIOR: blue?").contains(r#""text":"B""#));
    let unknown = fails(&steps, &opened(vec![Line(PROMPT), second("hello")]));
    assert!(
        unknown
            .message
            .contains("none of the stale agent's questions")
    );
}

#[test]
fn a_fence_takes_its_answer_from_anywhere_and_leaves_the_rest() {
    let steps = ready(&[r#"{"fence":true}"#, r#"{"want":"session/prompt"}"#]);
    const FENCE: &str = r#"{"jsonrpc":"2.0","id":1000000,"error":{"code":-32601}}"#;
    let actions = passes(&steps, &opened(vec![Line(PROMPT), Line(FENCE)]));
    assert_eq!(
        actions[2],
        "{\"jsonrpc\":\"2.0\",\"id\":1000000,\"method\":\"_fence\"}\n"
    );
    assert!(waits(&steps, &opened(vec![Line(PROMPT)])).contains("the answer to the fence"));
    assert!(
        fails(&steps, &opened(vec![Eof(1)]))
            .message
            .contains("closed")
    );

    let twice = ready(&[r#"{"fence":true}"#, r#"{"fence":true}"#]);
    let other = r#"{"jsonrpc":"2.0","id":1000001,"result":{}}"#;
    let actions = passes(&twice, &opened(vec![Line(FENCE), Line(other)]));
    assert_eq!(actions.len(), 4, "each has a request of its own");
    let extra = r#"{"jsonrpc":"2.0","id":1000000,"result":{},"extra":1}"#;
    assert!(
        fails(&steps, &opened(vec![Line(extra)]))
            .message
            .contains("\"extra\"")
    );

    let taken = [r#"{"ask":"_a","id":1000000}"#, r#"{"fence":true}"#];
    let (actions, _) = run(Role::Both, &taken, &[Start]);
    assert!(actions[1].contains(r#""id":1000001"#), "{actions:?}");
}

#[test]
fn a_delay_lasts_until_its_time_is_over() {
    let steps = [r#"{"delay_ms":1500,"note":"why"}"#, r#"{"note":"after"}"#];
    assert_eq!(passes(&steps, &[Elapsed]), ["delay 1.5s"]);
    assert!(waits(&steps, &[]).contains("the end of the delay"));
    assert_eq!(
        fails(&[r#"{"want":"x"}"#], &[Start, Elapsed]).fault,
        Fault::Fixture
    );
}
