//! The steps that every agent is taken through, in one process.

use std::{
    fs,
    sync::mpsc,
    time::{Duration, Instant},
};

use acp_core::{
    AcpModel, GenerateRequest, LoadOptions, PermissionDecision, PermissionRequest, load_acp,
};
use serde::{Deserialize, Serialize};

use super::{
    pins::{Agent, Answers},
    place::Place,
};

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The process, `initialize` and `session/new`.
    Start,
    /// The first turn.
    Ask,
    /// Three more turns in the same session.
    Warm,
    /// A tool that needs a permission, which is given.
    Tool,
    /// A cancel in the middle of an answer, and another turn after it.
    Cancel,
    /// The end of the process, with nothing left of it.
    Close,
    /// Turns with each state policy.
    Full,
    Fresh,
    Delta,
    /// A loop of five turns with two tools of the host.
    Tools,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// How long it took.
    Took(Duration),
    Failed(String),
    /// The agent has nothing for it, and why.
    Lacks(String),
    /// A step before it failed.
    NotReached,
}

/// What came of one agent.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub agent: String,
    /// Why it was not driven.
    pub skipped: Option<String>,
    pub cells: Vec<(Step, Cell)>,
}

impl Step {
    pub const ALL: [Step; 10] = [
        Step::Start,
        Step::Ask,
        Step::Warm,
        Step::Tool,
        Step::Cancel,
        Step::Close,
        Step::Full,
        Step::Fresh,
        Step::Delta,
        Step::Tools,
    ];
}

impl Row {
    pub fn new(agent: &Agent) -> Row {
        Row {
            name: agent.name.clone(),
            agent: agent.pin.agent.clone(),
            skipped: None,
            cells: Vec::new(),
        }
    }

    pub fn skipped(agent: &Agent, why: String) -> Row {
        Row {
            skipped: Some(why),
            ..Row::new(agent)
        }
    }

    pub fn is_skipped(&self) -> bool {
        self.skipped.is_some()
    }

    pub fn has_failed(&self) -> bool {
        let is_failure = |cell: &Cell| matches!(cell, Cell::Failed(_) | Cell::NotReached);
        !self.is_skipped() && Step::ALL.iter().any(|&step| is_failure(&self.cell(step)))
    }

    pub fn cell(&self, step: Step) -> Cell {
        let mut cells = self.cells.iter();
        let found = cells.find(|(of, _)| *of == step);
        found.map_or(Cell::NotReached, |(_, cell)| cell.clone())
    }

    pub fn set(&mut self, step: Step, cell: Cell) {
        self.cells.push((step, cell));
    }
}

/// Takes an agent through all steps but those of the state policies.
pub fn drive(agent: &Agent, place: Result<Place, String>, row: &mut Row) {
    let started = place.and_then(|place| {
        let (asked, permissions) = mpsc::channel();
        let options = place.options().ask_permission(move |request| {
            // The other end is there as long as the agent is.
            let _gone = asked.send(request.clone());
            allow_once(request)
        });
        let (model, took) = start(options)?;
        let driven = Driven {
            agent,
            place,
            model,
            permissions,
        };
        Ok((driven, took))
    });
    let driven = match started {
        Ok((driven, took)) => {
            row.set(Step::Start, Cell::Took(took));
            driven
        }
        Err(why) => return row.set(Step::Start, Cell::Failed(why)),
    };
    for step in [Step::Ask, Step::Warm, Step::Tool, Step::Cancel, Step::Close] {
        let cell = match agent.pin.lacks.get(&step) {
            Some(why) => Cell::Lacks(why.clone()),
            None => match driven.take(step) {
                Ok(took) => Cell::Took(took),
                Err(why) => Cell::Failed(driven.with_diagnostics(why)),
            },
        };
        row.set(step, cell);
    }
}

/// Loads an agent, and how long it took.
pub fn start(options: LoadOptions) -> Result<(AcpModel, Duration), String> {
    let begun = Instant::now();
    let model = load_acp(options).map_err(|error| error.to_string())?;
    Ok((model, begun.elapsed()))
}

/// Whether an answer to this question is the right one.
pub fn check_answer(agent: &Agent, question: &str, answer: &str) -> Result<(), String> {
    let said = match agent.pin.answers {
        Answers::Model => format!("MOCK: {question}"),
        Answers::Echo => question.to_owned(),
        Answers::Fixed => String::new(),
    };
    // The mock model echoes the end of a text that the agent may have put something in front of.
    let is_right = answer.contains(&said)
        || agent.pin.answers == Answers::Model
            && answer.contains("MOCK: ")
            && answer.trim_end().ends_with(question);
    match is_right {
        true => Ok(()),
        false => Err(format!("asked `{question}`, it answered `{answer}`")),
    }
}

/// The middle one.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A process on its way through the steps.
struct Driven<'a> {
    agent: &'a Agent,
    model: AcpModel,
    permissions: mpsc::Receiver<PermissionRequest>,
    place: Place,
}

