//! Agents that are known by name: the built-in ones, and those of a file of the user's.
//!
//! An agent is data. No code here knows any of them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::cli::{AgentsFileArgs, State};
use crate::failure::Failure;

/// Names the user's file where there is no `--agents`.
const FILE_VARIABLE: &str = "ACP_AGENTS";

const BUILT_IN: &str = include_str!("../agents.toml");

/// All agents that are known, by their names.
#[derive(Debug, Default)]
pub(crate) struct Presets(BTreeMap<String, Preset>);

/// One agent. `agents.toml` says what each member means.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Preset {
    #[serde(default, deserialize_with = "read_command")]
    pub(crate) command: Vec<String>,
    pub(crate) title: Option<String>,
    pub(crate) install: Option<String>,
    pub(crate) login: Option<String>,
    pub(crate) docs: Option<String>,
    pub(crate) verified: Option<String>,
    pub(crate) notes: Option<String>,
    /// Not written, because values of variables are often secrets.
    #[serde(default, skip_serializing)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "read_state", skip_serializing)]
    pub(crate) state: Option<State>,
}

impl Presets {
    /// The built-in agents, and over them those of the file that is named, or else of the one in the user's
    /// directory for configuration, if it is there.
    pub(crate) fn load(args: &AgentsFileArgs) -> Result<Self, Failure> {
        let mut presets = Self::built_in()?;
        let (path, is_named) = match (&args.agents, env::var_os(FILE_VARIABLE)) {
            (Some(path), _) => (path.clone(), true),
            // An empty variable is how shells unset one for a command.
            (None, Some(path)) if !path.is_empty() => (PathBuf::from(path), true),
            _ => match user_file() {
                Some(path) => (path, false),
                None => return Ok(presets),
            },
        };
        match fs::read_to_string(&path) {
            Ok(text) => presets.add(&path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => {}
            Err(error) => {
                return Err(Failure::options(format!(
                    "the agents file {} cannot be read: {error}",
                    path.display()
                )));
            }
        }
        Ok(presets)
    }

    fn built_in() -> Result<Self, Failure> {
        let mut presets = Self::default();
        presets.add(Path::new("agents.toml"), BUILT_IN)?;
        Ok(presets)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Preset> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Preset)> {
        self.0.iter().map(|(name, preset)| (&**name, preset))
    }

    /// Takes what a file says: an agent with a command replaces one of its name, and one without changes it.
    fn add(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let invalid = |span: Option<std::ops::Range<usize>>, why: &str| {
            let before = &text[..span.map_or(0, |span| span.start.min(text.len()))];
            let line = before.matches('\n').count() + 1;
            Failure::options(format!("{}:{line}: {}", path.display(), why.trim_end()))
        };
        let agents: BTreeMap<Spanned<String>, Preset> =
            toml::from_str(text).map_err(|error| invalid(error.span(), error.message()))?;
        for (name, preset) in agents {
            let span = Some(name.span());
            let name = name.into_inner();
            if !is_name(&name) {
                let why = format!(
                    "`{name}` can be no name of an agent: it is to be one word without a slash"
                );
                return Err(invalid(span, &why));
            }
            if !preset.command.is_empty() {
                self.0.insert(name, preset);
            } else if let Some(known) = self.0.get_mut(&name) {
                known.change(preset);
            } else {
                let why = format!(
                    "the agent `{name}` has no `command`, and none of that name is built in"
                );
                return Err(invalid(span, &why));
            }
        }
        Ok(())
    }
}

impl Preset {
    fn change(&mut self, by: Self) {
        for (mine, other) in [
            (&mut self.title, by.title),
            (&mut self.install, by.install),
            (&mut self.login, by.login),
            (&mut self.docs, by.docs),
            (&mut self.verified, by.verified),
            (&mut self.notes, by.notes),
        ] {
            *mine = other.or(mine.take());
        }
        self.env.extend(by.env);
        self.state = by.state.or(self.state);
    }
}

/// Whether this is an agent's name where a command line could stand as well.
pub(crate) fn is_name(word: &str) -> bool {
    !word.is_empty() && !word.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
}

/// As the XDG Base Directory Specification has it: a path that is not absolute is to be ignored.
fn user_file() -> Option<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("acp/agents.toml"))
}

