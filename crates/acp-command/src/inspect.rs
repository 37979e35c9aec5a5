//! `acp inspect`: what an agent says of itself, and how long its start takes.

use std::fmt::Write as _;
use std::time::Duration;

use acp_core::{AgentInfo, Lane, PROTOCOL_VERSION, SessionInfo};
use serde_json::{Value, json};

use crate::agent::{AgentCommand, Running};
use crate::cli::{Format, Inspect};
use crate::failure::{Failure, print_as_json};
use crate::interrupt::Interrupts;
use crate::session;
use crate::terminal::{self, Spinner, human, millis};

pub(crate) fn run(args: &Inspect) -> Result<(), Failure> {
    match args.format {
        Format::Text => as_text(inspect(args)?),
        Format::Json => match inspect(args) {
            Ok(report) => as_json(report),
            Err(failure) => print_as_json(Err(failure)),
        },
    }
}

/// What was found out: all that `initialize` gave, and the session or why there is none.
struct Report {
    info: AgentInfo,
    initialize: Duration,
    session: Result<(SessionInfo, Duration), Failure>,
}

fn inspect(args: &Inspect) -> Result<Report, Failure> {
    let interrupts = Interrupts::watch().map_err(Failure::signals)?;
    let command = AgentCommand::find(&args.start)?;
    inspect_agent(args, &command, interrupts).map_err(|failure| command.explain(failure))
}

fn inspect_agent(
    args: &Inspect,
    command: &AgentCommand,
    interrupts: Interrupts,
) -> Result<Report, Failure> {
    let options = args.setting.apply(command.options(&args.start, None));
    let options = args.session.apply(options, &mut command.secrets())?;
    let spinner = Spinner::new(format!("starting {}", command.name));
    let running = Running::spawn(options, interrupts)?;
    running.wait_ready()?;
    spinner.message("opening a session");
    let session = running.lane();
    if let Err(failure @ Failure::Interrupted { .. }) = session {
        return Err(failure);
    }
    Ok(Report {
        info: running.agent().info(),
        initialize: running.agent().startup_time().unwrap_or_default(),
        session: session
            .map(|lane: Lane| (lane.session(), lane.open_time()))
            .map_err(|failure| command.explain(failure)),
    })
}

fn as_json(report: Report) -> Result<(), Failure> {
    let info = &report.info;
    let auth_methods: Vec<Value> = info
        .auth_methods
        .iter()
        .map(|method| {
            json!({"id": method.id, "name": method.name, "description": method.description})
        })
        .collect();
    let mut value = json!({
        "agent": info.implementation,
        "protocol_version": PROTOCOL_VERSION,
        "capabilities": info.capabilities,
        "sessions": {
            "load": info.load_session,
            "resume": info.resume_session,
            "close": info.close_session,
            "additional_directories": info.additional_directories,
        },
        "mcp": {"stdio": true, "http": info.mcp.http, "sse": info.mcp.sse},
        "auth_methods": auth_methods,
        "session": null,
        "timings": {"initialize_ms": millis(report.initialize), "session_ms": null},
    });
    let end = match report.session {
        Ok((session, time)) => {
            value["session"] = json!({
                "session_id": session.session_id,
                "resumed": session.resumed,
                "resume_error": session.resume_error,
                "modes": session.modes,
                "config_options": session.config_options,
            });
            value["timings"]["session_ms"] = millis(time).into();
            Ok(())
        }
        Err(failure) => {
            value["error"] = failure.to_json();
            Err(Failure::Told(failure.exit_code()))
        }
    };
    terminal::print_json(&value).map_err(Failure::Output)?;
    end
}

fn as_text(report: Report) -> Result<(), Failure> {
    let mut text = Text::default();
    let info = &report.info;
    let name = info.implementation.as_ref().map_or_else(
        || "(it gives no name)".to_owned(),
        |it| format!("{} {}", it.name, it.version).trim_end().to_owned(),
    );
    text.row("agent", &name);
    text.row("protocol", &format!("ACP version {PROTOCOL_VERSION}"));
    text.row(
        "initialize",
        &format!("{} from the start of the process", human(report.initialize)),
    );
    if let Ok((session, time)) = &report.session {
        text.row("session", &opened(session, *time));
    }
    let of_sessions = [
        ("load", info.load_session),
        ("resume", info.resume_session),
        ("close", info.close_session),
        ("additional directories", info.additional_directories),
    ];
    text.row("sessions", &offered(&of_sessions));
    // Every agent can start a process.
    let servers = [
        ("stdio", true),
        ("http", info.mcp.http),
        ("sse", info.mcp.sse),
    ];
    text.row("MCP servers", &offered(&servers));
    text.list("capabilities", capabilities(&info.capabilities));
    text.list(
        "auth methods",
        info.auth_methods
            .iter()
            .map(|method| labelled(&method.id, &[&method.name, &method.description]))
            .collect(),
    );
    if let Ok((session, _)) = &report.session {
        text.list("modes", modes(&session.modes));
        text.list("config options", config_options(&session.config_options));
    }
    terminal::print_report(&text.0).map_err(Failure::Output)?;
    let (session, _) = report.session?;
    session::tell(&session, false);
    terminal::note(
        "The times are the agent's own start-up. A warm session pays it once instead of with every \
         turn; ACP itself makes no agent faster.",
    );
    Ok(())
}

