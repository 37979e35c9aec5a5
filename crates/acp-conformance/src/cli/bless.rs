//! `acp-conformance bless`.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    slice,
};

use acp_conformance::{bless, cell::Stage, port::Port, verdict::Verdict};
use similar::TextDiff;

use super::{Fault, complain, find, flags, say, stage};

/// Corrects transcripts. False if one needs a change that was not written, or fails for another reason.
pub fn main(flags: flags::Bless) -> Result<bool, Fault> {
    let paths: Vec<PathBuf> = flags
        .ids
        .iter()
        .map(|id| flags.fixtures.join(format!("{id}.jsonl")))
        .collect();
    // Before anything is built: a name that is mistyped is mistyped at once.
    for path in &paths {
        read(path)?;
    }
    let stage = stage()?;
    let found = find::ports(slice::from_ref(&flags.port), &flags.ports, &stage.limits)?;
    let mut good = true;
    for path in &paths {
        for port in &found.ready {
            good &= one(path, port, &stage, flags.yes)?;
        }
    }
    Ok(good)
}

fn read(path: &Path) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn one(path: &Path, port: &Port, stage: &Stage, yes: bool) -> Result<bool, Fault> {
    let file = path.display();
    let text = read(path)?;
    let blessed = bless::bless(path, &text, port, stage)?;
    if blessed.text != text {
        let diff = TextDiff::from_lines(&text, &blessed.text);
        let (old, new) = (
            file.to_string(),
            format!("{file} (as {} returns)", port.name),
        );
        let mut diff = diff.unified_diff();
        let diff = diff.context_radius(1).header(&old, &new);
        say(format_args!("{}", diff.to_string().trim_end()));
    }
    if blessed.verdict != Verdict::Pass {
        let verdict = blessed.verdict;
        complain(&[format!(
            "{file} does not pass, and nothing is written: {verdict}"
        )]);
        return Ok(false);
    }
    if blessed.text == text {
        say(format_args!("{file} passes as it is"));
        return Ok(true);
    }
    if !yes && !agreed() {
        say(format_args!("{file} is unchanged; --yes writes it"));
        return Ok(false);
    }
    fs::write(path, blessed.text).map_err(|error| format!("{file}: {error}"))?;
    say(format_args!("{file} is written"));
    Ok(true)
}

/// Asks a person, if there is one.
fn agreed() -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    anstream::eprint!("write it? [y/N] ");
    let mut answer = String::new();
    // Who cannot be asked has not agreed.
    let asked = io::stderr()
        .flush()
        .and_then(|()| io::stdin().read_line(&mut answer));
    asked.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
