//! Every transcript, on the engine alone, under a virtual clock.
//!
//! There is no process, no pipe and no thread here. When neither side has anything to do, time jumps to
//! the engine's next instant; if it has none, the transcript hangs and the trial fails.

mod engine;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_fake_server::Fixture;
use acp_fake_server::fixture::discover;
use libtest_mimic::{Arguments, Completion, Trial};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let paths = discover(&root).unwrap_or_default();
    assert!(!paths.is_empty(), "no transcripts in {}", root.display());
    let trials = paths.into_iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(path: PathBuf) -> Trial {
    let name = path
        .with_extension("")
        .components()
        .rev()
        .take(2)
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    let name = format!("engine::{}::{}", name[1], name[0]);
    Trial::ignorable_test(name, move || {
        let fixture = Fixture::load(&path)?;
        if let Some(reason) = engine::not_applicable(&fixture) {
            return Ok(Completion::ignored_with(reason));
        }
        engine::play(&fixture)?;
        Ok(Completion::Completed)
    })
}
