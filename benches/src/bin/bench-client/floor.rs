//! The floor with a reader thread, which is what a client needs that neither side can block: the caller writes its
//! prompt and waits, the thread reads.

use std::{
    io::{BufRead, BufReader, Write},
    mem,
    process::{Child, ChildStdin, ChildStdout},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    Client, Result,
    wire::{self, Line},
};

pub struct Floor {
    child: Child,
    shared: Arc<Shared>,
    reader: JoinHandle<()>,
    session: String,
    next_id: u64,
}

struct Shared {
    input: Mutex<Option<ChildStdin>>,
    answer: Mutex<Option<Answer>>,
    changed: Condvar,
}

/// What the reader has for the caller.
enum Answer {
    Response { result: String, text: String },
    Failed(String),
}

impl Client for Floor {
    fn open(agent: &[String]) -> Result<Self> {
        let (child, input, output) = wire::start(agent)?;
        let shared = Arc::new(Shared {
            input: Mutex::new(Some(input)),
            answer: Mutex::default(),
            changed: Condvar::new(),
        });
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let end = shared.read(output).err();
                let end = end.map_or("the agent has ended".into(), |error| error.to_string());
                shared.answer(Answer::Failed(end));
            })
        };
        let mut floor = Self {
            child,
            shared,
            reader,
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
        drop(lock(&self.shared.input).take());
        self.child.wait()?;
        self.reader.join().map_err(|_| "the reader panicked".into())
    }
}

impl Floor {
    /// Sends a request and waits for its result and the text before it.
    fn call(&self, line: &str) -> Result<(String, String)> {
        self.shared.write(line)?;
        let answer = lock(&self.shared.answer);
        let mut answer = self
            .shared
            .changed
            .wait_while(answer, |answer| answer.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        match answer.take() {
            Some(Answer::Response { result, text }) => Ok((result, text)),
            Some(Answer::Failed(why)) => Err(why.into()),
            None => Err("nothing was waited for".into()),
        }
    }
}

impl Shared {
    fn read(&self, output: ChildStdout) -> Result<()> {
        let mut output = BufReader::with_capacity(wire::BUFFER, output);
        let (mut line, mut text) = (Vec::new(), String::new());
        while output.read_until(b'\n', &mut line)? > 0 {
            match wire::read_line(str::from_utf8(&line)?, &mut text)? {
                Line::Update => {}
                Line::Permission(answer) => self.write(&answer)?,
                Line::Response(result) => self.answer(Answer::Response {
                    result: result.to_owned(),
                    text: mem::take(&mut text),
                }),
            }
            line.clear();
        }
        Ok(())
    }

    fn write(&self, line: &str) -> Result<()> {
        let mut input = lock(&self.input);
        let input = input.as_mut().ok_or("the agent is closed")?;
        Ok(input.write_all(line.as_bytes())?)
    }

    fn answer(&self, answer: Answer) {
        *lock(&self.answer) = Some(answer);
        self.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
