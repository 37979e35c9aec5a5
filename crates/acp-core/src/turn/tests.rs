use serde_json::{Value, json};

use super::*;
use crate::error::GenerateError;
use crate::request::GenerateResponse;

fn turn(options: TurnOptions) -> Turn {
    #[expect(clippy::disallowed_methods, reason = "any instant will do as a start")]
    let now = Instant::now();
    Turn::new(TurnId(1), LaneId(1), options, now)
}

/// Applies one update, which has borrowed parts.
fn apply(turn: &mut Turn, update: &Value) -> Applied {
    apply_text(turn, &update.to_string())
}

fn apply_text(turn: &mut Turn, update: &str) -> Applied {
    let params: &RawValue = serde_json::from_str(update).unwrap();
    turn.apply(&serde_json::from_str(update).unwrap(), params)
}

fn chunk(text: &str, id: Option<&str>) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
        "content": {"type": "text", "text": text}})
}

fn finish(mut turn: Turn) -> Result<GenerateResponse, GenerateError> {
    turn.answer = Some(Answer::Result(PromptResult {
        stop_reason: json!("end_turn"),
        usage: None,
    }));
    Box::new(turn).finish(&[], &String::new)
}

#[test]
fn every_kind_that_is_no_answer_is_counted_as_what_it_is() {
    let mut all = turn(TurnOptions::default().allow_empty(true));
    for (kind, times) in [
        ("agent_thought_chunk", 1),
        ("user_message_chunk", 2),
        ("tool_call", 1),
        ("tool_call_update", 2),
        ("plan", 1),
        ("plan_update", 2),
        ("plan_removed", 1),
        ("available_commands_update", 1),
        ("current_mode_update", 1),
        ("config_option_update", 1),
        ("session_info_update", 1),
        ("usage_update", 1),
        ("from_the_future", 7),
    ] {
        for _ in 0..times {
            assert_eq!(
                apply(&mut all, &json!({"sessionUpdate": kind})),
                Applied::Counted
            );
        }
    }
    for content in [
        json!({"type": "image"}),
        json!({"type": "image", "text": "x"}),
        json!(7),
    ] {
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        assert_eq!(apply(&mut all, &update), Applied::Counted);
    }
    let odd =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 7}});
    for _ in 0..2 {
        apply(&mut all, &odd);
    }
    let dropped = finish(all).unwrap().dropped;
    let counts: Vec<(&str, u64)> = dropped.nonzero().collect();
    let want = [
        ("thoughts", 1),
        ("tool_calls", 3),
        ("plans", 4),
        ("user_messages", 2),
        ("other", 5),
        ("unknown", 7),
        ("non_text", 5),
    ];
    assert_eq!(counts, want);
    let words =
        "thoughts: 1, tool_calls: 3, plans: 4, user_messages: 2, other: 5, unknown: 7, non_text: 5";
    assert_eq!(dropped.to_string(), words);
    assert_eq!(Dropped::default().to_string(), "nothing came");
}

#[test]
fn what_comes_after_a_cancel_is_no_answer() {
    let mut cancelled = turn(TurnOptions::default());
    apply(&mut cancelled, &chunk("be", None));
    cancelled.cancel = Some(CancelCause::Host);
    for _ in 0..2 {
        assert_eq!(
            apply(&mut cancelled, &chunk("fore", None)),
            Applied::Counted
        );
    }
    assert_eq!(cancelled.text(), "be");
    assert_eq!(cancelled.dropped.outside_turn, 2);
    assert_eq!(finish(cancelled).unwrap_err().partial(), "be");
}

#[test]
fn messages_are_told_apart_by_their_ids() {
    let mut turn = turn(TurnOptions::default());
    for (text, id) in [
        ("", Some("empty")),
        ("a", None),
        ("b", None),
        ("c", Some("1")),
        ("d", Some("1")),
        ("e", None),
        ("f", Some("2")),
    ] {
        assert_eq!(apply(&mut turn, &chunk(text, id)), Applied::Text);
    }
    let response = finish(turn).unwrap();
    let spans: Vec<(Option<&str>, &str)> = response
        .messages
        .iter()
        .map(|span| {
            (
                span.message_id.as_deref(),
                &response.content[span.range.clone()],
            )
        })
        .collect();
    let want = [
        (None, "ab"),
        (Some("1"), "cd"),
        (None, "e"),
        (Some("2"), "f"),
    ];
    assert_eq!(spans, want);
    assert_eq!(response.last_message(), "f");
    assert_eq!(GenerateResponse::text("all").last_message(), "all");
}

