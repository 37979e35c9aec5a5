//! Which agents there are, at which versions.

use std::{
    collections::{BTreeMap, HashSet},
    env, fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::drive::Step;

/// Where they are written down, in the checkout.
const FILE: &str = "conformance/agents/pins.toml";

/// All agents, by their names.
#[derive(Debug)]
pub struct Pins(Vec<Agent>);

/// One agent.
#[derive(Debug)]
pub struct Agent {
    pub name: String,
    pub pin: Pin,
    pub install: Install,
}

/// How an agent is installed, and under which name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Install {
    pub name: String,
    pub npm: Vec<String>,
    pub npm_scripts: bool,
    pub setup: Vec<Vec<String>>,
}

/// What is written of an agent. The file says what each member means.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub agent: String,
    pub command: Vec<String>,
    #[serde(default)]
    pub requires: Vec<String>,
    #[serde(default)]
    npm: Vec<String>,
    #[serde(default)]
    npm_scripts: bool,
    #[serde(default)]
    setup: Vec<Vec<String>>,
    #[serde(default)]
    shares: Option<String>,
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub files: BTreeMap<PathBuf, String>,
    #[serde(default)]
    pub mode: Option<String>,
    #[serde(default)]
    pub answers: Answers,
    #[serde(default)]
    pub lacks: BTreeMap<Step, String>,
    #[serde(default)]
    pub quick: bool,
}

/// What a turn of an agent says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    #[default]
    Model,
    Echo,
    Fixed,
}

impl Pins {
    pub fn read(root: &Path) -> Result<Pins, String> {
        let text =
            fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
        let pins: BTreeMap<String, Pin> =
            toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?;
        let installs: Result<Vec<_>, _> = pins
            .iter()
            .map(|(name, pin)| install(&pins, name, pin))
            .collect();
        let installs = installs?;
        let agents = pins.into_iter().zip(installs);
        let agents = agents.map(|((name, pin), install)| Agent { name, pin, install });
        Ok(Pins(agents.collect()))
    }

    /// The agents of these names; `all`, and no name at all, are all of them.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Agent>, String> {
        let known: HashSet<&str> = self.0.iter().map(|agent| &*agent.name).collect();
        if let Some(name) = names
            .iter()
            .find(|name| *name != "all" && !known.contains(&***name))
        {
            let known: Vec<_> = self.0.iter().map(|agent| &*agent.name).collect();
            return Err(format!(
                "there is no agent `{name}`; there are {}",
                known.join(", ")
            ));
        }
        let all = names.is_empty() || names.iter().any(|name| name == "all");
        let agents = self.0.iter();
        Ok(agents
            .filter(|agent| all || names.contains(&agent.name))
            .collect())
    }

    /// The agents that install in seconds and need no model.
    pub fn quick(&self) -> Vec<&Agent> {
        self.0.iter().filter(|agent| agent.pin.quick).collect()
    }
}

fn install(pins: &BTreeMap<String, Pin>, name: &str, pin: &Pin) -> Result<Install, String> {
    let name = pin.shares.as_deref().unwrap_or(name);
    let Some(pin) = pins.get(name) else {
        return Err(format!("{FILE}: there is no agent `{name}` to share with"));
    };
    Ok(Install {
        name: name.to_owned(),
        npm: pin.npm.clone(),
        npm_scripts: pin.npm_scripts,
        setup: pin.setup.clone(),
    })
}

impl Agent {
    /// Programs that it requires and that are not in `PATH`.
    pub fn missing(&self) -> Vec<&str> {
        let npm = (!self.install.npm.is_empty()).then_some("npm");
        let required = self.pin.requires.iter().map(String::as_str).chain(npm);
        required.filter(|program| !is_in_path(program)).collect()
    }
}

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins() -> Pins {
        Pins::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))).unwrap()
    }

    #[test]
    fn every_pin_is_an_exact_version() {
        for agent in pins().0 {
            let words = agent
                .install
                .npm
                .iter()
                .chain(agent.install.setup.iter().flatten());
            let packages: Vec<_> = words
                .filter_map(|word| word.split_once("==").or(word.rsplit_once('@')))
                .collect();
            assert!(!packages.is_empty(), "{}", agent.name);
            for (package, version) in packages {
                let numbers: Vec<_> = version.split('.').collect();
                let is_exact = numbers.len() == 3
                    && numbers.iter().all(|number| number.parse::<u32>().is_ok());
                assert!(is_exact, "{package} {version}");
            }
        }
    }

    #[test]
    fn agents_are_selected_by_name() {
        let pins = pins();
        let names = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let agents = pins.select(&names)?;
            Ok::<_, String>(
                agents
                    .into_iter()
                    .map(|agent| agent.name.clone())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(names(&["gemini", "codex"]).unwrap(), ["codex", "gemini"]);
        assert_eq!(names(&["all"]).unwrap(), names(&[]).unwrap());
        let error = names(&["codexx"]).unwrap_err();
        assert!(
            error.contains("`codexx`; there are claude, claude-0.49, codex,"),
            "{error}"
        );
        for agent in pins.quick() {
            assert_ne!(agent.pin.answers, Answers::Model, "{}", agent.name);
        }
    }
}
