//! What is tokio's own about its driver, over real pipes. The rest it has in common with the blocking one, and
//! every transcript is played to it as the port `rust-tokio`.

#![cfg(target_os = "linux")]

mod scripts;

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use acp_core::tokio::{AcpAgent, AcpModel, load_acp};
use acp_core::{
    GenerateRequest, LoadOptions, PermissionDecision, PermissionPolicy, Settle, TurnEvent,
    TurnOptions,
};
use scripts::{ANSWER_ALL, ANSWER_LATE, HANDSHAKE, is_running, pid_in, say_late, script, wait_for};

fn hi() -> GenerateRequest {
    GenerateRequest::user("hi")
}

/// Polls a future once, so that it has begun, and drops it.
async fn begin_and_drop(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn a_turn_whose_future_is_dropped_is_cancelled_and_the_process_stays_warm() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let cancelled = r#"
read -r _; read -r cancel; printf '%s\n' "$cancel" > $SEEN
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'; read -r _
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"next"}}}}'
echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;
    let options = script(&[HANDSHAKE, cancelled]).env("SEEN", &seen);
    let model = load_acp(options).await.unwrap();
    let process = model.agent().process_id();
    let request = hi();
    begin_and_drop(model.generate(&request)).await;
    assert_eq!(model.generate(&hi()).await.unwrap().content, "next");
    assert_eq!(model.agent().process_id(), process);
    let line = std::fs::read_to_string(&seen).unwrap();
    assert!(line.contains("session/cancel"), "{line}");
    model.close().await;
}

#[tokio::test]
async fn what_was_said_before_a_turn_is_no_part_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = script(&[HANDSHAKE, ANSWER_LATE]).cwd(directory.path());
    // A turn that waits for late text takes it.
    let model = load_acp(options.settle(Settle::Never)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(model.generate(&hi()).await.unwrap().content, "ok");
        // The task that reads has no turn meanwhile.
        say_late(directory.path());
    }
    model.close().await;
}

/// A thought, text, a tool call, a permission, usage and text again, then the end.
const EVENTFUL: &str = r#"
update() { echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'"$1"'}}'; }
read -r _
update '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"b"}}'
update '{"sessionUpdate":"tool_call","toolCallId":"t1","title":"look","status":"pending"}'
echo '{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t1"},"options":[{"optionId":"n","name":"No","kind":"reject_once"}]}}'
read -r _
update '{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed"}'
update '{"sessionUpdate":"plan","entries":[]}'
update '{"sessionUpdate":"usage_update","used":5,"size":10}'
update '{"sessionUpdate":"from_the_future"}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"c"}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;

/// An event in a word; text that came at once or bit by bit is the same.
fn word(event: &TurnEvent) -> String {
    match event {
        TurnEvent::Text(text) => text.clone(),
        TurnEvent::Thought(text) => format!(" thought {text} "),
        TurnEvent::ToolCall(update) => format!(" tool {} ", update["status"]),
        TurnEvent::Plan(_) => " plan ".to_owned(),
        TurnEvent::Usage(update) => format!(" usage {} ", update["used"]),
        TurnEvent::PermissionAsked(request) => format!(" asked {} ", request.options[0].option_id),
        TurnEvent::PermissionAnswered(_, decision) => format!(" answered {decision:?} "),
        other => panic!("{other:?}"),
    }
}

const WORDS: &str = " thought hm ab tool \"pending\"  asked n  answered Select(\"n\")  tool \"failed\"  \
                     plan  usage 5 c";

#[tokio::test]
async fn what_happens_within_a_turn_is_told_in_order() {
    let options = || script(&[HANDSHAKE, EVENTFUL]).permission(PermissionPolicy::Reject);
    let model = load_acp(options()).await.unwrap();
    let turn_options = model.main_lane().turn_options().events(true);
    let mut turn = model.start(&hi(), turn_options).await.unwrap();
    let mut words = String::new();
    while let Some(event) = turn.next_event().await {
        words += &word(&event);
    }
    assert_eq!(words, WORDS);
    assert!(turn.next_event().await.is_none());
    assert_eq!(turn.await.unwrap().content, "abc");
    model.close().await;

    // The blocking driver tells the same.
    let model = acp_core::load_acp(options()).unwrap();
    let turn = model.start(&hi(), turn_options).unwrap();
    let mut words = String::new();
    let answer = turn.wait_with_events(|event| words += &word(&event));
    assert_eq!((&*words, &*answer.unwrap().content), (WORDS, "abc"));
}

