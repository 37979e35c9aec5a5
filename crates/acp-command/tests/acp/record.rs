//! `acp record`: what it changes, which is nothing, and what it writes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use acp_fake_server::Fixture;
use acp_fake_server::distill::{Options, distill};
use acp_fake_server::recording::{Entry, Event, Recording, Side};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::{READY, Script, Test, acp, run, until};
use crate::terminal::Terminal;

pub(crate) const TESTS: &[Test] = &[
    ("record_ends_as_the_agent_does", ends_as_the_agent_does),
    ("record_is_the_agent_process", is_the_agent_process),
    ("record_passes_bytes_on", passes_bytes_on),
    ("record_stands_floods", stands_floods),
    (
        "record_tells_the_agent_of_a_reader_that_left",
        tells_the_agent,
    ),
    (
        "record_tells_the_client_of_a_reader_that_left",
        tells_the_client,
    ),
    ("record_loses_nothing_of_a_killed_agent", loses_nothing),
    ("record_adds_to_its_file", adds_to_its_file),
    (
        "record_tells_processes_apart_that_share_a_file",
        tells_processes_apart,
    ),
    ("record_starts_on_a_line_of_its_own", starts_on_a_fresh_line),
    ("record_cuts_long_lines_in_its_file_only", cuts_long_lines),
    ("record_works_at_a_terminal", works_at_a_terminal),
    (
        "record_outlives_signals_to_the_agents_group",
        outlives_signals,
    ),
    (
        "record_hides_secrets_of_the_command_line",
        hides_command_line_secrets,
    ),
    ("record_needs_a_regular_file", needs_a_regular_file),
    (
        "record_goes_on_when_its_file_is_full",
        goes_on_when_its_file_is_full,
    ),
    ("record_and_distill_make_a_transcript", makes_a_transcript),
    ("record_says_what_it_cannot_do", says_what_it_cannot_do),
];

/// An agent in `sh` that is recorded.
struct Recorded {
    dir: TempDir,
}

impl Recorded {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("recording.jsonl")
    }

    fn command(&self, script: &str) -> Command {
        let mut command = acp(&["record", "--out"]);
        command.arg(self.path()).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::piped());
        command
    }

    fn start(&self, script: &str) -> Child {
        self.command(script).spawn().unwrap()
    }

    /// The recording, when all three pipes of all processes have ended.
    #[track_caller]
    fn entries(&self, processes: usize) -> Vec<Entry> {
        let recording = until(|| {
            let recording = Recording::load(&self.path()).unwrap();
            let entries = recording.processes.iter().flatten();
            let ends = entries.filter(|entry| matches!(entry.event, Event::End(_)));
            (ends.count() == 3 * processes).then_some(recording)
        });
        assert_eq!(recording.processes.len(), processes);
        recording.processes.into_iter().flatten().collect()
    }

    /// What was written in lines by this side.
    #[track_caller]
    fn lines(&self, side: Side) -> Vec<Vec<u8>> {
        let entries = self.entries(1).into_iter();
        let lines = entries.filter_map(|entry| match entry.event {
            Event::Line { from, bytes } if from == side => Some(bytes),
            _ => None,
        });
        lines.collect()
    }
}

fn ends_as_the_agent_does() {
    let recorded = Recorded::new();
    let mut child = recorded.start("cat; exit 7");
    assert_eq!(child.try_wait().unwrap(), None);
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let recorded = Recorded::new();
    let mut child = recorded.start("kill -KILL $$");
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

fn is_the_agent_process() {
    let recorded = Recorded::new();
    // Its id and its group, and then it has no child.
    let script = "echo $$ $(ps -o pgid= -p $$); exec sleep 60";
    let mut command = recorded.command(script);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = child.stdout.take().unwrap();
    until(|| {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        line.push(byte[0].into());
        line.ends_with('\n').then_some(())
    });
    let id = child.id();
    assert_eq!(line, format!("{id} {id}\n"));
    let children = format!("/proc/{id}/task/{id}/children");
    assert_eq!(fs::read_to_string(children).unwrap(), "");
    let id = i32::try_from(id).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    recorded.entries(1);
}

fn passes_bytes_on() {
    let recorded = Recorded::new();
    let mut child = recorded.start("cat; echo 'a log' >&2");
    let sent = b"{}\r\n\xff\xfe\n\n\0x\nno end";
    child.stdin.take().unwrap().write_all(sent).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, sent);
    assert_eq!(output.stderr, b"a log\n");
    let want: [&[u8]; 5] = [b"{}\r", b"\xff\xfe\n", b"", b"\0x", b"no end"];
    assert_eq!(recorded.lines(Side::Client), want);
    assert_eq!(recorded.lines(Side::Agent), want);
    assert_eq!(recorded.lines(Side::Stderr), [b"a log"]);
}

fn stands_floods() {
    let recorded = Recorded::new();
    // The agent reads nothing before all of it is written, and the pipes are full in both directions.
    let mut child = recorded.start("head -c 4194304 /dev/zero; cat | wc -c >&2");
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(&vec![b'x'; 4 << 20]));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout.len(), 4 << 20);
    assert_eq!(output.stderr, b"4194304\n");
    writer.join().unwrap().unwrap();
}

