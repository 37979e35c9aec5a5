//! A host that takes its time over one permission, and what goes on meanwhile.

#![cfg(target_os = "linux")]

mod scripts;

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use acp_core::{GenerateRequest, PermissionDecision, load_acp};
use scripts::{HANDSHAKE, script};

/// Asks for two permissions, `slow` under the id 0 and `quick` under the id 1, and ends the turn with the
/// first answer that comes.
const ASK_TWICE: &str = r#"
ask() {
  echo '{"jsonrpc":"2.0","id":'$1',"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"'$2'"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"},{"optionId":"n","name":"N","kind":"reject_once"}]}}'
}
read -r _; ask 0 slow; ask 1 quick
read -r answer
case "$answer" in *'"id":1,'*'"optionId":"y"'*) text=quick;; *) text=slow;; esac
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$text'"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r _
"#;

/// No transcript can show it, as nothing says in which order a host's functions come to run.
#[test]
fn a_permission_is_answered_while_the_host_thinks_about_another() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let options = script(&[HANDSHAKE, ASK_TWICE])
        .deadline(Duration::from_secs(10))
        .permission_timeout(None)
        .ask_permission(move |request| {
            if request.tool_call["toolCallId"] == "slow" {
                // It ends with the test, whatever has become of it.
                let _ = released.lock().unwrap().recv();
            }
            PermissionDecision::Select("y".into())
        });
    let model = load_acp(options).unwrap();
    let answer = model.generate(&GenerateRequest::user("hi")).unwrap();
    assert_eq!(answer.content, "quick");
    drop(release);
    model.close();
}
