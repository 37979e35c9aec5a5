//! Agents from their registries, each into a directory of its own.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::pins::Agent;

/// In an agent's directory: what it was installed by.
const STAMP: &str = ".install.json";

/// The directory of installed agents.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    pub root: PathBuf,
}

impl Store {
    pub fn new(dir: impl Into<PathBuf>, root: &Path) -> Store {
        Store {
            dir: dir.into(),
            root: root.to_owned(),
        }
    }

    /// Where an agent is, once it is installed.
    pub fn dir_of(&self, agent: &Agent) -> PathBuf {
        self.dir.join(&agent.install.name)
    }

    /// Why an agent cannot be driven here, if it cannot.
    pub fn unavailable(&self, agent: &Agent) -> Option<String> {
        let missing = agent.missing();
        if !missing.is_empty() {
            return Some(format!("not in PATH: {}", missing.join(", ")));
        }
        let stamp = fs::read_to_string(self.dir_of(agent).join(STAMP)).ok();
        let advice = format!("`cargo xtask agents --setup {}`", agent.name);
        match (stamp, stamp_of(agent)) {
            (None, _) => Some(format!("not installed: {advice}")),
            (Some(stamp), Ok(want)) if stamp == want => None,
            _ => Some(format!("installed at another version: {advice}")),
        }
    }

    /// Installs an agent, in place of another version of it.
    pub fn install(&self, agent: &Agent) -> Result<(), String> {
        let missing = agent.missing();
        if !missing.is_empty() {
            return Err(format!("not in PATH: {}", missing.join(", ")));
        }
        let failed = |error: io::Error| format!("{}: {error}", self.dir.display());
        fs::create_dir_all(&self.dir).map_err(failed)?;
        // An agent that is half installed never has the name of one.
        let staging = tempfile::Builder::new()
            .prefix("installing-")
            .tempdir_in(&self.dir)
            .map_err(failed)?;
        if !agent.install.npm.is_empty() {
            run("npm", npm_arguments(agent), staging.path())?;
        }
        let root = self.root.to_string_lossy();
        for words in &agent.install.setup {
            let mut words = words.iter().map(|word| word.replace("{root}", &root));
            let program = words.next().ok_or("a command of its setup is empty")?;
            run(&program, words, staging.path())?;
        }
        fs::write(staging.path().join(STAMP), stamp_of(agent)?).map_err(failed)?;
        let dir = self.dir_of(agent);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        match fs::rename(staging.path(), &dir) {
            // There is nothing left for the guard to remove.
            Ok(()) => drop(staging.keep()),
            // Somebody else was faster.
            Err(_) if self.unavailable(agent).is_none() => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }
}

fn npm_arguments(agent: &Agent) -> Vec<&str> {
    let mut arguments = vec![
        "install",
        "--prefix=.",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        // Whoever is offline should not wait for minutes to be told.
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
        "--fetch-timeout=60000",
    ];
    if !agent.install.npm_scripts {
        arguments.push("--ignore-scripts");
    }
    arguments.extend(agent.install.npm.iter().map(String::as_str));
    arguments
}

/// Runs a command that is to succeed. What it prints is shown only if it does not.
fn run(
    program: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    dir: &Path,
) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    Err(format!(
        "{program} ended with {}:\n{}",
        output.status,
        printed.trim_end()
    ))
}

fn stamp_of(agent: &Agent) -> Result<String, String> {
    serde_json::to_string_pretty(&agent.install).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::pins::Install;

    fn agent(setup: &[&[&str]]) -> Agent {
        let commands = setup
            .iter()
            .map(|words| words.iter().map(|&word| word.to_owned()));
        Agent {
            name: "a".into(),
            pin: toml::from_str("agent = 'a'\ncommand = ['a']").unwrap(),
            install: Install {
                name: "a".into(),
                npm: Vec::new(),
                npm_scripts: false,
                setup: commands.map(Iterator::collect).collect(),
            },
        }
    }

    #[test]
    fn an_agent_is_installed_as_it_is_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("agents"), Path::new("/r"));
        let first = agent(&[&["mkdir", "x"], &["sh", "-c", "echo {root} > x/y"]]);
        assert!(
            store
                .unavailable(&first)
                .unwrap()
                .starts_with("not installed: ")
        );
        store.install(&first).unwrap();
        assert_eq!(store.unavailable(&first), None);
        let written = fs::read_to_string(store.dir_of(&first).join("x/y")).unwrap();
        assert_eq!(written, "/r\n");
        let second = agent(&[&["touch", "z"]]);
        assert!(
            store
                .unavailable(&second)
                .unwrap()
                .starts_with("installed at another version")
        );
        store.install(&second).unwrap();
        assert!(!store.dir_of(&second).join("x").exists());
    }

    #[test]
    fn an_install_that_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path(), Path::new("/"));
        let error = store
            .install(&agent(&[&["sh", "-c", "echo why; exit 3"]]))
            .unwrap_err();
        assert_eq!(error, "sh ended with exit status: 3:\nwhy");
        let error = store.install(&agent(&[&["no-such-program"]])).unwrap_err();
        assert!(error.starts_with("no-such-program: "), "{error}");
        let mut missing = agent(&[]);
        missing.pin.requires = ["no-such-program", "sh"].map(str::to_owned).to_vec();
        assert_eq!(
            store.install(&missing).unwrap_err(),
            "not in PATH: no-such-program"
        );
        assert_eq!(
            store.unavailable(&missing).unwrap(),
            "not in PATH: no-such-program"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
