//! `acp chat`: a conversation with one warm agent, a line at a time.

use std::io::{self, IsTerminal as _};

use acp_core::{GenerateRequest, Lane, Message};

use crate::agent::{AgentCommand, Running};
use crate::cli::Chat;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::terminal::{self, Answer, Spinner, human};
use crate::turn::{self, TurnTimes};

pub(crate) fn run(args: &Chat) -> Result<(), Failure> {
    let interrupts = Interrupts::watch().map_err(Failure::signals)?;
    let interactive = io::stdin().is_terminal();
    if interactive {
        interrupts.outlive_ctrl_c();
    }
    let command = AgentCommand::find(&args.start)?;
    let spinner = Spinner::new(format!("starting {}", command.name));
    let options = command
        .options(&args.start, Some(&args.turn))
        .state(args.state.policy.into());
    let running = Running::spawn(options, interrupts)?;
    let lane = running.open()?;
    spinner.clear();
    let start = running.agent().startup_time().unwrap_or_default() + lane.open_time();
    terminal::aside(format!(
        "Ready after {}: the agent's start-up, paid once and not with each turn. That is all a warm \
         session saves; ACP itself makes no agent faster.",
        human(start)
    ));
    talk(&running, &lane, interactive)
}

fn talk(running: &Running, lane: &Lane, interactive: bool) -> Result<(), Failure> {
    let mut messages = Vec::new();
    while let Some(question) = read_question(running)? {
        if question.trim().is_empty() {
            continue;
        }
        let mut request = GenerateRequest::new(messages.clone());
        request.messages.push(Message::user(question));
        match take_turn(running, lane, &request) {
            Ok((content, times)) => {
                messages = request.messages;
                messages.push(Message::assistant(content));
                terminal::aside(describe(times));
            }
            // Ctrl-C ends the turn and not the conversation, which goes on as if it had not been asked.
            Err(Failure::Interrupted { .. })
                if interactive && running.interrupts().take_ctrl_c() =>
            {
                terminal::note("cancelled");
            }
            Err(failure @ Failure::Turn { .. }) if interactive && running.agent().is_alive() => {
                failure.print();
            }
            Err(failure) => return Err(running.explain(failure)),
        }
    }
    Ok(())
}

/// Waits for a line; `None` at the end of input.
fn read_question(running: &Running) -> Result<Option<String>, Failure> {
    if let Some(signal) = running.interrupts().person_is_asked() {
        return Err(Failure::Interrupted {
            signal,
            partial: String::new(),
        });
    }
    terminal::prompt("> ");
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    running.interrupts().person_has_answered();
    match read {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned())),
        Err(error) => Err(Failure::question(format!(
            "cannot read standard input: {error}"
        ))),
    }
}

fn take_turn(
    running: &Running,
    lane: &Lane,
    request: &GenerateRequest,
) -> Result<(String, TurnTimes), Failure> {
    let spinner = Spinner::new("waiting for the answer");
    let mut answer = Answer::new();
    let result = turn::run(running, lane, request, |text| {
        spinner.clear();
        answer.write(text)
    });
    spinner.clear();
    if !matches!(result, Err(Failure::Output(_))) {
        answer.finish().map_err(Failure::Output)?;
    }
    result.map(|(response, times)| (response.content, times))
}

fn describe(times: TurnTimes) -> String {
    match times.first_text {
        Some(first) => format!("{}, first text after {}", human(times.turn), human(first)),
        None => human(times.turn),
    }
}
