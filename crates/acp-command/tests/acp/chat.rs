//! `acp chat`.

use crate::support::{Script, Test, acp, acp_with, run_with_input};

pub(crate) const TESTS: &[Test] = &[
    ("chat::one_session", one_session),
    ("chat::full_request", full_request),
    ("chat::demo_agent", demo_agent),
    ("chat::failed_turn_of_a_script", failed_turn_of_a_script),
];

fn one_session() {
    // Only what is new goes out, and the session for the day when that will not do is opened ahead.
    let script = Script::ready(
        r#"
{"say":"first answer"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want":"session/new","as":"spare"}
{"reply":"spare","result":{"sessionId":"s2"}}
{"want":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"user: second question"}]},"as":"prompt2"}
{"say":"second answer"}
{"reply":"prompt2","result":{"stopReason":"end_turn"}}
{"want_eof":true}
"#,
    );
    let input = b"first question\n\nsecond question";
    let ended = run_with_input(&mut acp_with(&script, &["chat"]), input);
    ended.expect(0, "first answer\nsecond answer\n");
    // Times and the question mark are for those who watch.
    assert_eq!(ended.stderr, "");
    assert!(!script.is_running());
}

fn full_request() {
    let script = Script::ready(
        r#"
{"say":"first answer"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":{"$re":"(?s)first question.*first answer.*second question\nSUPERSEDES"}}]},"as":"prompt2"}
{"say":"second answer"}
{"reply":"prompt2","result":{"stopReason":"end_turn"}}
{"want_eof":true}
"#,
    );
    // As elsewhere in these programs the policy is written with an underscore as well.
    for policy in ["full-request", "full_request"] {
        let input = b"first question\nsecond question";
        let args = ["chat", "--state", policy];
        run_with_input(&mut acp_with(&script, &args), input)
            .expect(0, "first answer\nsecond answer\n");
    }
}

fn demo_agent() {
    run_with_input(&mut acp(&["chat"]), b"one\ntwo\n")
        .expect(0, "You said: one\nYou said: two\n")
        .tells(&["built-in demo agent"]);
}

fn failed_turn_of_a_script() {
    let script = Script::ready(
        r#"
{"say":"no"}
{"reply":"prompt","result":{"stopReason":"refusal"}}
{"want":"session/new","as":"spare"}
{"want_eof":true}
"#,
    );
    run_with_input(&mut acp_with(&script, &["chat"]), b"one\ntwo\n")
        .expect(1, "no\n")
        .tells(&["refused"]);
}
