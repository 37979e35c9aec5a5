//! Checks of `initialize`.

use serde_json::{Value, json};

use super::{
    Verdict,
    bench::{Bench, Finding, initialize_params, session_params},
    message::{request_refused, some_answer},
    talk::Stop,
};

/// A version that is not there for some time.
const UNKNOWN_VERSION: u64 = 99;

pub(super) fn version(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let version = bench.initialized().get("protocolVersion");
    let verdict = match version == Some(&json!(1)) {
        true => Verdict::Ok,
        false => Verdict::Wrong,
    };
    Ok(Finding::new(verdict, version_outcome(version)))
}

pub(super) fn unknown_version(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let mut agent = bench.fresh()?;
    let result = match bench.initialize(&mut agent, UNKNOWN_VERSION)?.result {
        Ok(result) => result,
        Err(error) => return Ok(Finding::error(Verdict::Wrong, &error)),
    };
    let version = result.get("protocolVersion");
    let known = version
        .and_then(Value::as_u64)
        .is_some_and(|version| version < UNKNOWN_VERSION);
    let verdict = if known { Verdict::Ok } else { Verdict::Wrong };
    Ok(Finding::new(verdict, version_outcome(version)))
}

pub(super) fn no_version(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let mut agent = bench.fresh()?;
    let id = agent.send("initialize", &json!({"clientCapabilities": {}}));
    let answer = agent.answer_to(&id, bench.options.limits.start)?;
    Ok(request_refused(&answer, -32602))
}

pub(super) fn again(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let answer = bench.agent()?.ask("initialize", &initialize_params(1))?;
    Ok(some_answer(&answer))
}

pub(super) fn session_first(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let params = session_params(bench.options);
    let mut agent = bench.fresh()?;
    let id = agent.send("session/new", &params);
    let answer = agent.answer_to(&id, bench.options.limits.start)?;
    Ok(some_answer(&answer))
}

fn version_outcome(version: Option<&Value>) -> String {
    match version {
        Some(version) => format!("version {version}"),
        None => "no version".to_owned(),
    }
}
