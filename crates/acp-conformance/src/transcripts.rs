//! Where the transcripts come from: a directory, or the harness itself.

use std::{
    borrow::Cow,
    fs,
    io::{self, BufRead as _, Read as _},
    path::{Path, PathBuf},
};

use acp_fake_server::{Fixture, FixtureError, fixture};
use serde_json::Value;

// `BUILT_IN`: the path of each file below the directory, and its text, sorted by path.
include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// What the paths of built-in transcripts begin with in messages.
const BUILT_IN_ROOT: &str = "built-in";

/// How much of a file is looked at to see whether it is a transcript, in bytes.
const MOST_HEADER: u64 = 64 * 1024;

/// Where the preludes are.
const PRELUDES: &str = "_prelude";

/// The requirements that the built-in transcripts cover, as the text of a `requirements.toml`.
pub const BUILT_IN_REQUIREMENTS: &str = include_str!("../requirements.toml");

/// A set of transcripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transcripts {
    /// Those under a directory.
    Dir(PathBuf),
    /// Those of the workspace that the harness was built in.
    BuiltIn,
}

impl Transcripts {
    /// Those in `dir`, if there are any, and else the built-in ones.
    pub fn in_or_built_in(dir: &Path) -> Transcripts {
        // What cannot be read is not there; a project may have something else in a directory of that name.
        let files = fixture::discover(dir).unwrap_or_default();
        match files.iter().any(|file| is_transcript(file)) {
            true => Transcripts::Dir(dir.to_owned()),
            false => Transcripts::BuiltIn,
        }
    }

    /// Reads them all, sorted by path.
    pub fn load(&self) -> Result<Vec<Fixture>, TranscriptsError> {
        let Transcripts::Dir(root) = self else {
            return built_in();
        };
        let paths = fixture::discover(root).map_err(|source| TranscriptsError::Discover {
            path: root.to_owned(),
            source,
        })?;
        let load = |path: &PathBuf| Fixture::load(path).map_err(TranscriptsError::from);
        paths.iter().map(load).collect()
    }

    /// The text of a transcript that was loaded.
    pub fn text(&self, fixture: &Fixture) -> io::Result<Cow<'static, str>> {
        match self {
            Transcripts::Dir(_) => fs::read_to_string(&fixture.path).map(Cow::Owned),
            Transcripts::BuiltIn => built_in_text(&format!("{}.jsonl", fixture.id))
                .map(Cow::Borrowed)
                .ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }
}

/// Writes the built-in transcripts below `dir`, which must not be there yet.
pub fn write_built_in(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(dir)?;
    for (path, text) in BUILT_IN {
        let path = dir.join(path);
        if let Some(area) = path.parent() {
            fs::create_dir_all(area)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

/// Why transcripts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptsError {
    /// The transcripts could not be found.
    #[error("failed to read the transcripts in {}: {source}", path.display())]
    Discover {
        /// Where they were looked for.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A transcript cannot be used.
    #[error("{0}")]
    Fixture(#[from] FixtureError),
}

/// Whether the file begins like a transcript, whatever follows.
fn is_transcript(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    // A header is short, and another file's first line may be anything.
    let mut header = String::new();
    let read = io::BufReader::new(file.take(MOST_HEADER)).read_line(&mut header);
    read.is_ok()
        && serde_json::from_str::<Value>(&header)
            .is_ok_and(|header| header.get("fixture").is_some())
}

fn built_in() -> Result<Vec<Fixture>, TranscriptsError> {
    let root = Path::new(BUILT_IN_ROOT);
    let mut preludes = |name: &str| {
        let path = format!("{PRELUDES}/{name}.jsonl");
        let text = built_in_text(&path)?;
        Some((root.join(path), text.to_owned()))
    };
    let transcripts = BUILT_IN
        .iter()
        .filter(|(path, _)| !path.starts_with(PRELUDES));
    transcripts
        .map(|(path, text)| Ok(Fixture::parse(&root.join(path), text, &mut preludes)?))
        .collect()
}

fn built_in_text(path: &str) -> Option<&'static str> {
    let at = BUILT_IN.binary_search_by(|(other, _)| (*other).cmp(path));
    at.ok().map(|at| BUILT_IN[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_what_is_in_the_workspace() {
        let dir = Transcripts::Dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures"));
        let (ours, built_in) = (dir.load().unwrap(), Transcripts::BuiltIn.load().unwrap());
        assert!(!ours.is_empty());
        let ids = |list: &[Fixture]| Vec::from_iter(list.iter().map(|one| one.id.clone()));
        assert_eq!(ids(&ours), ids(&built_in));
        for (one, other) in ours.iter().zip(&built_in) {
            assert_eq!(one.steps.len(), other.steps.len(), "{}", one.id);
            let text = Transcripts::BuiltIn.text(other).unwrap();
            assert_eq!(dir.text(one).unwrap(), text, "{}", one.id);
        }
        assert_eq!(
            built_in[0].path,
            Path::new("built-in").join(format!("{}.jsonl", ours[0].id))
        );
    }

    #[test]
    fn what_is_built_in_can_be_written_out_once() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new/fixtures");
        assert_eq!(Transcripts::in_or_built_in(&target), Transcripts::BuiltIn);
        write_built_in(&target).unwrap();
        let written = Transcripts::in_or_built_in(&target);
        assert_eq!(written, Transcripts::Dir(target.clone()));
        let count = Transcripts::BuiltIn.load().unwrap().len();
        assert_eq!(written.load().unwrap().len(), count);
        assert!(write_built_in(&target).is_err());
    }

    #[test]
    fn other_files_of_that_name_are_no_transcripts() {
        let dir = tempfile::tempdir().unwrap();
        let kind = || Transcripts::in_or_built_in(dir.path());
        fs::write(dir.path().join("data.jsonl"), "{\"id\":1}\n").unwrap();
        fs::write(dir.path().join("empty.jsonl"), "").unwrap();
        fs::create_dir(dir.path().join("turn")).unwrap();
        assert_eq!(kind(), Transcripts::BuiltIn);
        // One with a fault is one, too, or the fault would never be told.
        let path = dir.path().join("turn/one.jsonl");
        fs::write(path, "{\"fixture\":\"turn/two\"}\nfault\n").unwrap();
        assert_eq!(kind(), Transcripts::Dir(dir.path().to_owned()));
    }
}
