//! The mock model as a program.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use acp_mock_model::{MockModel, Request, Script};
use clap::Parser;
use serde_json::json;

/// A model on loopback that says what a script says, for agents that are tried without a real one.
///
/// It speaks OpenAI's chat completions and responses, Anthropic's messages and Gemini. The first line on
/// standard output is its address; it runs until it is ended.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    /// The port on 127.0.0.1; 0 takes one that is free.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// What the model says.
    ///
    /// echo: the end of what the user said last. obey: does what the user says (`use a tool`, with `tool=NAME`
    /// and `path=PATH`; `go slow`; `go big`; `go err`), and otherwise echoes. slow: 100 words in half a minute.
    /// error: an HTTP error, 400 or as in error:503. first, last: which of the user's questions it has seen.
    /// marker: what the line `SUPERSEDES-ALL-PRIOR: ` says, or else the first question. tools-json: calls, as JSON
    /// in text, the tools of a JSON object with `tools` and `messages`.
    #[arg(long, default_value = "obey", value_name = "NAME")]
    script: Script,
    /// Add each request to this file as a line of JSON: its time in ms, method, path, length and body.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<std::convert::Infallible, String> {
    let log = match &arguments.log {
        Some(path) => {
            let file = File::options().append(true).create(true).open(path);
            Some(file.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        None => None,
    };
    let log = log.map(Mutex::new);
    let write = move |request: &Request| {
        // A thread that has died while it wrote has told of it; the others go on.
        if let Some(log) = &log
            && let Ok(mut log) = log.lock()
            && let Err(error) = log.write_all(line(request).as_bytes())
        {
            eprintln!("error: the log cannot be written: {error}");
        }
    };
    let model = MockModel::start_on(arguments.port, arguments.script, write)
        .map_err(|error| format!("port {}: {error}", arguments.port))?;
    writeln!(io::stdout(), "{}", model.url()).map_err(|error| error.to_string())?;
    loop {
        thread::park();
    }
}

fn line(request: &Request) -> String {
    let line = json!({
        "t_ms": u64::try_from(request.at.as_millis()).unwrap_or(u64::MAX),
        "method": request.method,
        "path": request.path,
        "bytes": request.bytes,
        "body": request.body,
    });
    format!("{line}\n")
}
