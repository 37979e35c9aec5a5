//! The agent's process: how it starts, dies and is ended, over real pipes.

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests need threads and clocks of their own"
)]

mod scripts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_core::{
    AcpAgent, GenerateRequest, LoadError, LoadOptions, PermissionDecision, TurnOptions, load_acp,
};
use scripts::{ANSWER_ALL, HANDSHAKE, is_running, pid_in, script, wait_for};

fn hi() -> GenerateRequest {
    GenerateRequest::user("hi")
}

#[test]
fn a_missing_program_is_named_with_where_it_was_looked_for() {
    let error = load_acp(LoadOptions::new(["no-such-agent", "--acp"])).unwrap_err();
    assert_eq!(error.kind(), "spawn_failed");
    let text = error.to_string();
    assert!(text.contains("`no-such-agent`"), "{text}");
    assert!(text.contains(&std::env::var("PATH").unwrap()), "{text}");
    let text = load_acp(LoadOptions::new(["./no/agent"]))
        .unwrap_err()
        .to_string();
    assert!(text.contains("there is no file `/"), "{text}");
}

#[test]
fn what_cannot_be_executed_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("agent");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let text = |path: &std::path::Path| {
        let error = load_acp(LoadOptions::new([path])).unwrap_err();
        assert_eq!(error.kind(), "spawn_failed");
        error.to_string()
    };
    assert!(text(&file).contains("may not be executed"));
    assert!(text(directory.path()).contains("is a directory"));
    let mut mode = file.metadata().unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&file, mode).unwrap();
    assert!(text(&file).contains("interpreter"));
}

#[test]
fn options_that_cannot_work_start_nothing() {
    let empty: [&str; 0] = [];
    for options in [
        LoadOptions::new(empty),
        LoadOptions::new(["sh"]).cwd("/no/such/directory"),
        LoadOptions::new(["sh"]).cwd("/etc/passwd"),
        LoadOptions::new(["sh"]).permission(acp_core::PermissionPolicy::Ask),
    ] {
        let error = load_acp(options).unwrap_err();
        assert_eq!(error.kind(), "invalid_options", "{error}");
    }
}

#[test]
fn an_exit_before_the_handshake_shows_status_and_stderr() {
    let error = load_acp(script(&["echo 'no license' >&2; exit 3"])).unwrap_err();
    let LoadError::AgentExited(error) = error else {
        panic!("{error}")
    };
    assert_eq!(error.exit.code, Some(3));
    assert_eq!(error.stderr_tail, "no license\n");
}

#[test]
fn an_agent_that_only_talks_shows_what_it_said() {
    let error = load_acp(script(&["echo 'usage: agent [--acp]'; exit 2"])).unwrap_err();
    assert!(
        error.to_string().contains("usage: agent [--acp]"),
        "{error}"
    );
}

#[test]
fn the_working_directory_is_absolute_for_process_and_session() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let relative = directory
        .path()
        .strip_prefix(std::env::current_dir().unwrap());
    let relative = relative.unwrap_or(directory.path()).to_owned();
    let model = load_acp(
        script(&[
            r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
               read -r new; printf '%s\n' "$new" > new; pwd > pwd
               echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'; cat > /dev/null"#,
        ])
        .cwd(&relative),
    )
    .unwrap();
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let absolute = std::path::absolute(&relative).unwrap();
    assert_eq!(read("pwd").trim_end(), absolute.to_str().unwrap());
    assert!(read("new").contains(&format!("\"cwd\":{absolute:?}")));
    model.close();
}

/// A launcher that leaves a process behind, which ignores SIGTERM, and one that ignores everything.
#[test]
fn nothing_is_left_of_launchers() {
    for leave in [
        "sleep 1000 & echo $! > $PIDS;",
        "(trap '' TERM; sleep 1000) & echo $! > $PIDS;",
        "trap '' TERM; (while :; do sleep 1000; done) & echo $! > $PIDS;",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let pids = directory.path().join("pids");
        let options = || script(&[leave, HANDSHAKE, ANSWER_ALL]).env("PIDS", &pids);
        let gone = |how: &str, leader: u32| {
            let child = pid_in(&pids);
            assert!(!is_running(leader), "{how}: the leader of {leave}");
            assert!(!is_running(child), "{how}: the child of {leave}");
            std::fs::remove_file(&pids).unwrap();
        };

        let model = load_acp(options()).unwrap();
        let leader = model.agent().process_id();
        assert!(is_running(pid_in(&pids)));
        model.close();
        gone("close", leader);

        let model = load_acp(options()).unwrap();
        let leader = model.agent().process_id();
        drop(model);
        gone("drop", leader);

        let leader = std::cell::Cell::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let model = load_acp(options()).unwrap();
            leader.set(model.agent().process_id());
            std::panic::resume_unwind(Box::new("the host panics"));
        }));
        assert!(panicked.is_err());
        gone("panic", leader.get());
    }
}

