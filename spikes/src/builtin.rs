//! The fake server's own agents. A spike starts itself as one of them, so that nothing has to be installed.

use std::env;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use acp_fake_server::Profile;
use acp_fake_server::agents::Builtin;

use crate::program::Program;

/// The first argument of a spike that is to be an agent. After it come the agent's name, its profile, and how
/// many milliseconds its start takes.
const ROLE: &str = "be-the-agent";

/// Is an agent, if that is what the command line asks for. To be called first thing in `main`.
pub fn serve_if_asked() -> Option<ExitCode> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [role, name, profile, delay] = &args[..] else {
        return None;
    };
    if role != ROLE {
        return None;
    }
    Some(serve(name, profile, delay).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    }))
}

fn serve(name: &str, profile: &str, delay: &str) -> io::Result<ExitCode> {
    let unknown = || io::Error::other("no such agent");
    let mut agents = Builtin::ALL.into_iter();
    let agent = agents
        .find(|agent| agent.name() == name)
        .ok_or_else(unknown)?;
    let profile = Profile::named(profile).ok_or_else(unknown)?;
    thread::sleep(Duration::from_millis(
        delay.parse().map_err(io::Error::other)?,
    ));
    let code = acp_fake_server::alone::run(agent, profile)?;
    // Exit codes of a process are bytes.
    Ok(ExitCode::from(code.to_le_bytes()[0]))
}

/// The command line of an agent with this profile, whose start takes this long.
///
/// # Errors
///
/// If this program cannot be found.
pub fn program(agent: Builtin, profile: &str, delay: Duration) -> io::Result<Program> {
    let delay = delay.as_millis().to_string();
    let words = [ROLE, agent.name(), profile, &delay];
    let mut command = vec![env::current_exe()?.into_os_string()];
    command.extend(words.map(Into::into));
    Ok(Program {
        command,
        env: None,
        cwd: env::current_dir()?,
        mode: None,
    })
}
