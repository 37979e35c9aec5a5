//! Checks of messages that are nobody's request: bad ones, unknown ones, and odd ids.

use serde_json::{Value, json};

use super::{
    Verdict,
    bench::{Bench, Finding},
    talk::{Answer, Message, Stop},
};

const UNKNOWN: &str = "acp-conformance/unknown";
const UNKNOWN_EXTENSION: &str = "_acp-conformance/unknown";

pub(super) fn unknown_method(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let answer = bench.agent()?.ask(UNKNOWN, &json!({}))?;
    Ok(match &answer.result {
        Ok(_) => Finding::new(Verdict::Wrong, "answered"),
        Err(_) => request_refused(&answer, -32601),
    })
}

pub(super) fn unknown_extension(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let answer = bench.agent()?.ask(UNKNOWN_EXTENSION, &json!({}))?;
    Ok(request_refused(&answer, -32601))
}

pub(super) fn unknown_notification(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let agent = bench.agent()?;
    agent.notify(UNKNOWN, &json!({}));
    Ok(ignored(&agent.fence()?, Verdict::Wrong))
}

pub(super) fn unknown_extension_notification(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let agent = bench.agent()?;
    agent.notify(UNKNOWN_EXTENSION, &json!({}));
    Ok(ignored(&agent.fence()?, Verdict::Wrong))
}

pub(super) fn unknown_response(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let agent = bench.agent()?;
    agent.reply(&json!(777_777), &json!({}));
    Ok(ignored(&agent.fence()?, Verdict::Differs))
}

pub(super) fn string_id(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    same_id(bench, &json!("id-α-1"))
}

pub(super) fn large_id(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    same_id(bench, &json!(9_007_199_254_740_991_u64))
}

pub(super) fn no_jsonrpc(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let agent = bench.agent()?;
    let message = json!({"id": "no-jsonrpc", "method": UNKNOWN, "params": {}});
    agent.expect(&message["id"], UNKNOWN);
    agent.write(message.to_string().as_bytes());
    Ok(line_refused(&agent.fence()?, -32600))
}

pub(super) fn garbage(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    bad_line(bench, b"this is not JSON", -32700)
}

pub(super) fn empty_line(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let agent = bench.agent()?;
    agent.write(b"");
    let answers = agent.fence()?;
    Ok(match answers.is_empty() {
        true => Finding::new(Verdict::Ok, "silent"),
        false => line_refused(&answers, -32700),
    })
}

pub(super) fn number(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    bad_line(bench, b"42", -32600)
}

pub(super) fn array(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    let message = json!([{"jsonrpc": "2.0", "id": "in-array", "method": UNKNOWN, "params": {}}]);
    bench.agent()?.expect(&message[0]["id"], UNKNOWN);
    bad_line(bench, message.to_string().as_bytes(), -32600)
}

pub(super) fn invalid_utf8(bench: &mut Bench<'_>) -> Result<Finding, Stop> {
    bad_line(bench, b"\xff\xfe\xfd", -32700)
}

/// What an answer comes to where nothing is asked but that there is one.
pub(super) fn some_answer(answer: &Answer) -> Finding {
    match &answer.result {
        Ok(_) => Finding::new(Verdict::Ok, "answered"),
        Err(error) => Finding::error(Verdict::Ok, error),
    }
}

/// What the answer to a request comes to that should be refused with `code`.
pub(super) fn request_refused(answer: &Answer, code: i64) -> Finding {
    match &answer.result {
        Ok(_) => Finding::new(Verdict::Differs, "answered"),
        Err(error) if error.code == code => Finding::error(Verdict::Ok, error),
        Err(error) => Finding::error(Verdict::Differs, error),
    }
}

fn bad_line(bench: &mut Bench<'_>, line: &[u8], code: i64) -> Result<Finding, Stop> {
    let agent = bench.agent()?;
    agent.write(line);
    Ok(line_refused(&agent.fence()?, code))
}

/// What comes back for a line that should be refused with `code` under the id null.
fn line_refused(answers: &[Answer], code: i64) -> Finding {
    let Some(answer) = answers.first() else {
        return Finding::new(Verdict::Differs, "silent");
    };
    match (&answer.id, &answer.result) {
        (None, Err(error)) => {
            // The member is required of every response.
            let outcome = format!("error {} without id", error.code);
            Finding::new(Verdict::Wrong, outcome).with(&error.message)
        }
        (None, Ok(_)) => Finding::new(Verdict::Wrong, "answered without id"),
        (Some(Value::Null), Err(error)) if error.code == code => Finding::error(Verdict::Ok, error),
        (Some(_), Err(error)) => Finding::error(Verdict::Differs, error),
        (Some(_), Ok(_)) => Finding::new(Verdict::Differs, "answered"),
    }
}

fn ignored(answers: &[Answer], otherwise: Verdict) -> Finding {
    let Some(answer) = answers.first() else {
        return Finding::new(Verdict::Ok, "silent");
    };
    let without = if answer.id.is_none() {
        " without id"
    } else {
        ""
    };
    match &answer.result {
        Ok(_) => Finding::new(otherwise, format!("answered{without}")),
        Err(error) => {
            let outcome = format!("error {}{without}", error.code);
            Finding::new(otherwise, outcome).with(&error.message)
        }
    }
}

/// Whether a request under `id` is answered under it.
fn same_id(bench: &mut Bench<'_>, id: &Value) -> Result<Finding, Stop> {
    let limit = bench.options.limits.answer;
    let agent = bench.agent()?;
    agent.send_as(id, UNKNOWN, &json!({}));
    let mut other = None;
    agent.until(limit, "an answer", |message| {
        if let Message::Answer(answer) = message {
            if answer.id.as_ref() == Some(id) {
                return true;
            }
            other = Some(answer.id.clone().unwrap_or_default());
        }
        other.is_some()
    })?;
    Ok(match other {
        None => Finding::new(Verdict::Ok, "same id"),
        Some(other) => Finding::new(Verdict::Wrong, "another id").with(other.to_string()),
    })
}