#[tokio::test]
async fn without_the_option_there_is_nothing_to_tell() {
    let options = script(&[HANDSHAKE, EVENTFUL]).permission(PermissionPolicy::Reject);
    let model = load_acp(options).await.unwrap();
    let mut turn = model.start(&hi(), TurnOptions::default()).await.unwrap();
    assert!(turn.next_event().await.is_none());
    assert_eq!(turn.await.unwrap().content, "abc");
    model.close().await;
}

const ASK: &str = r#"
read -r _
echo '{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[{"optionId":"y","name":"y","kind":"allow_once"},{"optionId":"n","name":"n","kind":"reject_once"}]}}'
read -r answer; case $answer in *'"y"'*) t=allowed;; *'"n"'*) t=refused;; *) t=cancelled;; esac
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$t'"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;

#[tokio::test]
async fn a_host_may_await_before_it_decides() {
    let ask = async |options: LoadOptions| {
        let model = load_acp(options.permission_timeout(Duration::from_millis(200)));
        let model = model.await.unwrap();
        let content = model.generate(&hi()).await.unwrap().content;
        model.close().await;
        content
    };
    let select = |id: &str| PermissionDecision::Select(id.to_owned());
    let agent = || script(&[HANDSHAKE, ASK]);
    let awaits = agent().ask_permission_async(move |_| async move {
        tokio::task::yield_now().await;
        select("y")
    });
    assert_eq!(ask(awaits).await, "allowed");
    let blocks = agent().ask_permission(move |_| select("y"));
    assert_eq!(ask(blocks).await, "allowed");
    let panics = agent().ask_permission_async(|_| async { panic!("the host's own fault") });
    assert_eq!(ask(panics).await, "refused");
    let never = agent().ask_permission_async(|_| pending());
    assert_eq!(ask(never).await, "refused");

    // The blocking driver cannot run it, and says so before it starts anything.
    let options = agent().ask_permission_async(|_| pending());
    let error = acp_core::load_acp(options).unwrap_err();
    assert_eq!(error.kind(), "invalid_options");
}

#[tokio::test]
async fn an_agent_that_is_dropped_is_gone_soon() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    // One that ends by neither the end of its input nor SIGTERM.
    let stubborn = "trap '' TERM; echo $$ > $PID_FILE; while :; do sleep 0.05; done";
    let options = script(&[HANDSHAKE, stubborn]).env("PID_FILE", &pid);
    let agent = AcpAgent::start(options).await.unwrap();
    let _lane = agent.lane().await.unwrap();
    let pid = tokio::task::spawn_blocking(move || pid_in(&pid))
        .await
        .unwrap();
    assert!(is_running(pid));
    drop(agent);
    let gone = move || wait_for("the end of the agent", || (!is_running(pid)).then_some(()));
    tokio::task::spawn_blocking(gone).await.unwrap();
}

#[tokio::test]
async fn an_agent_that_leaves_with_its_input_is_not_made_to() {
    let agent = script(&[HANDSHAKE, "cat > /dev/null; exit 7"]).eof_grace(Duration::from_secs(60));
    let model = load_acp(agent).await.unwrap();
    model.close().await;
    assert_eq!(model.agent().exit().unwrap().code, Some(7));
}

#[tokio::test]
async fn a_load_that_fails_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let wrong = r#"echo $$ > $PID_FILE; read -r _
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":7}}'; cat > /dev/null; sleep 100"#;
    let error = load_acp(script(&[wrong]).env("PID_FILE", &pid))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "protocol_version");
    assert!(!is_running(pid_in(&pid)));
}

#[tokio::test]
async fn a_lane_that_nobody_waits_for_any_more_is_given_up() {
    let hangs = r#"read -r _; read -r _; cat > /dev/null"#;
    let agent = AcpAgent::start(script(&[
        r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}';"#,
        hangs,
    ]));
    let agent = agent.await.unwrap();
    begin_and_drop(agent.lane()).await;
    agent.close().await;
    assert!(!agent.is_alive());
}

