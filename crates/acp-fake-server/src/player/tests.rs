use std::path::Path;

use serde_json::json;

use super::*;

mod agent;
mod control;
mod envelope;

/// What a test does when the player waits.
enum Do {
    Start,
    /// A line from the client to process 1.
    Line(&'static str),
    LineTo(u32, &'static str),
    Eof(u32),
    Gone(u32),
    Ok(&'static str, Value),
    Err(&'static str, Value),
    Crash(&'static str),
    Unsupported(&'static str),
    Elapsed,
}
use Do::*;

const HEADER: &str = r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":["X-1"]}"#;

const INIT: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
const NEW: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;
const PROMPT: &str = r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"user: red?"}]}}"#;

fn player(role: Role, steps: &[&str]) -> Player {
    let text = format!("{HEADER}\n{}\n", steps.join("\n"));
    let fixture = Fixture::parse(Path::new("a/b.jsonl"), &text, &mut |_| None).unwrap();
    Player::new(&fixture, role)
}

/// Everything up to the next wait or end, one string for each action.
fn drain(player: &mut Player) -> (Vec<String>, Action) {
    let mut actions = Vec::new();
    loop {
        actions.push(match player.poll() {
            Action::Call { label, op, args } => format!("call {label} {op} {args}"),
            Action::Agent {
                process: 1,
                command: Command::Stdout(bytes),
            } => String::from_utf8_lossy(&bytes).into_owned(),
            Action::Agent {
                process: 1,
                command,
            } => format!("{command:?}"),
            Action::Agent { process, command } => format!("{process}: {command:?}"),
            Action::Delay(time) => format!("delay {time:?}"),
            end => return (actions, end),
        });
    }
}

fn tell(player: &mut Player, what: &Do) {
    player.handle(match what {
        Start => Input::Started,
        Line(line) => Input::Line {
            process: 1,
            line: line.as_bytes(),
        },
        LineTo(process, line) => Input::Line {
            process: *process,
            line: line.as_bytes(),
        },
        Eof(process) => Input::Eof { process: *process },
        Gone(process) => Input::Gone { process: *process },
        Ok(label, value) => Input::Returned {
            label,
            outcome: Outcome::Ok(value.clone()),
        },
        Err(label, value) => Input::Returned {
            label,
            outcome: Outcome::Err(value.clone()),
        },
        Crash(label) => Input::Returned {
            label,
            outcome: Outcome::Crash("boom".into()),
        },
        Unsupported(label) => Input::Returned {
            label,
            outcome: Outcome::Unsupported("no".into()),
        },
        Elapsed => Input::Elapsed,
    });
}

/// Tells all of `inputs`, whatever the player waits for, and gives the actions and the end.
fn run(role: Role, steps: &[&str], inputs: &[Do]) -> (Vec<String>, Action) {
    let mut player = player(role, steps);
    let (mut actions, mut end) = drain(&mut player);
    for input in inputs {
        tell(&mut player, input);
        let (more, next) = drain(&mut player);
        actions.extend(more);
        end = next;
    }
    (actions, end)
}

#[track_caller]
fn passes(steps: &[&str], inputs: &[Do]) -> Vec<String> {
    let (actions, end) = run(Role::Both, steps, inputs);
    assert!(matches!(end, Action::Done), "{end:?}");
    actions
}

#[track_caller]
fn fails(steps: &[&str], inputs: &[Do]) -> Mismatch {
    match run(Role::Both, steps, inputs).1 {
        Action::Failed(mismatch) => mismatch,
        end => panic!("{end:?}"),
    }
}

#[track_caller]
fn waits(steps: &[&str], inputs: &[Do]) -> String {
    match run(Role::Both, steps, inputs).1 {
        Action::Wait(waiting) => waiting.to_string(),
        end => panic!("{end:?}"),
    }
}

/// The steps that bring a session about, and what the client does in them.
const READY: [&str; 4] = [
    r#"{"want":"initialize","as":"i"}"#,
    r#"{"reply":"i","result":{"protocolVersion":1}}"#,
    r#"{"want":"session/new","as":"n"}"#,
    r#"{"reply":"n","result":{"sessionId":"s1"}}"#,
];

fn ready(steps: &[&'static str]) -> Vec<&'static str> {
    READY.iter().chain(steps).copied().collect()
}

fn opened(inputs: Vec<Do>) -> Vec<Do> {
    [Start, Line(INIT), Line(NEW)]
        .into_iter()
        .chain(inputs)
        .collect()
}

#[test]
fn a_call_is_made_and_its_end_is_compared() {
    let steps = [
        r#"{"call":"load","args":{"cwd":"."},"as":"l"}"#,
        r#"{"returns":"l","ok":{"a":1}}"#,
    ];
    assert_eq!(
        passes(&steps, &[Ok("l", json!({"a": 1}))]),
        [r#"call l load {"cwd":"."}"#]
    );
    assert!(waits(&steps, &[]).ends_with(r#"a/b.jsonl:3: the end of the call "l""#));

    let mismatch = fails(&steps, &[Ok("l", json!({"a": 2}))]);
    assert_eq!(mismatch.path.as_deref(), Some("$.ok.a"));
    assert_eq!(
        (mismatch.want.as_deref(), mismatch.got.as_deref()),
        (Some("1"), Some("2"))
    );
    assert_eq!((mismatch.location.line, mismatch.fault), (3, Fault::Client));
    assert_eq!(
        fails(&steps, &[Err("l", json!({"a": 1}))]).got.unwrap(),
        r#"err {"a":1}"#
    );
    assert_eq!(fails(&steps, &[Crash("l")]).got.unwrap(), r#"crash "boom""#);
    assert_eq!(
        fails(&steps, &[Unsupported("l")]).got.unwrap(),
        r#"unsupported "no""#
    );
    assert_eq!(fails(&steps, &[Ok("x", json!({}))]).fault, Fault::Fixture);

    let steps = [
        r#"{"call":"load"}"#,
        r#"{"returns":"load","err":{"kind":"k"}}"#,
    ];
    passes(&steps, &[Err("load", json!({"kind": "k", "more": 1}))]);
    assert_eq!(
        fails(&steps, &[Ok("load", json!({}))]).want.unwrap(),
        r#"err {"kind":"k"}"#
    );
    assert_eq!(
        fails(&steps, &[Err("load", json!({"kind": "j"}))])
            .path
            .unwrap(),
        "$.err.kind"
    );
}

#[test]
fn a_call_may_return_before_the_step_that_takes_it() {
    let steps = [
        r#"{"call":"load"}"#,
        r#"{"call":"close"}"#,
        r#"{"returns":"close","ok":{}}"#,
        r#"{"returns":"load","ok":{}}"#,
    ];
    passes(&steps, &[Ok("load", json!({})), Ok("close", json!({}))]);
    let twice = [Ok("load", json!({})), Ok("load", json!({}))];
    assert_eq!(fails(&steps, &twice).fault, Fault::Fixture);
}

#[test]
fn lines_wait_for_the_step_that_takes_them() {
    let steps = [
        r#"{"call":"load"}"#,
        r#"{"returns":"load","ok":{}}"#,
        r#"{"want":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"want_note":"session/cancel","params":{"sessionId":"s1"}}"#,
    ];
    const CANCEL: &str =
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}"#;
    passes(
        &steps,
        &[Start, Line(INIT), Line(CANCEL), Ok("load", json!({}))],
    );
    assert!(waits(&steps, &[Start, Line(INIT), Ok("load", json!({}))]).contains("session/cancel"));

    let early = fails(&steps, &[Start, Line(CANCEL), Ok("load", json!({}))]);
    assert_eq!(
        early.message,
        "the request initialize was wanted, and something else came"
    );
    assert_eq!(early.got.as_deref(), Some(CANCEL));
    let another = r#"{"jsonrpc":"2.0","method":"$/cancel","params":{"sessionId":"s1"}}"#;
    let another = fails(
        &steps,
        &[Start, Line(INIT), Line(another), Ok("load", json!({}))],
    );
    assert!(
        another.message.contains("session/cancel was wanted"),
        "{another}"
    );
    let other = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s2"}}"#;
    let other = fails(
        &steps,
        &[Start, Line(INIT), Line(other), Ok("load", json!({}))],
    );
    assert_eq!(other.path.as_deref(), Some("$.params.sessionId"));
}

#[test]
fn a_failure_shows_what_happened_since_the_last_note() {
    let steps = [
        r#"{"call":"load"}"#,
        r#"{"note":"from here"}"#,
        r#"{"want":"initialize"}"#,
        r#"{"want":"session/new"}"#,
        r#"{"returns":"load","ok":{}}"#,
    ];
    let shown = fails(&steps, &[Start, Line(INIT), Eof(1)]).to_string();
    assert_eq!(
        shown,
        format!(
            "a/b.jsonl:5: the client closed the agent's input while the request session/new was wanted\n  \
         note from here\n  # the client starts the agent\n  C> {INIT}\n  C> closes standard input"
        )
    );
}

#[test]
fn a_strict_agent_fails_the_transcript_whatever_waits() {
    let steps = [r#"{"call":"load"}"#, r#"{"returns":"load","ok":{}}"#];
    let steps = [steps[0], r#"{"want":"initialize"}"#, steps[1]];
    let relative = NEW.replace("/w", "w").leak();
    let refused = fails(&steps, &[Start, Line(INIT), Line(relative)]);
    assert!(
        refused
            .message
            .contains("cwd must be an absolute path (-32602)"),
        "{refused}"
    );
    assert_eq!(refused.got.as_deref(), Some(&*relative));
    assert!(
        fails(&steps, &[Start, Line("junk")])
            .message
            .contains("-32700")
    );
}

#[test]
fn a_line_that_no_step_takes_fails_at_the_end_and_after_it() {
    let steps = [
        r#"{"call":"load"}"#,
        r#"{"want":"initialize"}"#,
        r#"{"returns":"load","ok":{}}"#,
    ];
    let left = [Start, Line(INIT), Line(NEW), Ok("load", json!({}))];
    assert_eq!(
        fails(&steps, &left).message,
        "no step takes what the client wrote"
    );
    let late = [Start, Line(INIT), Ok("load", json!({})), Line(NEW)];
    assert_eq!(
        fails(&steps, &late).message,
        "the client wrote after the end"
    );
    let quiet = [Start, Line(INIT), Ok("load", json!({})), Eof(1)];
    assert_eq!(passes(&steps, &quiet).last().unwrap(), "Exit(0)");
}

#[test]
fn steps_are_counted() {
    let steps = [
        r#"{"note":"a"}"#,
        r#"{"want":"initialize"}"#,
        r#"{"note":"b"}"#,
    ];
    let mut player = player(Role::Both, &steps);
    drain(&mut player);
    assert_eq!((player.steps_done(), player.steps_total()), (1, 3));
    tell(&mut player, &Start);
    tell(&mut player, &Line(INIT));
    drain(&mut player);
    assert_eq!(player.steps_done(), 3);
}

#[test]
fn alone_the_agent_skips_the_host_and_answers_what_it_refuses() {
    let mut steps = vec![r#"{"call":"load"}"#];
    steps.extend(READY);
    steps.extend([
        r#"{"returns":"load","ok":{}}"#,
        r#"{"want":"_x"}"#,
        r#"{"process":2}"#,
    ]);
    let (actions, end) = run(
        Role::AgentOnly,
        &steps,
        &[Start, Line("junk"), Line(NEW), Line(INIT)],
    );
    assert!(
        actions[0].contains("-32700") && actions[1].contains("-32600"),
        "{actions:?}"
    );
    assert!(matches!(end, Action::Wait(_)), "{end:?}");
    let x = r#"{"jsonrpc":"2.0","id":9,"method":"_x"}"#;
    let (_, end) = run(Role::AgentOnly, &steps, &opened(vec![Line(x)]));
    assert!(matches!(end, Action::Done), "{end:?}");
    let (_, end) = run(Role::AgentOnly, &steps, &opened(vec![Eof(1)]));
    let Action::Failed(mismatch) = end else {
        panic!("a client that does nothing passes: {end:?}")
    };
    assert!(mismatch.message.contains("closed the agent's input"));
    let y = r#"{"jsonrpc":"2.0","id":9,"method":"_y"}"#;
    let (_, end) = run(Role::AgentOnly, &steps, &opened(vec![Line(y)]));
    assert!(matches!(end, Action::Failed(_)), "{end:?}");
}

#[test]
fn captures_hold_through_a_transcript() {
    let steps = ready(&[
        r#"{"want":"session/prompt","params":{"prompt":{"$cap":"p"}}}"#,
        r#"{"want":"session/prompt","params":{"prompt":{"$ref":"p"}}}"#,
    ]);
    let again = PROMPT.replace("\"id\":2", "\"id\":3").leak();
    passes(&steps, &opened(vec![Line(PROMPT), Line(again)]));
    let other = PROMPT
        .replace("\"id\":2", "\"id\":3")
        .replace("red", "blue")
        .leak();
    let mismatch = fails(&steps, &opened(vec![Line(PROMPT), Line(other)]));
    assert_eq!(mismatch.path.as_deref(), Some("$.params.prompt"));
}
