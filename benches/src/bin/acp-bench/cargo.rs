//! What is built on the way.

use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Where things are built, and with what.
pub struct Cargo {
    /// The checkout.
    pub root: PathBuf,
    target: PathBuf,
    /// The directory of this program, and of those beside it.
    pub programs: PathBuf,
    smoke: bool,
}

impl Cargo {
    pub fn find(smoke: bool) -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let programs = program.parent().ok_or("this program is in no directory")?;
        let target = programs
            .parent()
            .ok_or("this program is in no target directory")?;
        let root = env::current_dir().map_err(|error| error.to_string())?;
        if !root.join("benches/Cargo.toml").is_file() {
            return Err(format!("{} is no checkout of this project", root.display()));
        }
        Ok(Self {
            root,
            target: target.to_owned(),
            programs: programs.to_owned(),
            smoke,
        })
    }

    /// Builds the client of the Rust SDK, which lies outside of the workspace, and returns where it is.
    pub fn rust_sdk(&self) -> Result<PathBuf, String> {
        let dir = self.root.join("benches/peers/rust-sdk");
        let (target, profile) = match self.smoke {
            // That of the port has the SDK in it already.
            true => (self.root.join("conformance/ports/rust-sdk/target"), "debug"),
            false => (self.target.join("bench-rust-sdk"), "release"),
        };
        eprintln!("building the client of the Rust SDK");
        let mut command = self.command("build", &dir);
        command
            .args(["--quiet", "--locked", "--target-dir"])
            .arg(&target);
        if !self.smoke {
            command.arg("--release");
        }
        succeed(&mut command)?;
        Ok(target.join(profile).join("bench-rust-sdk"))
    }

    /// Builds `acp-core` for release from nothing. Returns how long it took.
    pub fn clean_build(&self) -> Result<Duration, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut fetch = self.command("fetch", &self.root);
        succeed(fetch.args(["--quiet", "--locked"]))?;
        let mut build = self.command("build", &self.root);
        build
            .args(["--quiet", "--locked", "--offline", "--release"])
            .args(["--package", "acp-core", "--target-dir"])
            .arg(dir.path());
        let start = Instant::now();
        succeed(&mut build)?;
        Ok(start.elapsed())
    }

    /// Runs the benches of the engine, which criterion prints. Each once in a smoke run.
    pub fn engine(&self) -> Result<(), String> {
        let mut command = self.command("bench", &self.root);
        command.args(["--quiet", "--package", "acp-bench", "--bench", "engine"]);
        command.arg("--target-dir").arg(&self.target);
        match self.smoke {
            true => command.args(["--profile", "dev", "--", "--test"]),
            false => command.args(["--", "--noplot"]),
        };
        succeed(&mut command)
    }

    /// The crates that `acp-core` is built of, itself included.
    pub fn crates(&self) -> Result<usize, String> {
        let mut command = self.command("tree", &self.root);
        command
            .args([
                "--locked",
                "--package",
                "acp-core",
                "--edges",
                "normal,build",
            ])
            .args(["--prefix", "none", "--format", "{p}"])
            .stdout(Stdio::piped());
        let output = command
            .output()
            .map_err(|error| format!("cargo tree: {error}"))?;
        if !output.status.success() {
            return Err("cargo tree failed".into());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let name = |line: &'_ str| {
            let mut words = line.split(' ');
            Some(format!("{} {}", words.next()?, words.next()?))
        };
        let names: BTreeSet<String> = text.lines().filter_map(name).collect();
        Ok(names.len())
    }

    fn command(&self, task: &str, dir: &Path) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg(task).current_dir(dir).stdin(Stdio::null());
        // Where this program was started by cargo, that has set what is about this program.
        command.env_remove("CARGO_TARGET_DIR");
        command
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("failed to run cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!(
            "`cargo {}` failed",
            command.get_args().next().unwrap_or_default().display()
        )),
    }
}
