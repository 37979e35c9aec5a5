//! State policies, on the engine alone with an agent that remembers: whatever the host asks, in whatever
//! order, what the session holds after a turn is the host's request and the answer, and nothing else.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests, outside of test functions; an instant to begin with cannot be had otherwise"
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use acp_core::{
    Connection, ConnectionOptions, Event, GenerateRequest, GenerateResponse, LaneId, Message,
    Output, StatePolicy, TurnId, TurnOptions, render_text,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// An agent with real sessions, which answers at once or when it is told to.
#[derive(Default)]
struct Agent {
    /// What each session was sent and has answered, as lines of a prompt.
    sessions: BTreeMap<String, Vec<String>>,
    /// The highest number of sessions that were open at once.
    most_open: usize,
    opened: usize,
    closes: bool,
    /// How the next prompts end; well, if nothing is said.
    outcomes: VecDeque<Outcome>,
    /// How the next sessions open; well, if nothing is said.
    openings: VecDeque<bool>,
    /// Lines on their way to the client.
    lines: VecDeque<String>,
    answers: usize,
    prompts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Well,
    /// An error, after text.
    Error,
    Refusal,
    /// `end_turn` without text.
    Empty,
    /// `max_tokens`, with text.
    Cut,
}

impl Agent {
    fn take(&mut self, line: &[u8]) {
        let line: Value = serde_json::from_slice(line).unwrap();
        let (id, params) = (&line["id"], &line["params"]);
        match line["method"].as_str().unwrap() {
            "initialize" => {
                let close = if self.closes {
                    json!({"close": {}})
                } else {
                    json!({})
                };
                let capabilities = json!({"sessionCapabilities": close});
                self.answer(
                    id,
                    json!({"protocolVersion": 1, "agentCapabilities": capabilities}),
                );
            }
            "session/new" if self.openings.pop_front() == Some(false) => {
                self.fail(id);
            }
            "session/new" => {
                self.opened += 1;
                let name = format!("s{}", self.opened);
                self.answer(id, json!({"sessionId": name}));
                self.sessions.insert(name, Vec::new());
                self.most_open = self.most_open.max(self.sessions.len());
            }
            "session/close" => {
                self.sessions
                    .remove(params["sessionId"].as_str().unwrap())
                    .unwrap();
                self.answer(id, json!({}));
            }
            "session/prompt" => self.prompt(id, params),
            method => panic!("{method}"),
        }
    }

    fn prompt(&mut self, id: &Value, params: &Value) {
        let session = params["sessionId"].as_str().unwrap().to_owned();
        let prompt = params["prompt"][0]["text"].as_str().unwrap().to_owned();
        self.prompts.push(prompt.clone());
        let held = self.sessions.get_mut(&session).unwrap();
        held.push(prompt);
        self.answers += 1;
        let text = format!("answer {}", self.answers);
        let outcome = self.outcomes.pop_front().unwrap_or(Outcome::Well);
        if outcome != Outcome::Empty {
            held.push(format!("assistant: {text}"));
            let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
            let params = json!({"sessionId": session, "update": update});
            let chunk = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
            self.lines.push_back(chunk.to_string());
        }
        let reason = match outcome {
            Outcome::Error => return self.fail(id),
            Outcome::Refusal => "refusal",
            Outcome::Well | Outcome::Empty => "end_turn",
            Outcome::Cut => "max_tokens",
        };
        self.answer(id, json!({"stopReason": reason}));
    }

    fn answer(&mut self, id: &Value, result: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.lines.push_back(line.to_string());
    }

    fn fail(&mut self, id: &Value) {
        let error = json!({"code": -32603, "message": "e"});
        let line = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.lines.push_back(line.to_string());
    }
}

/// A host with one lane, and its agent.
struct Host {
    connection: Connection,
    agent: Agent,
    lane: LaneId,
    now: Instant,
    ended: BTreeMap<TurnId, Option<GenerateResponse>>,
}

impl Host {
    fn new(policy: StatePolicy, change: impl FnOnce(&mut ConnectionOptions), agent: Agent) -> Host {
        let now = Instant::now();
        let mut options = ConnectionOptions::new("/w");
        options.state = policy;
        change(&mut options);
        let mut connection = Connection::new(options, now);
        let lane = connection.open_lane(now);
        let ended = BTreeMap::new();
        let mut host = Host {
            connection,
            agent,
            lane,
            now,
            ended,
        };
        host.settle();
        host
    }

    /// Lets both sides talk until nothing is left to say, the time that it takes included.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.exchange();
            self.now += Duration::from_millis(300);
            self.connection.handle_timeout(self.now);
        }
    }

    /// Lets both sides talk until nothing is left to say at this instant.
    fn exchange(&mut self) {
        loop {
            match self.connection.poll_output() {
                Output::Send(line) => self.agent.take(&line),
                Output::Event(Event::TurnEnded(id, result)) => {
                    assert!(self.ended.insert(id, result.ok()).is_none());
                }
                Output::Event(_) => {}
                Output::Wait(_) => match self.agent.lines.pop_front() {
                    Some(line) => self.connection.handle_line(line.as_bytes(), self.now),
                    None => return,
                },
                output => panic!("{output:?}"),
            }
        }
    }

    fn start(&mut self, request: &GenerateRequest) -> TurnId {
        let options = TurnOptions::default();
        self.connection
            .prompt(self.lane, request, options, self.now)
            .unwrap()
    }

    fn generate(&mut self, messages: &[Message]) -> Option<String> {
        let turn = self.start(&GenerateRequest::new(messages));
        self.settle();
        self.ended[&turn].clone().map(|response| response.content)
    }

    /// What the lane's session holds, one message a line.
    fn held(&self) -> Vec<String> {
        let session = &self.connection.session(self.lane).unwrap().session_id;
        let held = self
            .agent
            .sessions
            .get(session)
            .cloned()
            .unwrap_or_default();
        held.iter()
            .flat_map(|text| text.split('\n'))
            .map(str::to_owned)
            .collect()
    }
}

/// What a host sees of a conversation, one message a line.
fn lines(messages: &[Message]) -> Vec<String> {
    let text = render_text(&GenerateRequest::new(messages));
    let (lines, _) = text.rsplit_once('\n').unwrap();
    lines.split('\n').map(str::to_owned).collect()
}

fn agent() -> Agent {
    Agent {
        closes: true,
        ..Agent::default()
    }
}

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
        assert!(host.ended[&id].is_some());
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
                host.ended.insert(id, result.ok());
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
    assert!(host.ended[&second].is_some());
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
fn closing_a_lane_closes_its_spare() {
    let mut host = Host::new(StatePolicy::VerifiedDelta, |_| {}, agent());
    host.generate(&[Message::user("hi")]).unwrap();
    assert_eq!(host.agent.sessions.len(), 2);
    host.connection.close_lane(host.lane, host.now);
    host.settle();
    assert_eq!(host.agent.sessions.len(), 0);
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
