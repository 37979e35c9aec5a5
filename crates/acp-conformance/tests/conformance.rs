//! Every transcript against every port that cargo can build, and every mutant: one trial each.

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
    run,
    verdict::{Cell, Verdict},
};
use acp_fake_server::Fixture;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

fn main() -> ExitCode {
    let args = Arguments::from_args();
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
    let root = workspace();
    let fixtures: Vec<Arc<Fixture>> = run::load_fixtures(&root.join("fixtures"))?
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
        if port.language != "rust" {
            continue;
        }
        let name = port.name.clone();
        let port = Arc::new(Lazy::new(port));
        if name == BREAKABLE {
            breakable = Some(Arc::clone(&port));
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

fn completion(cell: &Cell) -> Result<Completion, Failed> {
    match &cell.verdict {
        Verdict::Pass => Ok(Completion::Completed),
        Verdict::Known { .. } | Verdict::NotApplicable { .. } => {
            Ok(Completion::ignored_with(&cell.verdict))
        }
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
    built: OnceLock<Result<Port, String>>,
}

impl Lazy {
    fn new(port: Port) -> Lazy {
        Lazy {
            port,
            built: OnceLock::new(),
        }
    }

    fn built(&self) -> Result<&Port, Failed> {
        let built = self.built.get_or_init(|| {
            // Built to where this test was built to, in cargo's default profile.
            let target = target();
            self.port
                .build(&[("CARGO_TARGET_DIR", &target)])
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
