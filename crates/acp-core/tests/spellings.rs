//! What is read in one pass where it is spelled as usual, and comes to the same where it is not.

mod warm;

use std::collections::BTreeSet;
use std::time::Duration;

use acp_core::{ConnectionOptions, GenerateRequest, TurnOptions};
use warm::{drain, start, warm};

/// One with a space before it goes the long way.
#[test]
fn answers_are_the_same_in_every_spelling() {
    let now = start();
    let answer = |line: &str| {
        let (mut connection, lane, mut seen) = warm(ConnectionOptions::new("/w"), now);
        let options = TurnOptions::default().allow_empty(true);
        let turn = connection
            .prompt(lane, &GenerateRequest::user("hi"), options, now)
            .unwrap();
        connection.handle_line(line.as_bytes(), now);
        // Text that is late may still come.
        connection.handle_timeout(now + Duration::from_secs(2));
        drain(&mut connection, &mut seen);
        format!("{:?}", seen.turns.get(&turn))
    };
    let mut different = BTreeSet::new();
    for rest in [
        r#"3,"result":{"stopReason":"end_turn"}}"#,
        r#"3,"result":{"stopReason":"max_tokens","usage":{"totalTokens":7}}}"#,
        r#"3,"result":{"usage":null,"stopReason":"end\u005fturn","_meta":{"a":[1]}},"x":1}"#,
        r#"3,"result":{"stopReason":"refusal","usage":{}}}"#,
        r#"3,"result":{"stopReason":"bored"}}"#,
        r#"3,"result":{"stopReason":null}}"#,
        r#"3,"result":{}}"#,
        r#"3,"result":{"stopReason":"refusal","stopReason":"end_turn"}}"#,
        r#"3,"result":{"stopReason":"end_turn"},"error":null}"#,
        r#"3,"result":{"stopReason":"end_turn"},"error":{"code":1,"message":"e"}}"#,
        r#"3,"result":{"stopReason":"end_turn"},"method":"session/update"}"#,
        r#"3,"result":{"stopReason":"end_turn"},"result":null}"#,
        r#"3,"result":["end_turn",null]}"#,
        r#"3,"result":null}"#,
        r#"3,"error":{"code":-32603,"message":"e"}}"#,
        r#"03,"result":{"stopReason":"end_turn"}}"#,
        r#"3.0,"result":{"stopReason":"end_turn"}}"#,
        r#"33,"result":{"stopReason":"end_turn"}}"#,
        r#","result":{"stopReason":"end_turn"}}"#,
        r#"3,"result":{"stopReason":"end_turn"}"#,
        r#"3,"result":{"stopReason":"end_turn"}}x"#,
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{rest}"#);
        let read = answer(&line);
        assert_eq!(read, answer(&format!(" {line}")), "{line}");
        different.insert(read);
    }
    assert!(different.len() > 6, "{different:?}");
}
