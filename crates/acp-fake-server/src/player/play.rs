//! Playing one step.

use serde_json::json;

use super::expect::{self, Failure, wanted};
use super::send::free_id;
use super::{Action, Fault, Player, Process, Request, Role};
use crate::control::Command;
use crate::fixture::{Step, Verb};
use crate::message::{self, Body, Incoming, session_of};
use crate::pattern::shorten;
use crate::stale;
use crate::transcript::LogEvent;

/// How far a step got.
pub(super) enum Progress {
    Done,
    /// It waits for this.
    Blocked(String),
    /// The rest of the transcript is left out, and that is well.
    End,
}

type Played = Result<Progress, Box<Failure>>;

impl Player {
    pub(super) fn play(&mut self, step: &mut Step) -> Played {
        if let Verb::Call { .. } | Verb::Returns { .. } = step.verb
            && self.role == Role::AgentOnly
        {
            return Ok(Progress::Done);
        }
        let needs_process = !matches!(
            step.verb,
            Verb::Call { .. }
                | Verb::Returns { .. }
                | Verb::Process(_)
                | Verb::AnyOrder(_)
                | Verb::Delay(_)
                | Verb::Note(_)
        );
        if needs_process && self.current > self.started() {
            return Ok(self.not_started());
        }
        match &mut step.verb {
            Verb::Call { op, args, label } => {
                let (label, op, args) = (label.clone(), op.clone(), args.clone());
                self.calls.insert(label.clone(), None);
                self.note(LogEvent::Called {
                    label: label.clone(),
                    op: op.clone(),
                    args: args.clone(),
                });
                self.actions.push_back(Action::Call { label, op, args });
            }
            Verb::Returns { .. } => return self.returns(&step.verb),
            Verb::Want { .. } | Verb::WantNote { .. } | Verb::WantReply { .. } => {
                return self.want(&step.verb);
            }
            Verb::WantEof => return self.want_eof(),
            Verb::Send(send) => self.send(send)?,
            Verb::Raw(bytes) => {
                let (process, bytes) = (self.current, bytes.to_vec());
                self.process()?.noisy |= message::has_noise(&bytes);
                self.note(LogEvent::Raw {
                    process,
                    bytes: bytes.clone(),
                });
                self.command(process, Command::Stdout(bytes));
            }
            Verb::Split { send, cuts } => self.split(send, cuts)?,
            Verb::Batch(sends) => self.batch(sends)?,
            Verb::Stderr(bytes) => self.command(self.current, Command::Stderr(bytes.to_vec())),
            Verb::Exit(code) => self.command(self.current, Command::Exit(*code)),
            Verb::Signal(signal) => self.command(self.current, Command::Signal(*signal)),
            Verb::CloseStdout => self.command(self.current, Command::CloseStdout),
            Verb::StopReading(stop) => self.command(self.current, Command::StopReading(*stop)),
            Verb::Linger(linger) => self.command(self.current, Command::Linger(*linger)),
            Verb::Grandchild => self.command(self.current, Command::Grandchild),
            Verb::Process(number) => return self.next_process(*number),
            Verb::AnyOrder(steps) => return self.any_order(steps),
            Verb::Choose { label, cases } => {
                let params = self.request(label)?.params;
                let mut captures = self.captures.clone();
                let chosen = cases.iter().find(|case| match &case.when {
                    None => true,
                    Some(when) => when.check(params.as_ref(), "$", &mut captures).is_ok(),
                });
                let Some(case) = chosen else {
                    let got = params
                        .as_ref()
                        .map_or_else(String::new, crate::pattern::brief);
                    let message = format!("no case matches the params of {label:?}");
                    return Err(Box::new(Failure::client(message).got(got)));
                };
                self.captures = captures;
                for step in case.steps.iter().rev() {
                    let step = step.clone();
                    self.steps.push_front(super::Pending {
                        step,
                        top_level: false,
                    });
                }
            }
            Verb::Stale { label, answers } => {
                let request = self.request(label)?;
                let session = session_of(request.params.as_ref())
                    .unwrap_or_default()
                    .to_owned();
                let questions: Vec<&str> = answers.keys().map(String::as_str).collect();
                let prompts = self
                    .process()?
                    .prompts
                    .get(&session)
                    .cloned()
                    .unwrap_or_default();
                let question = stale::question(&questions, &prompts).map_err(|named| {
                    let message = match named {
                        Some(named) => format!("the stale agent has no answer to {named:?}"),
                        None => "the prompt has none of the stale agent's questions".to_owned(),
                    };
                    let newest = prompts.last().map_or("", String::as_str);
                    Box::new(Failure::client(message).got(shorten(newest)))
                })?;
                let chunk =
                    message::update(&json!(session), &message::text_chunk(&answers[question]));
                let end = message::response(&request.id, &Ok(json!({"stopReason": "end_turn"})));
                self.write_line(self.current, chunk, None, None);
                self.write_line(self.current, end, Some(request.method), None);
            }
            Verb::Fence => return self.fence(),
            Verb::Delay(time) => match self.delay {
                None => {
                    self.delay = Some(false);
                    self.actions.push_back(Action::Delay(*time));
                    return Ok(Progress::Blocked("the end of the delay".to_owned()));
                }
                Some(false) => return Ok(Progress::Blocked("the end of the delay".to_owned())),
                Some(true) => self.delay = None,
            },
            Verb::Note(text) => self.note(LogEvent::Note(text.clone())),
        }
        Ok(Progress::Done)
    }