#[test]
fn a_failed_handshake_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let refuse = r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}'; cat > /dev/null"#;
    let options = script(&["sleep 1000 & echo $! > $PIDS;", refuse]).env("PIDS", &pids);
    assert_eq!(load_acp(options).unwrap_err().kind(), "protocol_version");
    assert!(!is_running(pid_in(&pids)));
}

#[test]
fn death_ends_every_lane_at_once_and_is_final() {
    let two = r#"
read -r _; echo '{"jsonrpc":"2.0","id":3,"result":{"sessionId":"s2"}}'
read -r _; read -r _; echo 'panic: boom' >&2; kill -9 $$"#;
    let model = load_acp(script(&[HANDSHAKE, two])).unwrap();
    let lane = model.lane().unwrap();
    let a = model.start(&hi(), TurnOptions::default()).unwrap();
    let b = lane.start(&hi(), TurnOptions::default()).unwrap();
    for turn in [a, b] {
        let error = turn.wait().unwrap_err();
        assert_eq!(error.kind(), "agent_exited");
        assert!(error.to_string().contains("signal 9"), "{error}");
        assert_eq!(error.stderr_tail(), Some("panic: boom\n"));
    }
    assert!(!model.is_alive());
    assert_eq!(model.generate(&hi()).unwrap_err().kind(), "agent_exited");
    assert_eq!(model.lane().unwrap_err().kind(), "agent_exited");
    model.close();
    assert_eq!(model.generate(&hi()).unwrap_err().kind(), "agent_exited");
}

/// The first process dies in its first turn, the second one answers.
#[test]
fn a_lost_process_is_replaced_where_the_host_wants_it() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let once = r#"
if [ -e $SEEN ]; then lives=yes; else lives=no; : > $SEEN; fi"#;
    let die = "[ $lives = no ] && { read -r _; exit 4; }";
    let options = || script(&[once, HANDSHAKE, die, ANSWER_ALL]).env("SEEN", &seen);

    let model = load_acp(options().restart(true)).unwrap();
    let first = model.agent().process_id();
    assert_eq!(model.generate(&hi()).unwrap_err().kind(), "agent_exited");
    assert_eq!(model.generate(&hi()).unwrap().content, "ok");
    let second = model.agent().process_id();
    assert_ne!(first, second);
    assert!(model.is_alive() && !is_running(first));
    model.close();
    assert!(!is_running(second));
    assert_eq!(model.generate(&hi()).unwrap_err().kind(), "closed");

    std::fs::remove_file(&seen).unwrap();
    let model = load_acp(options()).unwrap();
    for _ in 0..2 {
        assert_eq!(model.generate(&hi()).unwrap_err().kind(), "agent_exited");
    }
}

/// An agent that asks without reading would fill our memory with answers.
#[test]
fn an_agent_that_asks_without_reading_is_ended() {
    let flood = r#"
read -r _; i=0
while :; do
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    printf '{"jsonrpc":"2.0","id":%s,"method":"fs/read_text_file"}\n' 0 1 2 3 4 5 6 7 8 9
  done
done"#;
    let model = load_acp(script(&[HANDSHAKE, flood])).unwrap();
    assert_eq!(model.generate(&hi()).unwrap_err().kind(), "agent_exited");
}

#[test]
fn vendor_requests_go_to_the_host_that_wants_them() {
    let ask = r#"
read -r _; echo '{"jsonrpc":"2.0","id":"v","method":"_vendor/add","params":{"a":1}}'; read -r answer
case $answer in *'"result":2'*) word=two;; *-32601*) word=refused;; *) word="$answer";; esac
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$word'"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;
    let options = || script(&[HANDSHAKE, ask]);
    let content = |options| load_acp(options).unwrap().generate(&hi()).unwrap().content;
    let add = |method: &str, params: &serde_json::Value| {
        assert_eq!(method, "_vendor/add");
        Some((params["a"].as_i64()? + 1).into())
    };
    assert_eq!(content(options().on_request(add)), "two");
    assert_eq!(content(options().on_request(|_, _| None)), "refused");
    assert_eq!(
        content(options().on_request(|_, _| panic!("the host's own fault"))),
        "refused"
    );
    assert_eq!(content(options()), "refused");
}

