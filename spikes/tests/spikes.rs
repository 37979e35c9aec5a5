//! The spikes, on the fake server's own agents.

use std::io;
use std::process::{Command, Output, Stdio};

fn run(program: &str, args: &[&str]) -> io::Result<Output> {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
}

#[test]
fn what_is_claimed_of_the_fake_agents_holds() {
    for program in [
        env!("CARGO_BIN_EXE_chunk-filter"),
        env!("CARGO_BIN_EXE_permission-hang"),
        env!("CARGO_BIN_EXE_session-new-params"),
        env!("CARGO_BIN_EXE_stale-history"),
    ] {
        let output = run(program, &[]).unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(stdout.contains("\n- held: "), "{stdout}");
        assert!(!stdout.contains("FALSIFIED"), "{stdout}");
    }
}

/// What it claims is about times, which no test is.
#[test]
fn a_warm_session_is_measured() {
    let output = run(env!("CARGO_BIN_EXE_warm-session"), &["--samples", "1"]).unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    assert!(stdout.contains("| takes 300 ms to start | "), "{stdout}");
}

#[test]
fn a_claim_that_does_not_hold_fails_the_spike() {
    let program = env!("CARGO_BIN_EXE_permission-hang");
    // An agent that ends at once asks for nothing.
    let output = run(program, &["--", "true"]).unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // One that refuses every session.
    let refuses = "while read -r line; do case $line in *initialize*) echo \
                   '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1}}';; *) echo \
                   '{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32603,\"message\":\"no\"}}';; esac; done";
    let program = env!("CARGO_BIN_EXE_session-new-params");
    let output = run(program, &["--", "sh", "-c", refuses]).unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("- FALSIFIED: "));
}

#[test]
fn an_agent_that_is_not_installed_is_named() {
    let program = env!("CARGO_BIN_EXE_state-policies");
    let output = Command::new(program)
        .arg("gemini")
        .env("ACP_AGENTS_DIR", "/nowhere-at-all")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("cargo xtask agents --setup gemini"),
        "{stderr}"
    );
}