impl Driven<'_> {
    fn take(&self, step: Step) -> Result<Duration, String> {
        match step {
            Step::Ask => self.ask_once(),
            Step::Warm => self.ask_again(),
            Step::Tool => self.use_a_tool(),
            Step::Cancel => self.cancel(),
            Step::Close => self.close(),
            Step::Start | Step::Full | Step::Fresh | Step::Delta | Step::Tools => {
                Err("this is no step of a process that runs".into())
            }
        }
    }

    fn ask_once(&self) -> Result<Duration, String> {
        self.ask("Is anybody there?")
    }

    fn ask_again(&self) -> Result<Duration, String> {
        let before = (
            self.model.agent().process_id(),
            self.model.session().session_id,
        );
        let questions = ["Who is it?", "Since when?", "And until when?"];
        let times: Result<Vec<_>, _> = questions.map(|text| self.ask(text)).into_iter().collect();
        let times = times?;
        let after = (
            self.model.agent().process_id(),
            self.model.session().session_id,
        );
        match before == after {
            true => Ok(median(times)),
            false => Err("the process or the session is another one".into()),
        }
    }

    fn use_a_tool(&self) -> Result<Duration, String> {
        let file = self.place.work.join("written.txt");
        // Those of the turns before, if the agent asks in each.
        while self.permissions.try_recv().is_ok() {}
        let question = format!("Please use a tool path={}", file.display());
        let begun = Instant::now();
        let answer = self.generate(&question)?;
        let took = begun.elapsed();
        if self.permissions.try_recv().is_err() {
            return Err(format!(
                "it asked for no permission and answered `{answer}`"
            ));
        }
        if self.agent.pin.answers == Answers::Model {
            if !answer.contains("MOCK: the tool gave: ") {
                return Err(format!(
                    "it gave the model no result; it answered `{answer}`"
                ));
            }
            if !fs::exists(&file).unwrap_or_default() {
                return Err(format!("the tool did nothing; it answered `{answer}`"));
            }
        }
        Ok(took)
    }

    /// How long the agent takes to end a turn that is cancelled.
    fn cancel(&self) -> Result<Duration, String> {
        let session = self.model.session().session_id;
        let request = GenerateRequest::user("Please go slow");
        let turn = self
            .model
            .start(&request, self.model.main_lane().turn_options())
            .map_err(|error| error.to_string())?;
        let canceller = turn.canceller();
        let mut cancelled = None;
        let ended = turn.wait_with(|_| {
            cancelled.get_or_insert_with(|| {
                canceller.cancel();
                Instant::now()
            });
        });
        let took = cancelled.map(|at| at.elapsed());
        let Some(took) = took else {
            return Err(format!("no text came to cancel at: {ended:?}"));
        };
        match ended {
            Err(error) if error.kind() == "cancelled" => {}
            other => return Err(format!("a turn that was cancelled ended with {other:?}")),
        }
        self.ask("Still there?")?;
        match self.model.session().session_id == session {
            true => Ok(took),
            false => Err("it did not end the turn, so its session was given up".into()),
        }
    }

    fn close(&self) -> Result<Duration, String> {
        let leader = self.model.agent().process_id();
        let begun = Instant::now();
        self.model.close();
        let took = begun.elapsed();
        match members(leader) {
            left if left.is_empty() => Ok(took),
            left => Err(format!("still running: {}", left.join(", "))),
        }
    }

    fn ask(&self, question: &str) -> Result<Duration, String> {
        let begun = Instant::now();
        let answer = self.generate(question)?;
        let took = begun.elapsed();
        check_answer(self.agent, question, &answer)?;
        Ok(took)
    }

    fn generate(&self, question: &str) -> Result<String, String> {
        let request = GenerateRequest::user(question);
        let answer = self.model.generate(&request);
        answer
            .map(|answer| answer.content)
            .map_err(|error| format!("asked `{question}`: {error}"))
    }

    fn with_diagnostics(&self, why: String) -> String {
        match self.model.agent().diagnostics().trim() {
            "" => why,
            said => format!("{why}\n{said}"),
        }
    }
}

/// What `allow_always` would allow is more than what was asked for, and some agents fail over it.
fn allow_once(request: &PermissionRequest) -> PermissionDecision {
    let options = &request.options;
    let option = ["allow_once", "allow_always"]
        .iter()
        .find_map(|kind| options.iter().find(|option| option.kind == *kind));
    option.map_or(PermissionDecision::Cancelled, |option| {
        PermissionDecision::Select(option.option_id.clone())
    })
}

/// The processes that run in the group of this leader, as far as the system tells.
fn members(leader: u32) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let stats = processes.filter_map(|process| {
        // What ends while the directory is read has no file any more.
        fs::read_to_string(process.ok()?.path().join("stat")).ok()
    });
    let running = stats.filter(|stat| {
        // `pid (name) state parent group …`, where the name may hold anything.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let fields: Vec<_> = fields.split(' ').collect();
        fields.first() != Some(&"Z") && fields.get(2) == Some(&&*leader.to_string())
    });
    running
        .map(|stat| {
            stat.chars()
                .take_while(|&c| c != ')')
                .chain([')'])
                .collect()
        })
        .collect()
}