fn tells_the_agent() {
    let recorded = Recorded::new();
    let long = "exec yes $(head -c 60000 /dev/zero | tr '\\0' y)";
    let mut child = recorded.start(long);
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(13), "SIGPIPE and not {status}");
    recorded.entries(1);
}

fn tells_the_client() {
    let recorded = Recorded::new();
    let mut child = recorded.start("exec <&-; echo closed; exec sleep 60");
    let mut closed = [0; 7];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut closed)
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let error = until(|| stdin.write_all(b"x\n").err());
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    child.kill().unwrap();
    child.wait().unwrap();
    recorded.entries(1);
}

fn loses_nothing() {
    let recorded = Recorded::new();
    let mut child = recorded.start("echo one; printf 'half a li'; kill -KILL $$");
    // Nobody has read a byte when the agent is gone.
    child.wait().unwrap();
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "one\nhalf a li");
    let want: [&[u8]; 2] = [b"one", b"half a li"];
    assert_eq!(recorded.lines(Side::Agent), want);
}

fn adds_to_its_file() {
    let recorded = Recorded::new();
    for count in 1..=2 {
        let mut child = recorded.start("echo hi");
        child.wait().unwrap();
        recorded.entries(count);
    }
}

fn tells_processes_apart() {
    let recorded = Recorded::new();
    let mut agents = ["one", "two"]
        .map(|name| recorded.start(&format!("while read x; do echo {name} $x; done")));
    for round in 0..20 {
        for agent in &mut agents {
            writeln!(agent.stdin.as_mut().unwrap(), "{round}").unwrap();
        }
    }
    for agent in &mut agents {
        drop(agent.stdin.take());
        agent.wait().unwrap();
    }
    recorded.entries(2);
    let recording = Recording::load(&recorded.path()).unwrap();
    let said = recording.processes.iter().map(|entries| {
        let lines = entries.iter().filter_map(|entry| match &entry.event {
            Event::Line {
                from: Side::Agent,
                bytes,
            } => Some(String::from_utf8(bytes.clone()).unwrap()),
            _ => None,
        });
        lines.collect::<Vec<_>>()
    });
    let mut said: Vec<_> = said.collect();
    said.sort();
    let want = |name: &str| {
        let lines = (0..20).map(|round| format!("{name} {round}"));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(said, [want("one"), want("two")]);
}

fn starts_on_a_fresh_line() {
    let recorded = Recorded::new();
    let whole = r#"{"t_ms":1,"dir":"a2c","line":"x"}"#;
    fs::write(recorded.path(), format!("{whole}\n{}", &whole[..20])).unwrap();
    recorded.start("echo hi").wait().unwrap();
    let entries = until(|| {
        let recording = Recording::load(&recorded.path()).unwrap();
        let entries = recording.processes.get(1).filter(|it| it.len() == 5);
        entries.cloned()
    });
    assert!(matches!(entries[0].event, Event::Start(_)));
    let text = fs::read_to_string(recorded.path()).unwrap();
    assert_eq!(text.lines().nth(1), Some(&whole[..20]));
}

fn cuts_long_lines() {
    let recorded = Recorded::new();
    let mut child = recorded.start("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo after");
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout.len(), 20_000_000 + 7);
    recorded.lines(Side::Agent);
    let text = fs::read_to_string(recorded.path()).unwrap();
    let long = text.lines().find(|line| line.contains("\"cut\"")).unwrap();
    let long: serde_json::Value = serde_json::from_str(long).unwrap();
    let kept = long["line"].as_str().unwrap().len() as u64;
    assert_eq!(kept + long["cut"].as_u64().unwrap(), 20_000_000);
    assert!(text.len() < 2 << 20, "{}", text.len());
    assert!(text.contains("\"line\":\"after\""));
}

fn works_at_a_terminal() {
    let recorded = Recorded::new();
    let script = "while read x; do echo \"got $x\"; done; echo 'at the end'; read y";
    let agent = recorded.command(script);
    // A session of its own, in which the agent has the foreground of the terminal.
    // Whoever runs the tests in the background may have them ignore SIGINT, which is inherited.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT", "setsid", "--ctty", "--wait"])
        .arg(agent.get_program())
        .args(agent.get_args());
    let mut terminal = Terminal::start(command);
    for word in ["one", "two"] {
        terminal.type_in(&format!("{word}\n"));
        terminal.wait_for(&format!("got {word}"));
    }
    // Ctrl-C is for the agent, and the recorder writes down what it said before.
    terminal.type_in("\x03");
    let (code, _) = terminal.end();
    assert_eq!(code, None, "a signal ends it");
    assert_eq!(recorded.lines(Side::Client), [b"one", b"two"]);
    assert_eq!(recorded.lines(Side::Agent), [b"got one", b"got two"]);
}