    fn not_started(&self) -> Progress {
        Progress::Blocked(match self.current {
            1 => "the client to start the agent".to_owned(),
            number => format!("the client to start agent process {number}"),
        })
    }

    fn returns(&mut self, verb: &Verb) -> Played {
        let Verb::Returns {
            label,
            outcome: expected,
        } = verb
        else {
            return Ok(Progress::Done);
        };
        let Some(outcome) = self.calls.get(label).and_then(Option::as_ref) else {
            return Ok(Progress::Blocked(wanted(verb)));
        };
        expect::outcome(label, expected, outcome, &mut self.captures)?;
        self.calls.remove(label);
        Ok(Progress::Done)
    }

    fn want(&mut self, verb: &Verb) -> Played {
        let index = self.index();
        let Some(process) = self.processes.get(index) else {
            return Ok(self.not_started());
        };
        let Some(incoming) = process.lines.front() else {
            return self.nothing_came(verb);
        };
        expect::line(verb, incoming, process, &mut self.captures)?;
        self.take(verb);
        Ok(Progress::Done)
    }

    /// Binds what the front line brought, which `verb` has been found to want.
    fn take(&mut self, verb: &Verb) {
        let index = self.index();
        let Some(process) = self.processes.get_mut(index) else {
            return;
        };
        let Some(incoming) = process.lines.pop_front() else {
            return;
        };
        match (verb, incoming.body) {
            (Verb::Want { label, .. }, Body::Request { id, method, params }) => {
                process.used.insert(id.to_string());
                if method == "session/prompt"
                    && let Some(session) = session_of(params.as_ref())
                {
                    let text = message::prompt_text(params.as_ref());
                    process
                        .prompts
                        .entry(session.to_owned())
                        .or_default()
                        .push(text);
                }
                if let Some(label) = label {
                    process
                        .requests
                        .insert(label.clone(), Request { id, method, params });
                }
            }
            (Verb::WantReply { label, .. }, _) => {
                if let Some(id) = process.asks.remove(label) {
                    process.asked.remove(&id.to_string());
                }
            }
            _ => {}
        }
    }

    fn want_eof(&mut self) -> Played {
        let index = self.index();
        let Some(process) = self.processes.get(index) else {
            return Ok(self.not_started());
        };
        if let Some(incoming) = process.lines.front() {
            let message = format!("{} was wanted, and a line came", wanted(&Verb::WantEof));
            return Err(Box::new(
                Failure::client(message).got(shorten(&incoming.text)),
            ));
        }
        if process.eof {
            Ok(Progress::Done)
        } else {
            Ok(Progress::Blocked(wanted(&Verb::WantEof)))
        }
    }

    /// No line waits for `verb`: either one may still come, or the client is gone.
    fn nothing_came(&self, verb: &Verb) -> Played {
        let wants = wanted(verb);
        if self.processes.get(self.index()).is_some_and(|p| p.eof) {
            return Err(Box::new(Failure::client(format!(
                "the client closed the agent's input while {wants} was wanted"
            ))));
        }
        Ok(Progress::Blocked(wants))
    }

