//! Ctrl-C and its kin. No process of the agent may be left, however the command ends.

use std::io;
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use crate::support::{Running, Script, Test, acp, acp_with, is_running, until};

pub(crate) const TESTS: &[Test] = &[
    ("signals::ctrl_c_cancels", ctrl_c_cancels),
    ("signals::ctrl_c_as_json", ctrl_c_as_json),
    ("signals::second_ctrl_c_kills", second_ctrl_c_kills),
    (
        "signals::ctrl_c_while_the_agent_starts",
        ctrl_c_while_the_agent_starts,
    ),
    (
        "signals::ctrl_c_while_input_is_read",
        ctrl_c_while_input_is_read,
    ),
    ("signals::sigterm_between_turns", sigterm_between_turns),
    (
        "signals::one_is_enough_where_output_is_blocked",
        one_is_enough_where_output_is_blocked,
    ),
    (
        "signals::one_is_enough_for_an_agent_that_stays",
        one_is_enough_for_an_agent_that_stays,
    ),
];

const CANCELLED: &str = r#"
{"say":"once upon"}
{"want_note":"session/cancel","params":{"sessionId":"s1"}}
{"reply":"prompt","result":{"stopReason":"cancelled"}}
{"want_eof":true}
"#;

fn ctrl_c_cancels() {
    let script = Script::ready(CANCELLED);
    let running = Running::start(&mut acp_with(&script, &["ask", "hi"]));
    running.stdout.wait_for("once upon");
    running.signal(Signal::SIGINT);
    running.end().expect(130, "\n").tells(&["Cancelling"]);
    assert!(!script.is_running());
}

fn ctrl_c_as_json() {
    let script = Script::ready(CANCELLED);
    let running = Running::start(&mut acp_with(&script, &["ask", "--format=json", "hi"]));
    // Nothing shows that the turn runs, so it is the agent's own process that is waited for.
    until(|| script.is_running().then_some(()));
    running.signal(Signal::SIGINT);
    running.stderr.wait_for("ing the ");
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(ended.json()["error"]["kind"], "cancelled");
    assert!(!script.is_running());
}

fn second_ctrl_c_kills() {
    let script = Script::ready(
        r#"
{"linger":"term"}
{"say":"once upon"}
{"want_note":"session/cancel","params":{"sessionId":"s1"}}
{"want_eof":true}
"#,
    );
    // A child that the agent leaves behind is of its group too.
    let nap = format!("3600.{}", std::process::id());
    let agent = format!("sh -c 'sleep {nap} & exec \"$@\"' sh {}", script.agent());
    let running = Running::start(acp(&["ask", "hi"]).env("ACP_AGENT", agent));
    running.stdout.wait_for("once upon");
    assert!(is_running(&nap));
    running.signal(Signal::SIGINT);
    running.stderr.wait_for("Cancelling");
    running.signal(Signal::SIGINT);
    assert_eq!(running.end().code, Some(130));
    // SIGKILL was sent; the system takes a moment to carry it out.
    until(|| (!is_running(&nap) && !script.is_running()).then_some(()));
}

fn ctrl_c_while_the_agent_starts() {
    let script = Script::new(&[r#"
{"want":"initialize","as":"init"}
{"linger":"eof"}
{"want_eof":true}
"#]);
    let running = Running::start(&mut acp_with(&script, &["ask", "hi"]));
    until(|| script.is_running().then_some(()));
    running.signal(Signal::SIGINT);
    running.end().expect(130, "").tells(&["Ending the agent"]);
    assert!(!script.is_running());
}

fn ctrl_c_while_input_is_read() {
    let running = Running::start(acp(&["chat"]).stdin(Stdio::piped()));
    running.stderr.wait_for("demo agent");
    running.signal(Signal::SIGINT);
    assert_eq!(running.end().code, Some(130));
}

fn sigterm_between_turns() {
    let script = Script::ready(
        r#"
{"say":"one"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
{"want":"session/new","as":"spare"}
{"want_eof":true}
"#,
    );
    let mut running = Running::start(acp_with(&script, &["chat"]).stdin(Stdio::piped()));
    let stdin = running.child.stdin.as_mut().unwrap();
    std::io::Write::write_all(stdin, b"hi\n").unwrap();
    running.stdout.wait_for("one\n");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().code, Some(143));
    assert!(!script.is_running());
}

fn one_is_enough_where_output_is_blocked() {
    // More than a pipe holds.
    let text = "x".repeat(1 << 20);
    let script = || {
        Script::ready(&format!(
            r#"
{{"linger":"term"}}
{{"say":"{text}"}}
{{"want_note":"session/cancel","params":{{"sessionId":"s1"}}}}
"#
        ))
    };
    let signals = [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ];
    let started = signals.map(|(signal, code)| {
        let script = script();
        let (reader, writer) = io::pipe().unwrap();
        let running = Running::start(
            acp_with(&script, &["ask", "hi"])
                .stdout(writer.try_clone().unwrap())
                .stderr(writer),
        );
        // The first of the text is there, so the command is writing the rest of it.
        let mut first = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        poll(&mut first, PollTimeout::from(30_000_u16)).unwrap();
        assert_eq!(first[0].any(), Some(true));
        running.signal(signal);
        (script, reader, running, code)
    });
    for (script, reader, running, code) in started {
        assert_eq!(running.end().code, Some(code));
        drop(reader);
        until(|| (!script.is_running()).then_some(()));
    }
}

fn one_is_enough_for_an_agent_that_stays() {
    let script = Script::ready(
        r#"
{"linger":"term"}
{"say":"once upon"}
{"want_note":"session/cancel","params":{"sessionId":"s1"}}
"#,
    );
    let running = Running::start(&mut acp_with(&script, &["ask", "hi"]));
    running.stdout.wait_for("once upon");
    let signalled = Instant::now();
    running.signal(Signal::SIGTERM);
    // The end of the line shows that the command still had its say.
    running.end().expect(143, "\n");
    // Less than the library gives an agent for its answer to a cancel.
    assert!(signalled.elapsed() < Duration::from_secs(10));
    until(|| (!script.is_running()).then_some(()));
}
