//! Checks of sessions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    Verdict,
    bench::{Bench, Finding, open, session_params, wants_login},
    message::{request_refused, some_answer},
    talk::{Agent, Answer, Message, Stop},
};

const UNKNOWN_SESSION: &str = "acp-conformance-no-such-session";

pub(super) fn new(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let params = session_params(bench.options);
    let limit = bench.options.limits.start;
    let agent = bench.agent()?;
    let id = agent.send("session/new", &params);
    let answer = agent.answer_to(&id, limit)?;
    Ok(match &answer.result {
        Err(error) => match wants_login(error) {
            Some(stop) => return Err(stop),
            None => Finding::error(Verdict::Wrong, error),
        },
        Ok(result) => match result.get("sessionId").and_then(Value::as_str) {
            None => Finding::new(Verdict::Wrong, "no session id"),
            Some("") => Finding::new(Verdict::Wrong, "an empty session id"),
            Some(_) => Finding::new(Verdict::Ok, "session id"),
        },
    })
}

pub(super) fn unique_ids(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let options = bench.options;
    let (agent, first) = bench.session()?;
    let second = open(agent, options)?;
    Ok(if first.id == second.id {
        Finding::new(Verdict::Wrong, "the same id")
    } else {
        Finding::new(Verdict::Ok, "two ids")
    })
}

pub(super) fn relative_cwd(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let answer = ask_new(
        bench,
        &json!({"cwd": "relative/directory", "mcpServers": []}),
    )?;
    Ok(request_refused(&answer, -32602))
}

pub(super) fn missing_cwd(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let missing = bench.options.cwd.join("no-such-directory");
    let answer = ask_new(bench, &json!({"cwd": missing, "mcpServers": []}))?;
    Ok(some_answer(&answer))
}

pub(super) fn no_mcp_servers(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let cwd = bench.options.cwd.clone();
    let answer = ask_new(bench, &json!({"cwd": cwd}))?;
    Ok(request_refused(&answer, -32602))
}

pub(super) fn unknown(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let params = bench.prompt(UNKNOWN_SESSION, &bench.options.prompts.plain);
    let limit = bench.options.limits.turn;
    let agent = bench.agent()?;
    let id = agent.send("session/prompt", &params);
    let answer = agent.answer_to(&id, limit)?;
    Ok(match &answer.result {
        Ok(result) => Finding::new(Verdict::Differs, stop_reason(result)),
        Err(_) => request_refused(&answer, -32002),
    })
}

pub(super) fn load_unknown(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    loads(bench)?;
    let params = load_params(bench, UNKNOWN_SESSION);
    let limit = bench.options.limits.start;
    let agent = bench.agent()?;
    let id = agent.send("session/load", &params);
    let answer = agent.answer_to(&id, limit)?;
    Ok(request_refused(&answer, -32002))
}

pub(super) fn unknown_mode(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let (agent, session) = bench.session()?;
    let params = json!({"sessionId": session.id, "modeId": "acp-conformance-no-such-mode"});
    let answer = agent.ask("session/set_mode", &params)?;
    Ok(match &answer.result {
        Ok(_) => Finding::new(Verdict::Differs, "answered"),
        Err(error) => Finding::error(Verdict::Ok, error),
    })
}

pub(super) fn load(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    loads(bench)?;
    let Some(told) = bench.told.clone() else {
        let why = "no turn has ended well, so there is nothing to load";
        return Err(Stop::NotApplicable(why.to_owned()));
    };
    // A session that another process has written, as after a restart.
    let limits = bench.options.limits;
    if let Ok(agent) = bench.agent() {
        agent.close();
        agent.wait_for_end(limits.exit)?;
    }
    bench.lose();

    let params = load_params(bench, &told.id);
    let mut agent = bench.ready()?;
    let id = agent.send("session/load", &params);
    let mut before = Vec::new();
    let mut answer = None;
    agent.until(limits.start, "an answer", |message| {
        match message {
            Message::Answer(one) if one.id.as_ref() == Some(&id) => answer = Some(one.clone()),
            other => before.extend(replayed(other, &told.id)),
        }
        answer.is_some()
    })?;
    if let Some(Answer {
        result: Err(error), ..
    }) = answer
    {
        return Ok(Finding::error(Verdict::Wrong, &error));
    }
    let after = rest_of_replay(&mut agent, &told.id, limits.settle)?;
    let whole = |replay: &[&str]| {
        replay.contains(&"user_message_chunk") && replay.contains(&"agent_message_chunk")
    };
    Ok(match (whole(&before), after.is_empty()) {
        (true, true) => Finding::new(Verdict::Ok, "replays, then answers"),
        (_, false) => Finding::new(Verdict::Wrong, "answers before the end of the replay"),
        (false, true) if before.is_empty() => Finding::new(Verdict::Wrong, "replays nothing"),
        (false, true) => Finding::new(Verdict::Wrong, "replays one side only"),
    })
}

/// The word for how a turn ended.
pub(super) fn stop_reason(result: &Value) -> String {
    match result.get("stopReason").and_then(Value::as_str) {
        Some(reason) => reason.to_owned(),
        None => "no stop reason".to_owned(),
    }
}

fn ask_new(bench: &mut Bench<'_>, params: &Value) -> Result<Answer, Stop> {
    let limit = bench.options.limits.start;
    let agent = bench.agent()?;
    let id = agent.send("session/new", params);
    agent.answer_to(&id, limit)
}

fn loads(bench: &Bench<'_>) -> Result<(), Stop> {
    if bench.can("loadSession") {
        return Ok(());
    }
    Err(Stop::NotApplicable(
        "the agent does not advertise loadSession".to_owned(),
    ))
}

fn load_params(bench: &Bench<'_>, session: &str) -> Value {
    let mut params = session_params(bench.options);
    params["sessionId"] = json!(session);
    params
}

/// The kind of a piece of the conversation.
fn replayed(message: &Message, session: &str) -> Option<&'static str> {
    let Message::Notification { method, params } = message else {
        return None;
    };
    let of_session = params.get("sessionId").and_then(Value::as_str) == Some(session);
    let kind = params
        .pointer("/update/sessionUpdate")
        .and_then(Value::as_str);
    match kind {
        Some("user_message_chunk") if method == "session/update" && of_session => {
            Some("user_message_chunk")
        }
        Some("agent_message_chunk") if method == "session/update" && of_session => {
            Some("agent_message_chunk")
        }
        _ => None,
    }
}

/// What still comes of the conversation.
fn rest_of_replay(
    agent: &mut Agent,
    session: &str,
    limit: Duration,
) -> Result<Vec<&'static str>, Stop> {
    let deadline = Instant::now() + limit;
    let mut rest = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match agent.until(left, "more", |message| replayed(message, session).is_some()) {
            Ok(message) => rest.extend(replayed(&message, session)),
            Err(Stop::Timeout(_)) => return Ok(rest),
            Err(stop) => return Err(stop),
        }
    }
}