#[test]
fn outside_of_a_runtime_nothing_is_started() {
    let error = AcpAgent::spawn(script(&[HANDSHAKE])).unwrap_err();
    assert_eq!(error.kind(), "spawn_failed");
    assert!(error.to_string().contains("runtime"), "{error}");
}

#[test]
fn in_a_runtime_without_io_or_time_nothing_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let starts = r#": > "$STARTED""#;
    type Builder = tokio::runtime::Builder;
    let enable: [fn(&mut Builder) -> &mut Builder; 3] =
        [|builder| builder, Builder::enable_io, Builder::enable_time];
    for enable in enable {
        let runtime = enable(&mut Builder::new_current_thread()).build().unwrap();
        let started = directory.path().join("started");
        let options = script(&[starts]).env("STARTED", &started);
        let error = runtime.block_on(async { AcpAgent::spawn(options).unwrap_err() });
        assert_eq!(error.kind(), "spawn_failed");
        assert!(error.to_string().contains("enable_all"), "{error}");
        assert!(!started.exists());
    }
}

/// One task that talks without end does not keep others from their turn, on one thread.
#[tokio::test]
async fn a_flood_leaves_others_their_turn() {
    let flood = r#"read -r _; exec yes '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"x"}}}}'"#;
    let loud = load_acp(script(&[HANDSHAKE, flood])).await.unwrap();
    let quiet = load_acp(script(&[HANDSHAKE, ANSWER_ALL])).await.unwrap();
    let turn = loud.start(&hi(), TurnOptions::default()).await.unwrap();
    for _ in 0..20 {
        assert_eq!(quiet.generate(&hi()).await.unwrap().content, "ok");
    }
    drop(turn);
    loud.close().await;
    quiet.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_a_model() {
    let models: Vec<_> = (0..8)
        .map(|_| tokio::spawn(load_acp(script(&[HANDSHAKE, ANSWER_ALL]))))
        .collect();
    for model in models {
        let model = Arc::new(model.await.unwrap().unwrap());
        let turns: Vec<_> = (0..16)
            .map(|_| {
                let model = Arc::clone(&model);
                tokio::spawn(async move { model.generate(&hi()).await.unwrap().content })
            })
            .collect();
        for turn in turns {
            assert_eq!(turn.await.unwrap(), "ok");
        }
        model.close().await;
    }
}

#[test]
fn a_runtime_that_ends_ends_every_call() {
    let silent = "read -r _; cat > /dev/null";
    let first = tokio::runtime::Runtime::new().unwrap();
    let second = tokio::runtime::Runtime::new().unwrap();
    let model = first
        .block_on(load_acp(script(&[HANDSHAKE, silent])))
        .unwrap();
    let process = model.agent().process_id();
    let turn = first
        .block_on(model.start(&hi(), TurnOptions::default()))
        .unwrap();
    first.shutdown_background();
    let error = second.block_on(turn).unwrap_err();
    assert_eq!(error.kind(), "closed");
    assert_eq!(
        second.block_on(model.generate(&hi())).unwrap_err().kind(),
        "closed"
    );
    assert!(!model.is_alive());
    wait_for("the end of the agent", || {
        (!is_running(process)).then_some(())
    });
}

#[test]
fn a_runtime_that_ends_before_it_has_run_a_task_ends_every_call() {
    let one_thread = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap()
    };
    let (first, second) = (one_thread(), one_thread());
    let agent = first.block_on(async { AcpAgent::spawn(script(&[HANDSHAKE])).unwrap() });
    drop(first);
    let ready = async { tokio::time::timeout(Duration::from_secs(10), agent.wait_ready()).await };
    let error = second.block_on(ready).unwrap().unwrap_err();
    assert_eq!(error.kind(), "closed");
    wait_for("the end of the agent", || {
        (!is_running(agent.process_id())).then_some(())
    });
}

/// One that ends by neither the end of its input nor SIGTERM.
const STUBBORN: &str = "trap '' TERM; while :; do sleep 0.05; done";

