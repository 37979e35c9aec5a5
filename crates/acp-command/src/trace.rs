//! The wire, in a file: what `--trace` writes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::cli::TraceArgs;
use crate::failure::Failure;

/// Begins to write the file, if there is to be one.
pub(crate) fn start(args: &TraceArgs) -> Result<(), Failure> {
    let Some(path) = &args.trace else {
        return Ok(());
    };
    let file = create(path)?;
    let trace = Trace {
        started: Instant::now(),
        file: Mutex::new(file),
    };
    tracing::subscriber::set_global_default(trace)
        .map_err(|error| Failure::options(error.to_string()))
}

fn create(path: &Path) -> Result<File, Failure> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        // What people ask and are told is nobody else's business.
        .mode(0o600)
        .open(path)
        .map_err(|error| Failure::options(format!("{} cannot be written: {error}", path.display())))
}

/// Milliseconds from `start` to `end`, to a tenth.
pub(crate) fn millis_between(start: Instant, end: Instant) -> f64 {
    ((end - start).as_secs_f64() * 10_000.0).round() / 10.0
}

/// A subscriber to the library's wire events and to nothing else.
struct Trace {
    started: Instant,
    file: Mutex<File>,
}

impl Subscriber for Trace {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "acp_core::wire"
    }

    fn event(&self, event: &Event<'_>) {
        let mut wire = Wire::default();
        event.record(&mut wire);
        let t_ms = millis_between(self.started, Instant::now());
        let line = json!({"t_ms": t_ms, "dir": wire.direction, "line": wire.line});
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not end the conversation, and there is nobody to tell in the middle of it.
        let _ = writeln!(file, "{line}");
    }

    // The library has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The fields of a wire event.
#[derive(Default)]
struct Wire {
    direction: &'static str,
    line: String,
}

impl Visit for Wire {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "direction" if value == "send" => self.direction = "c2a",
            "direction" => self.direction = "a2c",
            "line" => value.clone_into(&mut self.line),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
