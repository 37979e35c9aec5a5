//! Turns that wait for their lane.

mod warm;

use acp_core::{ConnectionOptions, GenerateRequest, Settle, TurnOptions};
use serde_json::json;
use warm::{drain, start, warm};

/// A line of the agent with text.
fn say(text: &str) -> String {
    let content = json!({"type": "text", "text": text});
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
    let params = json!({"sessionId": "s1", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string() + "\n"
}

/// Lines of the agent with the text of a turn and its end.
fn answer(id: u64, text: &str) -> String {
    let end = json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn"}});
    format!("{}{end}\n", say(text))
}

/// It begins behind all that was read along with the end of the one before.
#[test]
fn what_comes_along_with_the_end_of_a_turn_is_no_part_of_the_next() {
    let now = start();
    let mut options = ConnectionOptions::new("/work");
    options.settle = Settle::Never;
    let (mut connection, lane, mut seen) = warm(options, now);
    let turns = [(); 2].map(|()| {
        let hi = GenerateRequest::user("hi");
        let turn = connection.prompt(lane, &hi, TurnOptions::default(), now);
        turn.expect("the connection is open")
    });
    let late = answer(3, "one") + &say("late");
    for read in [late, answer(4, "two")] {
        connection.handle_bytes(read.as_bytes(), now);
        drain(&mut connection, &mut seen);
    }
    for (turn, text) in turns.into_iter().zip(["one", "two"]) {
        let response = seen.turns[&turn][0].as_ref().expect("it has ended well");
        assert_eq!(response.content, text);
    }
}
