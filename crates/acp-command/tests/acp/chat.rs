//! `acp chat`.

use crate::support::{Script, Test, acp, acp_with, run_with_input};

pub(crate) const TESTS: &[Test] = &[
    ("chat::one_session", one_session),
    ("chat::demo_agent", demo_agent),
    ("chat::failed_turn_of_a_script", failed_turn_of_a_script),
];

fn one_session() {
    let script = Script::ready(
        r#"
{"say":"first answer"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":{"$re":"(?s)first question.*first answer.*second question"}}]},"as":"prompt2"}
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
{"want_eof":true}
"#,
    );
    run_with_input(&mut acp_with(&script, &["chat"]), b"one\ntwo\n")
        .expect(1, "no\n")
        .tells(&["refused"]);
}
