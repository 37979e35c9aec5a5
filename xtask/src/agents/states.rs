//! The state policies: a conversation that grows, an edit in its past, and what of it reaches the model.

use std::time::{Duration, Instant};

use acp_core::{AcpModel, GenerateRequest, Message, StatePolicy};
use acp_mock_model::{MockModel, Request, Script};

use super::{
    drive::{Cell, Step, check_answer, median, start},
    pins::{Agent, Answers},
    place::Place,
};

pub const POLICIES: [Policy; 3] = [
    Policy(StatePolicy::FullRequest),
    Policy(StatePolicy::FreshSession),
    Policy(StatePolicy::VerifiedDelta),
];

#[derive(Debug, Clone, Copy)]
pub struct Policy(StatePolicy);

impl Policy {
    pub fn step(self) -> Step {
        match self.0 {
            StatePolicy::FreshSession => Step::Fresh,
            StatePolicy::VerifiedDelta => Step::Delta,
            _ => Step::Full,
        }
    }

    /// How often the model sees a line of the first request in the third one.
    fn copies(self) -> usize {
        match self.0 {
            StatePolicy::FullRequest => 3,
            _ => 1,
        }
    }

    /// How often it sees a line that the host has edited since.
    fn stale_copies(self) -> usize {
        match self.0 {
            StatePolicy::FullRequest => self.copies(),
            _ => 0,
        }
    }
}

/// The middle time of the turns after the first.
pub fn drive(agent: &Agent, place: Result<Place, String>, policy: Policy) -> Cell {
    let took = place.and_then(|place| {
        place.model.set_script(Script::Last);
        let (model, _) = start(place.options().state(policy.0))?;
        let took = converse(agent, policy, &model, &place.model);
        model.close();
        took
    });
    match took {
        Ok(took) => Cell::Took(took),
        Err(why) => Cell::Failed(why),
    }
}

const FIRST: &str = "Which colour is first?";
const EDITED: &str = "Which colour was first?";

fn converse(
    agent: &Agent,
    policy: Policy,
    model: &AcpModel,
    mock: &MockModel,
) -> Result<Duration, String> {
    let mut conversation = vec![Message::system("Be terse.")];
    let mut times = Vec::new();
    let mut ask = |conversation: &mut Vec<Message>, question: &str| {
        mock.take_requests();
        conversation.push(Message::user(question));
        let begun = Instant::now();
        let request = GenerateRequest::new(conversation.clone());
        let answer = model
            .generate(&request)
            .map_err(|error| format!("asked `{question}`: {error}"))?;
        times.push(begun.elapsed());
        check_answer(agent, question, &answer.content)?;
        conversation.push(Message::assistant(answer.content));
        Ok::<_, String>(Seen::by(mock, question))
    };
    ask(&mut conversation, FIRST)?;
    ask(&mut conversation, "Which is second?")?;
    let third = ask(&mut conversation, "Which is third?")?;
    conversation[1] = Message::user(EDITED);
    let fourth = ask(&mut conversation, "Which is fourth?")?;
    if agent.pin.answers == Answers::Model {
        third.check("in the third turn", FIRST, policy.copies())?;
        fourth.check("after an edit", FIRST, policy.stale_copies())?;
        fourth.check("after an edit", EDITED, 1)?;
    }
    Ok(median(times.split_off(1)))
}

/// What the model was sent in one turn.
struct Seen(String);

impl Seen {
    /// Agents ask on the side, too; what the turn is about is in the longest request with its question.
    fn by(mock: &MockModel, question: &str) -> Seen {
        let bodies = mock
            .requests()
            .into_iter()
            .map(|request: Request| request.body.to_string());
        let about = bodies.filter(|body| body.contains(question));
        Seen(about.max_by_key(String::len).unwrap_or_default())
    }

    /// Whether the user says this so often. (What is answered may repeat it.)
    fn check(&self, when: &str, question: &str, want: usize) -> Result<(), String> {
        let line = format!("user: {question}");
        match self.0.matches(&*line).count() {
            seen if seen == want => Ok(()),
            seen => Err(format!(
                "{when} the model is sent `{line}` {seen} times, and not {want}"
            )),
        }
    }
}
