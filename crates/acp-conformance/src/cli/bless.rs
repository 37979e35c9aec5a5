//! `acp-conformance bless`.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    slice,
};

use acp_conformance::{bless, cell::Stage, port::Port, verdict::Verdict};
use similar::TextDiff;

use super::{ERROR, Fault, find, flags, say, stage};

/// Corrects transcripts. False if one needs a change that was not written, or fails for another reason.
pub fn main(flags: flags::Bless) -> Result<bool, Fault> {
    let stage = stage()?;
    let found = find::ports(slice::from_ref(&flags.port), &flags.ports, &stage.limits)?;
    let mut good = true;
    for id in &flags.ids {
        for port in &found.ready {
            let path = flags.fixtures.join(id).with_extension("jsonl");
            good &= one(&path, port, &stage, flags.yes)?;
        }
    }
    Ok(good)
}

fn one(path: &Path, port: &Port, stage: &Stage, yes: bool) -> Result<bool, Fault> {
    let file = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
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
        say(format_args!(
            "{ERROR}error:{ERROR:#} {file} does not pass, and nothing is written: {verdict}"
        ));
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
