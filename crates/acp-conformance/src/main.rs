//! The `acp-conformance` command.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let flags = cli::flags::Cli::parse();
    flags.color.write_global();
    match cli::main(flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            anstream::eprintln!("{}error:{} {error}", cli::ERROR, cli::ERROR.render_reset());
            ExitCode::from(2)
        }
    }
}
