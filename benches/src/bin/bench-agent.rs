//! An agent that does what the prompt says, as fast as a pipe takes it, so that what is measured is the client.
//!
//! It looks for the last `bench` in the prompt, and reads the words after it:
//!
//! | script | answers with |
//! | --- | --- |
//! | `echo` | one chunk, `echo` |
//! | `permission` | the same, after it has asked for a permission |
//! | `chunks N SIZE` | N chunks of SIZE bytes |
//! | `noisy N` | N updates, of which every fourth is a chunk of 20 bytes |
//! | `big BYTES` | one chunk |
//! | `size` | the length of the prompt's line in bytes, to see what of a conversation was sent |
//!
//! Answers are buffered and flushed when there is nothing more to say, as a good agent does.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, StdinLock, Write},
    os::fd::AsFd,
    process::ExitCode,
};

use memchr::memmem;
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Bytes that are read and written at once.
const BUFFER: usize = 64 * 1024;

fn main() -> ExitCode {
    match pin().and_then(|()| Agent::new()?.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        // The client has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Moves to the CPU that `--cpu` names.
fn pin() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let cpu = args.next().and_then(|cpu| cpu.parse().ok());
        let (true, Some(cpu)) = (arg == "--cpu", cpu) else {
            return Err(io::Error::other(format!("unknown argument {arg}")));
        };
        let mut set = CpuSet::new();
        set.set(cpu)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
    }
    Ok(())
}

/// A message of the client, as far as it matters.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PromptParams<'a> {
    #[serde(rename = "sessionId")]
    session: &'a str,
}

struct Agent {
    input: BufReader<StdinLock<'static>>,
    /// Not the library's standard output, which looks for newlines in what it is given.
    output: File,
    line: Vec<u8>,
    pending: Vec<u8>,
    sessions: u64,
}

impl Agent {
    fn new() -> io::Result<Self> {
        Ok(Self {
            input: BufReader::with_capacity(BUFFER, io::stdin().lock()),
            output: io::stdout().as_fd().try_clone_to_owned()?.into(),
            line: Vec::new(),
            pending: Vec::with_capacity(2 * BUFFER),
            sessions: 0,
        })
    }

    fn serve(&mut self) -> io::Result<()> {
        while self.next_line()? {
            let line = std::mem::take(&mut self.line);
            self.answer(&line)?;
            self.line = line;
            // Another request is at hand: its answer goes out with this one.
            if self.input.buffer().is_empty() {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        Ok(self.input.read_until(b'\n', &mut self.line)? > 0)
    }

    fn answer(&mut self, line: &[u8]) -> io::Result<()> {
        let message: Message<'_> = serde_json::from_slice(line)?;
        let Some(id) = message.id.map(RawValue::get) else {
            return Ok(());
        };
        match message.method {
            Some("initialize") => self.push(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":1,"agentCapabilities":{{}}}}}}"#
            )),
            Some("session/new") => {
                self.sessions += 1;
                let session = self.sessions;
                self.push(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sessionId":"s{session}"}}}}"#
                ))
            }
            Some("session/prompt") => {
                let params = message.params.map_or("null", RawValue::get);
                let session = serde_json::from_str::<PromptParams<'_>>(params)?.session;
                self.turn(session, line)?;
                self.push(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#
                ))
            }
            Some(_) => self.push(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#
            )),
            None => Ok(()),
        }
    }

    /// Does what the script in the line of a prompt says.
    fn turn(&mut self, session: &str, line: &[u8]) -> io::Result<()> {
        let script = script(line).unwrap_or_default();
        let mut words = script.split(' ');
        let word = words.next().unwrap_or_default();
        let mut number = || -> io::Result<usize> {
            let word = words.next().unwrap_or_default();
            word.parse()
                .map_err(|_| io::Error::other(format!("`{word}` is no number in `{script}`")))
        };
        match word {
            "echo" => self.push(&chunk(session, "echo")),
            "permission" => {
                self.push(&permission(session))?;
                self.flush()?;
                self.next_line()?;
                self.push(&chunk(session, "echo"))
            }
            "chunks" => {
                let (count, size) = (number()?, number()?);
                let chunk = chunk(session, &"x".repeat(size));
                (0..count).try_for_each(|_| self.push(&chunk))
            }
            "noisy" => {
                let updates = noisy(session);
                (0..number()?).try_for_each(|i| self.push(&updates[i % updates.len()]))
            }
            "big" => self.push(&chunk(session, &"x".repeat(number()?))),
            "size" => self.push(&chunk(session, &line.len().to_string())),
            _ => Err(io::Error::other(format!("no script `{script}`"))),
        }
    }

    fn push(&mut self, line: &str) -> io::Result<()> {
        if self.pending.len() >= BUFFER {
            self.flush()?;
        }
        if line.len() >= BUFFER {
            self.flush()?;
            self.output.write_all(line.as_bytes())?;
            return self.output.write_all(b"\n");
        }
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }
}

/// The words behind the last `bench` of a line.
fn script(line: &[u8]) -> Option<&str> {
    const MARK: &[u8] = b"bench ";
    let start = memmem::rfind(line, MARK)? + MARK.len();
    let rest = &line[start..];
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn update(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

fn chunk(session: &str, text: &str) -> String {
    update(
        session,
        &format!(
            r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
        ),
    )
}

/// What comes in one round of a noisy turn: three updates that are no answer, and one chunk.
fn noisy(session: &str) -> [String; 4] {
    let text = "x".repeat(20);
    [
        update(
            session,
            &format!(
                r#"{{"sessionUpdate":"agent_thought_chunk","content":{{"type":"text","text":"{text}"}}}}"#
            ),
        ),
        update(
            session,
            r#"{"sessionUpdate":"tool_call","toolCallId":"call-1","title":"Read lib.rs","kind":"read","status":"completed","locations":[{"path":"/src/lib.rs","line":1}]}"#,
        ),
        update(
            session,
            r#"{"sessionUpdate":"plan","entries":[{"content":"Read the file","priority":"high","status":"completed"},{"content":"Answer","priority":"medium","status":"in_progress"}]}"#,
        ),
        chunk(session, &text),
    ]
}

fn permission(session: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"p-1","method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{{"toolCallId":"call-1","title":"Write lib.rs","kind":"edit","status":"pending"}},"options":[{{"optionId":"allow","name":"Allow","kind":"allow_once"}},{{"optionId":"reject","name":"Reject","kind":"reject_once"}}]}}}}"#
    )
}
