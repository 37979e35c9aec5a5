//! `acp chat`: a conversation with one warm agent, a line at a time.

use std::io::{self, IsTerminal as _};

use acp_core::{GenerateRequest, Lane, Message, Secrets};

use crate::agent::{AgentCommand, Running};
use crate::cli::Chat;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::session;
use crate::terminal::{self, Answer, Spinner, human};
use crate::turn::{self, Shown, TurnTimes};

pub(crate) fn run(args: &Chat) -> Result<(), Failure> {
    let interrupts = Interrupts::watch().map_err(Failure::signals)?;
    let interactive = io::stdin().is_terminal();
    if interactive {
        interrupts.outlive_ctrl_c();
    }
    let command = AgentCommand::find(&args.start)?;
    chat(args, &command, interrupts, interactive).map_err(|failure| command.explain(failure))
}

fn chat(
    args: &Chat,
    command: &AgentCommand,
    interrupts: Interrupts,
    interactive: bool,
) -> Result<(), Failure> {
    let mut secrets = command.secrets();
    let options = command
        .options(&args.start, Some(&args.turn))
        .state(args.state.policy(&args.session, command.state()));
    let options = args.session.apply(options, &mut secrets)?;
    let spinner = Spinner::new(format!("starting {}", command.name));
    let running = Running::spawn(options, interrupts)?;
    let lane = running.open()?;
    spinner.clear();
    session::tell(&lane.session(), args.show.verbose);
    let start = running.agent().startup_time().unwrap_or_default() + lane.open_time();
    terminal::aside(format!(
        "Ready after {}: the agent's start-up, paid once and not with each turn. That is all a warm \
         session saves; ACP itself makes no agent faster.",
        human(start)
    ));
    let turns = Turns {
        running: &running,
        lane: &lane,
        verbose: args.show.verbose,
        secrets,
    };
    talk(&turns, interactive)
}

/// What the turns have in common.
struct Turns<'a> {
    running: &'a Running,
    lane: &'a Lane,
    verbose: bool,
    secrets: Secrets,
}

fn talk(turns: &Turns<'_>, interactive: bool) -> Result<(), Failure> {
    let running = turns.running;
    let mut messages = Vec::new();
    while let Some(question) = read_question(running)? {
        if question.trim().is_empty() {
            continue;
        }
        let mut request = GenerateRequest::new(messages.clone());
        request.messages.push(Message::user(question));
        match turns.take(&request) {
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

impl Turns<'_> {
    fn take(&self, request: &GenerateRequest) -> Result<(String, TurnTimes), Failure> {
        let spinner = Spinner::new("waiting for the answer");
        let mut shown = Shown::new(&spinner, Some(Answer::new()), self.verbose, &self.secrets);
        let result =
            turn::run_with_events(self.running, self.lane, request, |event| shown.take(event));
        let (response, times) = shown.end(result, |_| None)?;
        Ok((response.content, times))
    }
}

fn describe(times: TurnTimes) -> String {
    match times.first_text {
        Some(first) => format!("{}, first text after {}", human(times.turn), human(first)),
        None => human(times.turn),
    }
}
