//! The relay over real pipes, with a client's end and a harness's end.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command as Program, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use acp_fake_server::control::{CONTROL_ENV, Command, Linger, RelayConn, RelayEvent, Signal};
use nix::sys::signal::{self, Signal as Posix};
use nix::unistd::Pid;

/// Far more than anything here takes; a test that waits for it fails.
const LIMIT: Duration = Duration::from_secs(10);

struct Relay {
    child: Child,
    conn: Option<RelayConn>,
    events: Receiver<RelayEvent>,
    stdout: BufReader<ChildStdout>,
}

impl Relay {
    fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut child = Program::new(env!("CARGO_BIN_EXE_acp-fake-server"))
            .arg("relay")
            .env(CONTROL_ENV, listener.local_addr().unwrap().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let (tell, events) = channel();
        let conn = RelayConn::open(listener.accept().unwrap().0, move |event| {
            drop(tell.send(event))
        })
        .unwrap();
        assert_eq!(conn.pid(), child.id());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Relay {
            child,
            conn: Some(conn),
            events,
            stdout,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn close(&mut self) {
        drop(self.child.stdin.take());
    }

    fn send(&self, command: Command) {
        self.conn.as_ref().unwrap().send(&command).unwrap();
    }

    #[track_caller]
    fn event(&self) -> RelayEvent {
        self.events.recv_timeout(LIMIT).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// The exit status. Unlike that of `Child`, this does not close the input first.
    fn wait(&mut self) -> ExitStatus {
        let stdin = self.child.stdin.take();
        let status = self.child.wait().unwrap();
        self.child.stdin = stdin;
        status
    }

    fn signal(&self, signal: Posix) {
        signal::kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            signal,
        )
        .unwrap();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        // Nothing is left of it in most tests.
        let _ = signal::killpg(group, Posix::SIGKILL);
        let _ = self.child.wait();
    }
}

fn line(text: &str) -> RelayEvent {
    RelayEvent::Line(text.into())
}

#[test]
fn it_reports_lines_and_the_end_and_waits_to_be_told() {
    let mut relay = Relay::start();
    relay.write(b"one\ntw");
    assert_eq!(relay.event(), line("one"));
    relay.write(b"o\nrest");
    assert_eq!(relay.event(), line("two"));
    relay.close();
    assert_eq!(relay.event(), line("rest"));
    assert_eq!(relay.event(), RelayEvent::Eof);

    relay.send(Command::Stdout(b"still here\n".to_vec()));
    assert_eq!(relay.line(), "still here\n");
    relay.send(Command::Exit(5));
    assert_eq!(relay.wait().code(), Some(5));
    assert_eq!(relay.event(), RelayEvent::Gone);
}

#[test]
fn it_writes_bytes_as_they_are() {
    let mut relay = Relay::start();
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    relay.send(Command::Stdout(bytes.clone()));
    relay.send(Command::Stderr(b"log".to_vec()));
    relay.send(Command::Exit(0));
    let mut got = Vec::new();
    relay.stdout.read_to_end(&mut got).unwrap();
    assert!(got == bytes, "1 MiB arrived whole");
    let mut log = String::new();
    relay
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert_eq!(log, "log");
}

#[test]
fn it_takes_in_a_long_line() {
    let mut relay = Relay::start();
    let text = "x".repeat(1 << 20);
    relay.write(format!("{text}\n").as_bytes());
    assert_eq!(relay.event(), RelayEvent::Line(text.into_bytes()));
}

#[test]
fn it_ends_by_a_signal() {
    for (signal, number) in [(Signal::Kill, 9), (Signal::Term, 15), (Signal::Segv, 11)] {
        let mut relay = Relay::start();
        relay.send(Command::Signal(signal));
        assert_eq!(relay.wait().signal(), Some(number));
        assert_eq!(relay.event(), RelayEvent::Gone);
    }
}

#[test]
fn it_closes_its_output_and_lives_on() {
    let mut relay = Relay::start();
    relay.send(Command::CloseStdout);
    assert_eq!(relay.line(), "", "the output has ended");
    relay.write(b"heard\n");
    assert_eq!(relay.event(), line("heard"));
}

#[test]
fn it_leaves_its_input_unread_and_goes_on() {
    let mut relay = Relay::start();
    relay.write(b"before\n");
    assert_eq!(relay.event(), line("before"));
    relay.send(Command::StopReading(true));
    relay.write(b"after\n");
    // The answer to another command is a proof that nothing was read until then.
    relay.send(Command::Linger(Linger::Eof));
    assert!(relay.events.try_recv().is_err());
    relay.send(Command::StopReading(false));
    assert_eq!(relay.event(), line("after"));
    relay.close();
    assert_eq!(relay.event(), RelayEvent::Eof);
    relay.send(Command::StopReading(true));
}

#[test]
fn it_dies_of_sigterm_unless_told_to_ignore_it() {
    let mut relay = Relay::start();
    relay.signal(Posix::SIGTERM);
    assert_eq!(relay.wait().signal(), Some(15));

    let mut relay = Relay::start();
    relay.send(Command::Linger(Linger::Term));
    relay.signal(Posix::SIGTERM);
    relay.write(b"alive\n");
    assert_eq!(relay.event(), line("alive"));
    relay.signal(Posix::SIGKILL);
    assert_eq!(relay.wait().signal(), Some(9));
    assert_eq!(relay.event(), RelayEvent::Gone);
}

#[test]
fn its_grandchild_holds_no_pipe_and_ignores_sigterm() {
    let mut relay = Relay::start();
    relay.send(Command::Grandchild);
    let RelayEvent::Grandchild { pid } = relay.event() else {
        panic!("no grandchild")
    };
    let grandchild = Pid::from_raw(i32::try_from(pid).unwrap());
    let group = Pid::from_raw(i32::try_from(relay.child.id()).unwrap());
    assert_eq!(nix::unistd::getpgid(Some(grandchild)), Ok(group));

    signal::killpg(group, Posix::SIGTERM).unwrap();
    assert_eq!(relay.wait().signal(), Some(15));
    assert_eq!(relay.line(), "", "nobody holds the output");
    assert_eq!(signal::kill(grandchild, None), Ok(()), "it is still there");
    signal::killpg(group, Posix::SIGKILL).unwrap();
}

#[test]
fn it_ends_with_its_harness() {
    let mut relay = Relay::start();
    relay.conn = None;
    assert_eq!(relay.wait().code(), Some(1));
    assert_eq!(relay.event(), RelayEvent::Gone);
}

#[test]
fn what_is_no_relay_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(other);
    assert!(RelayConn::open(listener.accept().unwrap().0, |_| {}).is_err());
}

#[test]
fn without_a_harness_it_exits_2_and_says_why() {
    let output = Program::new(env!("CARGO_BIN_EXE_acp-fake-server"))
        .arg("relay")
        .env_remove(CONTROL_ENV)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(CONTROL_ENV));
}
