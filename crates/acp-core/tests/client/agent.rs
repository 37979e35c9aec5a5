//! The client over the process of an agent.

#[path = "../scripts/mod.rs"]
mod scripts;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use acp_core::{
    CancelToken, Generate, GenerateRequest, InProcessClient, Lane, RunRequest, load_acp,
};
use scripts::{HANDSHAKE, script, wait_for};

/// Says one word and then nothing, until it is cancelled; the next turn it answers.
const THINKS: &str = r#"
say() {
  echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$1'"}}}}'
}
read -r _; say Well
# The client has read the word when it has answered this.
echo '{"jsonrpc":"2.0","id":0,"method":"_fence"}'; read -r _; echo > begun
read -r cancel
case "$cancel" in *session/cancel*) ;; *) exit 1;; esac
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'
read -r _; say again
echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'
read -r _
"#;

fn a_cancel_reaches_the_agent<G: Generate + Sync>(model: G, directory: &std::path::Path) {
    let client = InProcessClient::new(model);
    let token = CancelToken::new();
    let error = thread::scope(|scope| {
        let run = scope.spawn(|| client.run(RunRequest::user("hi").cancel(&token)));
        wait_for("the agent's turn", || {
            directory.join("begun").exists().then_some(())
        });
        token.cancel();
        run.join().unwrap().unwrap_err()
    });
    assert_eq!((error.kind(), error.partial()), ("cancelled", "Well"));
    // The session is as good as before, and the old token has nothing to do with it any more.
    token.cancel();
    assert_eq!(client.ask("hi").unwrap(), "again");
    let Ok(kept) = client.messages();
    assert_eq!(kept.len(), 2);
}

#[test]
fn a_cancel_of_the_run_cancels_the_agents_turn() {
    for shared in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let options = script(&[HANDSHAKE, THINKS]).cwd(directory.path());
        // Far longer than the test may take: nothing but the cancel ends the turn.
        let model = load_acp(options.idle_timeout(Duration::from_secs(60))).unwrap();
        if shared {
            let model = Arc::new(model);
            a_cancel_reaches_the_agent(Arc::clone(&model), directory.path());
            model.close();
        } else {
            a_cancel_reaches_the_agent(&model, directory.path());
            model.close();
        }
    }
}

#[test]
fn a_lane_is_a_model_and_a_cancel_before_its_turn_sends_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let new_session = r#"read -r _; echo '{"jsonrpc":"2.0","id":3,"result":{"sessionId":"s2"}}'
        read -r line; printf '%s\n' "$line" > next"#;
    let options = script(&[HANDSHAKE, new_session]).cwd(directory.path());
    let model = load_acp(options).unwrap();
    let lane: Lane = model.lane().unwrap();
    let token = CancelToken::new();
    token.cancel();
    let request = GenerateRequest::user("hi");
    let error = lane.generate_cancellable(&request, &token).unwrap_err();
    assert_eq!(error.kind(), "cancelled");
    // What the agent reads next is the end of its input, or else the close of the session.
    drop(lane);
    model.close();
    let next = std::fs::read_to_string(directory.path().join("next")).unwrap();
    assert!(!next.contains("session/prompt"), "{next}");
}
