//! A port: one client library and the driver that adapts it, described by `port.toml`.

mod build;
mod setup;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

pub use self::{
    build::CommandError,
    setup::{SetupError, Unavailable},
};
use crate::{
    known::{Known, KnownError},
    limits::Limits,
    tier::Tier,
};

/// A client under test.
#[derive(Debug, Clone)]
pub struct Port {
    /// The name in reports, equal to the one its driver gives in `hello`.
    pub name: String,
    /// The language the port is written in.
    pub language: String,
    /// What the port is held to.
    pub tier: Tier,
    /// The library version under test, where it is pinned.
    pub version: Option<String>,
    /// The driver's argument vector.
    pub command: Vec<String>,
    /// Programs that must be in `PATH`; without them the port cannot be run here.
    pub requires: Vec<String>,
    /// Commands that fetch what the driver needs, run in `dir` when asked for.
    pub setup: Vec<Vec<String>>,
    /// A command to run once in `dir` before the first cell.
    pub build: Option<Vec<String>>,
    /// Added to the driver's environment.
    pub env: BTreeMap<String, String>,
    /// The port's directory; the driver runs in it.
    pub dir: PathBuf,
    /// The failures the port is known to have.
    pub known: Known,
}

impl Port {
    /// Reads `port.toml` and `known.toml` in `dir`. A relative path to the driver's program is relative
    /// to `dir`; a bare name is kept, see [`Port::locate`].
    pub fn load(dir: &Path) -> Result<Port, PortError> {
        let dir = dir
            .canonicalize()
            .map_err(|source| PortError::read(dir, source))?;
        let path = dir.join("port.toml");
        let text = fs::read_to_string(&path).map_err(|source| PortError::read(&path, source))?;
        let file: File = toml::from_str(&text).map_err(|source| PortError::Parse {
            path: path.clone(),
            source: Box::new(source),
        })?;
        let known_path = dir.join("known.toml");
        let known = Known::load(&known_path).map_err(|source| PortError::Known {
            path: known_path,
            source: Box::new(source),
        })?;
        // It names files, anchors and columns.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if file.name.is_empty() || file.name.starts_with('.') || !file.name.chars().all(plain) {
            return Err(PortError::Name {
                path,
                name: file.name,
            });
        }
        let mut command = file.command.0;
        if let Some(program) = command.first_mut()
            && Path::new(program).components().count() > 1
        {
            *program = dir.join(&program).to_string_lossy().into_owned();
        }
        Ok(Port {
            name: file.name,
            language: file.language,
            tier: file.tier,
            version: file.version,
            command,
            requires: file.requires,
            setup: file.setup.into_iter().map(|words| words.0).collect(),
            build: file.build.map(|words| words.0),
            env: file.env,
            dir,
            known,
        })
    }

    /// Looks for a driver that is a bare name in `bin_dirs`, before `PATH` gets its turn. To be done
    /// when the port is built.
    pub fn locate(&mut self, bin_dirs: &[PathBuf]) {
        let Some(program) = self.command.first_mut() else {
            return;
        };
        if Path::new(program).components().count() > 1 {
            return;
        }
        let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
        let mut candidates = bin_dirs.iter().map(|bin_dir| bin_dir.join(&name));
        if let Some(found) = candidates.find(|candidate| candidate.is_file()) {
            *program = found.to_string_lossy().into_owned();
        }
    }

    /// Runs the port's `build` command, if it has one.
    ///
    /// `env` is added to the environment of the command, which leads a process group of its own and is
    /// killed with it when [`Limits::build`] is over.
    pub fn build(&self, env: &[(&str, &Path)], limits: &Limits) -> Result<(), CommandError> {
        match &self.build {
            Some(words) => self.run(words, env, limits),
            None => Ok(()),
        }
    }

    /// Runs one of the port's own commands in its directory. A program with a slash is relative to it.
    fn run(
        &self,
        words: &[String],
        env: &[(&str, &Path)],
        limits: &Limits,
    ) -> Result<(), CommandError> {
        let Some((program, args)) = words.split_first() else {
            return Ok(());
        };
        // Where a child's relative program is looked for is up to the platform, so it gets no such one.
        let program = match Path::new(program).components().count() {
            1 => PathBuf::from(program),
            _ => self.dir.join(program),
        };
        let mut command = Command::new(program);
        command
            .args(args)
            .envs(env.iter().copied())
            .current_dir(&self.dir);
        build::run(command, limits)
    }
}

