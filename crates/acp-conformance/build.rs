//! Lists the transcripts, so that the harness has them wherever it is installed.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    // A link to the workspace's transcripts, which packaging follows.
    let root = manifest_dir()?.join("fixtures");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let mut list = fs::File::create(Path::new(&out).join("built_in.rs"))?;
    writeln!(list, "const BUILT_IN: &[(&str, &str)] = &[")?;
    for path in files {
        // Text that is included is a dependency of the crate, so a change to it is seen.
        writeln!(
            list,
            "    ({path:?}, include_str!({:?})),",
            root.join(&path)
        )?;
    }
    writeln!(list, "];")
}

/// Adds the transcripts and preludes under `root`, as paths below it.
fn collect(root: &Path, files: &mut Vec<String>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", root.display());
    for area in fs::read_dir(root)? {
        let area = area?;
        if !area.file_type()?.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", area.path().display());
        for file in fs::read_dir(area.path())? {
            let path = file?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
                && let (Some(area), Some(name)) = (
                    area.file_name().to_str(),
                    path.file_name().and_then(|name| name.to_str()),
                )
            {
                files.push(format!("{area}/{name}"));
            }
        }
    }
    Ok(())
}

fn manifest_dir() -> io::Result<PathBuf> {
    let dir = env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?;
    Ok(PathBuf::from(dir))
}