/// A report in two columns.
#[derive(Default)]
struct Text(String);

impl Text {
    const LABEL_WIDTH: usize = 16;

    fn row(&mut self, label: &str, value: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{label:<width$}{value}", width = Self::LABEL_WIDTH);
    }

    fn list(&mut self, label: &str, values: Vec<String>) {
        if values.is_empty() {
            self.row(label, "none");
        }
        for (i, value) in values.iter().enumerate() {
            self.row(if i == 0 { label } else { "" }, value);
        }
    }
}

fn opened(session: &SessionInfo, time: Duration) -> String {
    let how = if session.resumed { "resumed" } else { "new" };
    format!("{} ({how}), open after {}", session.session_id, human(time))
}

/// The names of what there is.
fn offered(all: &[(&str, bool)]) -> String {
    let offered: Vec<_> = all
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    match &offered[..] {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// Every leaf with its path; what is not offered is left out.
fn capabilities(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    collect_leaves("", value, &mut lines);
    // Whether an object keeps its order depends on what else is built with serde_json.
    lines.sort_unstable();
    lines
}

fn collect_leaves(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(false) => {}
        // An empty object is how ACP says that something is there.
        Value::Object(members) if members.is_empty() && path.is_empty() => {}
        Value::Bool(true) => lines.push(path.to_owned()),
        Value::Object(members) if members.is_empty() => lines.push(path.to_owned()),
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                collect_leaves(&path, value, lines);
            }
        }
        Value::String(text) => lines.push(format!("{path}: {text}")),
        other => lines.push(format!("{path}: {other}")),
    }
}

/// ACP v1 `SessionModeState`: the ids for `--mode`, the current one marked.
fn modes(value: &Value) -> Vec<String> {
    let current = &value["currentModeId"];
    items(&value["availableModes"])
        .map(|mode| {
            let mark = if mode["id"] == *current {
                " (current)"
            } else {
                ""
            };
            let id = format!("{}{mark}", text_of(&mode["id"]));
            labelled(
                &id,
                &[text_of(&mode["name"]), text_of(&mode["description"])],
            )
        })
        .collect()
}

/// ACP v1 `SessionConfigOption`: id, current value, name, and the values for `--config`.
fn config_options(value: &Value) -> Vec<String> {
    items(value)
        .map(|option| {
            let current = match &option["currentValue"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let id = format!("{} = {current}", text_of(&option["id"]));
            let choices = session::choices(option).join(", ");
            let choices = match &*choices {
                "" => choices,
                _ => format!("({choices})"),
            };
            labelled(&id, &[text_of(&option["name"]), &choices])
        })
        .collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// An id and what is said about it, as one line.
fn labelled(id: &str, texts: &[&str]) -> String {
    let mut line = id.to_owned();
    let mut separator = "  ";
    for text in texts.iter().filter(|text| !text.is_empty()) {
        line.push_str(separator);
        line.extend(text.split_whitespace().flat_map(|word| [word, " "]));
        line.truncate(line.trim_end().len());
        separator = ": ";
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_the_leaves_that_are_offered() {
        let value = json!({
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false},
            "sessionCapabilities": {"close": {}, "list": null},
            "_meta": {"vendor": "x", "limit": 3},
        });
        assert_eq!(
            capabilities(&value),
            [
                "_meta.limit: 3",
                "_meta.vendor: x",
                "loadSession",
                "promptCapabilities.image",
                "sessionCapabilities.close",
            ]
        );
        for nothing in [Value::Null, json!({}), json!({"loadSession": false})] {
            assert_eq!(capabilities(&nothing), [""; 0]);
        }
    }

    #[test]
    fn modes_and_options_of_any_shape_are_lines() {
        let state = json!({"currentModeId": "ask", "availableModes": [
            {"id": "ask", "name": "Ask", "description": "Asks\n  first"},
            {"id": "code"},
            7,
        ]});
        assert_eq!(
            modes(&state),
            ["ask (current)  Ask: Asks first", "code", ""]
        );
        assert_eq!(modes(&Value::Null), [""; 0]);
        let options = json!([
            {"id": "model", "name": "Model", "currentValue": "m1", "options": [
                {"value": "m1"}, {"group": "g", "options": [{"value": "m2"}, {"value": "m3"}]}, 7,
            ]},
            {"id": "fast", "currentValue": true, "options": []},
        ]);
        assert_eq!(
            config_options(&options),
            ["model = m1  Model: (m1, m2, m3)", "fast = true"]
        );
        assert_eq!(config_options(&json!("x")), [""; 0]);
    }
}
