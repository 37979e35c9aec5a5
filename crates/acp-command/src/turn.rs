//! One turn, shown as it comes.

use std::io;
use std::time::{Duration, Instant};

use acp_core::{GenerateRequest, GenerateResponse, Lane, Secrets, TurnEvent};

use crate::activity::Activity;
use crate::agent::Running;
use crate::failure::Failure;
use crate::terminal::{self, Answer, Spinner};

/// How long a turn took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnTimes {
    /// From the request to the end of the turn.
    pub(crate) turn: Duration,
    /// From the request to the first text.
    pub(crate) first_text: Option<Duration>,
}

/// Shows a turn as it comes: its text on standard output, if that is where it goes, and what the agent does
/// on standard error.
pub(crate) struct Shown<'a> {
    spinner: &'a Spinner,
    answer: Option<Answer>,
    activity: Activity,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(
        spinner: &'a Spinner,
        answer: Option<Answer>,
        verbose: bool,
        secrets: &Secrets,
    ) -> Self {
        Self {
            spinner,
            answer,
            activity: Activity::new(verbose, secrets.clone()),
        }
    }

    /// Shows what happens in the turn.
    pub(crate) fn take(&mut self, event: &TurnEvent) -> io::Result<()> {
        let lines = self.activity.lines(event);
        self.tell(&lines)?;
        match event {
            TurnEvent::Text(text) => self.write(text),
            _ => Ok(()),
        }
    }

    /// Shows how the turn has ended. An answer that is no plain text is only known now. One that was cut is
    /// there, too, and what follows begins on a line of its own.
    pub(crate) fn end<T>(
        mut self,
        result: Result<T, Failure>,
        whole: impl Fn(&T) -> Option<&str>,
    ) -> Result<T, Failure> {
        self.spinner.clear();
        if matches!(result, Err(Failure::Output(_))) {
            return result;
        }
        let end = self.activity.end();
        let written = self.tell(&end).and_then(|()| {
            if let Some(text) = result.as_ref().ok().and_then(whole) {
                self.write(text)?;
            }
            self.answer.map_or(Ok(()), Answer::finish)
        });
        written.map_err(Failure::Output)?;
        result
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let Some(answer) = &mut self.answer else {
            return Ok(());
        };
        self.spinner.clear();
        answer.write(text)
    }

    fn tell(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.spinner.clear();
        if let Some(answer) = &mut self.answer {
            answer.make_way()?;
        }
        lines.iter().for_each(terminal::note);
        Ok(())
    }
}

/// Runs a turn and hands its text out as it comes. If `on_text` fails the turn is cancelled.
pub(crate) fn run(
    running: &Running,
    lane: &Lane,
    request: &GenerateRequest,
    mut on_text: impl FnMut(&str) -> io::Result<()>,
) -> Result<(GenerateResponse, TurnTimes), Failure> {
    run_with_events(running, lane, request, |event| match event {
        TurnEvent::Text(text) => on_text(text),
        _ => Ok(()),
    })
}

/// Runs a turn and hands out what happens within it. If `on_event` fails the turn is cancelled.
pub(crate) fn run_with_events(
    running: &Running,
    lane: &Lane,
    request: &GenerateRequest,
    mut on_event: impl FnMut(&TurnEvent) -> io::Result<()>,
) -> Result<(GenerateResponse, TurnTimes), Failure> {
    let interrupts = running.interrupts();
    let started = Instant::now();
    let mut first_text = None;
    let mut written = Ok(());
    let options = lane.turn_options().events(true);
    let result = lane.start(request, options).and_then(|turn| {
        let canceller = turn.canceller();
        interrupts.turn_starts(canceller.clone());
        turn.wait_with_events(|event| {
            if matches!(event, TurnEvent::Text(_)) {
                first_text.get_or_insert_with(|| started.elapsed());
            }
            if written.is_ok() {
                written = on_event(&event);
                if written.is_err() {
                    canceller.cancel();
                }
            }
        })
    });
    let times = TurnTimes {
        turn: started.elapsed(),
        first_text,
    };
    let signal = interrupts.turn_ended();
    written.map_err(Failure::Output)?;
    if let Some(signal) = signal {
        return Err(Failure::Interrupted {
            signal,
            partial: match result {
                Ok(response) => response.content,
                Err(error) => error.partial().to_owned(),
            },
        });
    }
    match result {
        Ok(response) => Ok((response, times)),
        Err(error) => Err(Failure::turn(error)),
    }
}
