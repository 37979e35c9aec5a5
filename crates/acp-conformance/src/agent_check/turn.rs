//! Checks of prompt turns.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    Verdict,
    bench::{Bench, Finding, Session, wants_login},
    session::stop_reason,
    talk::{Agent, Answer, Message, Stop},
};

/// How often an agent may ask for permission in one turn. One that tries again and again is not waited
/// for.
const ASKED_AT_MOST: usize = 20;

pub(super) fn answer(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    plain_turn(bench, |_| true)
}

pub(super) fn second(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    plain_turn(bench, |_| true)
}

pub(super) fn cancel_idle(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let (agent, session) = bench.session()?;
    agent.notify("session/cancel", &json!({"sessionId": session.id}));
    if let Some(answer) = agent.fence()?.first() {
        let outcome = match &answer.result {
            Ok(_) => "answered".to_owned(),
            Err(error) => format!("error {}", error.code),
        };
        return Ok(Finding::new(Verdict::Wrong, outcome));
    }
    plain_turn(bench, |reason| reason != "cancelled")
}

pub(super) fn cancel(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let limit = bench.options.limits.cancel;
    let (agent, session, prompt) = slow_turn(bench)?;
    agent.notify("session/cancel", &json!({"sessionId": session.id}));
    let answer = agent.answer_to(&prompt, limit);
    Ok(cancelled(&answer?))
}

pub(super) fn after_cancel(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    cancel(bench)?;
    let finding = plain_turn(bench, |reason| reason != "cancelled");
    bench.leave_session();
    finding
}

pub(super) fn busy(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let limits = bench.options.limits;
    let plain = bench.options.prompts.plain.clone();
    let (_, session, first) = slow_turn(bench)?;
    bench.leave_session();
    let params = bench.prompt(&session.id, &plain);
    let agent = bench.agent()?;
    let second = agent.send("session/prompt", &params);
    let ids = [&first, &second];
    let mut ends: [Option<Answer>; 2] = [None, None];
    let early = collect(agent, ids, &mut ends, 1, limits.settle)?;
    let outcome = match (&ends, early) {
        (
            [
                None,
                Some(Answer {
                    result: Err(error), ..
                }),
            ],
            _,
        ) => {
            format!("refuses the second with {}", error.code)
        }
        ([None, Some(_)], _) => "runs both at once".to_owned(),
        ([Some(_), _], _) => "ends the first".to_owned(),
        ([None, None], _) => "queues".to_owned(),
    };
    if ends[0].is_none() {
        agent.notify("session/cancel", &json!({"sessionId": session.id}));
    }
    // The first ends as it was cancelled, the second when its turn comes.
    if !collect(agent, ids, &mut ends, 2, limits.cancel)? {
        let which = if ends[0].is_none() { "first" } else { "second" };
        return Err(Stop::Timeout(format!(
            "{outcome}; the {which} is never answered"
        )));
    }
    let [Some(first), Some(second)] = ends else {
        return Err(Stop::Timeout("an answer is missing".to_owned()));
    };
    let outcome = if outcome.starts_with("refuses") {
        format!("{outcome}; {}", end(&first))
    } else {
        format!("{outcome}; {}, {}", end(&first), end(&second))
    };
    Ok(Finding::new(Verdict::Ok, outcome))
}

pub(super) fn permission_reject(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let limit = bench.options.limits.turn;
    let (agent, session, prompt, mut asked) = tool_turn(bench)?;
    let mut seen = None;
    for _ in 0..ASKED_AT_MOST {
        let (id, params) = asked;
        seen.get_or_insert_with(|| params.clone());
        agent.refuse(&id, "session/request_permission", &params);
        match next_question(agent, &prompt, limit)? {
            Question::Permission(id, params) => asked = (id, params),
            Question::End(answer) => {
                let reason = reason_or_error(&answer)?;
                let verdict = match &answer.result {
                    Ok(_) if reason != "no stop reason" => Verdict::Ok,
                    _ => Verdict::Wrong,
                };
                bench.options_seen = seen.as_ref().map(option_kinds);
                bench.leave_session();
                return Ok(Finding::new(verdict, reason));
            }
        }
    }
    agent.notify("session/cancel", &json!({"sessionId": session.id}));
    bench.lose();
    Ok(Finding::new(Verdict::Wrong, "asks again and again"))
}

