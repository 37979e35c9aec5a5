//! `acp record`: this process becomes the agent, and another one records its wire.
//!
//! A process in between would have to forward every signal, which a process group gets anyway, and
//! could be killed without its agent. So there is none: the client's child is the agent itself, under
//! the same process id and in the same group. Its three pipes lead to a process that signals to this
//! group do not end ([`wire`]), and that ends when they do. The price is that only the client learns of
//! the exit status.

mod command;
mod file;
mod lines;
pub(crate) mod wire;

use std::env;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use acp_core::LoadError;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::cli::Record;
use crate::failure::Failure;

/// Becomes the agent. Returns only if that fails.
pub(crate) fn run(args: &Record) -> Result<(), Failure> {
    // What cannot be written is told of before anything is started.
    file::open(&args.out)?;
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(Failure::options("the agent's command line is empty".into()));
    };
    let mut agent = Command::new(program);
    agent.args(arguments);
    connect(&mut agent, args)
        .map_err(|error| Failure::options(format!("the recorder cannot be started: {error}")))?;
    let error = agent.exec();
    Err(Failure::load(LoadError::SpawnFailed {
        program: program.to_string_lossy().into_owned(),
        reason: error.to_string(),
        source: Arc::new(error),
    }))
}

/// Starts the process that records, and leads the agent's pipes to it.
fn connect(agent: &mut Command, args: &Record) -> io::Result<()> {
    let (agent_in, to_agent) = io::pipe()?;
    let (from_agent, agent_out) = io::pipe()?;
    let (from_stderr, agent_err) = io::pipe()?;
    let ends = [to_agent.as_fd(), from_agent.as_fd(), from_stderr.as_fd()];
    for end in ends {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    let pipes = ends.map(|end| end.as_raw_fd().to_string()).join(",");
    let mut recorder = Command::new(env::current_exe()?);
    recorder.args(["record-wire", "--detach", "--pipes", &pipes, "--out"]);
    recorder.arg(&args.out).arg("--").args(&args.command);
    // It starts another process and ends, because an agent must not find a child that it has not started.
    let status = recorder.status()?;
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}")));
    }
    agent.stdin(agent_in).stdout(agent_out).stderr(agent_err);
    // Here the recorder's ends are closed in this process, so that each pipe ends with its two users.
    Ok(())
}
