//! The command as a child process, and agents for it.

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use acp_fake_server::Fixture;
use acp_fake_server::agents::{Builtin, serve};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// The first argument of this program when it is to be an agent; the second names the transcript.
pub(crate) const ROLE: &str = "be-the-agent";

/// The first argument when it is to be an agent that needs no transcript; the second is its name.
pub(crate) const BUILTIN: &str = "be-the-builtin";

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// The handshake of an agent that wants nothing special.
pub(crate) const READY: &str = r#"
{"want":"initialize","params":{"protocolVersion":1},"as":"init"}
{"reply":"init","result":{"protocolVersion":1,"agentInfo":{"name":"scripted","version":"2.1"}}}
{"want":"session/new","params":{"cwd":"$abspath","mcpServers":[]},"as":"new"}
{"reply":"new","result":{"sessionId":"s1"}}
"#;

/// Longest life of the command in a test; on time nothing depends but how long a failure takes.
const LIMIT: Duration = Duration::from_secs(30);

/// Plays a transcript as the agent.
pub(crate) fn play(transcript: &Path) -> ExitCode {
    let text = fs::read_to_string(transcript).unwrap();
    let fixture = Fixture::parse(transcript, &text, &mut |_| None).unwrap();
    match acp_fake_server::play::run(&fixture).unwrap() {
        Ok(()) => ExitCode::SUCCESS,
        Err(mismatch) => {
            eprintln!("{mismatch}");
            ExitCode::FAILURE
        }
    }
}

/// Is an agent that needs no transcript.
pub(crate) fn be(name: &str) -> ExitCode {
    let agent = Builtin::ALL.into_iter().find(|agent| agent.name() == name);
    serve(agent.unwrap(), io::stdin().lock(), io::stdout().lock()).unwrap();
    ExitCode::SUCCESS
}

/// The command line of an agent that needs no transcript.
pub(crate) fn builtin(agent: Builtin) -> String {
    let this = std::env::current_exe().unwrap();
    format!("'{}' {BUILTIN} {}", this.display(), agent.name())
}

/// An agent that plays these steps.
pub(crate) struct Script {
    dir: TempDir,
}

impl Script {
    pub(crate) fn new(parts: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut text = concat!(
            r#"{"fixture":"acp/test","format":1,"title":"t","level":"must","covers":["T-1"]}"#,
            "\n"
        )
        .to_owned();
        for line in parts.iter().flat_map(|part| part.lines()) {
            if !line.is_empty() {
                text.push_str(line);
                text.push('\n');
            }
        }
        fs::write(dir.path().join("test.jsonl"), text).unwrap();
        Self { dir }
    }

    /// An agent that starts as usual and then plays these steps, with `prompt` as the first prompt.
    pub(crate) fn ready(steps: &str) -> Self {
        let prompt = r#"{"want":"session/prompt","params":{"sessionId":"s1"},"as":"prompt"}"#;
        Self::new(&[READY, prompt, steps])
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("test.jsonl")
    }

    /// The agent's command line.
    pub(crate) fn agent(&self) -> String {
        let this = std::env::current_exe().unwrap();
        format!("'{}' {ROLE} '{}'", this.display(), self.path().display())
    }

    /// Whether a process plays it.
    pub(crate) fn is_running(&self) -> bool {
        is_running(&self.path().to_string_lossy())
    }
}

/// Whether a process has `text` in its arguments; one that waits to be reaped has none.
pub(crate) fn is_running(text: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(text))
}

/// How the command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The one JSON object on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect(&self, code: i32, stdout: &str) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, stdout, "{self:?}");
        self
    }

    /// Standard error has each of these.
    #[track_caller]
    pub(crate) fn tells(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} in {self:?}");
        }
        self
    }
}

/// The command with these arguments, and no agent.
pub(crate) fn acp(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acp"));
    command
        .args(args)
        .env_remove("ACP_AGENT")
        .env_remove("ACP_AGENTS")
        // Nobody's own agents are known here.
        .env("XDG_CONFIG_HOME", "/no/such/place")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The command with these arguments, and this agent.
pub(crate) fn acp_with(script: &Script, args: &[&str]) -> Command {
    let mut command = acp(args);
    command.env("ACP_AGENT", script.agent());
    command
}

/// Runs the command to its end, with nothing to read.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Ended {
    Running::start(command).end()
}

/// Runs the command to its end, with this on standard input.
#[track_caller]
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Ended {
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let mut stdin = running.child.stdin.take().unwrap();
    // A command that does not read all of it closes the pipe.
    match stdin.write_all(input) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => drop(stdin),
    }
    running.end()
}

/// The command while it runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            stdout: Stream::new(child.stdout.take()),
            stderr: Stream::new(child.stderr.take()),
            child,
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(id), signal).unwrap();
    }

    /// Waits for the end; what was waited for before is not in the outcome.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        Ended {
            stdout: self.stdout.rest(),
            stderr: self.stderr.rest(),
            code: until(|| self.child.try_wait().unwrap()).code(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes out of a pipe or a terminal, read by a thread of its own so that no wait is for ever.
pub(crate) struct Stream {
    bytes: Receiver<u8>,
}

impl Stream {
    pub(crate) fn new(source: Option<impl Read + Send + 'static>) -> Self {
        let (sender, bytes) = mpsc::channel();
        thread::spawn(move || {
            // Linux reports the end of a terminal as an error.
            let bytes = source
                .into_iter()
                .flat_map(Read::bytes)
                .map_while(Result::ok);
            for byte in bytes {
                if sender.send(byte).is_err() {
                    break;
                }
            }
        });
        Self { bytes }
    }

    /// Waits until this has come, after all that was waited for before. Returns what came with it.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let mut seen = Vec::new();
        while !seen.ends_with(text.as_bytes()) {
            match self.bytes.recv_timeout(LIMIT) {
                Ok(byte) => seen.push(byte),
                Err(error) => panic!("{error}: no {text:?} in {:?}", decode(seen)),
            }
        }
        decode(seen)
    }

    /// Waits for the end. Returns what came before it.
    #[track_caller]
    pub(crate) fn rest(&self) -> String {
        let mut seen = Vec::new();
        loop {
            match self.bytes.recv_timeout(LIMIT) {
                Ok(byte) => seen.push(byte),
                Err(RecvTimeoutError::Disconnected) => return decode(seen),
                Err(RecvTimeoutError::Timeout) => panic!("no end of {:?}", decode(seen)),
            }
        }
    }
}

fn decode(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "nothing within {LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
