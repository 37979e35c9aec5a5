//! `acp ask`: one question, one answer.

use std::fs;
use std::io::{self, Read as _};
use std::time::Duration;

use acp_core::{
    AgentInfo, GenerateError, GenerateRequest, GenerateResponse, SessionInfo, StopReason,
};
use serde_json::{Map, Value, json};

use crate::agent::{AgentCommand, Running};
use crate::cli::{Ask, Format};
use crate::failure::{Failure, print_as_json};
use crate::interrupt::Interrupts;
use crate::session;
use crate::terminal::{self, Answer, Spinner, millis};
use crate::turn::{self, Shown, TurnTimes};

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
    session: SessionInfo,
    /// From the start of the process to the answer to `initialize`.
    initialize: Option<Duration>,
    /// For the session, and all that it is set to.
    open: Duration,
}

/// Asks, and shows the answer as it comes if there is somewhere to show it.
fn ask(args: &Ask, shown: Option<Answer>) -> Result<Asked, Failure> {
    // First, so that a signal while standard input is read ends the command as well.
    let interrupts = Interrupts::watch().map_err(Failure::signals)?;
    let mut request = GenerateRequest::user(question(&args.prompt)?);
    request.response_format = response_format(args)?;
    let command = AgentCommand::find(&args.start)?;
    ask_agent(args, &command, &request, interrupts, shown)
        .map_err(|failure| command.explain(failure))
}

fn ask_agent(
    args: &Ask,
    command: &AgentCommand,
    request: &GenerateRequest,
    interrupts: Interrupts,
    shown: Option<Answer>,
) -> Result<Asked, Failure> {
    let mut secrets = command.secrets();
    let options = command
        .options(&args.start, Some(&args.turn))
        .state(args.state.policy(&args.session, command.state()))
        // There is no next turn.
        .spare_session(false);
    let options = args.session.apply(options, &mut secrets)?;
    let spinner = Spinner::new(format!("starting {}", command.name));
    let running = Running::spawn(options, interrupts)?;
    let lane = running.open()?;
    session::tell(&lane.session(), args.show.verbose);
    spinner.message("waiting for the answer");
    let mut shown = Shown::new(&spinner, shown, args.show.verbose, &secrets);
    let result = turn::run_with_events(&running, &lane, request, |event| shown.take(event));
    let is_json = request.response_format.is_some();
    let result = result.and_then(|(response, times)| {
        if is_json && response.content.is_empty() {
            return Err(no_content(response));
        }
        Ok((response, times))
    });
    let result = shown.end(result, |(response, _)| {
        is_json.then_some(&*response.content)
    });
    let (response, times) = result.map_err(|failure| running.explain(failure))?;
    Ok(Asked {
        response,
        times,
        agent: running.agent().info(),
        session: lane.session(),
        initialize: running.agent().startup_time(),
        open: lane.open_time(),
    })
}

/// A reply in the form that was asked for, of which there is nothing to print.
fn no_content(response: GenerateResponse) -> Failure {
    Failure::turn(GenerateError::EmptyTurn {
        dropped: Box::new(response.dropped),
        stderr_tail: String::new(),
    })
}

/// The form that the answer is to have, as it is in OpenAI chat completions.
fn response_format(args: &Ask) -> Result<Option<Value>, Failure> {
    let Some(path) = &args.json_schema else {
        return Ok(args.json.then(|| json!({"type": "json_object"})));
    };
    let invalid = |why: String| Failure::options(format!("{}{why}", path.display()));
    let text =
        fs::read_to_string(path).map_err(|error| invalid(format!(" cannot be read: {error}")))?;
    let schema: Value = serde_json::from_str(&text)
        .map_err(|error| invalid(format!(":{}: it is not JSON: {error}", error.line())))?;
    if !schema.is_object() {
        return Err(invalid(
            ": it is no JSON Schema, which is an object".to_owned(),
        ));
    }
    Ok(Some(json!({
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema},
    })))
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
            "repairs": self.response.repairs.iter().map(|it| &it.fault).collect::<Vec<_>>(),
            "session_id": self.session.session_id,
            "resumed": self.session.resumed,
            "resume_error": self.session.resume_error,
            "timings": {
                "initialize_ms": self.initialize.map(millis),
                "session_ms": millis(self.open),
                "first_text_ms": self.times.first_text.map(millis),
                "turn_ms": millis(self.times.turn),
            },
        })
    }
}
