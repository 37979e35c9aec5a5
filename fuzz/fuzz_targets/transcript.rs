//! Any text is a transcript or an error that says where.

#![no_main]

use std::path::Path;

use acp_fake_server::{Action, Fixture, Input, Player, Role};
use libfuzzer_sys::fuzz_target;

// The lines of the transcript are also what the client says, so that any transcript is a seed.
fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let path = Path::new("fuzz/one.jsonl");
    let Ok(fixture) = Fixture::parse(path, text, &mut |_| None) else {
        return;
    };
    for role in [Role::Both, Role::AgentOnly] {
        let mut player = Player::new(&fixture, role);
        player.handle(Input::Started);
        for line in text.lines() {
            let line = line.as_bytes();
            player.handle(Input::Line { process: 1, line });
            for _ in 0..1000 {
                match player.poll() {
                    Action::Wait(_) | Action::Done | Action::Failed(_) => break,
                    Action::Delay(_) => player.handle(Input::Elapsed),
                    _ => {}
                }
            }
        }
    }
});
