//! Runs ACP transcripts against any client and judges what it does.
//!
//! A *transcript* states one behaviour of an ACP client (`spec/transcript-format.md`). A *port* is a
//! client library with a small driver that adapts it to the driver protocol
//! (`spec/driver-protocol.md`). A *cell* is one transcript played against one port.
//!
//! In reading order:
//!
//! - [`verdict`]: what can become of a cell
//! - [`tier`]: what a port can do, and what it is held to
//! - [`known`]: the failures a port is known to have
//! - [`port`]: a port's directory
//! - [`limits`]: all the time that the harness takes
//! - [`protocol`]: the lines of the driver protocol
//! - [`started`]: all processes that were started, for the case of a signal
//! - [`driver`]: a driver process
//! - [`wire_schema`]: the official schema, held against every line on the wire
//! - [`log`]: what happened, as text and against the schema
//! - [`cell`]: one transcript against one port
//! - [`transcripts`]: where the transcripts come from
//! - [`run`]: all of them
//! - [`report`], [`events`]: the results for people and for programs
//! - [`parity`], [`badge`]: the results that are kept with the sources
//! - [`html`]: the results to look around in
//! - [`bless`]: the `returns` of a transcript as a run gives them
//! - [`mutants`], [`ledger`], [`coverage`]: whether the transcripts can fail, and whether they cover what
//!   they must
//! - [`agent_check`]: the other side: what an agent makes of good and of bad input
//!
//! It runs on Unix, as the agents it starts do.
#![deny(missing_docs)]

pub mod agent_check;
mod agents;
pub mod badge;
pub mod bless;
pub mod cell;
pub mod coverage;
pub mod driver;
pub mod events;
pub mod html;
pub mod known;
pub mod ledger;
pub mod limits;
mod lines;
pub mod log;
mod markdown;
pub mod mutants;
pub mod parity;
pub mod port;
mod processes;
pub mod protocol;
pub mod report;
pub mod run;
pub mod started;
mod tail;
pub mod tier;
pub mod transcripts;
pub mod verdict;
pub mod wire_schema;
