//! `cargo xtask bench`: the harness in `benches`, built and run.

use std::ffi::OsString;

use crate::Workspace;

/// The flags are the harness's own. Times of a debug build mean nothing, so only a smoke run has one.
pub fn run(args: &[OsString]) -> Result<bool, String> {
    let workspace = Workspace::find()?;
    let release = !args.iter().any(|arg| arg == "--smoke");
    workspace.build_in(release, &["acp-bench"])?;
    workspace.run_in(release, "acp-bench", args)
}
