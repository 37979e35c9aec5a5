//! The client: its loop of turns and tools, hooks, stores and cancels, on models that are scripted.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the tests need threads and clocks of their own, and helpers outside of test functions"
)]

#[cfg(target_os = "linux")]
mod agent;
mod cancel;
mod docs;
mod hooks;
mod model;
mod properties;
mod store;
mod tools;
mod turns;
