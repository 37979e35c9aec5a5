//! What the player waits for, and what it found wrong.

use std::fmt;

use crate::fixture::Location;

/// What the player waits for. Displays as `file:line: what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The step that waits.
    pub location: Location,
    /// What it waits for, as a noun phrase.
    pub what: String,
}

/// Why a transcript failed. Displays in full, with what happened since the last `note`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Mismatch {
    /// The step that failed.
    pub location: Location,
    /// Whose fault it is.
    pub fault: Fault,
    /// What is wrong, in one line.
    pub message: String,
    /// Where in the value the first difference is, as a JSON path from `$`.
    pub path: Option<String>,
    /// What the transcript says.
    pub want: Option<String>,
    /// What came.
    pub got: Option<String>,
    /// What happened since the last `note`, one line each.
    pub transcript: String,
}

/// Whose fault a mismatch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The client did something else than the transcript says.
    Client,
    /// The transcript, or whoever drives the player, did something that cannot work.
    Fixture,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.what)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)?;
        if let Some(path) = &self.path {
            write!(f, "\n  path: {path}")?;
        }
        if let Some(want) = &self.want {
            write!(f, "\n  want: {want}")?;
        }
        if let Some(got) = &self.got {
            write!(f, "\n  got:  {got}")?;
        }
        if !self.transcript.is_empty() {
            write!(f, "\n{}", self.transcript)?;
        }
        Ok(())
    }
}