/// Finds the ports in a directory of ports: every subdirectory with a `port.toml`, sorted by name.
pub fn discover(root: &Path) -> Result<Vec<PathBuf>, PortError> {
    let entries = fs::read_dir(root).map_err(|source| PortError::read(root, source))?;
    let mut dirs = Vec::new();
    for entry in entries {
        let dir = entry
            .map_err(|source| PortError::read(root, source))?
            .path();
        if dir.join("port.toml").is_file() {
            dirs.push(dir);
        }
    }
    dirs.sort();
    Ok(dirs)
}

/// Why a port could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A file or directory could not be read.
    #[error("failed to read {}: {source}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// `port.toml` is not TOML of the right shape.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<toml::de::Error>,
    },
    /// `known.toml` cannot be used.
    #[error("{}: {source}", path.display())]
    Known {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<KnownError>,
    },
    /// The name cannot be that of a file.
    #[error(
        "{}: the name {name:?} has other characters than letters, digits, `.`, `_` and `-`, or begins with `.`",
        path.display()
    )]
    Name {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
}

impl PortError {
    fn read(path: &Path, source: io::Error) -> PortError {
        PortError::Read {
            path: path.to_owned(),
            source,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    language: String,
    tier: Tier,
    version: Option<String>,
    command: Words,
    #[serde(default)]
    requires: Vec<String>,
    #[serde(default)]
    setup: Vec<Words>,
    build: Option<Words>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// A program and its arguments. Read with this type, a list without a program is an error that has the line
/// of the file.
#[derive(Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Words(Vec<String>);

impl TryFrom<Vec<String>> for Words {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Words, Self::Error> {
        match words.first() {
            Some(program) if !program.trim().is_empty() => Ok(Words(words)),
            _ => Err("a command is a program and its arguments, and here is no program"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port_in(dir: &Path, command: &str) -> Port {
        let text =
            format!("name = \"p\"\nlanguage = \"l\"\ntier = \"client\"\ncommand = {command}\n");
        fs::write(dir.join("port.toml"), text).unwrap();
        Port::load(dir).unwrap()
    }

    #[test]
    fn the_driver_is_found_beside_the_port_or_in_the_given_directories() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let beside = root.join("bin").join("driver");
        let port = port_in(&root, r#"["bin/driver", "-x"]"#);
        assert_eq!(port.command, [beside.to_str().unwrap(), "-x"]);

        let mut port = port_in(&root, r#"["driver"]"#);
        let bin_dirs = [root.join("none"), root.join("bin")];
        port.locate(&bin_dirs);
        assert_eq!(port.command, ["driver"]);
        fs::create_dir(root.join("bin")).unwrap();
        fs::write(&beside, "").unwrap();
        port.locate(&bin_dirs);
        assert_eq!(port.command, [beside.to_str().unwrap()]);
    }

    #[test]
    fn ports_are_the_directories_with_a_port_toml() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        port_in(&dir.path().join("b"), r#"["d"]"#);
        port_in(&dir.path().join("a"), r#"["d"]"#);
        let found = discover(dir.path()).unwrap();
        assert_eq!(found, [dir.path().join("a"), dir.path().join("b")]);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cases = [
            ("command = []", "line 4, column 11"),
            ("command = []", "here is no program"),
            ("command = ['']", "here is no program"),
            ("command = ['d']\nsetup = [[]]", "line 5, column 9"),
            ("command = ['d']\nsetup = [['a'], []]", "here is no program"),
            ("command = ['d']\nbuild = []", "line 5, column 9"),
            ("command = ['d']\ntires = 4", "unknown field `tires`"),
            ("", "missing field `command`"),
        ];
        for (line, want) in cases {
            let text = format!("name = 'p'\nlanguage = 'l'\ntier = 'client'\n{line}\n");
            fs::write(dir.path().join("port.toml"), text).unwrap();
            let error = Port::load(dir.path()).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        for name in ["", "../x", ".x", "a b", "a\"b", "é"] {
            let text =
                format!("name = {name:?}\nlanguage = 'l'\ntier = 'client'\ncommand = ['d']\n");
            fs::write(dir.path().join("port.toml"), text).unwrap();
            let error = Port::load(dir.path()).unwrap_err().to_string();
            assert!(error.contains("has other characters"), "{error}");
        }
        let error = Port::load(&dir.path().join("none")).unwrap_err();
        assert!(error.to_string().starts_with("failed to read"), "{error}");
    }
}
