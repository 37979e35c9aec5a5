//! What a host that is at its limits can still do.

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a limit is that of a whole process, so the test starts one"
)]

mod scripts;

use std::env;
use std::fs::File;
use std::iter;
use std::process::{Command, Stdio};

use acp_core::{GenerateRequest, load_acp};
use scripts::{ANSWER_ALL, HANDSHAKE, script};

const LIMITED: &str = "ACP_CORE_LIMITED";

#[test]
fn what_the_pipe_does_not_take_needs_no_file_descriptor() {
    if env::var_os(LIMITED).is_none() {
        let limited = Command::new("sh")
            .args(["-c", r#"ulimit -n 64; exec "$0" "$@""#])
            .arg(env::current_exe().unwrap())
            .args([
                "--exact",
                "what_the_pipe_does_not_take_needs_no_file_descriptor",
            ])
            .env(LIMITED, "1")
            .stdout(Stdio::null())
            .status();
        assert!(limited.unwrap().success());
        return;
    }
    let model = load_acp(script(&[HANDSHAKE, ANSWER_ALL])).unwrap();
    let taken: Vec<File> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!((1..64).contains(&taken.len()), "{}", taken.len());
    let long = GenerateRequest::user("x".repeat(200_000));
    assert_eq!(model.generate(&long).unwrap().content, "ok");
    drop(taken);
}
