//! One turn, shown as it comes.

use std::io;
use std::time::{Duration, Instant};

use acp_core::{GenerateRequest, GenerateResponse, Lane};

use crate::agent::Running;
use crate::failure::Failure;

/// How long a turn took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnTimes {
    /// From the request to the end of the turn.
    pub(crate) turn: Duration,
    /// From the request to the first text.
    pub(crate) first_text: Option<Duration>,
}

/// Runs a turn and hands its text out as it comes. If `on_text` fails the turn is cancelled.
pub(crate) fn run(
    running: &Running,
    lane: &Lane,
    request: &GenerateRequest,
    mut on_text: impl FnMut(&str) -> io::Result<()>,
) -> Result<(GenerateResponse, TurnTimes), Failure> {
    let interrupts = running.interrupts();
    let started = Instant::now();
    let mut first_text = None;
    let mut written = Ok(());
    let result = lane.start(request, lane.turn_options()).and_then(|turn| {
        let canceller = turn.canceller();
        interrupts.turn_starts(canceller.clone());
        turn.wait_with(|text| {
            first_text.get_or_insert_with(|| started.elapsed());
            if written.is_ok() {
                written = on_text(text);
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
        Err(error) => Err(Failure::Turn {
            error,
            diagnostics: String::new(),
        }),
    }
}
