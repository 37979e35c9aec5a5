//! SIGINT, SIGTERM and SIGHUP: nothing that was started stays behind.

use std::{io, thread};

use acp_conformance::started;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// Takes these signals from now on. The first one ends this process and all that it has started.
pub fn watch() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // The exit code that shells give a process which a signal has ended.
                started::kill_all_and_exit(128 + signal);
            }
        })
        .map(drop)
}
