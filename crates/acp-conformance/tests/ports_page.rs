//! The driver that `docs/ports.md` shows runs, and passes what the page says that it plays.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

fn main() -> ExitCode {
    let shown = Trial::ignorable_test("the_shortest_driver_passes", the_shortest_driver_passes);
    libtest_mimic::run(&Arguments::from_args(), vec![shown]).exit_code()
}

fn the_shortest_driver_passes() -> Result<Completion, Failed> {
    if !in_path("python3") {
        return Ok(Completion::ignored_with("python3 is not in PATH"));
    }
    let root = root();
    let page = fs::read_to_string(root.join("docs/ports.md"))?;
    let (_, section) = page.split_once("### The shortest driver\n").unwrap();
    let dir = tempfile::tempdir()?;
    let port = dir.path().join("short");
    fs::create_dir(&port)?;
    fs::write(port.join("port.toml"), block(section, "toml"))?;
    fs::write(port.join("driver.py"), block(section, "python"))?;

    let mut words = block(section, "sh").split_whitespace();
    assert_eq!(words.next(), Some("acp-conformance"));
    let output = Command::new(env!("CARGO_BIN_EXE_acp-conformance"))
        .args(words)
        .arg("--fixtures")
        .arg(root.join("fixtures"))
        .current_dir(&dir)
        .output()?;
    let stdout = String::from_utf8(output.stdout)?;
    let stderr = String::from_utf8(output.stderr)?;
    if output.status.success() && stdout.contains("3 pass") {
        Ok(Completion::Completed)
    } else {
        Err(format!("{}\n{stdout}{stderr}", output.status).into())
    }
}

/// The first code block of a language.
fn block<'a>(text: &'a str, language: &str) -> &'a str {
    let (_, after) = text.split_once(&format!("```{language}\n")).unwrap();
    after.split_once("```").unwrap().0
}

fn in_path(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
