//! What the agent and the pipe give at most: bytes are read, and only the last line is looked at.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, ChildStdout},
    time::{Duration, Instant},
};

use crate::{Client, Result, wire};

pub struct Ceiling {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    buffer: Vec<u8>,
}

impl Client for Ceiling {
    fn open(agent: &[String]) -> Result<Self> {
        let (child, input, output) = wire::start(agent)?;
        let mut ceiling = Self {
            child,
            input,
            output,
            buffer: vec![0; wire::BUFFER],
        };
        ceiling.call(&wire::initialize(1))?;
        ceiling.call(&wire::new_session(2)?)?;
        Ok(ceiling)
    }

    fn turns(
        &mut self,
        script: &str,
        count: usize,
        done: &mut dyn FnMut(Duration, usize),
    ) -> Result<()> {
        for _ in 0..count {
            let start = Instant::now();
            // The first session of the bench's agent.
            let bytes = self.call(&wire::prompt(3, "s1", script)?)?;
            done(start.elapsed(), bytes);
        }
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

impl Ceiling {
    /// Reads to the end of the response, which is the one line with a result. Returns how many bytes it took.
    fn call(&mut self, request: &str) -> Result<usize> {
        const END: &[u8] = b"}}\n";
        const RESULT: &[u8] = b"\"result\"";
        self.input.write_all(request.as_bytes())?;
        let mut total = 0;
        // A line of a response is short, but a read can end within it.
        let mut kept = 0;
        loop {
            let len = self.output.read(&mut self.buffer[kept..])?;
            if len == 0 {
                return Err("the agent has ended".into());
            }
            total += len;
            let read = &self.buffer[..kept + len];
            let tail = &read[read.len().saturating_sub(256)..];
            let line = tail[..tail.len() - 1]
                .iter()
                .rposition(|&byte| byte == b'\n');
            let line = &tail[line.map_or(0, |at| at + 1)..];
            if read.ends_with(END) && memchr::memmem::find(line, RESULT).is_some() {
                return Ok(total);
            }
            let end = read.len();
            kept = end.min(255);
            self.buffer.copy_within(end - kept..end, 0);
        }
    }
}
