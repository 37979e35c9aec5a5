//! `cargo xtask`: the project's own tasks.

#[cfg(unix)]
mod agents;
#[cfg(target_os = "linux")]
mod bench;
mod fixtures;
mod flags;
mod root;

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::Parser;

use flags::{Agents, Conformance, Fixtures, Task, Xtask};

/// The parity page, which is kept with the sources.
const PARITY: &str = "conformance/parity.md";

/// A badge for each port on it.
const BADGES: &str = "conformance/badges";

fn main() -> ExitCode {
    let done = match Xtask::parse().task {
        Task::Conformance(flags) => conformance(&flags),
        Task::Fixtures(Fixtures::Check) => check(),
        Task::Fixtures(Fixtures::Bless { ids, yes }) => bless(&ids, yes),
        Task::Fixtures(Fixtures::New { id }) => {
            root::find().and_then(|root| fixtures::new(&root, &id))
        }
        Task::Agents(flags) => agents(&flags),
        Task::Soak { seed } => soak(seed),
        Task::Bench { args } => bench(&args),
        Task::Spec { verbose } => Workspace::find().and_then(|workspace| {
            workspace.build(&["acp-conformance"])?;
            let mut ledger = vec!["ledger"];
            ledger.extend(verbose.then_some("--verbose"));
            ledger.extend(["--parity", PARITY, "--badges", BADGES]);
            workspace.run("acp-conformance", &ledger)
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn conformance(flags: &Conformance) -> Result<bool, String> {
    let workspace = Workspace::find()?;
    if !flags.setup.is_empty() {
        workspace.build(&["acp-conformance"])?;
        let mut setup = vec!["setup".to_owned()];
        setup.extend(flags.setup.clone());
        return workspace.run("acp-conformance", &setup);
    }
    workspace.build(&["acp-conformance", "port-rust", "port-toy"])?;
    let reports = workspace.target.join("conformance");
    let path = |name: &str| reports.join(name).to_string_lossy().into_owned();

    let mut selection = Vec::new();
    for filter in &flags.filter {
        selection.extend(["--filter".to_owned(), filter.clone()]);
    }
    if let Some(jobs) = &flags.jobs {
        selection.extend(["--jobs".to_owned(), jobs.clone()]);
    }
    let mut run = vec!["run".to_owned()];
    run.extend(selection.clone());
    for port in &flags.port {
        run.extend(["--port".to_owned(), port.clone()]);
    }
    if flags.verbose {
        run.push("--verbose".into());
    }
    if flags.list {
        run.push("--list".into());
    } else {
        run.extend(["--events".to_owned(), path("events.jsonl")]);
        run.extend(["--junit".to_owned(), path("junit.xml")]);
        run.extend(["--html".to_owned(), path("parity.html")]);
    }
    let kept = match (flags.parity, flags.is_of_everything()) {
        (true, _) => &["--parity", PARITY, "--badges", BADGES][..],
        (false, true) => &["--check-parity", PARITY, "--check-badges", BADGES],
        (false, false) => &[],
    };
    run.extend(kept.iter().map(|word| (*word).to_owned()));
    let mut green = workspace.run("acp-conformance", &run)?;
    if flags.hunts() {
        say("\nMutants");
        let mut hunt = vec!["mutants".to_owned(), "--no-build".to_owned()];
        hunt.extend(selection);
        if flags.full {
            hunt.push("--full".into());
        }
        green &= workspace.run("acp-conformance", &hunt)?;
    }
    if !flags.list {
        say(&format!("reports: {}", reports.display()));
    }
    Ok(green)
}

/// Prints a line. A reader that has left, as `head` does, is no failure of the task.
fn say(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}")
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("error: failed to print: {error}");
    }
}

#[cfg(unix)]
fn agents(flags: &Agents) -> Result<bool, String> {
    let workspace = Workspace::find()?;
    agents::run(flags, &workspace.root, &workspace.target)
}

#[cfg(not(unix))]
fn agents(_: &Agents) -> Result<bool, String> {
    Err("agents are driven by acp-core, which runs on Unix only".into())
}

#[cfg(target_os = "linux")]
fn bench(args: &[OsString]) -> Result<bool, String> {
    bench::run(args)
}

#[cfg(not(target_os = "linux"))]
fn bench(_: &[OsString]) -> Result<bool, String> {
    Err("clients are measured on Linux only, where a process can be bound to a CPU".into())
}

/// In release mode, because it is about many turns and not about overflows.
fn soak(seed: Option<u64>) -> Result<bool, String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--release", "--package", "acp-core"]);
    command.args(["--example", "soak", "--"]);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    let status = command
        .current_dir(root::find()?)
        .status()
        .map_err(|error| format!("failed to run cargo: {error}"))?;
    Ok(status.success())
}

fn bless(ids: &[String], yes: bool) -> Result<bool, String> {
    let workspace = Workspace::find()?;
    fixtures::exist(&workspace.root, ids)?;
    workspace.build(&["acp-conformance", "port-rust"])?;
    let mut bless = vec!["bless", "--no-build"];
    if yes {
        bless.push("--yes");
    }
    bless.extend(ids.iter().map(String::as_str));
    workspace.run("acp-conformance", &bless)
}

fn check() -> Result<bool, String> {
    let workspace = Workspace::find()?;
    workspace.build(&["acp-conformance", "acp-fake-server"])?;
    // The first names every fault of every file; the second needs files without any.
    Ok(workspace.run("acp-fake-server", &["check", "fixtures"])?
        && workspace.run("acp-conformance", &["ledger", "--quiet"])?)
}

/// Where things are built.
struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// This program was built into `TARGET/PROFILE`, so everything else is built into `TARGET`, too.
    fn find() -> Result<Workspace, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let target = program
            .ancestors()
            .nth(2)
            .ok_or("this program is in no target directory")?;
        Ok(Workspace {
            root: root::find()?,
            target: target.to_owned(),
        })
    }

    fn build(&self, packages: &[&str]) -> Result<(), String> {
        self.build_in(false, packages)
    }

    fn build_in(&self, release: bool, packages: &[&str]) -> Result<(), String> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.arg("build").arg("--target-dir").arg(&self.target);
        for package in packages {
            command.args(["--package", package]);
        }
        if release {
            command.arg("--release");
        }
        match self.status(command) {
            Ok(true) => Ok(()),
            _ => Err("the build failed".into()),
        }
    }

    /// Runs a program of the workspace. False if it reports a failure.
    fn run(&self, program: &str, args: &[impl AsRef<OsStr>]) -> Result<bool, String> {
        self.run_in(false, program, args)
    }

    fn run_in(
        &self,
        release: bool,
        program: &str,
        args: &[impl AsRef<OsStr>],
    ) -> Result<bool, String> {
        let profile = if release { "release" } else { "debug" };
        let file = format!("{program}{}", env::consts::EXE_SUFFIX);
        let mut command = Command::new(self.target.join(profile).join(file));
        // The ports' own build commands are to build into the same place, and advice is to be about this
        // program.
        command
            .args(args)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("ACP_CONFORMANCE_ASKED_BY", "cargo xtask");
        self.status(command)
    }

    /// Whether a program has found everything well. One that could do nothing has said why.
    fn status(&self, mut command: Command) -> Result<bool, String> {
        let status = command.current_dir(&self.root).status();
        let program = command.get_program().display();
        let status = status.map_err(|error| format!("{program}: {error}"))?;
        match status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(format!("{program}: {status}")),
        }
    }
}
