//! That a step can fail: small agents in `sh`, each wrong in one way.

use std::path::Path;

use acp_core::PROTOCOL_VERSION;

use super::*;
use drive::{Cell, Step};
use pins::{Install, Pin};

/// Says `$1` and what it is asked. A turn that goes slow ends with its cancel, and with the stop reason `$2`; without
/// one it never ends.
const AGENT: &str = r#"
session=0
say() { printf '%s\n' "$1"; }
while read -r line; do
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
    *'"initialize"'*) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":VERSION}}" ;;
    *'"session/new"'*)
        session=$((session + 1))
        say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"$session\"}}" ;;
    *'"session/cancel"'*) [ -z "$2" ] || say "{\"jsonrpc\":\"2.0\",\"id\":$waits,\"result\":{\"stopReason\":\"$2\"}}" ;;
    *'"session/prompt"'*)
        text=${line##*'"text":"'}
        text=${text%%'"'*}
        in=${line#*'"sessionId":"'}
        in=${in%%'"'*}
        say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"$in\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1$text\"}}}}"
        case $line in
        *'go slow'*) waits=$id ;;
        *) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
        esac ;;
    esac
done
"#;

/// What came of [`AGENT`] with these words, which is pinned with `answers` and `lacks`.
fn drive(says: &str, ends: &str, answers: &str, lacks: &str) -> Row {
    let script = AGENT.replace("VERSION", &PROTOCOL_VERSION.to_string());
    drive_command(&["sh", "-c", &script, "agent", says, ends], answers, lacks)
}

fn drive_command(command: &[&str], answers: &str, lacks: &str) -> Row {
    let pin = format!("agent = 'a'\ncommand = []\nanswers = '{answers}'\nlacks = {{ {lacks} }}\n");
    let mut pin: Pin = toml::from_str(&pin).unwrap();
    pin.command = command.iter().map(|&word| word.to_owned()).collect();
    let agent = Agent {
        name: "a".into(),
        pin,
        install: Install {
            name: "a".into(),
            npm: Vec::new(),
            npm_scripts: false,
            setup: Vec::new(),
        },
    };
    let dir = tempfile::tempdir().unwrap();
    drive_all(&Store::new(dir.path(), Path::new("/")), &agent)
}

/// The steps that failed, with why.
fn failures(row: &Row) -> Vec<(Step, String)> {
    let failed = |step| match row.cell(step) {
        Cell::Failed(why) => Some((step, why)),
        Cell::NotReached => Some((step, "not reached".into())),
        Cell::Took(_) | Cell::Lacks(_) => None,
    };
    Step::ALL.into_iter().filter_map(failed).collect()
}

const NO_TOOL: &str = "tool = 'it has none'";

#[test]
fn a_good_agent_passes() {
    let row = drive("", "cancelled", "echo", NO_TOOL);
    assert_eq!(failures(&row), []);
    assert!(!row.has_failed());
}

#[test]
fn a_wrong_answer_fails() {
    let row = drive("", "cancelled", "model", NO_TOOL);
    let failed = failures(&row);
    assert!(
        failed[0]
            .1
            .starts_with("asked `Is anybody there?`, it answered "),
        "{failed:?}"
    );
    let steps: Vec<_> = failed.into_iter().map(|(step, _)| step).collect();
    let want = [
        Step::Ask,
        Step::Warm,
        Step::Cancel,
        Step::Full,
        Step::Fresh,
        Step::Delta,
        Step::Tools,
    ];
    assert_eq!(steps, want);
}

#[test]
fn an_answer_that_is_not_the_models_fails() {
    let row = drive("MOCK: ", "cancelled", "model", NO_TOOL);
    let failed = failures(&row);
    let steps: Vec<_> = failed.iter().map(|(step, _)| *step).collect();
    assert_eq!(
        steps,
        [Step::Full, Step::Fresh, Step::Delta, Step::Tools],
        "{failed:?}"
    );
    let want =
        "in the third turn the model is sent `user: Which colour is first?` 0 times, and not 3";
    assert_eq!(failed[0].1, want);
}

#[test]
fn a_permission_that_is_not_asked_for_fails() {
    let failed = failures(&drive("", "cancelled", "echo", ""));
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].0, Step::Tool);
    assert!(
        failed[0].1.starts_with("it asked for no permission"),
        "{failed:?}"
    );
}

#[test]
fn a_cancel_that_is_ignored_fails() {
    let failed = failures(&drive("", "", "echo", NO_TOOL));
    let why = "it did not end the turn, so its session was given up";
    assert_eq!(failed, [(Step::Cancel, why.to_owned())]);
}

#[test]
fn an_agent_that_does_not_start_fails_everything() {
    let row = drive_command(&["sh", "-c", "echo no licence >&2; exit 3"], "fixed", "");
    let failed = failures(&row);
    // Without a model there are no tools to call.
    assert_eq!(failed.len(), Step::ALL.len() - 1);
    assert!(failed[0].1.contains("no licence"), "{failed:?}");
    assert_eq!(failed[1].1, "not reached");
    assert!(row.has_failed());
}

#[test]
fn the_environment_is_not_ours() {
    let script =
        "[ \"$HOME\" = \"${HOME%/home}/home\" ] && [ -z \"$CARGO_MANIFEST_DIR\" ] || exit 44";
    let row = drive_command(&["sh", "-c", &format!("{script}; exit 55")], "fixed", "");
    assert!(failures(&row)[0].1.contains("55"), "{row:?}");
}

#[test]
fn the_mock_model_heeds_our_own_marker() {
    assert_eq!(
        acp_mock_model::MARKER,
        format!("{}: ", acp_core::SUPERSEDES_MARKER)
    );
}
