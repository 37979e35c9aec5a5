//! A client that does only what it is told, and so shows what becomes of what a client leaves out.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::program::Program;

/// An agent's process, killed with its group when dropped.
#[derive(Debug)]
pub struct Raw {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    /// What came while something else was waited for.
    pub seen: Vec<Value>,
    next_id: u64,
}

impl Raw {
    /// Starts the agent.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(program: &Program) -> io::Result<Self> {
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the agent has no pipes"));
        };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for message in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            stdin,
            lines,
            seen: Vec::new(),
            next_id: 0,
        })
    }

    /// Sends `initialize` and waits for its answer.
    ///
    /// # Errors
    ///
    /// If there is none within a minute.
    pub fn initialize(&mut self) -> io::Result<()> {
        let params = json!({
            "protocolVersion": 1,
            "clientInfo": {"name": "spike", "version": "1"},
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
        });
        self.call("initialize", params).map(drop)
    }

    /// Opens a session for this program, in its mode.
    ///
    /// # Errors
    ///
    /// If it is not opened within a minute.
    pub fn session(&mut self, program: &Program) -> io::Result<String> {
        let params = json!({"cwd": program.cwd, "mcpServers": []});
        let result = self.call("session/new", params)?;
        let id = result["sessionId"].as_str().unwrap_or_default().to_owned();
        if let Some(mode) = &program.mode {
            let params = json!({"sessionId": id, "modeId": mode});
            self.call("session/set_mode", params)?;
        }
        Ok(id)
    }

    /// Sends a prompt and gives the id of the request.
    ///
    /// # Errors
    ///
    /// If the agent has gone.
    pub fn prompt(&mut self, session: &str, text: &str) -> io::Result<u64> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request(
            "session/prompt",
            json!({"sessionId": session, "prompt": prompt}),
        )
    }

    /// Sends a request and gives its id.
    ///
    /// # Errors
    ///
    /// If the agent has gone.
    pub fn request(&mut self, method: &str, params: Value) -> io::Result<u64> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// If the agent has gone.
    pub fn send(&mut self, message: Value) -> io::Result<()> {
        self.stdin.write_all(format!("{message}\n").as_bytes())?;
        self.stdin.flush()
    }

    /// Waits for the answer to a request, and keeps in `seen` what comes before. `None` if there is none within
    /// this time.
    pub fn answer(&mut self, id: u64, limit: Duration) -> Option<Value> {
        self.wait_for(limit, |message| {
            message["id"] == id && message["method"].is_null()
        })
    }

    /// Waits for a message like this, and keeps in `seen` what comes before. `None` if there is none within this
    /// time.
    pub fn wait_for(
        &mut self,
        limit: Duration,
        mut is_it: impl FnMut(&Value) -> bool,
    ) -> Option<Value> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.lines.recv_timeout(left).ok()?;
            if is_it(&message) {
                return Some(message);
            }
            self.seen.push(message);
        }
    }

    fn call(&mut self, method: &str, params: Value) -> io::Result<Value> {
        let id = self.request(method, params)?;
        let answer = self.answer(id, Duration::from_secs(60));
        match answer {
            Some(answer) if answer["error"].is_null() => Ok(answer["result"].clone()),
            Some(answer) => Err(io::Error::other(format!("{method}: {}", answer["error"]))),
            None => Err(io::Error::other(format!("{method} is not answered"))),
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Ok(leader) = i32::try_from(self.child.id()) {
            // Where there is no such group any more, all is well.
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}
