//! Mutants: a correct port with one rule broken each, which prove that the transcripts can fail.
//!
//! A transcript that no broken client fails states nothing. So every mutant must be caught by the
//! transcripts its entry names, and every transcript must be named by some mutant.

use std::{collections::BTreeSet, fs, io, path::Path};

use acp_fake_server::Fixture;
use serde::Deserialize;

use crate::{
    cell::{self, Stage},
    port::Port,
    verdict::Verdict,
};

/// The environment variable that tells the port which rule to break.
pub const MUTANT_ENV: &str = "MUTANT";

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The value of [`MUTANT_ENV`].
    pub name: String,
    /// The rule that it breaks, in words.
    pub breaks: String,
    /// The ids of transcripts that catch it.
    pub caught_by: Vec<String>,
}

impl Mutant {
    /// The port with this mutant's rule broken. Nothing is known to fail: a mutant must.
    pub fn of(&self, port: &Port) -> Port {
        let mut mutant = port.clone();
        mutant.env.insert(MUTANT_ENV.into(), self.name.clone());
        mutant.known = Default::default();
        mutant
    }
}

/// Plays each of `fixtures` against the mutant of `port`, and returns those transcripts with their
/// verdicts.
pub fn hunt<'a>(
    mutant: &Mutant,
    port: &Port,
    fixtures: impl IntoIterator<Item = &'a Fixture>,
    stage: &Stage,
) -> Vec<(&'a Fixture, Verdict)> {
    let port = mutant.of(port);
    fixtures
        .into_iter()
        .map(|fixture| {
            let cell = cell::play(fixture, &port, stage);
            // A driver that does not even greet, as it knows no such mutant, breaks no rule.
            let verdict = if cell.greeting.is_some() {
                cell.verdict
            } else {
                Verdict::Broken(format!("the mutant did not start: {}", cell.verdict))
            };
            (fixture, verdict)
        })
        .collect()
}

/// Reads a `mutants.toml`.
pub fn load(path: &Path) -> Result<Vec<Mutant>, MutantsError> {
    parse(&fs::read_to_string(path)?)
}

/// Reads the text of a `mutants.toml`.
pub fn parse(text: &str) -> Result<Vec<Mutant>, MutantsError> {
    let file: File = toml::from_str(text)?;
    let mut names = BTreeSet::new();
    for mutant in &file.mutant {
        if !names.insert(&mutant.name) {
            return Err(MutantsError::Twice(mutant.name.clone()));
        }
        if mutant.caught_by.is_empty() {
            return Err(MutantsError::Uncaught(mutant.name.clone()));
        }
    }
    Ok(file.mutant)
}

/// What is wrong between the mutants and the transcripts, in words: an entry that names no
/// transcript, and a transcript that no entry names.
pub fn faults<'a>(mutants: &[Mutant], fixtures: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let fixtures: BTreeSet<&str> = fixtures.into_iter().collect();
    let mut named = BTreeSet::new();
    let mut faults = Vec::new();
    for mutant in mutants {
        for fixture in &mutant.caught_by {
            named.insert(fixture.as_str());
            if !fixtures.contains(fixture.as_str()) {
                faults.push(format!(
                    "the mutant {} names {fixture}, which is no transcript",
                    mutant.name
                ));
            }
        }
    }
    for fixture in fixtures.difference(&named) {
        faults.push(format!(
            "{fixture} stands in the `caught_by` of no mutant, and what nothing fails states nothing: name it \
             in mutants.toml under a mutant, a client broken on purpose, that fails it"
        ));
    }
    faults
}

/// Why a `mutants.toml` could not be used.
#[derive(Debug, thiserror::Error)]
pub enum MutantsError {
    /// The file could not be read.
    #[error("failed to read it: {0}")]
    Read(#[from] io::Error),
    /// The file is not TOML of this shape.
    #[error("{0}")]
    Parse(#[from] toml::de::Error),
    /// Two entries have one name.
    #[error("the mutant {0} is listed twice")]
    Twice(String),
    /// An entry names no transcript.
    #[error("the mutant {0} is caught by nothing")]
    Uncaught(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutant: Vec<Mutant>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[mutant]]\nname = \"deaf\"\nbreaks = \"b\"\ncaught_by = [\"turn/one\"]\n";

    #[test]
    fn both_directions_are_checked() {
        let mutants = parse(TEXT).unwrap();
        assert!(faults(&mutants, ["turn/one"]).is_empty());
        assert_eq!(
            faults(&mutants, ["turn/two"]),
            [
                "the mutant deaf names turn/one, which is no transcript",
                "turn/two stands in the `caught_by` of no mutant, and what nothing fails states nothing: name \
                 it in mutants.toml under a mutant, a client broken on purpose, that fails it"
            ]
        );
    }

    #[test]
    fn a_mutant_that_proves_nothing_is_refused() {
        let cases = [
            (TEXT.repeat(2), "deaf is listed twice"),
            (
                TEXT.replace("\"turn/one\"", ""),
                "deaf is caught by nothing",
            ),
            (TEXT.replace("breaks", "broke"), "unknown field `broke`"),
            (String::new(), "missing field `mutant`"),
        ];
        for (text, want) in cases {
            let got = parse(&text).unwrap_err().to_string();
            assert!(got.contains(want), "{got}");
        }
    }
}
