//! `acp agents`: the agents that are known by name.

use acp_core::Secrets;
use serde_json::{Value, json};

use crate::cli::{Agents, Format};
use crate::failure::Failure;
use crate::presets::{Preset, Presets};
use crate::program;
use crate::terminal;

pub(crate) fn run(args: &Agents) -> Result<(), Failure> {
    let presets = Presets::load(&args.file)?;
    if let Some(name) = args.names.iter().find(|name| presets.get(name).is_none()) {
        let known: Vec<_> = presets.iter().map(|(name, _)| name).collect();
        return Err(Failure::options(format!(
            "there is no agent `{name}`; there are {}",
            known.join(", ")
        )));
    }
    let mut shown = presets
        .iter()
        .filter(|(name, _)| args.names.is_empty() || args.names.iter().any(|it| it == name));
    if args.json || args.format == Format::Json {
        let agents: Vec<Value> = shown.map(|(name, preset)| to_json(name, preset)).collect();
        return terminal::print_json(&agents.into()).map_err(Failure::Output);
    }
    let mut text = String::new();
    shown
        .try_for_each(|(name, preset)| write(&mut text, name, preset))
        // Writing to a string does not fail.
        .unwrap_or_default();
    terminal::print_report(&text).map_err(Failure::Output)
}

fn to_json(name: &str, preset: &Preset) -> Value {
    let variables: Vec<_> = preset.env.keys().collect();
    let mut value = json!(preset);
    let words = preset.command.iter().map(|word| masked(word));
    value["command"] = words.collect();
    value["name"] = name.into();
    value["path"] = json!(path(preset));
    value["env"] = json!(variables);
    value["state"] = json!(preset.state.map(|state| state.name()));
    value
}

fn write(text: &mut String, name: &str, preset: &Preset) -> std::fmt::Result {
    use std::fmt::Write as _;

    let title = preset.title.as_deref().unwrap_or_default();
    let found = match path(preset) {
        Some(path) => path,
        None => "not in PATH".to_owned(),
    };
    let variables: Vec<_> = preset.env.keys().map(String::as_str).collect();
    writeln!(text, "{}", format!("{name:<10}{title}").trim_end())?;
    for (label, value) in [
        ("command", Some(&*masked(&command_line(&preset.command)))),
        ("program", Some(&*found)),
        ("verified", preset.verified.as_deref().or(Some("no"))),
        ("install", preset.install.as_deref()),
        ("log in", preset.login.as_deref()),
        ("docs", preset.docs.as_deref()),
        ("variables", Some(&*variables.join(", "))),
        ("state", preset.state.map(|state| state.name())),
        ("notes", preset.notes.as_deref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            writeln!(text, "  {label:<10}{value}")?;
        }
    }
    Ok(())
}

/// Where the program is.
fn path(preset: &Preset) -> Option<String> {
    let path = program::find(preset.command.first()?)?;
    Some(path.to_string_lossy().into_owned())
}

fn masked(text: &str) -> String {
    Secrets::default().mask(text).into_owned()
}

/// A command line that reads as this command.
fn command_line(command: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@,+%".contains(c);
    let words = command.iter().map(|word| match word {
        plain if !plain.is_empty() && plain.chars().all(is_plain) => plain.clone(),
        other => format!("'{}'", other.replace('\'', r"'\''")),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_reads_as_its_command() {
        for command in [
            &["a", "--acp"][..],
            &["a b", "it's", ""],
            &["$x", "\\", "#"],
        ] {
            let command: Vec<_> = command.iter().map(|&word| word.to_owned()).collect();
            let line = command_line(&command);
            assert_eq!(acp_core::split_command(&line).unwrap(), command, "{line}");
        }
    }
}
