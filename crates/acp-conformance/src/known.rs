//! `known.toml`: the failures a port is known to have.
//!
//! The list lives with the harness and is strict. An entry whose cell passes, or that names no
//! transcript, fails the run, so the list can only shrink with the bugs.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::Deserialize;

/// One known failure.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFailure {
    /// The transcript's id.
    pub fixture: String,
    /// Why the port fails it, for those who read the report.
    pub reason: String,
    /// Where the port's authors track it.
    pub link: Option<String>,
}

/// The known failures of one port, by transcript id.
#[derive(Debug, Clone, Default)]
pub struct Known(BTreeMap<String, KnownFailure>);

impl Known {
    /// Reads a `known.toml`. A file that is not there is an empty list.
    pub fn load(path: &Path) -> Result<Known, KnownError> {
        match fs::read_to_string(path) {
            Ok(text) => Known::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Known::default()),
            Err(error) => Err(KnownError::Read(error)),
        }
    }

    /// Reads the text of a `known.toml`.
    pub fn parse(text: &str) -> Result<Known, KnownError> {
        let file: File = toml::from_str(text)?;
        let mut entries = BTreeMap::new();
        for entry in file.known {
            if entry.reason.trim().is_empty() {
                return Err(KnownError::NoReason(entry.fixture));
            }
            if let Some(link) = &entry.link
                && !link.starts_with("https://")
                && !link.starts_with("http://")
            {
                return Err(KnownError::Link(entry.fixture));
            }
            if let Some(earlier) = entries.insert(entry.fixture.clone(), entry) {
                return Err(KnownError::Twice(earlier.fixture));
            }
        }
        Ok(Known(entries))
    }

    /// The entry for a transcript.
    pub fn get(&self, fixture: &str) -> Option<&KnownFailure> {
        self.0.get(fixture)
    }

    /// The ids of all entries, sorted.
    pub fn fixtures(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Why a `known.toml` could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownError {
    /// The file could not be read.
    #[error("failed to read it: {0}")]
    Read(#[source] io::Error),
    /// The file is not TOML of this shape.
    #[error("{0}")]
    Parse(#[from] toml::de::Error),
    /// An entry says nothing about why.
    #[error("the entry for {0} has an empty reason")]
    NoReason(String),
    /// A link is no address of a page.
    #[error("the link of the entry for {0} does not begin with https:// or http://")]
    Link(String),
    /// Two entries name one transcript.
    #[error("{0} is listed twice")]
    Twice(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    known: Vec<KnownFailure>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_its_transcript() {
        let known = Known::parse("[[known]]\nfixture = \"turn/one\"\nreason = \"late\"\n").unwrap();
        assert_eq!(known.get("turn/one").unwrap().reason, "late");
        assert_eq!(known.get("turn/two"), None);
        assert_eq!(known.fixtures().collect::<Vec<_>>(), ["turn/one"]);
    }

    #[test]
    fn what_would_hide_a_failure_is_refused() {
        let entry = "[[known]]\nfixture = \"turn/one\"\nreason = \"late\"\n";
        let cases = [
            (entry.repeat(2), "turn/one is listed twice"),
            (
                entry.replace("late", " "),
                "the entry for turn/one has an empty reason",
            ),
            (
                format!("{entry}link = 'javascript:alert(1)'\n"),
                "the link of the entry for turn/one does not begin with https://",
            ),
            (
                entry.replace("reason", "because"),
                "unknown field `because`",
            ),
            (
                entry.replace("reason = \"late\"\n", ""),
                "missing field `reason`",
            ),
        ];
        for (text, want) in cases {
            let got = Known::parse(&text).unwrap_err().to_string();
            assert!(got.contains(want), "{text}: {got}");
        }
    }

    #[test]
    fn a_missing_file_is_an_empty_list() {
        let known = Known::load(Path::new("/no/such/known.toml")).unwrap();
        assert_eq!(known.fixtures().count(), 0);
    }
}
