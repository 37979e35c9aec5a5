//! The engine alone: no process, no pipe, no thread.

use std::{hint::black_box, time::Instant};

use acp_core::{
    Connection, ConnectionOptions, Event, GenerateRequest, GenerateResponse, LaneId, Message,
    Output, StatePolicy, TurnOptions, render_text,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

/// Bytes that a driver reads at once.
const READ: usize = 64 * 1024;

criterion_group!(engine, lines, prompts, history);
criterion_main!(engine);

/// What a warm turn brings, in portions as a driver reads them.
fn lines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("handle_bytes");
    let text = chunk(&"x".repeat(20));
    let thought = text.replace("agent_message_chunk", "agent_thought_chunk");
    let tool = update(
        r#"{"sessionUpdate":"tool_call","toolCallId":"call-1","title":"Read lib.rs","kind":"read","status":"completed"}"#,
    );
    let long = chunk(&"x".repeat(1024));
    let escaped = chunk(&r#"a line\nand \"another\"\n"#.repeat(40));
    for (name, line) in [
        ("chunk of 20 bytes", &text),
        ("chunk of 1 KiB", &long),
        ("chunk with escapes", &escaped),
        ("thought", &thought),
        ("tool call", &tool),
    ] {
        const LINES: usize = 1000;
        let bytes = line.repeat(LINES);
        group.throughput(Throughput::Elements(LINES as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || Session::with_turn(StatePolicy::FullRequest),
                |session| {
                    for read in bytes.as_bytes().chunks(READ) {
                        session.receive(read);
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn prompts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("render_text");
    for turns in [1, 100] {
        let request = GenerateRequest::new(conversation(turns, 1 << 20));
        group.throughput(Throughput::Bytes(1 << 20));
        group.bench_function(format!("1 MiB of {turns} turns"), |bencher| {
            bencher.iter(|| render_text(black_box(&request)));
        });
    }
    group.finish();
}

/// What is done with a request from the host's call to the line for the agent.
fn history(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prompt under VerifiedDelta");
    group.sample_size(20);
    for turns in [1, 10, 100, 1000] {
        let mut request = GenerateRequest::new(conversation(turns, 1 << 20));
        request.messages.push(Message::user("And now?"));
        let setup = || {
            let mut session = Session::open(StatePolicy::VerifiedDelta);
            session.prompt(&request);
            session.answer("Now.");
            let mut request = request.clone();
            request.messages.push(Message::assistant("Now."));
            request.messages.push(Message::user("And then?"));
            (session, request)
        };
        group.bench_function(format!("1 MiB of {turns} turns"), |bencher| {
            bencher.iter_batched_ref(
                setup,
                |(session, request)| {
                    let sent = session.prompt(request);
                    assert!(sent < 1024, "{sent} bytes for one message");
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn conversation(turns: usize, bytes: usize) -> Vec<Message> {
    let text = "x".repeat(bytes / (2 * turns));
    let pair = || [Message::user(&*text), Message::assistant(&*text)];
    (0..turns).flat_map(|_| pair()).collect()
}

fn update(update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{update}}}}}"#
    ) + "\n"
}

fn chunk(text: &str) -> String {
    update(&format!(
        r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
    ))
}

/// An engine with one lane, and the agent played by hand.
struct Session {
    connection: Connection,
    lane: LaneId,
    /// The id of our last request.
    last: u64,
    now: Instant,
}

impl Session {
    fn open(state: StatePolicy) -> Self {
        let now = Instant::now();
        let mut options = ConnectionOptions::new("/tmp");
        options.state = state;
        options.spare_session = false;
        let mut connection = Connection::new(options, now);
        let lane = connection.open_lane(now);
        let mut session = Self {
            connection,
            lane,
            last: 0,
            now,
        };
        session.drain();
        session.respond(r#"{"protocolVersion":1}"#);
        session.respond(r#"{"sessionId":"s1"}"#);
        session
    }

    fn with_turn(state: StatePolicy) -> Self {
        let mut session = Self::open(state);
        session.prompt(&GenerateRequest::user("Go on."));
        session
    }

    /// Begins a turn. Returns how many bytes go to the agent.
    fn prompt(&mut self, request: &GenerateRequest) -> usize {
        let options = TurnOptions::default();
        let started = self
            .connection
            .prompt(self.lane, request, options, self.now);
        assert!(started.is_ok(), "{started:?}");
        self.drain().0
    }

    fn answer(&mut self, text: &str) -> GenerateResponse {
        self.receive(chunk(text).as_bytes());
        let answer = self.respond(r#"{"stopReason":"end_turn"}"#);
        answer.unwrap_or_else(|| panic!("the turn has not ended"))
    }

    fn respond(&mut self, result: &str) -> Option<GenerateResponse> {
        let id = self.last;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#) + "\n";
        self.connection.handle_bytes(line.as_bytes(), self.now);
        self.drain().1
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.connection.handle_bytes(bytes, self.now);
        self.drain();
    }

    /// Returns how many bytes went out, and the answer of a turn that ended.
    fn drain(&mut self) -> (usize, Option<GenerateResponse>) {
        let (mut sent, mut answer) = (0, None);
        loop {
            match self.connection.poll_output() {
                Output::Send(line) => {
                    sent += line.len();
                    self.last += 1;
                }
                Output::Event(Event::TurnEnded(_, result)) => answer = result.ok(),
                Output::Wait(_) => return (sent, answer),
                _ => {}
            }
        }
    }
}