#[tokio::test]
async fn a_function_of_the_host_may_close_the_agent() {
    let model: Arc<OnceLock<AcpModel>> = Arc::default();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let closes = Arc::clone(&model);
    let ask = ASK.split_once("read -r answer").unwrap().0;
    let options = script(&[HANDSHAKE, ask, STUBBORN]).ask_permission_async(move |_| {
        let (model, tell) = (Arc::clone(&closes), tell.clone());
        async move {
            let model = model.get().unwrap();
            model.close().await;
            tell.send(is_running(model.agent().process_id())).unwrap();
            PermissionDecision::Cancelled
        }
    });
    model.set(load_acp(options).await.unwrap()).unwrap();
    let error = model.get().unwrap().generate(&hi()).await.unwrap_err();
    assert_eq!(error.kind(), "closed");
    // It is not ended itself by what it does.
    let told = tokio::time::timeout(Duration::from_secs(10), told.recv()).await;
    assert_eq!(told, Ok(Some(false)));
}

#[tokio::test]
async fn a_close_that_nobody_waits_for_is_finished() {
    let model = load_acp(script(&[HANDSHAKE, STUBBORN])).await.unwrap();
    begin_and_drop(model.close()).await;
    let process = model.agent().process_id();
    let gone = move || {
        wait_for("the end of the agent", || {
            (!is_running(process)).then_some(())
        })
    };
    tokio::task::spawn_blocking(gone).await.unwrap();
}

#[test]
fn functions_of_the_host_that_never_return_do_not_keep_an_agent() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let never = |_: &acp_core::PermissionRequest| loop {
            std::thread::park();
        };
        let options = script(&[HANDSHAKE, ASK]).ask_permission(never);
        let options = options.permission_timeout(Duration::from_millis(50));
        let model = load_acp(options).await.unwrap();
        assert_eq!(model.generate(&hi()).await.unwrap().content, "refused");
        let process = model.agent().process_id();
        model.close().await;
        assert!(!is_running(process));
    });
    // The function of the host has a thread for ever.
    runtime.shutdown_background();
}

#[tokio::test]
async fn functions_of_the_host_that_await_for_ever_end_with_the_agent() {
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let options = script(&[HANDSHAKE, ASK]).ask_permission_async(move |_| {
        let holds = Arc::clone(&holds);
        async move {
            pending::<()>().await;
            drop(holds);
            PermissionDecision::Cancelled
        }
    });
    let options = options.permission_timeout(Duration::from_millis(50));
    let model = load_acp(options).await.unwrap();
    assert_eq!(model.generate(&hi()).await.unwrap().content, "refused");
    // The host's own, that of its closure, and that of the function that still thinks.
    assert_eq!(Arc::strong_count(&held), 3);
    model.close().await;
    let let_go = async {
        while Arc::strong_count(&held) > 2 {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, let_go).await.unwrap();
}

#[tokio::test]
async fn a_turn_that_was_awaited_has_no_more_events() {
    let model = load_acp(script(&[HANDSHAKE, ANSWER_ALL])).await.unwrap();
    let options = TurnOptions::default().events(true);
    let mut turn = model.start(&hi(), options).await.unwrap();
    assert_eq!((&mut turn).await.unwrap().content, "ok");
    // What had not been taken is not lost.
    let event = turn.next_event().await;
    assert!(
        matches!(&event, Some(TurnEvent::Text(text)) if text == "ok"),
        "{event:?}"
    );
    assert!(turn.next_event().await.is_none());
    model.close().await;
}

#[tokio::test]
async fn an_agent_that_does_not_read_gets_the_end_of_its_input_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    // It reads the rest, and its end, when its output has ended.
    let late = "sleep 0.3; cat > /dev/null; echo over > $SEEN";
    let options = script(&[HANDSHAKE, late]).env("SEEN", &seen);
    let model = load_acp(options.eof_grace(Duration::from_secs(60)))
        .await
        .unwrap();
    let large = GenerateRequest::user("x".repeat(1 << 20));
    let _turn = model.start(&large, TurnOptions::default()).await.unwrap();
    model.close().await;
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "over\n");
}