pub(super) fn permission_options(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    if bench.options_seen.is_none() {
        // The check before this one was not wanted, or found nothing.
        permission_reject(bench)?;
    }
    let Some(options) = bench.options_seen.clone() else {
        return Err(Stop::NotApplicable("no options were seen".to_owned()));
    };
    let verdict = match options.is_empty() || options.iter().any(|kind| kind == TWICE) {
        true => Verdict::Wrong,
        false => Verdict::Ok,
    };
    Ok(Finding::new(verdict, options.join(", ")))
}

pub(super) fn permission_cancel(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let limit = bench.options.limits.cancel;
    let (agent, session, prompt, (id, _)) = tool_turn(bench)?;
    agent.notify("session/cancel", &json!({"sessionId": session.id}));
    // As a client must.
    agent.reply(&id, &json!({"outcome": {"outcome": "cancelled"}}));
    let answer = agent.answer_to(&prompt, limit)?;
    bench.leave_session();
    Ok(cancelled(&answer))
}

/// Starts a turn that lasts, and waits for its first text. The shared process is busy then.
pub(super) fn slow_turn<'b>(
    bench: &'b mut Bench<'_>,
) -> Result<(&'b mut Agent, Session, Value), Stop> {
    let (_, session) = bench.session()?;
    let params = bench.prompt(&session.id, &bench.options.prompts.slow);
    let limit = bench.options.limits.turn;
    let agent = bench.agent()?;
    let prompt = begin_slow(agent, &params, limit)?;
    Ok((agent, session, prompt))
}

/// Prompts, and waits for the first text of a turn that lasts.
pub(super) fn begin_slow(
    agent: &mut Agent,
    params: &Value,
    limit: Duration,
) -> Result<Value, Stop> {
    let prompt = agent.send("session/prompt", params);
    let session = params.get("sessionId").cloned().unwrap_or_default();
    let first = agent.until(limit, "text", |message| {
        is_text(message, &session) || ends(message, &prompt).is_some()
    })?;
    // A short answer ends soon after its first text.
    let lasts = agent.limits().lasts;
    let last = match first {
        Message::Answer(_) => Ok(first),
        _ => agent.until(lasts, "an answer", |message| {
            ends(message, &prompt).is_some()
        }),
    };
    match last {
        Ok(message) => {
            let reason = match ends(&message, &prompt) {
                Some(answer) => reason_or_error(answer)?,
                None => "no answer".to_owned(),
            };
            let why = format!("the turn was over ({reason}) before anything could be done to it");
            Err(Stop::NotApplicable(why))
        }
        Err(Stop::Timeout(_)) => Ok(prompt),
        Err(stop) => Err(stop),
    }
}

/// A turn in which nothing is done but wait.
fn plain_turn(bench: &mut Bench<'_>, is_right: fn(&str) -> bool) -> Result<Finding, Stop> {
    let (_, session) = bench.session()?;
    let params = bench.prompt(&session.id, &bench.options.prompts.plain);
    let limit = bench.options.limits.turn;
    let agent = bench.agent()?;
    let prompt = agent.send("session/prompt", &params);
    let mut texts = 0_usize;
    let mut answer = None;
    agent.until(limit, "an answer", |message| {
        texts += usize::from(is_text(message, &params["sessionId"]));
        answer = ends(message, &prompt).cloned();
        answer.is_some()
    })?;
    let answer = answer.ok_or_else(|| Stop::Timeout("no answer".to_owned()))?;
    if let Err(error) = &answer.result {
        return match wants_login(error) {
            Some(stop) => Err(stop),
            None => Ok(Finding::error(Verdict::Wrong, error)),
        };
    }
    let reason = reason_or_error(&answer)?;
    if reason == "no stop reason" || !is_right(&reason) {
        return Ok(Finding::new(Verdict::Wrong, reason));
    }
    bench.told.get_or_insert(session);
    Ok(if texts == 0 {
        Finding::new(Verdict::Differs, format!("{reason}, no text"))
    } else {
        Finding::new(Verdict::Ok, reason)
    })
}

type Asked = (Value, Value);

