//! State policies, on the engine alone with an agent that remembers: whatever the host asks, in whatever
//! order, what the session holds after a turn is the host's request and the answer, and nothing else.

use super::rig::{Agent, Host, Outcome, agent, lines};
use std::time::Duration;

use acp_core::{Event, GenerateRequest, Message, Output, StatePolicy};
use proptest::prelude::*;
use serde_json::Value;

#[test]
fn a_conversation_that_grows_is_sent_bit_by_bit() {
    let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
    let mut messages = vec![Message::system("terse"), Message::user("one?")];
    let answer = host.generate(&messages).unwrap();
    messages.extend([Message::assistant(answer), Message::user("two?")]);
    let answer = host.generate(&messages).unwrap();
    messages.extend([
        Message::assistant(answer),
        Message::user("three?"),
        Message::user("and four?"),
    ]);
    host.generate(&messages).unwrap();
    let want = [
        "system: terse\nuser: one?",
        "user: two?",
        "user: three?\nuser: and four?",
    ];
    assert_eq!(host.agent.prompts, want);
}

#[test]
fn anything_but_growth_gets_the_whole_request_in_a_new_session() {
    let first = [Message::user("one?")];
    let after = |answer: &str, next: &str| {
        [
            Message::user("one?"),
            Message::assistant(answer),
            Message::user(next),
        ]
    };
    for (why, messages) in [
        ("a retry", first.to_vec()),
        ("an edited answer", after("answer 9", "two?").to_vec()),
        ("a second conversation", vec![Message::user("other?")]),
        (
            "compaction",
            vec![Message::system("so far: one"), Message::user("two?")],
        ),
    ] {
        let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
        host.generate(&first).unwrap();
        let answer = host.generate(&messages).unwrap();
        assert_eq!(host.agent.prompts[1], lines(&messages).join("\n"), "{why}");
        let mut want = lines(&messages);
        want.push(format!("assistant: {answer}"));
        assert_eq!(host.held(), want, "{why}");
    }
}

