//! A private home for one process of an agent, and a mock model to talk to.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use acp_core::{LoadOptions, TurnOptions};
use acp_mock_model::{MockModel, Script};
use tempfile::TempDir;

use super::{install::Store, pins::Agent};

/// Longest time for an agent to start, to open a session and for a turn. It is there for agents that hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Longest time for an agent to end a turn that is cancelled.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

pub struct Place {
    pub model: MockModel,
    /// Where the sessions work.
    pub work: PathBuf,
    options: LoadOptions,
    /// Removed with the place.
    _dir: TempDir,
}

impl Place {
    pub fn new(agent: &Agent, store: &Store) -> Result<Place, String> {
        let model = MockModel::start(Script::Obey)
            .map_err(|error| format!("the mock model cannot be started: {error}"))?;
        let dir = tempfile::Builder::new().prefix("acp-agents-").tempdir();
        let dir = dir.map_err(|error| format!("a directory for temporary files: {error}"))?;
        let home = dir.path().join("home");
        let work = home.join("work");
        let tmp = home.join("tmp");
        let installed = store.dir_of(agent);
        let fill = |text: &str| {
            text.replace("{dir}", &installed.to_string_lossy())
                .replace("{home}", &home.to_string_lossy())
                .replace("{root}", &store.root.to_string_lossy())
                .replace("{url}", model.url())
        };
        for dir in [&work, &tmp] {
            fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        for (path, text) in &agent.pin.files {
            write(&home.join(path), &fill(text))?;
        }
        let mut options = LoadOptions::new(agent.pin.command.iter().map(|word| fill(word)))
            .cwd(&work)
            .startup_timeout(LIMIT)
            .cancel_grace(CANCEL_LIMIT)
            .turn_options(TurnOptions::default().idle_timeout(LIMIT).deadline(LIMIT));
        for (name, _) in env::vars_os() {
            options = options.env_remove(name);
        }
        options = options
            .env("PATH", path(agent.pin.path.as_deref().map(fill))?)
            .env("HOME", &home)
            .env("TMPDIR", &tmp)
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb");
        for (name, value) in &agent.pin.env {
            options = options.env(name, fill(value));
        }
        if let Some(mode) = &agent.pin.mode {
            options = options.mode(mode);
        }
        Ok(Place {
            model,
            work,
            options,
            _dir: dir,
        })
    }

    pub fn options(&self) -> LoadOptions {
        self.options.clone()
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", path.display());
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

/// Our own `PATH`, after this directory.
fn path(first: Option<String>) -> Result<OsString, String> {
    let ours = env::var_os("PATH").unwrap_or_default();
    let dirs = first
        .map(PathBuf::from)
        .into_iter()
        .chain(env::split_paths(&ours));
    env::join_paths(dirs).map_err(|error| format!("PATH: {error}"))
}
