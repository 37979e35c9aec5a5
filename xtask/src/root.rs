//! Which checkout is meant.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The workspace that the current directory is in. One program can be built in one checkout and be run in
/// another, where they share a target directory.
///
/// Outside of any checkout it is the one that this program was built in.
pub fn find() -> Result<PathBuf, String> {
    let here = env::current_dir().map_err(|error| format!("the current directory: {error}"))?;
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    above(&here)
        .or_else(|| built_in.filter(|root| is_ours(root)).map(Path::to_owned))
        .ok_or_else(|| {
            format!(
                "neither {} nor a directory above it is a checkout of this project",
                here.display()
            )
        })
}

fn above(dir: &Path) -> Option<PathBuf> {
    dir.ancestors().find(|dir| is_ours(dir)).map(Path::to_owned)
}

/// Whether it is a workspace with this program in it. A port or `fuzz` is a workspace of its own within ours.
fn is_ours(dir: &Path) -> bool {
    let manifest = fs::read_to_string(dir.join("Cargo.toml"));
    manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
        && dir.join("xtask").join("Cargo.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_found_from_anywhere_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(above(dir.path()), None);
        write("a/Cargo.toml", "[workspace]\nmembers = ['xtask']\n");
        assert_eq!(above(&dir.path().join("a")), None, "another workspace");
        write("a/xtask/Cargo.toml", "[package]\n");
        write("a/fuzz/Cargo.toml", "[workspace]\n");
        for inside in ["a", "a/xtask", "a/fuzz"] {
            let found = above(&dir.path().join(inside));
            assert_eq!(found, Some(dir.path().join("a")), "{inside}");
        }
    }
}
