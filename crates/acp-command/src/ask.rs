//! `acp ask`: one question, one answer.

use std::io::{self, Read as _};
use std::time::Duration;

use acp_core::{AgentInfo, GenerateRequest, GenerateResponse, StopReason};
use serde_json::{Map, Value, json};

use crate::agent::{AgentCommand, Running};
use crate::cli::{Ask, Format};
use crate::failure::{Failure, print_as_json};
use crate::interrupt::Interrupts;
use crate::terminal::{self, Answer, Spinner, millis};
use crate::turn::{self, TurnTimes};

pub(crate) fn run(args: &Ask) -> Result<(), Failure> {
    match args.format {
        Format::Text => as_text(args),
        Format::Json => print_as_json(ask(args, None).map(|asked| asked.to_json())),
    }
}

fn as_text(args: &Ask) -> Result<(), Failure> {
    let asked = ask(args, Some(Answer::new()))?;
    let stop_reason = asked.response.stop_reason;
    if stop_reason != StopReason::EndTurn {
        terminal::note(format!(
            "The answer may be cut: the agent stopped for `{}`.",
            stop_reason.as_str()
        ));
    }
    Ok(())
}

/// An answer, and what there is to say about it.
struct Asked {
    response: GenerateResponse,
    times: TurnTimes,
    agent: AgentInfo,
    session_id: String,
    /// From the start of the process to the answer to `initialize`.
    initialize: Option<Duration>,
    /// For `session/new`, and `session/set_mode` where a mode is asked for.
    session: Duration,
}

/// Asks, and shows the answer as it comes if there is somewhere to show it.
fn ask(args: &Ask, mut shown: Option<Answer>) -> Result<Asked, Failure> {
    // First, so that a signal while standard input is read ends the command as well.
    let interrupts = Interrupts::watch().map_err(Failure::signals)?;
    let request = GenerateRequest::user(question(&args.prompt)?);
    let command = AgentCommand::find(&args.start)?;
    let spinner = Spinner::new(format!("starting {}", command.name));
    let options = command
        .options(&args.start, Some(&args.turn))
        .state(args.state.policy.into())
        // There is no next turn.
        .spare_session(false);
    let running = Running::spawn(options, interrupts)?;
    let lane = running.open()?;
    spinner.message("waiting for the answer");
    let result = turn::run(&running, &lane, &request, |text| match &mut shown {
        Some(answer) => {
            spinner.clear();
            answer.write(text)
        }
        None => Ok(()),
    });
    spinner.clear();
    // An answer that was cut is there too, and what follows begins on a line of its own.
    if let Some(answer) = shown
        && !matches!(result, Err(Failure::Output(_)))
    {
        answer.finish().map_err(Failure::Output)?;
    }
    let (response, times) = result.map_err(|failure| running.explain(failure))?;
    Ok(Asked {
        response,
        times,
        agent: running.agent().info(),
        session_id: lane.session().session_id,
        initialize: running.agent().startup_time(),
        session: lane.open_time(),
    })
}

/// The question itself, or what `-` stands for.
fn question(prompt: &str) -> Result<String, Failure> {
    let mut text = String::new();
    if prompt == "-" {
        io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::question(format!("cannot read standard input: {error}")))?;
    } else {
        text.push_str(prompt);
    }
    if text.trim().is_empty() {
        return Err(Failure::question("the question is empty".to_owned()));
    }
    Ok(text)
}

impl Asked {
    fn to_json(&self) -> Value {
        let dropped: Map<String, Value> = self
            .response
            .dropped
            .nonzero()
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect();
        json!({
            "content": self.response.content,
            "stop_reason": self.response.stop_reason.as_str(),
            "usage": self.response.usage,
            "dropped": dropped,
            "agent": self.agent.implementation,
            "session_id": self.session_id,
            "timings": {
                "initialize_ms": self.initialize.map(millis),
                "session_ms": millis(self.session),
                "first_text_ms": self.times.first_text.map(millis),
                "turn_ms": millis(self.times.turn),
            },
        })
    }
}
