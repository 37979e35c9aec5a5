//! Callers of the blocking driver that read for themselves, and those that others read for.

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests need threads and clocks of their own"
)]

mod scripts;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use acp_core::{AcpAgent, AcpModel, GenerateRequest, Settle, TurnOptions, load_acp};
use scripts::{ANSWER_ALL, ANSWER_LATE, HANDSHAKE, say_late, script};

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(50);

fn hi() -> GenerateRequest {
    GenerateRequest::user("hi")
}

/// An agent that goes through its handshake and says nothing more.
fn silent() -> Arc<AcpModel> {
    let options = script(&["trap '' TERM;", HANDSHAKE, "while :; do sleep 1; done"]);
    let options = options.eof_grace(2 * LONG).cancel_grace(SHORT);
    Arc::new(load_acp(options).expect("it shakes hands"))
}

#[test]
fn what_was_said_before_a_turn_is_no_part_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = script(&[HANDSHAKE, ANSWER_LATE]).cwd(directory.path());
    // A turn that waits for late text takes it.
    let model = load_acp(options.settle(Settle::Never)).unwrap();
    for _ in 0..20 {
        assert_eq!(model.generate(&hi()).unwrap().content, "ok");
        say_late(directory.path());
    }
}

#[test]
fn a_caller_that_reads_learns_of_a_close_before_the_agent_has_gone() {
    for _ in 0..5 {
        let model = silent();
        let turn = model.start(&hi(), TurnOptions::default()).unwrap();
        let (ended, ends) = channel();
        thread::spawn(move || ended.send(turn.wait().unwrap_err().kind()));
        let closing = Arc::clone(&model);
        let closes = thread::spawn(move || closing.close());
        assert_eq!(ends.recv_timeout(LONG), Ok("closed"));
        model.agent().kill();
        closes.join().unwrap();
    }
}

#[test]
fn a_caller_that_reads_keeps_its_limits() {
    let model = silent();
    let limit = TurnOptions::default().deadline(SHORT);
    let turn = model.start(&hi(), limit).unwrap();
    assert_eq!(turn.wait().unwrap_err().kind(), "deadline_exceeded");
    model.agent().kill();
}

/// Output that never pauses holds no limit up, however busy it keeps who reads it.
#[test]
fn limits_hold_while_output_floods() {
    let flood = r#"read -r _; exec yes '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"x"}}}}'"#;
    let options = script(&[HANDSHAKE, flood]).cancel_grace(SHORT);
    let model = load_acp(options).unwrap();
    let limit = TurnOptions::default().deadline(SHORT);
    let error = model.start(&hi(), limit).unwrap().wait().unwrap_err();
    assert_eq!(error.kind(), "deadline_exceeded");
}

#[test]
fn streams_are_complete_and_in_order_for_a_slow_reader() {
    let count = r#"
read -r _; i=0
while [ $i -lt 500 ]; do
  echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$i' "}}}}'
  i=$((i+1))
done
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat > /dev/null"#;
    let model = load_acp(script(&[HANDSHAKE, count])).unwrap();
    let mut streamed = String::new();
    let turn = model.start(&hi(), TurnOptions::default()).unwrap();
    let answer = turn
        .wait_with(|text| {
            streamed.push_str(text);
            thread::sleep(Duration::from_millis(1));
        })
        .unwrap();
    let expected: String = (0..500).map(|i| format!("{i} ")).collect();
    assert_eq!(streamed, expected);
    assert_eq!(answer.content, expected);
}

/// One caller reads, another waits, a third hands out text, and each gets what is its own.
#[test]
fn whoever_reads_reads_for_all() {
    let agent = Arc::new(AcpAgent::start(script(&[LANES])).unwrap());
    let callers: Vec<_> = (1..=3)
        .map(|number| {
            let lane = agent.lane().unwrap();
            let session = lane.session().session_id;
            thread::spawn(move || {
                for turn in 0..200 {
                    let started = lane.start(&hi(), TurnOptions::default()).unwrap();
                    let answer = if number == 3 && turn % 2 == 0 {
                        let mut text = String::new();
                        let answer = started.wait_with(|new| text.push_str(new)).unwrap();
                        assert_eq!(answer.content, text);
                        answer
                    } else {
                        started.wait().unwrap()
                    };
                    assert_eq!(answer.content, session);
                }
            })
        })
        .collect();
    // Sessions are opened meanwhile, which no caller reads for.
    for _ in 0..20 {
        drop(agent.lane().unwrap());
    }
    for caller in callers {
        caller.join().unwrap();
    }
}

/// Answers each prompt with the name of its session, as many as are opened.
const LANES: &str = r#"
read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
sessions=0
while read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
  *'"session/new"'*)
    sessions=$((sessions+1))
    echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"s'$sessions'"}}';;
  *'"session/prompt"'*)
    session=${line#*'"sessionId":"'}; session=${session%%'"'*}
    echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'$session'","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$session'"}}}}'
    echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}';;
  esac
done"#;

#[test]
fn an_agent_that_dies_between_turns_is_found_dead() {
    let once = r#"
read -r _
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"bye"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; exit 4"#;
    let model = load_acp(script(&[HANDSHAKE, once])).unwrap();
    assert_eq!(model.generate(&hi()).unwrap().content, "bye");
    assert_eq!(model.generate(&hi()).unwrap_err().kind(), "agent_exited");
    assert!(!model.agent().is_alive());
}

#[test]
fn a_process_that_died_between_turns_is_replaced_before_the_next() {
    let options = script(&[HANDSHAKE, ANSWER_ALL]).restart(true);
    let model = load_acp(options).unwrap();
    for _ in 0..20 {
        assert_eq!(model.generate(&hi()).unwrap().content, "ok");
        model.agent().kill();
        // Without a sleep: the next turn is to begin before the reader has looked.
        while model.agent().is_alive() {
            thread::yield_now();
        }
    }
}
