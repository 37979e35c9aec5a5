//! The floor without a thread. Both sides would wait for ever if they wrote more than a pipe holds at once.

use std::{
    io::{BufRead, BufReader, Write},
    mem,
    process::{Child, ChildStdin, ChildStdout},
    time::{Duration, Instant},
};

use crate::{
    Client, Result,
    wire::{self, Line},
};

pub struct FloorSingle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    session: String,
    next_id: u64,
}

impl Client for FloorSingle {
    fn open(agent: &[String]) -> Result<Self> {
        let (child, input, output) = wire::start(agent)?;
        let mut floor = Self {
            child,
            input,
            output: BufReader::with_capacity(wire::BUFFER, output),
            line: Vec::new(),
            session: String::new(),
            next_id: 3,
        };
        floor.call(&wire::initialize(1))?;
        let (result, _) = floor.call(&wire::new_session(2)?)?;
        floor.session = wire::session_of(&result)?;
        Ok(floor)
    }

    fn turns(
        &mut self,
        script: &str,
        count: usize,
        done: &mut dyn FnMut(Duration, usize),
    ) -> Result<()> {
        for _ in 0..count {
            let start = Instant::now();
            let prompt = wire::prompt(self.next_id, &self.session, script)?;
            self.next_id += 1;
            let (_, text) = self.call(&prompt)?;
            done(start.elapsed(), text.len());
        }
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

impl FloorSingle {
    fn call(&mut self, request: &str) -> Result<(String, String)> {
        self.input.write_all(request.as_bytes())?;
        let mut text = String::new();
        loop {
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line)? == 0 {
                return Err("the agent has ended".into());
            }
            match wire::read_line(str::from_utf8(&self.line)?, &mut text)? {
                Line::Update => {}
                Line::Permission(answer) => self.input.write_all(answer.as_bytes())?,
                Line::Response(result) => return Ok((result.to_owned(), mem::take(&mut text))),
            }
        }
    }
}
