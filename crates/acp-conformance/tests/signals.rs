//! A signal ends the command, and everything that it has started.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_acp-conformance");

/// Longest wait; on time nothing depends but how long a failure takes.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts its agent in a session of its own, and ends neither by itself nor by SIGTERM.
const DRIVER: &str = r#"
trap '' TERM INT HUP
# Under a path of its own, also for the process that it starts.
cp "$2" "$1/agent"
while read -r line; do
    case $line in
        *'"op":"hello"'*) echo '{"seq":1,"ok":{"protocol":1,"port":{"name":"sh","language":"sh","version":"0"},"capabilities":[]}}' ;;
        *)
            control=${line#*'"ACP_FAKE_CONTROL":"'}
            ACP_FAKE_CONTROL=${control%%'"'*} setsid "$1/agent" relay &
            ;;
    esac
done
while :; do sleep 1; done
"#;

/// The agent has a process of its own that ignores SIGTERM, and waits.
const TRANSCRIPT: &str = r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":["T-1"]}
{"call":"load"}
{"linger":"eof"}
{"grandchild":true}
{"want_eof":true}
{"returns":"load","ok":{}}
"#;

#[test]
fn a_signal_ends_drivers_and_their_agents() {
    for (signal, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        let setup = Setup::new("command = ['sh', 'ROOT/driver.sh', 'ROOT', 'PROGRAM']");
        fs::write(setup.root.join("driver.sh"), DRIVER).unwrap();
        let mut harness = setup.start();
        // The driver, the agent and the agent's own process.
        until("the three processes", || setup.running().len() == 3);
        expect_end(&mut harness, signal, code);
        until("the end of all", || setup.running().is_empty());
    }
}

#[test]
fn a_signal_ends_a_build() {
    let setup = Setup::new("command = ['sh']\nbuild = ['sh', 'ROOT/build.sh']");
    let build = "trap '' TERM\nwhile :; do sleep 1; done\n";
    fs::write(setup.root.join("build.sh"), build).unwrap();
    let mut harness = setup.start();
    until("the build", || setup.running().len() == 1);
    expect_end(&mut harness, Signal::SIGTERM, 143);
    until("its end", || setup.running().is_empty());
}

#[test]
fn a_signal_ends_an_agent_under_check_and_removes_its_directory() {
    let setup = Setup::new("command = ['sh']");
    let agent = setup.root.join("agent.sh");
    fs::write(&agent, "trap '' TERM\nwhile :; do sleep 1; done\n").unwrap();
    let temporary = setup.root.join("tmp");
    fs::create_dir(&temporary).unwrap();
    let left = || fs::read_dir(&temporary).unwrap().count();
    let mut harness = Command::new(PROGRAM)
        .args(["agent", "--", "sh"])
        .arg(&agent)
        .env("TMPDIR", &temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The agent, and the command that names it.
    until("both", || setup.running().len() == 2 && left() == 1);
    expect_end(&mut harness, Signal::SIGINT, 130);
    until("the end of both", || setup.running().is_empty());
    assert_eq!(left(), 0);
}

/// A directory with a transcript and a port. What is started from it has its path in the arguments.
struct Setup {
    root: PathBuf,
    _dir: TempDir,
}

impl Setup {
    /// A port with these lines in its `port.toml`.
    fn new(lines: &str) -> Setup {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("fixtures/a")).unwrap();
        fs::write(root.join("fixtures/a/b.jsonl"), TRANSCRIPT).unwrap();
        let text = format!("name = 'sh'\nlanguage = 'sh'\ntier = 'client'\n{lines}\n");
        let text = text
            .replace("ROOT", root.to_str().unwrap())
            .replace("PROGRAM", PROGRAM);
        fs::write(root.join("port.toml"), text).unwrap();
        Setup { root, _dir: dir }
    }

    fn start(&self) -> Child {
        Command::new(PROGRAM)
            // Its transcripts have no preludes, by which the directory would be known.
            .args(["--port", ".", "--fixtures", "fixtures"])
            .current_dir(&self.root)
            // Longer than the test waits for anything.
            .env("ACP_TIME_SCALE", "10")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// The processes that were started from here and have not ended.
    fn running(&self) -> Vec<Pid> {
        let root = self.root.to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| {
            // One that waits to be reaped has no arguments.
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let ours = String::from_utf8_lossy(&line).contains(root);
            ours.then(|| Pid::from_raw(pid))
        });
        pids.collect()
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // There are none, unless the test has failed.
        for pid in self.running() {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

/// Sends the signal, and waits for the end.
#[track_caller]
fn expect_end(harness: &mut Child, signal: Signal, code: i32) {
    let pid = Pid::from_raw(i32::try_from(harness.id()).unwrap());
    kill(pid, signal).unwrap();
    let mut status = None;
    until("the end of the harness", || {
        status = harness.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(code), "{signal}");
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