fn read_command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let command = Vec::<String>::deserialize(deserializer)?;
    match command.first() {
        Some(program) if !program.is_empty() => Ok(command),
        _ => Err(D::Error::custom(
            "a `command` is a list of a program and its arguments",
        )),
    }
}

fn read_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<State>, D::Error> {
    let name = String::deserialize(deserializer)?;
    match State::from_str(&name, false) {
        Ok(state) => Ok(Some(state)),
        Err(_) => {
            let known: Vec<_> = State::value_variants().iter().map(|it| it.name()).collect();
            Err(D::Error::custom(format!(
                "there is no state policy `{name}`; there are {}",
                known.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Presets, String> {
        let mut presets = Presets::built_in().unwrap();
        let result = presets.add(Path::new("my.toml"), text);
        result
            .map(|()| presets)
            .map_err(|failure| failure.to_json()["message"].to_string())
    }

    #[test]
    fn every_built_in_agent_can_be_installed_and_logged_in() {
        let presets = Presets::built_in().unwrap();
        assert!(presets.iter().count() >= 4);
        for (name, preset) in presets.iter() {
            for text in [&preset.title, &preset.install, &preset.login, &preset.docs] {
                assert!(text.as_ref().is_some_and(|text| !text.is_empty()), "{name}");
            }
            assert!(preset.env.is_empty(), "{name}");
        }
    }

    /// A verified version is one that is driven.
    #[test]
    fn verified_versions_are_the_pinned_ones() {
        let pins = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/agents/pins.toml"
        );
        let pins: toml::Table = fs::read_to_string(pins).unwrap().parse().unwrap();
        let mut verified = 0;
        for (name, preset) in Presets::built_in().unwrap().iter() {
            let Some(version) = &preset.verified else {
                continue;
            };
            verified += 1;
            let pin = pins[name]["agent"].as_str().unwrap();
            assert!(
                pin == version || pin.starts_with(&format!("{version},")),
                "{name}: {pin}"
            );
            let pinned = pins[name]["command"].as_array().unwrap();
            let pinned: Vec<_> = pinned
                .iter()
                .filter_map(|word| word.as_str()?.rsplit('/').next())
                .collect();
            assert_eq!(preset.command, pinned, "{name}");
        }
        assert!(verified >= 4);
    }

    #[test]
    fn an_agent_with_a_command_replaces_and_one_without_changes() {
        let presets = with(
            r#"
            [gemini]
            env = { A = "1" }
            state = "full_request"
            [claude]
            command = ["my-claude", "x y"]
            [mine]
            command = ["/opt/mine"]
            "#,
        )
        .unwrap();
        let gemini = presets.get("gemini").unwrap();
        assert_eq!(gemini.command, ["gemini", "--acp"]);
        assert_eq!(
            (gemini.env["A"].as_str(), gemini.state),
            ("1", Some(State::FullRequest))
        );
        assert!(gemini.verified.is_some());
        let claude = presets.get("claude").unwrap();
        assert_eq!(
            (claude.command[1].as_str(), &claude.verified),
            ("x y", &None)
        );
        assert_eq!(presets.get("mine").unwrap().command, ["/opt/mine"]);
        assert_eq!(presets.get("no"), None);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_line() {
        for (text, line, why) in [
            ("x", 1, "expected"),
            ("\n[mine]\ntitle = \"x\"", 2, "`mine` has no `command`"),
            ("[mine]\ncommand = []", 2, "a program and its arguments"),
            ("[mine]\ncommand = [\"\"]", 2, "a program and its arguments"),
            ("[mine]\ncommand = \"a b\"", 2, "sequence"),
            ("[gemini]\n\ncomand = [\"a\"]", 3, "comand"),
            (
                "[gemini]\nstate = \"none\"",
                2,
                "full-request, fresh-session, verified-delta",
            ),
            ("[gemini]\nenv = { A = 1 }", 2, "string"),
            (
                "\n[\"a b\"]\ncommand = [\"a\"]",
                2,
                "one word without a slash",
            ),
            (
                "[\"a/b\"]\ncommand = [\"a\"]",
                1,
                "one word without a slash",
            ),
        ] {
            let error = with(text).unwrap_err();
            let place = format!("my.toml:{line}: ");
            assert!(
                error.contains(&place) && error.contains(why),
                "{text:?}: {error}"
            );
        }
    }
}
