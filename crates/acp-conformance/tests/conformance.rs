//! Every transcript against every port that cargo can build, and every mutant: one trial each.

#![expect(
    clippy::unwrap_used,
    reason = "this is a test, though with a `main` of its own"
)]

mod lint;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use acp_conformance::{
    cell::{self, Stage},
    ledger,
    limits::Limits,
    mutants::{self, Mutant},
    port::{self, Port},
    transcripts::Transcripts,
    verdict::{Cell, Verdict},
};
use acp_fake_server::Fixture;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Makes this program a driver before a driver.
const LINT: &str = "ACP_CONFORMANCE_LINT";

/// Transcripts that need every operation of the driver protocol, and fields of errors.
const LINTED: [&str; 8] = [
    "cancel/during-text",
    "concurrency/two-lanes",
    "lifecycle/exit-mid-turn",
    "lifecycle/is-alive",
    "prompt/parts",
    "session/auth-required",
    "session/set-mode",
    "turn/dropped-counts",
];

fn main() -> ExitCode {
    if env::var_os(LINT).is_some() {
        return lint::proxy();
    }
    let mut args = Arguments::from_args();
    // Most of a cell's time is spent waiting for a deadline or for a process.
    args.test_threads = args.test_threads.or(Some(6));
    match trials() {
        Ok(trials) => libtest_mimic::run(&args, trials).exit_code(),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The port that has mutants.
const BREAKABLE: &str = "toy";

fn trials() -> Result<Vec<Trial>, Box<dyn std::error::Error>> {
    let root = workspace().canonicalize()?;
    let fixtures: Vec<Arc<Fixture>> = Transcripts::Dir(root.join("fixtures"))
        .load()?
        .into_iter()
        .map(Arc::new)
        .collect();
    let stage = Arc::new(Stage {
        relay: vec![env!("CARGO_BIN_EXE_acp-conformance").into(), "relay".into()],
        limits: Limits::from_env()?,
    });
    let mut trials = Vec::new();
    let mut breakable = None;
    for dir in port::discover(&root.join("conformance/ports"))? {
        let port = Port::load(&dir)?;
        // Those that need another toolchain or a registry are for a run of the whole matrix.
        if !(port.requires.is_empty() && port.setup.is_empty()) {
            continue;
        }
        let name = port.name.clone();
        let port = Arc::new(Lazy::new(port, stage.limits));
        if name == BREAKABLE {
            breakable = Some(Arc::clone(&port));
        }
        for id in LINTED {
            let fixture = fixtures.iter().find(|fixture| fixture.id == id);
            let fixture = fixture.ok_or_else(|| format!("there is no {id}"))?.clone();
            let (port, stage) = (port.clone(), stage.clone());
            let id = format!("driver-schema::{name}::{}", id.replace('/', "::"));
            trials.push(Trial::test(id, move || {
                let cell = cell::play(&fixture, &linted(port.built()?)?, &stage);
                match cell.verdict {
                    // Whether the port is right is the business of the cell itself.
                    Verdict::Broken(_) | Verdict::Crash(_) | Verdict::NotApplicable { .. } => {
                        Err(format!("{}\n{}", cell.verdict, cell.stderr_tail).into())
                    }
                    _ => Ok(()),
                }
            }));
        }
        for fixture in &fixtures {
            let (fixture, port, stage) = (fixture.clone(), port.clone(), stage.clone());
            let id = format!("{name}::{}", fixture.id.replace('/', "::"));
            trials.push(Trial::ignorable_test(id, move || {
                let port = port.built()?;
                let mut cell = cell::play(&fixture, port, &stage);
                cell.verdict = cell::judge(cell.verdict, port, &fixture.id);
                completion(&cell)
            }));
        }
    }
    if trials.is_empty() {
        return Err("there is no cell, so nothing would be shown".into());
    }

    let breakable = breakable.ok_or("there is no port that can be broken")?;
    let list = mutants::load(&root.join("conformance/mutants.toml"))?;
    let requirements = ledger::load(&root.join("spec/requirements.toml"))?;
    let ids = fixtures.iter().map(|fixture| fixture.id.as_str());
    let mut faults = mutants::faults(&list, ids);
    faults.extend(ledger::faults(
        &requirements,
        fixtures.iter().map(AsRef::as_ref),
    ));
    trials.push(Trial::test("ledger", move || {
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.join("\n").into())
        }
    }));
    let stage = Arc::new(Stage {
        limits: stage.limits.impatient(),
        ..(*stage).clone()
    });
    for mutant in list {
        let (port, stage) = (breakable.clone(), stage.clone());
        let named: Vec<Arc<Fixture>> = fixtures
            .iter()
            .filter(|fixture| mutant.caught_by.contains(&fixture.id))
            .cloned()
            .collect();
        trials.push(Trial::test(
            format!("mutants::{}", mutant.name),
            move || caught(&mutant, port.built()?, &named, &stage),
        ));
    }
    Ok(trials)
}

/// The port with every line of the driver protocol held against its schema.
fn linted(port: &Port) -> Result<Port, Failed> {
    let mut port = port.clone();
    let program = env::current_exe().map_err(|error| error.to_string())?;
    port.command
        .insert(0, program.to_string_lossy().into_owned());
    port.env.insert(LINT.into(), "1".into());
    Ok(port)
}

fn completion(cell: &Cell) -> Result<Completion, Failed> {
    match &cell.verdict {
        Verdict::Pass => Ok(Completion::Completed),
        Verdict::Known { .. } | Verdict::NotApplicable { .. } => {
            Ok(Completion::ignored_with(&cell.verdict))
        }
        // This verdict brings the part of the transcript that matters.
        Verdict::Fail(reason) => Err(format!("fail: {reason}\n{}", cell.stderr_tail).into()),
        verdict => Err(format!("{verdict}\n\n{}\n{}", cell.transcript, cell.stderr_tail).into()),
    }
}

fn caught(
    mutant: &Mutant,
    port: &Port,
    fixtures: &[Arc<Fixture>],
    stage: &Stage,
) -> Result<(), Failed> {
    let survived: Vec<String> =
        mutants::hunt(mutant, port, fixtures.iter().map(AsRef::as_ref), stage)
            .into_iter()
            .filter(|(_, verdict)| !verdict.is_caught())
            .map(|(fixture, verdict)| format!("not caught by {}: {verdict}", fixture.id))
            .collect();
    if survived.is_empty() {
        Ok(())
    } else {
        Err(survived.join("\n").into())
    }
}

/// A port that is built when its first trial runs, so that listing the trials builds nothing.
struct Lazy {
    port: Port,
    limits: Limits,
    built: OnceLock<Result<Port, String>>,
}

impl Lazy {
    fn new(port: Port, limits: Limits) -> Lazy {
        Lazy {
            port,
            limits,
            built: OnceLock::new(),
        }
    }

    fn built(&self) -> Result<&Port, Failed> {
        let built = self.built.get_or_init(|| {
            // Built to where this test was built to, in cargo's default profile.
            let target = target();
            self.port
                .build(&[("CARGO_TARGET_DIR", &target)], &self.limits)
                .map_err(|error| error.to_string())?;
            let mut port = self.port.clone();
            port.locate(&[target.join("debug")]);
            Ok(port)
        });
        built.as_ref().map_err(Failed::from)
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The target directory, two levels above `TARGET/PROFILE/acp-conformance`.
fn target() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_acp-conformance"));
    program.ancestors().nth(2).unwrap_or(program).to_owned()
}