/// Starts a turn in which the agent asks for permission, up to the question.
fn tool_turn<'b>(bench: &'b mut Bench<'_>) -> Result<(&'b mut Agent, Session, Value, Asked), Stop> {
    let (_, session) = bench.session()?;
    let params = bench.prompt(&session.id, &bench.options.prompts.tool);
    let limit = bench.options.limits.turn;
    let agent = bench.agent()?;
    let prompt = agent.send("session/prompt", &params);
    match next_question(agent, &prompt, limit)? {
        Question::Permission(id, params) => Ok((agent, session, prompt, (id, params))),
        Question::End(answer) => {
            let reason = reason_or_error(&answer)?;
            let why = format!("the turn ended ({reason}) and the agent asked for no permission");
            Err(Stop::NotApplicable(why))
        }
    }
}

enum Question {
    Permission(Value, Value),
    End(Answer),
}

fn next_question(agent: &mut Agent, prompt: &Value, limit: Duration) -> Result<Question, Stop> {
    let message = agent.until(limit, "an answer", |message| {
        let asks = matches!(message, Message::Request { method, .. } if method == "session/request_permission");
        asks || ends(message, prompt).is_some()
    })?;
    Ok(match message {
        Message::Request { id, params, .. } => Question::Permission(id, params),
        Message::Answer(answer) => Question::End(answer),
        Message::Notification { .. } => {
            return Err(Stop::Timeout("no answer".to_owned()));
        }
    })
}

/// Waits until this many of the requests are answered. False if they are not in time.
fn collect(
    agent: &mut Agent,
    ids: [&Value; 2],
    ends: &mut [Option<Answer>; 2],
    wanted: usize,
    limit: Duration,
) -> Result<bool, Stop> {
    let deadline = Instant::now() + limit;
    while ends.iter().flatten().count() < wanted {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = agent.until(left, "an answer", |message| {
            ids.iter().any(|id| self::ends(message, id).is_some())
        });
        match message {
            Ok(Message::Answer(answer)) => {
                let first = answer.id.as_ref() == Some(ids[0]);
                ends[usize::from(!first)] = Some(answer);
            }
            Ok(_) => {}
            Err(Stop::Timeout(_)) => return Ok(false),
            Err(stop) => return Err(stop),
        }
    }
    Ok(true)
}

fn cancelled(answer: &Answer) -> Finding {
    match &answer.result {
        Err(error) => Finding::error(Verdict::Wrong, error),
        Ok(result) => {
            let reason = stop_reason(result);
            let verdict = match reason == "cancelled" {
                true => Verdict::Ok,
                false => Verdict::Wrong,
            };
            Finding::new(verdict, reason)
        }
    }
}

fn end(answer: &Answer) -> String {
    match &answer.result {
        Ok(result) => stop_reason(result),
        Err(error) => format!("error {}", error.code),
    }
}

/// How the turn ended. A login that is wanted leaves nothing to check.
fn reason_or_error(answer: &Answer) -> Result<String, Stop> {
    match &answer.result {
        Err(error) => match wants_login(error) {
            Some(stop) => Err(stop),
            None => Ok(end(answer)),
        },
        Ok(_) => Ok(end(answer)),
    }
}

/// The message, if it answers the request.
fn ends<'m>(message: &'m Message, id: &Value) -> Option<&'m Answer> {
    match message {
        Message::Answer(answer) if answer.id.as_ref() == Some(id) => Some(answer),
        _ => None,
    }
}

/// Whether the message is a piece of the answer in this session.
fn is_text(message: &Message, session: &Value) -> bool {
    let Message::Notification { method, params } = message else {
        return false;
    };
    let kind = params
        .pointer("/update/sessionUpdate")
        .and_then(Value::as_str);
    method == "session/update"
        && params.get("sessionId") == Some(session)
        && kind == Some("agent_message_chunk")
}

/// Stands for an option whose id another one before it has.
const TWICE: &str = "an id that is there twice";

/// The kinds of the options, in their order.
fn option_kinds(params: &Value) -> Vec<String> {
    let options = params.get("options").and_then(Value::as_array);
    let mut ids = Vec::new();
    let mut kinds = Vec::new();
    for option in options.into_iter().flatten() {
        let id = option.get("optionId").cloned().unwrap_or_default();
        let kind = option
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or("no kind");
        kinds.push(if ids.contains(&id) { TWICE } else { kind }.to_owned());
        ids.push(id);
    }
    kinds
}
