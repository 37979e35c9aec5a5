//! Where the transcripts come from: a directory, or the harness itself.

use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
};

use acp_fake_server::{Fixture, FixtureError, fixture};

// `BUILT_IN`: the path of each file below the directory, and its text, sorted by path.
include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// What the paths of built-in transcripts begin with in messages.
const BUILT_IN_ROOT: &str = "built-in";

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
    /// Those in `dir`, if it is a directory of transcripts with their preludes, and else the built-in ones.
    pub fn in_or_built_in(dir: &Path) -> Transcripts {
        match dir.join(PRELUDES).is_dir() {
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
}
