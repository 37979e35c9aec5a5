//! Agents written in `sh`, for what no well-behaved program does.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test binary uses its own part"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use acp_core::LoadOptions;

/// Answers the handshake: `initialize` is request 1, `session/new` request 2.
pub const HANDSHAKE: &str = r#"
read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r _; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
"#;

/// Answers every further line as a prompt, the first with id 3, by the text `ok`.
pub const ANSWER_ALL: &str = r#"
id=3
while read -r line; do
  echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ok"}}}}'
  echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}'
  id=$((id+1))
done
"#;

/// Answers like [`ANSWER_ALL`]. After each answer it waits for the file `on`, says something late, and then makes the
/// file `said`.
pub const ANSWER_LATE: &str = r#"
text() { echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$1'"}}}}'; }
id=3
while read -r _; do
  text ok; echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}'
  until [ -e on ]; do sleep 0.01; done
  rm on; text late; : > said; id=$((id+1))
done
"#;

/// Has [`ANSWER_LATE`] say something late, in its working directory, and returns when it has. No thread is given up
/// meanwhile.
#[expect(
    clippy::disallowed_methods,
    reason = "another process is waited for, which gives no event"
)]
pub fn say_late(directory: &Path) {
    std::fs::write(directory.join("on"), "").expect("the directory is ours");
    let end = Instant::now() + Duration::from_secs(10);
    while std::fs::remove_file(directory.join("said")).is_err() {
        assert!(Instant::now() < end, "nothing late came");
    }
}

/// Options for a script, with short waits at its end.
pub fn script(parts: &[&str]) -> LoadOptions {
    LoadOptions::new(["sh", "-c", &parts.concat()])
        .eof_grace(Duration::from_millis(500))
        .term_grace(Duration::from_millis(500))
}

/// Whether a process runs: it exists and is no zombie.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match stat.rsplit_once(") ") {
        Some((_, fields)) => !fields.starts_with('Z'),
        None => false,
    }
}

/// The processes that run with this text in their environment, and are not this one.
pub fn running_with(text: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains(text)
    };
    let Ok(entries) = std::fs::read_dir("/proc") else {
        panic!("there is no /proc to look at");
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| pid != std::process::id() && has(&pid) && is_running(pid))
        .collect()
}

/// The process id that a script writes to a file, once it has.
pub fn pid_in(file: &Path) -> u32 {
    wait_for("a process id", || {
        let text = std::fs::read_to_string(file).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    })
}

/// Waits for something that another process does.
#[expect(
    clippy::disallowed_methods,
    reason = "another process is waited for, which gives no event"
)]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