#[test]
fn half_a_character_at_the_end_belongs_to_the_last_message() {
    let mut turn = turn(TurnOptions::default());
    let half =
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\ud83d"}}"#;
    assert_eq!(apply_text(&mut turn, half), Applied::Text);
    let mut joined = self::turn(TurnOptions::default());
    apply_text(&mut joined, half);
    apply_text(&mut joined, &half.replace(r"a\ud83d", r"\ude00b"));
    assert_eq!(joined.text(), "a😀b");
    let response = finish(turn).unwrap();
    assert_eq!(response.content, "a\u{fffd}");
    assert_eq!(response.last_message(), "a\u{fffd}");
}

#[test]
fn a_tool_call_is_open_from_its_first_status_to_its_last() {
    let call = |kind: &str, id: &str, status: Option<&str>| {
        let mut update = json!({"sessionUpdate": kind, "toolCallId": id});
        if let Some(status) = status {
            update["status"] = json!(status);
        }
        update
    };
    let mut turn = turn(TurnOptions::default());
    assert_eq!(
        apply(&mut turn, &call("tool_call", "a", None)),
        Applied::Counted
    );
    assert!(turn.has_open_tools(), "without a status it is pending");
    apply(&mut turn, &call("tool_call", "b", Some("in_progress")));
    assert_eq!(
        apply(&mut turn, &call("tool_call_update", "a", Some("completed"))),
        Applied::Counted,
        "b is open"
    );
    apply(&mut turn, &call("tool_call_update", "b", None));
    assert!(
        turn.has_open_tools(),
        "an update without a status changes nothing"
    );
    assert_eq!(
        apply(&mut turn, &call("tool_call_update", "b", Some("failed"))),
        Applied::ToolsDone
    );
    assert!(!turn.has_open_tools());
    assert_eq!(
        apply(&mut turn, &call("tool_call_update", "b", Some("completed"))),
        Applied::Counted,
        "it was over already"
    );
    apply(&mut turn, &call("tool_call_update", "c", None));
    assert!(!turn.has_open_tools(), "nothing is known of it");
    apply(&mut turn, &call("tool_call_update", "c", Some("pending")));
    assert!(turn.has_open_tools());
}

#[test]
fn open_tool_calls_are_bounded() {
    let open = |turn: &mut Turn, id: &str| {
        apply(
            turn,
            &json!({"sessionUpdate": "tool_call", "toolCallId": id}),
        );
    };
    let mut long = turn(TurnOptions::default());
    // With its quotes.
    open(&mut long, &"x".repeat(MAX_TOOL_ID - 1));
    assert!(!long.has_open_tools());
    open(&mut long, &"x".repeat(MAX_TOOL_ID - 2));
    assert!(long.has_open_tools());

    let mut many = turn(TurnOptions::default());
    for i in 0..MAX_OPEN_TOOLS + 10 {
        open(&mut many, &i.to_string());
    }
    assert_eq!(many.open_tools.len(), MAX_OPEN_TOOLS);
}

#[test]
fn messages_beyond_the_limit_go_to_the_last_one() {
    let mut turn = turn(TurnOptions::default());
    for i in 0..MAX_MESSAGES + 2 {
        apply(&mut turn, &chunk("x", Some(&i.to_string())));
    }
    let response = finish(turn).unwrap();
    assert_eq!(response.messages.len(), MAX_MESSAGES);
    assert_eq!(response.last_message(), "xxx");
}

#[test]
fn a_sign_of_life_after_a_cancel_is_noted() {
    let mut turn = turn(TurnOptions::default());
    let later = turn.last_activity + Duration::from_secs(1);
    turn.touch(later);
    assert_eq!((turn.last_activity, turn.went_on), (later, false));
    turn.cancel = Some(CancelCause::Host);
    turn.touch(later);
    assert!(turn.went_on);
}

#[test]
fn options_are_set_one_by_one() {
    let second = Duration::from_secs(1);
    let options = TurnOptions::default()
        .allow_empty(true)
        .deadline(second)
        .idle_timeout(second * 2);
    assert!(options.allow_empty);
    assert_eq!(options.deadline, Some(second));
    assert_eq!(options.idle_timeout, Some(second * 2));
    assert_eq!(options.idle_timeout(None).idle_timeout, None);
}
