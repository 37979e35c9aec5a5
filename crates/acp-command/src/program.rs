//! Where a program is.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The program of this name: in `PATH`, unless the name is a path itself.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = env::var_os("PATH")?;
    let places = env::split_paths(&path).map(|dir| dir.join(name));
    places.into_iter().find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    // What cannot be looked at cannot be started either.
    path.metadata()
        .is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_file_that_can_be_run() {
        let sh = find("sh").unwrap();
        assert!(sh.is_absolute());
        assert_eq!(find(sh.to_str().unwrap()), Some(sh));
        for none in [
            "",
            "no-such-program",
            "/",
            "/no/such/program",
            "/etc/passwd",
        ] {
            assert_eq!(find(none), None, "{none}");
        }
    }
}