/// Waits without an end are possible, and a close does not wait for them.
#[test]
fn graces_may_be_as_long_as_can_be_said() {
    let options = script(&[HANDSHAKE, ANSWER_ALL])
        .eof_grace(Duration::MAX)
        .term_grace(Duration::MAX);
    let model = load_acp(options).unwrap();
    assert_eq!(model.generate(&hi()).unwrap().content, "ok");
    model.close();
    assert!(!model.is_alive());
}

/// A helper of the agent that has left the group holds its pipes open. It cannot be ended, but it must
/// hold nobody up.
#[test]
fn a_process_that_escaped_holds_nobody_up() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let escape = "setsid sh -c 'echo $$ > $PIDS; exec sleep 1000' & ";
    let die = "read -r _; exit 5";
    let model = load_acp(script(&[escape, HANDSHAKE, die]).env("PIDS", &pids)).unwrap();
    let escaped = pid_in(&pids);
    let error = model.generate(&hi()).unwrap_err();
    assert_eq!(error.kind(), "agent_exited");
    assert!(error.to_string().contains("status 5"), "{error}");
    let closing = Instant::now();
    model.close();
    assert!(closing.elapsed() < Duration::from_secs(5));
    assert!(
        is_running(escaped),
        "it is out of reach, or the test shows nothing"
    );
    let kill = std::process::Command::new("kill")
        .args(["-9", &escaped.to_string()])
        .status();
    assert!(kill.unwrap().success());
}

#[test]
fn closing_twice_and_from_many_threads_is_one_close() {
    let model = Arc::new(
        load_acp(script(&[
            "trap '' TERM;",
            HANDSHAKE,
            "while :; do sleep 1; done",
        ]))
        .unwrap(),
    );
    let turn = model.start(&hi(), TurnOptions::default()).unwrap();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let model = Arc::clone(&model);
            std::thread::spawn(move || {
                model.close();
                assert!(!is_running(model.agent().process_id()));
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(turn.wait().unwrap_err().kind(), "closed");
    model.close();
    assert_eq!(model.generate(&hi()).unwrap_err().kind(), "closed");
    assert_eq!(model.lane().unwrap_err().kind(), "closed");
}

#[test]
fn an_agent_that_is_still_starting_can_be_closed_and_killed() {
    for kill in [false, true] {
        let agent = Arc::new(
            AcpAgent::spawn(script(&["trap '' TERM; while :; do sleep 1; done"])).unwrap(),
        );
        let waiting = Arc::clone(&agent);
        let thread = std::thread::spawn(move || waiting.lane().unwrap_err().kind());
        assert_eq!(agent.startup_time(), None);
        if kill {
            agent.kill();
            assert_eq!(thread.join().unwrap(), "agent_exited");
        } else {
            agent.close();
            assert_eq!(thread.join().unwrap(), "closed");
            assert_eq!(agent.wait_ready().unwrap_err().kind(), "closed");
        }
        agent.close();
        assert!(!is_running(agent.process_id()));
    }
}

/// The agent reads nothing more while we have megabytes for it: the writer waits, nobody else does.
#[test]
fn an_agent_that_stops_reading_blocks_neither_cancel_nor_close() {
    let model = load_acp(script(&[HANDSHAKE, "while :; do sleep 1; done"])).unwrap();
    let big = GenerateRequest::user("x".repeat(10 << 20));
    let turn = model.start(&big, TurnOptions::default()).unwrap();
    turn.cancel();
    let closing = Instant::now();
    model.close();
    assert!(closing.elapsed() < Duration::from_secs(5));
    // It was cancelled before it was closed.
    assert_eq!(turn.wait().unwrap_err().kind(), "cancelled");
}

/// Ten megabytes each way at the same time: whoever waited for the other to read would wait for ever.
#[test]
fn large_prompts_and_large_answers_cross() {
    let flood = r#"
chunk='{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$(head -c 1048576 /dev/zero | tr '\0' y)'"}}}}'
for _ in 1 2 3 4 5 6 7 8 9 10; do printf '%s\n' "$chunk"; done
head -c 10485760 > /dev/null
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
cat > /dev/null"#;
    let model = load_acp(script(&[HANDSHAKE, flood])).unwrap();
    let answer = model
        .generate(&GenerateRequest::user("x".repeat(10 << 20)))
        .unwrap();
    assert_eq!(answer.content.len(), 10 << 20);
}

const ASK: &str = r#"
read -r _
echo '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"},{"optionId":"n","name":"N","kind":"reject_once"}]}}'
read -r answer
case $answer in *'"y"'*) word=allowed;; *'"n"'*) word=refused;; *) word=cancelled;; esac
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$word'"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;