    /// Takes what has come and matches any of `steps`, which shrink until none is left.
    fn any_order(&mut self, steps: &mut Vec<Step>) -> Played {
        loop {
            let mut tried: Vec<String> = Vec::new();
            let mut only = None;
            let mut taken = None;
            for (position, step) in steps.iter_mut().enumerate() {
                match self.play_one_of(step) {
                    Ok(Progress::Done) => {
                        taken = Some(position);
                        break;
                    }
                    Ok(Progress::End) => return Ok(Progress::End),
                    Ok(Progress::Blocked(what)) => tried.push(what),
                    Err(failure) if matches!(step.verb, Verb::Returns { .. }) => {
                        return Err(failure);
                    }
                    Err(failure) => {
                        tried.push(wanted(&step.verb));
                        only = Some(failure);
                    }
                }
            }
            match (taken, only) {
                (Some(position), _) => {
                    steps.remove(position);
                    if steps.is_empty() {
                        return Ok(Progress::Done);
                    }
                }
                // With one step, or at the end of the input, its own message says it best.
                (None, Some(failure)) if tried.len() == 1 || failure.got.is_none() => {
                    return Err(failure);
                }
                (None, Some(failure)) => {
                    let message = format!("what came is none of: {}", tried.join(", "));
                    return Err(Box::new(Failure {
                        message,
                        ..*failure
                    }));
                }
                (None, None) => return Ok(Progress::Blocked(tried.join(", or "))),
            }
        }
    }

    /// A step of `any_order`. The end of input is no failure while a `want_eof` may take it.
    fn play_one_of(&mut self, step: &mut Step) -> Played {
        if self.role == Role::AgentOnly && matches!(step.verb, Verb::Returns { .. }) {
            return Ok(Progress::Done);
        }
        match &step.verb {
            Verb::Returns { .. } => self.returns(&step.verb),
            Verb::WantEof => match self.processes.get(self.index()) {
                // Lines are for the other steps.
                Some(process) if !process.lines.is_empty() => {
                    Ok(Progress::Blocked(wanted(&step.verb)))
                }
                _ => self.want_eof(),
            },
            verb => self.want(verb),
        }
    }

    fn next_process(&mut self, number: u32) -> Played {
        if self.role == Role::AgentOnly {
            return Ok(Progress::End);
        }
        let before = self.current;
        let Some(process) = self.processes.get(self.index()) else {
            return Ok(self.not_started());
        };
        if let Some(incoming) = process.lines.front() {
            let message = "no step takes what the client wrote".to_owned();
            return Err(Box::new(
                Failure::client(message).got(shorten(&incoming.text)),
            ));
        }
        if !(process.eof || process.ended) {
            return Ok(Progress::Blocked(format!(
                "the end of agent process {before}"
            )));
        }
        self.current = number;
        Ok(Progress::Done)
    }

    fn fence(&mut self) -> Played {
        let number = self.current;
        let process = self.process()?;
        let Some(id) = process.fence.clone() else {
            // Far from the ids of other requests, which a transcript may choose.
            let id = free_id(process, 1_000_000);
            process.fence = Some(id.clone());
            process.asked.insert(id.to_string(), "_fence".to_owned());
            self.write_line(number, message::request(&id, "_fence", None), None, None);
            return self.fence();
        };
        let answers = |incoming: &Incoming| matches!(&incoming.body, Body::Response { id: answered, .. } if *answered == id);
        let Some(position) = process.lines.iter().position(answers) else {
            let eof = process.eof;
            let wants = "the answer to the fence";
            if eof {
                return Err(Box::new(Failure::client(format!(
                    "the client closed the agent's input while {wants} was wanted"
                ))));
            }
            return Ok(Progress::Blocked(wants.to_owned()));
        };
        process.fence = None;
        if let Some(incoming) = process.lines.remove(position)
            && let Some(problem) = incoming.problem
        {
            let message = format!("the answer to the fence was wanted, and {problem}");
            return Err(Box::new(
                Failure::client(message).got(shorten(&incoming.text)),
            ));
        }
        Ok(Progress::Done)
    }

    /// The request bound to `label`. Whether there is one was checked when the transcript was read.
    pub(super) fn request(&mut self, label: &str) -> Result<Request, Box<Failure>> {
        let bound = self.process()?.requests.get(label).cloned();
        bound.ok_or_else(|| {
            let message = format!("no request is bound to {label:?}");
            Box::new(Failure {
                fault: Fault::Fixture,
                ..Failure::client(message)
            })
        })
    }

    pub(super) fn process(&mut self) -> Result<&mut Process, Box<Failure>> {
        let index = self.index();
        self.processes.get_mut(index).ok_or_else(|| {
            let message = "the agent has not started".to_owned();
            Box::new(Failure {
                fault: Fault::Fixture,
                ..Failure::client(message)
            })
        })
    }

    /// Where the current process stands in `processes`, if it has started.
    fn index(&self) -> usize {
        usize::try_from(self.current).map_or(usize::MAX, |number| number.saturating_sub(1))
    }
}
