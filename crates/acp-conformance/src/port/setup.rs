//! Setting a port up: fetching what its driver needs, and knowing whether that was done.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{CommandError, Port};
use crate::limits::Limits;

/// The file in a port's directory that says what it was set up for.
const STAMP: &str = ".setup.json";

/// Why a port cannot be run here as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// Programs that are not in `PATH`.
    Missing(Vec<String>),
    /// It was never set up.
    NotSetUp,
    /// It was set up for another version, or in another way.
    Outdated,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Missing(programs) => write!(f, "not in PATH: {}", programs.join(", ")),
            Unavailable::NotSetUp => f.write_str("not set up"),
            Unavailable::Outdated => f.write_str("set up for another version"),
        }
    }
}

/// Why a port could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A toolchain is missing.
    #[error("these programs are not in PATH: {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A command did not do its work.
    #[error("`{command}`: {source}")]
    Command {
        /// The command, as one line.
        command: String,
        /// What went wrong.
        source: CommandError,
    },
    /// It could not be written down that the port is set up.
    #[error("failed to write {}: {source}", path.display())]
    Stamp {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Port {
    /// Why the port cannot be run here, if it cannot: a program that it requires is missing, or it has to
    /// be set up first.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let missing = self.missing();
        if !missing.is_empty() {
            return Some(Unavailable::Missing(missing));
        }
        if self.setup.is_empty() {
            return None;
        }
        // A stamp that cannot be read, or is of another make, says no more than one that is not there.
        let Some(stamp) = fs::read(self.stamp_path())
            .ok()
            .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
        else {
            return Some(Unavailable::NotSetUp);
        };
        (stamp != self.stamp()).then_some(Unavailable::Outdated)
    }

    /// Runs the port's `setup` commands, one after the other, each within [`Limits::build`].
    ///
    /// `env` is added to their environment. A port without such commands needs none.
    pub fn set_up(&self, env: &[(&str, &Path)], limits: &Limits) -> Result<(), SetupError> {
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(SetupError::Missing(missing));
        }
        if self.setup.is_empty() {
            return Ok(());
        }
        let path = self.stamp_path();
        let stamp_error = |source| SetupError::Stamp {
            path: path.clone(),
            source,
        };
        // What is half done when a command fails is not set up.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(stamp_error(error));
            }
            _ => {}
        }
        for words in &self.setup {
            self.run(words, env, limits)
                .map_err(|source| SetupError::Command {
                    command: words.join(" "),
                    source,
                })?;
        }
        fs::write(&path, format!("{:#}\n", self.stamp())).map_err(stamp_error)
    }

    fn missing(&self) -> Vec<String> {
        let required = self.requires.iter();
        required
            .filter(|program| !is_in_path(program))
            .cloned()
            .collect()
    }

    fn stamp_path(&self) -> PathBuf {
        self.dir.join(STAMP)
    }

    fn stamp(&self) -> Value {
        json!({"version": self.version, "setup": self.setup})
    }
}

fn is_in_path(program: &str) -> bool {
    let name = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(&name).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(dir: &Path, lines: &str) -> Port {
        let head = "name = 'p'\nlanguage = 'l'\ntier = 'client'\ncommand = ['d']\n";
        fs::write(dir.join("port.toml"), format!("{head}{lines}\n")).unwrap();
        Port::load(dir).unwrap()
    }

    fn limits() -> Limits {
        Limits::scaled(1.0)
    }

    #[test]
    fn a_port_without_setup_is_there_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let port = port(dir.path(), "requires = ['sh']");
        assert_eq!(port.unavailable(), None);
        port.set_up(&[], &limits()).unwrap();
        assert!(!dir.path().join(STAMP).exists());
    }

    #[test]
    fn a_missing_toolchain_is_named_and_nothing_is_run() {
        let dir = tempfile::tempdir().unwrap();
        let port = port(
            dir.path(),
            "requires = ['sh', 'no-such-tool']\nsetup = [['touch', 'ran']]",
        );
        let unavailable = port.unavailable().unwrap();
        assert_eq!(unavailable.to_string(), "not in PATH: no-such-tool");
        let error = port.set_up(&[], &limits()).unwrap_err();
        assert!(error.to_string().ends_with(": no-such-tool"), "{error}");
        assert!(!dir.path().join("ran").exists());
    }

    #[test]
    fn a_setup_holds_for_the_version_it_was_made_for() {
        let dir = tempfile::tempdir().unwrap();
        let lines = "version = '1'\nsetup = [['sh', '-c', 'mkdir -p bin'], ['cp', '/bin/true', 'bin/t'], ['bin/t']]";
        let first = port(dir.path(), lines);
        assert_eq!(first.unavailable(), Some(Unavailable::NotSetUp));
        first.set_up(&[], &limits()).unwrap();
        assert_eq!(first.unavailable(), None);
        let second = port(dir.path(), &lines.replace("'1'", "'2'"));
        assert_eq!(second.unavailable(), Some(Unavailable::Outdated));
    }

    #[test]
    fn a_setup_that_fails_leaves_no_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let good = port(dir.path(), "setup = [['true']]");
        good.set_up(&[], &limits()).unwrap();
        let bad = port(dir.path(), "setup = [['sh', '-c', 'echo why >&2; exit 3']]");
        let error = bad.set_up(&[], &limits()).unwrap_err().to_string();
        assert_eq!(
            error,
            "`sh -c echo why >&2; exit 3`: it ended with exit status: 3\nwhy\n"
        );
        assert_eq!(bad.unavailable(), Some(Unavailable::NotSetUp));
    }
}
