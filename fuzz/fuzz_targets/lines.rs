//! Any bytes, cut anywhere, are the same to the engine as in one piece.

#![no_main]

use std::time::Instant;

use acp_core::{Connection, ConnectionOptions, ExitInfo, GenerateRequest, Output, TurnOptions};
use libfuzzer_sys::fuzz_target;

// The first bytes say where to cut and how long a line may be; the rest is the stream, so that any file is
// a seed.
fuzz_target!(|input: &[u8]| {
    let Some((&[cut, limit], bytes)) = input.split_first_chunk::<2>() else {
        return;
    };
    let now = Instant::now();
    let max_line = usize::from(limit) * 16;
    let whole = run(bytes, bytes.len().max(1), max_line, now);
    let pieces = run(bytes, usize::from(cut) + 1, max_line, now);
    assert_eq!(whole, pieces);
});

/// Everything that the engine puts out, as text.
fn run(bytes: &[u8], piece: usize, max_line: usize, now: Instant) -> String {
    let mut options = ConnectionOptions::new("/w");
    options.max_line_len = max_line + 64;
    let mut connection = Connection::new(options, now);
    let lane = connection.open_lane(now);
    for line in [
        &br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#[..],
        br#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#,
    ] {
        connection.handle_line(line, now);
    }
    let request = GenerateRequest::user("hi");
    let _ = connection.prompt(lane, &request, TurnOptions::default(), now);
    for piece in bytes.chunks(piece) {
        connection.handle_bytes(piece, now);
    }
    connection.handle_eof(ExitInfo::default(), now);
    let mut out = String::new();
    loop {
        match connection.poll_output() {
            Output::Wait(_) => return out,
            output => out += &format!("{output:?}\n"),
        }
    }
}