#[test]
fn the_host_decides_about_permissions_on_a_thread_of_its_own() {
    let ask = |decide: fn() -> PermissionDecision, limit: u64| {
        let options = script(&[HANDSHAKE, ASK])
            .ask_permission(move |request| {
                assert_eq!(request.options.len(), 2);
                decide()
            })
            .permission_timeout(Duration::from_millis(limit));
        load_acp(options).unwrap().generate(&hi()).unwrap().content
    };
    let hour = 3_600_000;
    assert_eq!(
        ask(|| PermissionDecision::Select("y".into()), hour),
        "allowed"
    );
    assert_eq!(ask(|| PermissionDecision::Cancelled, hour), "cancelled");
    assert_eq!(
        ask(|| PermissionDecision::Select("never offered".into()), hour),
        "refused"
    );
    assert_eq!(ask(|| panic!("the host's own fault"), hour), "refused");
    let never = || loop {
        std::thread::park();
    };
    assert_eq!(ask(never, 50), "refused");
}

#[test]
fn a_turn_that_is_dropped_is_cancelled_and_the_lane_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let cancelled = r#"
read -r _; read -r cancel; printf '%s\n' "$cancel" > $SEEN
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'; read -r _
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"next"}}}}'
echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;
    let model = load_acp(script(&[HANDSHAKE, cancelled]).env("SEEN", &seen)).unwrap();
    drop(model.start(&hi(), TurnOptions::default()).unwrap());
    assert_eq!(model.generate(&hi()).unwrap().content, "next");
    let line = std::fs::read_to_string(&seen).unwrap();
    assert!(line.contains("session/cancel"), "{line}");
}

/// A turn that ignores its cancel ends after the grace, and the next one gets a new session.
#[test]
fn a_turn_that_ignores_its_cancel_costs_its_session_only() {
    let ignore = r#"
read -r _; read -r _
read -r new; case $new in *session/new*) ;; *) exit 9;; esac
echo '{"jsonrpc":"2.0","id":4,"result":{"sessionId":"s2"}}'
read -r prompt; case $prompt in *'"s2"'*) ;; *) exit 8;; esac
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"STALE"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"fresh"}}}}'
echo '{"jsonrpc":"2.0","id":5,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;
    let options = script(&[HANDSHAKE, ignore]).cancel_grace(Duration::from_millis(100));
    let model = load_acp(options).unwrap();
    let limit = TurnOptions::default().deadline(Duration::from_millis(100));
    let error = model.start(&hi(), limit).unwrap().wait().unwrap_err();
    assert_eq!(error.kind(), "deadline_exceeded");
    assert_eq!(model.generate(&hi()).unwrap().content, "fresh");
    assert_eq!(model.session().session_id, "s2");
}

/// Threads and file descriptors are back to where they were. Other tests of this binary run beside this
/// one, so it looks at the threads and pipes of agents in a process of its own.
#[test]
fn threads_and_pipes_end_with_the_agent() {
    if std::env::var_os("ACP_CORE_COUNTS").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "threads_and_pipes_end_with_the_agent",
                "--test-threads=1",
            ])
            .env("ACP_CORE_COUNTS", "1")
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/self/{what}"))
            .unwrap()
            .count()
    };
    let before = (count("task"), count("fd"));
    for i in 0..20 {
        let agent = AcpAgent::start(script(&[HANDSHAKE, ANSWER_ALL])).unwrap();
        let threads = || count("task") - before.0;
        assert_eq!(threads(), 2, "the driver's threads are seen");
        let lane = agent.lane().unwrap();
        assert_eq!(lane.generate(&hi()).unwrap().content, "ok");
        assert_eq!(threads(), 2, "nobody has to wait to write so little");
        if i % 5 == 0 {
            let long = GenerateRequest::user("x".repeat(200_000));
            assert_eq!(lane.generate(&long).unwrap().content, "ok");
            assert_eq!(threads(), 3, "the writer has waited for the pipe");
        }
        if i % 2 == 0 {
            agent.close();
        }
    }
    wait_for("the end of the last thread", || {
        ((count("task"), count("fd")) == before).then_some(())
    });
}
