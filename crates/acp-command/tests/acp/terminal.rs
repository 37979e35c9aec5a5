//! What a person at a terminal sees.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::Signal;

use crate::support::{Running, Script, Stream, Test, acp_with};

pub(crate) const TESTS: &[Test] = &[
    (
        "terminal::spinner_and_harmless_text",
        spinner_and_harmless_text,
    ),
    ("terminal::no_colour", no_colour),
    (
        "terminal::what_the_agent_does_has_its_own_lines",
        what_the_agent_does_has_its_own_lines,
    ),
    (
        "terminal::ctrl_c_ends_the_turn_not_the_chat",
        ctrl_c_ends_the_turn_not_the_chat,
    ),
];

/// The command at a terminal of its own.
pub(crate) struct Terminal {
    running: Running,
    keyboard: PtyMaster,
    screen: Stream,
    seen: String,
}

impl Terminal {
    pub(crate) fn start(mut command: Command) -> Self {
        // Neither end may get into the processes of other tests.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let keyboard = posix_openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let end = File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlag::O_NOCTTY.bits())
            .open(ptsname_r(&keyboard).unwrap())
            .unwrap();
        command
            .env("TERM", "xterm")
            .stdin(end.try_clone().unwrap())
            .stdout(end.try_clone().unwrap())
            .stderr(end);
        let screen = File::from(keyboard.as_fd().try_clone_to_owned().unwrap());
        // `command` is dropped at the end of this, so that only the child holds the terminal.
        Self {
            running: Running::start(&mut command),
            screen: Stream::new(Some(screen)),
            keyboard,
            seen: String::new(),
        }
    }

    /// Waits until this has been shown, after all that was waited for before.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.seen.push_str(&self.screen.wait_for(text));
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The exit code, and all that was shown.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.seen.push_str(&self.screen.rest());
        (self.running.end().code, self.seen)
    }
}

fn spinner_and_harmless_text() {
    let script = Script::ready(
        r#"
{"say":["\u001b[2","Jred"]}
{"stderr":"\u001b[31mwarning\u001b[0m\n"}
{"exit":7}
"#,
    );
    let (code, shown) = Terminal::start(acp_with(&script, &["ask", "hi"])).end();
    assert_eq!(code, Some(1), "{shown}");
    for text in [
        "starting acp-",
        "[2Jred\r\n",
        "\x1b[1m\x1b[31merror:",
        "\r\nwarning",
    ] {
        assert!(shown.contains(text), "no {text:?} in {shown:?}");
    }
    assert!(!shown.contains("\x1b[2J"), "{shown:?}");
    assert!(!shown.contains("\x1b[31mwarning"), "{shown:?}");
}

fn what_the_agent_does_has_its_own_lines() {
    let script = Script::ready(
        r#"
{"say":"I look"}
{"update":{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Read \u001b[31ma","kind":"read","status":"pending"}}
{"say":"and see"}
{"reply":"prompt","result":{"stopReason":"end_turn"}}
"#,
    );
    let terminal = Terminal::start(acp_with(&script, &["--no-color", "ask", "-v", "hi"]));
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen:?}");
    assert!(
        seen.contains("I look\r\ntool: Read a (read)\r\nand see\r\n"),
        "{seen:?}"
    );
}

fn no_colour() {
    let script = Script::new(&[r#"
{"want":"initialize","as":"init"}
{"exit":1}
"#]);
    for flag in ["--no-color", "--cwd=."] {
        let mut command = acp_with(&script, &["ask", flag, "hi"]);
        if flag != "--no-color" {
            command.env("NO_COLOR", "1");
        }
        let (_, shown) = Terminal::start(command).end();
        assert!(shown.contains("error: the agent"), "{shown:?}");
    }
}

fn ctrl_c_ends_the_turn_not_the_chat() {
    let script = Script::ready(
        r#"
{"say":"once upon"}
{"want_note":"session/cancel","params":{"sessionId":"s1"}}
{"delay_ms":6500,"note":"longer than a command that is to end may take"}
{"reply":"prompt","result":{"stopReason":"cancelled"}}
{"want":"session/new","as":"spare"}
{"reply":"spare","result":{"sessionId":"s2"}}
{"want":"session/prompt","params":{"sessionId":"s2","prompt":[{"type":"text","text":"user: again"}]},"as":"prompt2"}
{"say":"the end","session":"s2"}
{"reply":"prompt2","result":{"stopReason":"end_turn"}}
{"want":"session/new","as":"spare2"}
{"want_eof":true}
"#,
    );
    let mut terminal = Terminal::start(acp_with(&script, &["chat"]));
    // A time is never shown without what it means.
    terminal.wait_for("ACP itself makes no agent faster");
    terminal.wait_for("> ");
    terminal.type_in("tell me\n");
    terminal.wait_for("once upon");
    terminal.running.signal(Signal::SIGINT);
    terminal.wait_for("Cancelling");
    terminal.wait_for("> ");
    terminal.type_in("again\n");
    terminal.wait_for("the end\r\n");
    terminal.wait_for("first text after");
    terminal.wait_for("> ");
    // The key that ends the input.
    terminal.type_in("\u{4}");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown:?}");
    assert!(!script.is_running());
}
