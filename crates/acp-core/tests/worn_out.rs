//! An agent in which sessions pile up is replaced between turns, whoever comes at that moment.

#![cfg(target_os = "linux")]
mod scripts;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use acp_core::{GenerateRequest, Lane, LoadOptions, StatePolicy, load_acp};
use scripts::{is_running, running_with, script};

/// Opens any session and answers any prompt, with `ok`.
const ANY: &str = r#"
n=0
while read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
    *'"initialize"'*) echo '{"id":'$id',"result":{"protocolVersion":1}}' ;;
    *'"session/new"'*) n=$((n+1)); echo '{"id":'$id',"result":{"sessionId":"s'$n'"}}' ;;
    *'"session/prompt"'*)
      session=${line#*'"sessionId":"'}; session=${session%%'"'*}
      echo '{"method":"session/update","params":{"sessionId":"'$session'","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ok"}}}}'
      echo '{"id":'$id',"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;

fn options() -> LoadOptions {
    script(&[ANY])
        .state(StatePolicy::FreshSession)
        .spare_session(false)
        .max_given_up_sessions(1)
}

fn hi() -> GenerateRequest {
    GenerateRequest::user("hi")
}

#[test]
fn every_call_is_answered_while_processes_come_and_go() {
    let model = load_acp(options()).unwrap();
    let lanes: Vec<Lane> = (0..3).map(|_| model.lane().unwrap()).collect();
    let processes = Mutex::new(BTreeSet::from([model.agent().process_id()]));
    thread::scope(|scope| {
        for lane in &lanes {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(lane.generate(&hi()).unwrap().content, "ok");
                    processes.lock().unwrap().insert(model.agent().process_id());
                }
            });
        }
    });
    // Alone, each second turn finds a process that is worn out.
    for _ in 0..6 {
        assert_eq!(model.generate(&hi()).unwrap().content, "ok");
        processes.lock().unwrap().insert(model.agent().process_id());
    }
    let processes = processes.into_inner().unwrap();
    assert!(processes.len() > 2, "{processes:?}");
    let last = model.agent().process_id();
    let running = processes.iter().filter(|&&process| is_running(process));
    assert_eq!(running.collect::<Vec<_>>(), [&last]);
    drop((lanes, model));
    assert!(!is_running(last));
}

#[test]
fn a_close_at_any_moment_ends_every_call() {
    for pause in 0..10 {
        let mark = format!("worn-out-{}-{pause}", std::process::id());
        let model = load_acp(options().env("MARK", &mark)).unwrap();
        let lanes: Vec<Lane> = (0..3).map(|_| model.lane().unwrap()).collect();
        thread::scope(|scope| {
            for lane in &lanes {
                scope.spawn(|| {
                    loop {
                        match lane.generate(&hi()) {
                            Ok(response) => assert_eq!(response.content, "ok"),
                            Err(error) => break assert_eq!(error.kind(), "closed"),
                        }
                    }
                });
            }
            // Some turns first, so that the close meets processes in every state.
            for _ in 0..pause {
                assert!(model.generate(&hi()).is_ok());
            }
            model.close();
            // Nor is there one that had just been started to take the place of another.
            assert_eq!(running_with(&mark), Vec::<u32>::new());
        });
        assert!(!is_running(model.agent().process_id()));
    }
}
