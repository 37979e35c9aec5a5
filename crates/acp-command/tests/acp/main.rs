//! The command, from the outside: exit codes, what goes to standard output and what to standard error,
//! and that no process is left.
//!
//! The agents are this program itself, which plays the steps of a transcript when it is started with
//! [`support::ROLE`], and is one of the fake server's own with [`support::BUILTIN`].

#![expect(
    clippy::unwrap_used,
    reason = "this is a test, though with a `main` of its own"
)]

mod agents;
mod ask;
mod bench;
mod chat;
mod events;
mod inspect;
mod record;
mod session;
mod signals;
mod support;
mod terminal;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, transcript] = &args[..]
        && role == support::ROLE
    {
        return support::play(transcript.as_ref());
    }
    if let [_, role, name] = &args[..]
        && role == support::BUILTIN
    {
        return support::be(name);
    }
    let tests = [
        agents::TESTS,
        ask::TESTS,
        bench::TESTS,
        chat::TESTS,
        events::TESTS,
        inspect::TESTS,
        record::TESTS,
        session::TESTS,
        signals::TESTS,
        terminal::TESTS,
    ];
    let trials = tests.concat().into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