fn outlives_signals() {
    let recorded = Recorded::new();
    let mut command = recorded.command("echo ready; exec sleep 60");
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().unwrap();
    let mut ready = [0; 6];
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut ready).unwrap();
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::killpg(group, Signal::SIGKILL).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(recorded.lines(Side::Agent), [b"ready"]);
}

fn hides_command_line_secrets() {
    let recorded = Recorded::new();
    let mut command = acp(&["record", "--out"]);
    command
        .arg(recorded.path())
        .args(["--", "sh", "-c", "echo $0 $*"]);
    let words = [
        "--api-key",
        "hunter2",
        "--url",
        "https://me:pw1@example.com/",
    ];
    let ended = run(command.args(words));
    ended.expect(0, "--api-key hunter2 --url https://me:pw1@example.com/\n");
    recorded.entries(1);
    let text = fs::read_to_string(recorded.path()).unwrap();
    let start: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let want = [
        "--api-key",
        "[masked]",
        "--url",
        "https://[masked]@example.com/",
    ];
    assert_eq!(start["start"]["command"].as_array().unwrap()[3..], want);
}

fn needs_a_regular_file() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let file = dir.path().join("file");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    for (out, why) in [
        (pipe.to_str().unwrap(), "a pipe"),
        (link.to_str().unwrap(), "a pipe"),
        ("/dev/stdout", "a pipe"),
        ("/dev/null", "a device"),
        (dir.path().to_str().unwrap(), "a directory"),
    ] {
        let mut command = acp(&["record", "--out", out, "--", "echo", "started"]);
        run(&mut command).expect(2, "").tells(&[out, why]);
    }
    // Where standard output is a file, the recording would be within what the agent says.
    let mut command = acp(&["record", "--out", "/dev/stdout", "--", "echo", "started"]);
    let mut child = command
        .stdout(fs::File::create(&file).unwrap())
        .spawn()
        .unwrap();
    let mut told = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(
        told.contains("own standard input, output or error"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
}

fn goes_on_when_its_file_is_full() {
    let recorded = Recorded::new();
    // It is told as long as the agent's standard error goes on, here until the rest has come and gone.
    let agent = recorded
        .command("head -c 20000 /dev/zero | tr '\\0' '\\n'; echo done; exec >&-; cat >/dev/null");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""])
        .arg(agent.get_program())
        .args(agent.get_args())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = Vec::new();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_to_end(&mut stdout).unwrap();
    assert_eq!(stdout.len(), 20_000 + 5);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(told.starts_with("acp record: "), "{told}");
    assert!(told.contains("has a gap: "), "{told}");
    // What is in the file is there to the end of a line.
    let text = fs::read_to_string(recorded.path()).unwrap();
    assert!(text.len() <= 8 << 10);
    let recording = Recording::load(&recorded.path()).unwrap();
    assert_eq!(recording.processes.len(), 1);
    assert_eq!(recording.gaps.len(), 1, "{:?}", recording.gaps);
}

fn makes_a_transcript() {
    let recorded = Recorded::new();
    let script = Script::new(&[
        READY,
        r#"{"want":"session/prompt","params":{"sessionId":"s1"},"as":"p"}"#,
        r#"{"say":["Hel","lo"]}"#,
        r#"{"reply":"p","result":{"stopReason":"end_turn"}}"#,
        r#"{"want_eof":true}"#,
    ]);
    let recorder = env!("CARGO_BIN_EXE_acp");
    let path = recorded.path();
    let agent = format!(
        "'{recorder}' record --out '{}' -- {}",
        path.display(),
        script.agent()
    );
    run(acp(&["ask", "--agent", &agent, "hi"]).env("HOME", "/home/somebody")).expect(0, "Hello\n");
    recorded.entries(1);
    let options = Options {
        id: "recorded/scripted".to_owned(),
        ..Options::default()
    };
    let recording = Recording::load(&path).unwrap();
    let distilled = distill(&recording, &options).unwrap();
    assert_eq!(distilled.notes, []);
    let fixture = Fixture::parse(
        "recorded/scripted.jsonl".as_ref(),
        &distilled.text,
        &mut |_| None,
    );
    assert_eq!(fixture.unwrap().source, "recorded scripted 2.1");
    let says = r#"{"say":["Hel","lo"]}"#;
    assert!(distilled.text.contains(says), "{}", distilled.text);
}

fn says_what_it_cannot_do() {
    let recorded = Recorded::new();
    let path = recorded.path();
    let path = path.to_str().unwrap();
    let missing = run(&mut acp(&["record", "--out", path, "--", "no-such-agent"]));
    missing
        .expect(3, "")
        .tells(&["failed to start `no-such-agent`"]);
    let nowhere = run(&mut acp(&["record", "--out", "/no/such/dir/r", "--", "sh"]));
    nowhere
        .expect(2, "")
        .tells(&["/no/such/dir/r cannot be written"]);
    run(&mut acp(&["record", "sh"])).tells(&["--"]);
    assert_eq!(run(&mut acp(&["record"])).code, Some(2));
}
