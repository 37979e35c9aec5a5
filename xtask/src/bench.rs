//! `cargo xtask bench`: the harness in `benches`, built and run.

use std::ffi::OsString;

use crate::Workspace;

/// What measures nothing. Times of a debug build mean nothing, and everything else is there sooner with it.
const WITHOUT_TIMES: [&str; 4] = ["--smoke", "--help", "-h", "--list"];

/// The flags are the harness's own.
pub fn run(args: &[OsString]) -> Result<bool, String> {
    let workspace = Workspace::find()?;
    let release = !args
        .iter()
        .any(|arg| WITHOUT_TIMES.iter().any(|flag| arg == flag));
    workspace.build_in(release, &["acp-bench"])?;
    workspace.run_in(release, "acp-bench", args)
}