#[test]
fn a_session_is_not_trusted_after_a_turn_that_failed() {
    for outcome in [Outcome::Error, Outcome::Refusal, Outcome::Empty] {
        let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
        host.generate(&[Message::user("one?")]).unwrap();
        let messages = [
            Message::user("one?"),
            Message::assistant("answer 1"),
            Message::user("two?"),
        ];
        host.agent.outcomes.push_back(outcome);
        assert_eq!(host.generate(&messages), None);
        host.generate(&messages).unwrap();
        assert_eq!(
            host.agent.prompts[2],
            lines(&messages).join("\n"),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_spare_is_opened_while_nobody_waits_and_the_old_session_is_closed() {
    let mut host = Host::new(StatePolicy::FreshSession, |_| {}, agent());
    assert_eq!(
        host.agent.opened, 1,
        "nothing is opened ahead of the first answer"
    );
    for turn in 1..=3 {
        let opened = host.agent.opened;
        let id = host.start(&GenerateRequest::user("hi"));
        let Output::Send(line) = host.connection.poll_output() else {
            panic!("the prompt does not go out at once");
        };
        assert!(
            String::from_utf8(line.clone())
                .unwrap()
                .contains("session/prompt")
        );
        host.agent.take(&line);
        host.settle();
        assert!(host.ended[&id].is_ok());
        assert_eq!(host.agent.opened, opened + 1, "turn {turn}");
        assert_eq!(host.agent.sessions.len(), 1);
    }
    assert_eq!(host.agent.most_open, 2);
}

#[test]
fn without_a_spare_a_session_is_opened_when_it_is_needed() {
    let mut host = Host::new(
        StatePolicy::FreshSession,
        |o| o.spare_session = false,
        agent(),
    );
    host.generate(&[Message::user("one?")]).unwrap();
    assert_eq!(host.agent.opened, 1);
    host.generate(&[Message::user("two?")]).unwrap();
    assert_eq!((host.agent.opened, host.agent.sessions.len()), (2, 1));
    assert_eq!(host.held(), ["user: two?", "assistant: answer 2"]);
}

#[test]
fn a_spare_that_cannot_be_opened_is_nobody_s_error() {
    for (openings, opened) in [
        (vec![true, false, true], true),
        (vec![true, false, false], false),
    ] {
        let agent = Agent {
            openings: openings.into(),
            ..agent()
        };
        let mut host = Host::new(StatePolicy::FreshSession, |_| {}, agent);
        host.generate(&[Message::user("one?")]).unwrap();
        let answer = host.generate(&[Message::user("two?")]);
        assert_eq!(answer.is_some(), opened);
        // The lane has not suffered.
        assert!(host.generate(&[Message::user("three?")]).is_some());
    }
}

#[test]
fn a_turn_waits_for_the_spare_that_is_on_its_way() {
    let mut host = Host::new(StatePolicy::FreshSession, |_| {}, agent());
    let first = host.start(&GenerateRequest::user("one?"));
    // The answer has come and the spare is asked for, but not there yet.
    while !host.ended.contains_key(&first) {
        match host.connection.poll_output() {
            Output::Send(line) => host.agent.take(&line),
            Output::Event(Event::TurnEnded(id, result)) => {
                host.ended.insert(id, *result);
            }
            Output::Wait(_) => {
                let line = host.agent.lines.pop_front().unwrap();
                host.connection.handle_line(line.as_bytes(), host.now);
            }
            output => panic!("{output:?}"),
        }
    }
    let second = host.start(&GenerateRequest::user("two?"));
    host.settle();
    assert!(host.ended[&second].is_ok());
    assert_eq!(host.agent.opened, 3, "one for each turn, and a spare");
}

#[test]
fn sessions_that_cannot_be_closed_wear_the_agent_out() {
    let agent = Agent::default();
    let mut host = Host::new(
        StatePolicy::FreshSession,
        |o| o.max_given_up_sessions = Some(2),
        agent,
    );
    for (turn, worn) in [(1, false), (2, true)] {
        assert!(!host.connection.is_worn_out());
        host.generate(&[Message::user("hi")]).unwrap();
        assert_eq!(host.connection.is_worn_out(), worn, "turn {turn}");
    }
    host.start(&GenerateRequest::user("hi"));
    assert!(!host.connection.is_worn_out(), "a turn runs");
    host.settle();
    assert!(host.connection.is_worn_out());
    host.connection.open_lane(host.now);
    assert!(!host.connection.is_worn_out(), "a lane is opening");
}

#[test]
fn sessions_that_are_not_closed_as_promised_wear_the_agent_out_too() {
    let agent = Agent {
        refuses_to_close: true,
        ..Agent::default()
    };
    let change = |options: &mut acp_core::ConnectionOptions| {
        options.max_given_up_sessions = Some(2);
        options.startup_timeout = Some(Duration::from_secs(1));
    };
    let mut host = Host::new(StatePolicy::FreshSession, change, agent);
    host.generate(&[Message::user("hi")]).unwrap();
    assert!(!host.connection.is_worn_out());
    // And one that it does not even answer.
    host.agent.ignores_close = true;
    host.generate(&[Message::user("hi")]).unwrap();
    assert!(host.connection.is_worn_out());
}

#[test]
fn a_turn_that_waits_for_a_spare_waits_no_longer_than_for_a_session() {
    let change = |options: &mut acp_core::ConnectionOptions| {
        options.startup_timeout = Some(Duration::from_secs(10));
    };
    let mut host = Host::new(StatePolicy::FreshSession, change, agent());
    host.generate(&[Message::user("one?")]).unwrap();
    host.agent.ignores_new = true;
    // The spare is taken, and the next one is not answered.
    host.generate(&[Message::user("two?")]).unwrap();
    host.now += Duration::from_secs(1);
    host.connection.handle_timeout(host.now);
    let turn = host.start(&GenerateRequest::user("three?"));
    let asked = host.now;
    while !host.ended.contains_key(&turn) {
        host.now += Duration::from_millis(100);
        host.connection.handle_timeout(host.now);
        host.exchange();
    }
    let waited = host.now - asked;
    let error = host.ended[&turn].clone().unwrap_err();
    assert_eq!(error.kind(), "startup_timeout");
    assert_eq!(waited, Duration::from_secs(10));
}

#[test]
fn messages_that_say_nothing_are_no_prompt_of_their_own() {
    let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
    host.generate(&[Message::user("one?")]).unwrap();
    let messages = [
        Message::user("one?"),
        Message::assistant("answer 1"),
        Message::user(""),
    ];
    host.generate(&messages).unwrap();
    assert_eq!(host.agent.prompts[1], "user: one?\nassistant: answer 1");
}

#[test]
fn closing_a_lane_closes_its_spare() {
    let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
    host.generate(&[Message::user("hi")]).unwrap();
    assert_eq!(host.agent.sessions.len(), 2);
    host.connection.close_lane(host.lane, host.now);
    host.settle();
    assert_eq!(host.agent.sessions.len(), 0);
}

#[test]
fn a_spare_takes_nothing_from_a_lane_that_is_opened_after_it() {
    let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
    host.generate(&[Message::user("one?")]).unwrap();
    let other = host.connection.open_lane(host.now);
    host.settle();
    let theirs = host.connection.session(other).unwrap().session_id.clone();
    assert_eq!(host.agent.opened, 3);
    // The spare is used, and it is not theirs.
    host.generate(&[Message::user("two?")]).unwrap();
    assert_ne!(
        host.connection.session(host.lane).unwrap().session_id,
        theirs
    );
    assert_eq!(host.connection.session(other).unwrap().session_id, theirs);
    assert!(host.agent.sessions[&theirs].is_empty());
    assert_eq!(host.agent.opened, 4, "the next spare");
}

#[test]
fn no_spare_is_opened_while_a_turn_could_use_the_agent() {
    let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
    let first = host.start(&GenerateRequest::user("one?"));
    let messages = [
        Message::user("one?"),
        Message::assistant("answer 1"),
        Message::user("two?"),
    ];
    host.start(&GenerateRequest::new(messages));
    let mut sent = Vec::new();
    loop {
        match host.connection.poll_output() {
            Output::Send(line) => {
                let line_sent: Value = serde_json::from_slice(&line).unwrap();
                sent.push(line_sent["method"].as_str().unwrap().to_owned());
                // The agent takes its time over the second.
                if sent.len() == 1 {
                    host.agent.take(&line);
                }
            }
            Output::Event(Event::TurnEnded(id, _)) => assert_eq!(id, first),
            Output::Event(_) => {}
            Output::Wait(_) => match host.agent.lines.pop_front() {
                Some(line) => host.connection.handle_line(line.as_bytes(), host.now),
                None => break,
            },
            output => panic!("{output:?}"),
        }
    }
    assert_eq!(sent, ["session/prompt", "session/prompt"]);
}

#[test]
fn a_session_that_holds_more_than_the_host_knows_is_not_used_again() {
    let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
    host.generate(&[Message::user("one?")]).unwrap();
    host.hears("and");
    let messages = [
        Message::user("one?"),
        Message::assistant("answer 1"),
        Message::user("two?"),
    ];
    host.generate(&messages).unwrap();
    assert_eq!(host.agent.prompts[1], lines(&messages).join("\n"));
}

#[test]
fn a_greeting_does_not_use_a_session_up() {
    let mut host = Host::new(StatePolicy::FreshSession, |_| {}, agent());
    host.hears("Hi.");
    assert!(host.generate(&[Message::user("one?")]).is_some());
}

#[test]
fn a_session_that_comes_again_is_not_one_that_was_never_used() {
    for (closes, taken) in [(true, true), (false, false)] {
        let agent = Agent {
            closes,
            one_name: true,
            ..Agent::default()
        };
        let without = |options: &mut acp_core::ConnectionOptions| options.spare_session = false;
        let mut host = Host::new(StatePolicy::FreshSession, without, agent);
        host.generate(&[Message::user("one?")]).unwrap();
        assert_eq!(host.generate(&[Message::user("two?")]).is_some(), taken);
    }
}

/// What a host may do with its conversation between two turns.
#[derive(Debug, Clone)]
enum Change {
    /// The answer is stored and something is asked.
    Append(u8),
    /// Several messages at once.
    AppendMany(u8, u8),
    /// The same request again.
    Retry,
    Edit(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    /// The older part is replaced by a summary.
    Compact(u8),
    /// Another conversation, in turns with the first one.
    Switch,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0..3u8).prop_map(Change::Append),
        1 => (0..3u8, 0..3u8).prop_map(|(a, b)| Change::AppendMany(a, b)),
        1 => Just(Change::Retry),
        1 => (any::<prop::sample::Index>(), 0..3u8).prop_map(|(at, text)| Change::Edit(at, text)),
        1 => any::<prop::sample::Index>().prop_map(Change::Remove),
        1 => (0..3u8).prop_map(Change::Compact),
        1 => Just(Change::Switch),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        12 => Just(Outcome::Well),
        1 => Just(Outcome::Error),
        1 => Just(Outcome::Refusal),
        1 => Just(Outcome::Empty),
        1 => Just(Outcome::Cut),
    ]
}

/// Few different texts, so that conversations often look alike.
fn user(text: u8) -> Message {
    Message::user(format!("question {text}"))
}

proptest! {
    /// After every turn that ended well the session holds the request and the answer, and nothing else,
    /// whatever happened before.
    #[test]
    fn the_session_holds_what_the_host_asked(
        delta: bool,
        spare: bool,
        closes: bool,
        steps in prop::collection::vec((change(), outcome(), prop::bool::weighted(0.9)), 1..12),
    ) {
        let policy = if delta { StatePolicy::VerifiedDelta } else { StatePolicy::FreshSession };
        let agent = Agent { closes, ..Agent::default() };
        let mut host = Host::new(policy, |options| options.spare_session = spare, agent);
        let mut conversations = [vec![user(0)], vec![user(0)]];
        let mut current = 0;
        for (change, outcome, opens) in steps {
            let messages = &mut conversations[current];
            match change {
                Change::Append(text) => messages.push(user(text)),
                Change::AppendMany(a, b) => messages.extend([user(a), user(b)]),
                Change::Retry => {
                    if messages.last().is_some_and(|last| last.role == "assistant") {
                        messages.pop();
                    }
                }
                Change::Edit(at, text) => *at.get_mut(messages) = user(text),
                Change::Remove(at) => {
                    messages.remove(at.index(messages.len()));
                    messages.push(user(0));
                }
                Change::Compact(text) => {
                    *messages = vec![Message::system("summary"), user(text)];
                }
                Change::Switch => {
                    current = 1 - current;
                    conversations[current].push(user(1));
                }
            }
            let messages = conversations[current].clone();
            host.agent.outcomes.push_back(outcome);
            if !opens {
                host.agent.openings.push_back(false);
            }
            let answer = host.generate(&messages);
            // What was not used up is not for the next turn.
            host.agent.outcomes.clear();
            host.agent.openings.clear();
            if let Some(answer) = answer {
                conversations[current].push(Message::assistant(answer));
                let held = host.held();
                // With a spare the session of the turn is gone when nothing is left in it to go on from.
                if delta || !spare {
                    prop_assert_eq!(held, lines(&conversations[current]));
                }
                let prompt = host.agent.prompts.last().unwrap();
                prop_assert!(!prompt.contains("SUPERSEDES"));
                if !delta {
                    prop_assert_eq!(prompt, &lines(&messages).join("\n"));
                }
            } else {
                prop_assert!(outcome != Outcome::Well && outcome != Outcome::Cut || !opens);
            }
            if closes {
                prop_assert!(host.agent.sessions.len() <= 2);
            }
        }
    }
}
