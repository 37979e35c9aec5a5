//! `requirements.toml`: what a port is held to, and which transcript is evidence for it.
//!
//! The ledger names the transcripts of each requirement, and each transcript's header names the
//! requirements it covers. Both are written by hand and must agree.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::Path,
};

use acp_fake_server::Fixture;
use serde::Deserialize;

/// One requirement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Its name in `covers`; it never changes.
    pub id: String,
    /// How binding it is.
    pub level: Level,
    /// What a client must do.
    pub text: String,
    /// Where it comes from.
    pub source: String,
    /// The ids of the transcripts that are evidence for it.
    #[serde(default)]
    pub fixtures: Vec<String>,
    /// Why there is no transcript for it.
    pub excluded: Option<String>,
}

impl Requirement {
    /// What the ids of its section have in common: all before the number.
    pub fn section(&self) -> &str {
        self.id
            .rsplit_once('-')
            .map_or(self.id.as_str(), |(name, _)| name)
    }
}

/// How binding a requirement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A client without it is wrong.
    Must,
    /// A client without it is worse.
    Should,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Must => "must",
            Level::Should => "should",
        })
    }
}

/// Reads a `requirements.toml`.
pub fn load(path: &Path) -> Result<Vec<Requirement>, LedgerError> {
    parse(&fs::read_to_string(path)?)
}

/// Reads the text of a `requirements.toml`.
pub fn parse(text: &str) -> Result<Vec<Requirement>, LedgerError> {
    let file: File = toml::from_str(text)?;
    Ok(file.requirement)
}

/// What is wrong between the ledger and the transcripts, in words.
pub fn faults<'a>(
    requirements: &[Requirement],
    fixtures: impl IntoIterator<Item = &'a Fixture>,
) -> Vec<String> {
    let mut headers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for fixture in fixtures {
        headers.insert(
            &fixture.id,
            fixture.covers.iter().map(String::as_str).collect(),
        );
    }
    compare(requirements, &headers)
}

/// Why a `requirements.toml` could not be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file could not be read.
    #[error("failed to read it: {0}")]
    Read(#[from] io::Error),
    /// The file is not TOML of this shape.
    #[error("{0}")]
    Parse(#[from] toml::de::Error),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    requirement: Vec<Requirement>,
}

fn compare(requirements: &[Requirement], headers: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut ids = BTreeSet::new();
    for requirement in requirements {
        let id = requirement.id.as_str();
        if !ids.insert(id) {
            faults.push(format!("{id} is listed twice"));
        }
        if requirement.text.trim().is_empty() || requirement.source.trim().is_empty() {
            faults.push(format!("{id} has no text or no source"));
        }
        let reasoned = match &requirement.excluded {
            Some(why) if why.trim().is_empty() => {
                faults.push(format!("{id} is excluded without a reason"));
                true
            }
            excluded => excluded.is_some(),
        };
        match (reasoned, requirement.fixtures.is_empty()) {
            (false, true) => faults.push(format!("{id} has no transcript and is not excluded")),
            (true, false) => faults.push(format!("{id} is excluded and has transcripts")),
            _ => {}
        }
        for fixture in &requirement.fixtures {
            match headers.get(fixture.as_str()) {
                None => faults.push(format!("{id} names {fixture}, which is no transcript")),
                Some(covers) if !covers.contains(id) => {
                    faults.push(format!("{id} names {fixture}, which does not cover it"));
                }
                Some(_) => {}
            }
        }
    }
    for (fixture, covers) in headers {
        if covers.is_empty() {
            faults.push(format!("{fixture} covers nothing"));
        }
        for id in covers {
            match requirements
                .iter()
                .find(|requirement| requirement.id == *id)
            {
                None => faults.push(format!("{fixture} covers {id}, which is not in the ledger")),
                Some(requirement) if !requirement.fixtures.iter().any(|name| name == fixture) => {
                    faults.push(format!("{fixture} covers {id}, which does not name it"));
                }
                Some(_) => {}
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[[requirement]]
id = "TURN-1"
level = "must"
text = "t"
source = "contract"
fixtures = ["turn/one"]
"#;

    fn check(text: &str, covers: &[&'static str]) -> Vec<String> {
        let headers = BTreeMap::from([("turn/one", covers.iter().copied().collect())]);
        compare(&parse(text).unwrap(), &headers)
    }

    #[test]
    fn an_agreeing_ledger_has_no_faults() {
        assert!(check(TEXT, &["TURN-1"]).is_empty());
    }

    #[test]
    fn each_disagreement_is_found() {
        let named = r#"fixtures = ["turn/one"]"#;
        let without = TEXT.replace(named, "");
        let cases: [(String, &[&str], &str); 8] = [
            (TEXT.into(), &[], "turn/one covers nothing"),
            (
                TEXT.into(),
                &["TURN-1", "TURN-2"],
                "covers TURN-2, which is not in the ledger",
            ),
            (TEXT.into(), &[], "names turn/one, which does not cover it"),
            (
                without.clone(),
                &["TURN-1"],
                "covers TURN-1, which does not name it",
            ),
            (
                without,
                &["TURN-1"],
                "TURN-1 has no transcript and is not excluded",
            ),
            (
                TEXT.replace("turn/one", "turn/two"),
                &["TURN-1"],
                "names turn/two, which is no",
            ),
            (TEXT.repeat(2), &["TURN-1"], "TURN-1 is listed twice"),
            (
                TEXT.replace(named, "excluded = ' '"),
                &["TURN-1"],
                "TURN-1 is excluded without a reason",
            ),
        ];
        for (text, covers, want) in cases {
            let faults = check(&text, covers);
            assert!(
                faults.iter().any(|fault| fault.contains(want)),
                "{want}: {faults:?}"
            );
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(parse(&TEXT.replace("source", "sauce")).is_err());
    }
}
