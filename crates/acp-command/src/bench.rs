//! `acp bench`: whether a warm session pays for an agent.
//!
//! In reading order:
//!
//! - [`samples`]: times of one thing
//! - [`mod@measure`]: cold starts and warm turns
//! - [`conclusion`]: what they say
//! - [`table`], [`chart`]: how they are shown

mod chart;
mod conclusion;
mod measure;
mod samples;
mod table;

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::{Bench, BenchState, Format, State};
use crate::failure::Failure;
use crate::terminal::{self, Spinner};
use measure::{Cold, Measured, Sized, Subject, Warm, measure};

pub(crate) fn run(args: &Bench) -> Result<(), Failure> {
    // First, so that a file that cannot be written costs nobody a prompt.
    let json = create(args.json.as_deref())?;
    let svg = create(args.svg.as_deref())?;
    let states = states(&args.states);
    let mut measured = Measured::default();
    let spinner = Spinner::new("starting");
    let result = measure(&mut measured, args, &states, &spinner);
    drop(spinner);

    // What was measured before a failure is shown as well.
    let mut report = to_json(&measured, args, &states);
    if let Err(failure) = &result {
        report["error"] = failure.to_json();
    }
    let written = [
        (json, format!("{report:#}\n")),
        (svg, chart::draw(&measured)),
    ];
    for (file, text) in written {
        if let Some((path, mut file)) = file {
            file.write_all(text.as_bytes())
                .map_err(|error| unwritable(&path, &error))?;
        }
    }
    match args.format {
        Format::Json => {
            terminal::print_json(&report).map_err(Failure::Output)?;
            result.map_err(|failure| Failure::Told(failure.exit_code()))
        }
        Format::Text => {
            if !measured.agent.sizes.is_empty() {
                let bars = io::stdout().is_terminal();
                terminal::print_styled(&table::draw(&measured, bars)).map_err(Failure::Output)?;
            }
            result
        }
    }
}

/// Each policy that is asked for, once.
fn states(asked: &[BenchState]) -> Vec<State> {
    let mut states = Vec::new();
    for asked in asked {
        let more: &[State] = match asked {
            BenchState::One(state) => &[*state],
            BenchState::All => &[
                State::FullRequest,
                State::FreshSession,
                State::VerifiedDelta,
            ],
        };
        for &state in more {
            if !states.contains(&state) {
                states.push(state);
            }
        }
    }
    states
}

fn create(path: Option<&Path>) -> Result<Option<(PathBuf, File)>, Failure> {
    let Some(path) = path else { return Ok(None) };
    match File::create(path) {
        Ok(file) => Ok(Some((path.to_owned(), file))),
        Err(error) => Err(unwritable(path, &error)),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::options(format!("{} cannot be written: {error}", path.display()))
}

fn to_json(measured: &Measured, args: &Bench, states: &[State]) -> Value {
    let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
    json!({
        "samples": args.turns,
        "states": names,
        "agent": subject_to_json(&measured.agent),
        "demo_agent": subject_to_json(&measured.demo),
        "conclusion": conclusion::draw(measured),
    })
}

fn subject_to_json(subject: &Subject) -> Value {
    let sizes: Vec<Value> = subject.sizes.iter().map(sized_to_json).collect();
    json!({"implementation": subject.implementation, "sizes": sizes})
}

fn sized_to_json(Sized { size, cold, warm }: &Sized) -> Value {
    let Cold {
        answer,
        initialize,
        session,
        turn,
        close,
    } = cold;
    let warm: Vec<Value> = warm
        .iter()
        .map(|Warm { state, first, turn }| {
            json!({
                "state": state.name(),
                "first_turn_ms": first.to_json(),
                "turn_ms": turn.to_json(),
            })
        })
        .collect();
    json!({
        "bytes": size.0,
        "cold": {
            "answer_ms": answer.to_json(),
            "initialize_ms": initialize.to_json(),
            "session_ms": session.to_json(),
            "turn_ms": turn.to_json(),
            "close_ms": close.to_json(),
        },
        "warm": warm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_measured_once() {
        use State::{FreshSession, FullRequest, VerifiedDelta};
        let one = BenchState::One(VerifiedDelta);
        assert_eq!(states(&[one, one]), [VerifiedDelta]);
        assert_eq!(
            states(&[one, BenchState::All]),
            [VerifiedDelta, FullRequest, FreshSession]
        );
    }
}

/// Numbers for the tests of what is made of them.
#[cfg(test)]
mod testing {
    use std::time::Duration;

    use super::measure::{Cold, Measured, Sized, Subject, Warm};
    use super::samples::Samples;
    use crate::cli::{Size, State};

    pub(super) fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    pub(super) fn measured() -> Measured {
        let mut agent = subject([2240, 2000, 40, 200], 20);
        agent.implementation = Some(acp_core::Implementation::new("an agent", "1.0"));
        Measured {
            agent,
            demo: subject([3, 1, 1, 1], 1),
        }
    }

    fn subject(cold: [u64; 4], warm: u64) -> Subject {
        let sample = |time| {
            let mut samples = Samples::default();
            samples.add(ms(time));
            samples
        };
        let [answer, initialize, session, turn] = cold.map(sample);
        Subject {
            implementation: None,
            sizes: vec![Sized {
                size: Size(17),
                cold: Cold {
                    answer,
                    initialize,
                    session,
                    turn,
                    close: Samples::default(),
                },
                warm: vec![Warm {
                    state: State::VerifiedDelta,
                    first: sample(warm),
                    turn: sample(warm),
                }],
            }],
        }
    }
}
