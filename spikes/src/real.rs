//! Real agents, each with a home of its own and the mock model behind it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::program::Program;
use acp_mock_model::{MockModel, Script};
use serde::Deserialize;
use tempfile::TempDir;

/// The agents that `cargo xtask agents` installs, and how they are made to use the mock model.
const PINS: &str = include_str!("../../conformance/agents/pins.toml");

/// Names another directory for installed agents than `TARGET/agents`, as for `cargo xtask agents`.
const STORE: &str = "ACP_AGENTS_DIR";

/// How an installed agent is started; the file of pins says what each member means.
#[derive(Debug, Clone, Deserialize)]
pub struct Recipe {
    /// The agent and its version.
    pub agent: String,
    command: Vec<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<PathBuf, String>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    shares: Option<String>,
    #[serde(skip)]
    dir: PathBuf,
}

impl Recipe {
    /// The agent with this name.
    ///
    /// # Errors
    ///
    /// If there is no such agent, or it is not installed.
    pub fn named(name: &str) -> io::Result<Self> {
        let mut all = pins()?;
        let known: Vec<String> = all.keys().cloned().collect();
        let Some(mut recipe) = all.remove(name) else {
            let known = known.join(", ");
            return Err(io::Error::other(format!(
                "there is no agent `{name}`; there are {known}"
            )));
        };
        recipe.dir = store()?.join(recipe.shares.as_deref().unwrap_or(name));
        if !recipe.dir.is_dir() {
            return Err(io::Error::other(format!(
                "{name} is not installed: `cargo xtask agents --setup {name}`"
            )));
        }
        Ok(recipe)
    }
}

fn pins() -> io::Result<BTreeMap<String, Recipe>> {
    toml::from_str(PINS).map_err(io::Error::other)
}

/// Where agents are installed: beside the directory that cargo has put this program into.
fn store() -> io::Result<PathBuf> {
    if let Some(dir) = env::var_os(STORE) {
        return Ok(dir.into());
    }
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).unwrap_or(Path::new("."));
    Ok(target.join("agents"))
}

/// A home for an agent, with a model of its own. Both are gone when it is dropped.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
    recipe: Recipe,
    /// The model behind the agents of this home.
    pub model: MockModel,
}

impl Home {
    /// Sets up a home, and a model that says what this script says.
    ///
    /// # Errors
    ///
    /// If files or sockets cannot be made.
    pub fn new(recipe: &Recipe, script: Script) -> io::Result<Self> {
        let home = Self {
            dir: tempfile::Builder::new().prefix("acp-spike-").tempdir()?,
            recipe: recipe.clone(),
            model: MockModel::start(script)?,
        };
        for dir in ["work", "tmp"] {
            fs::create_dir_all(home.path().join(dir))?;
        }
        for (path, text) in &recipe.files {
            let path = home.path().join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, home.filled_in(text))?;
        }
        Ok(home)
    }

    /// Where the agent keeps what it keeps.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The agent, in an empty directory and with nothing of our environment but `PATH`.
    pub fn program(&self) -> Program {
        let command = self.recipe.command.iter();
        let mut path = OsString::new();
        if let Some(first) = &self.recipe.path {
            path.push(self.filled_in(first));
            path.push(":");
        }
        path.push(env::var_os("PATH").unwrap_or_default());
        let mut env: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path),
            ("HOME".into(), self.path().into()),
            ("TMPDIR".into(), self.path().join("tmp").into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("TERM".into(), "dumb".into()),
        ];
        for (name, value) in &self.recipe.env {
            env.push((name.into(), self.filled_in(value).into()));
        }
        Program {
            command: command.map(|word| self.filled_in(word).into()).collect(),
            env: Some(env),
            cwd: self.path().join("work"),
            mode: self.recipe.mode.clone(),
        }
    }

    fn filled_in(&self, text: &str) -> String {
        text.replace("{url}", self.model.url())
            .replace("{dir}", &self.recipe.dir.to_string_lossy())
            .replace("{home}", &self.path().to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_what_its_pin_says() {
        for (name, recipe) in pins().unwrap() {
            let home = Home::new(&recipe, Script::Echo).unwrap();
            let shown = format!("{:?}", home.program());
            for open in ["{dir}", "{home}", "{url}"] {
                assert!(!shown.contains(open), "{shown}");
            }
            for path in recipe.files.keys() {
                let text = fs::read_to_string(home.path().join(path)).unwrap();
                assert!(text.contains(home.model.url()), "{name}: {text}");
            }
        }
        let error = Recipe::named("codexx").unwrap_err().to_string();
        assert!(
            error.contains("codexx") && error.contains("gemini"),
            "{error}"
        );
    }
}
