//! The command line of the scripted agent.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_fake_server::Profile;
use acp_fake_server::agents::Builtin;
use acp_fake_server::distill::{self, DistillError, distill};
use acp_fake_server::fixture::{self, Fixture};
use acp_fake_server::recording::Recording;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand};

/// A scripted ACP agent for testing clients.
///
/// Exit codes: 0 is well, 1 is a client or a transcript that is not, 2 is a wrong command line or a
/// fault of the system.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play the agent's side of a transcript on standard input and output.
    ///
    /// Exits 0 at the end of the transcript or of the input, 1 with the difference on standard error
    /// when the client does something else.
    Play {
        /// The transcript, AREA/BEHAVIOUR.jsonl.
        file: PathBuf,
        #[command(flatten)]
        profile: Like,
    },
    /// Be the agent process of a harness, which listens at $ACP_FAKE_CONTROL.
    Relay,
    /// Check transcripts and print each fault as file:line: message.
    Check {
        /// Transcripts, or directories of transcripts.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Make a transcript of a recording of a real agent, as `acp record` and `acp --trace` write them.
    ///
    /// The transcript goes to standard output, and what was left out of it to standard error. Exits 1
    /// without one when nothing in the recording could be played, when `check` would find a fault in the
    /// transcript, and when it would show the working directory, the home directory, the user's name or a
    /// secret.
    Distill(Distill),
    /// Be a small agent that needs no transcript.
    Agent {
        /// echo answers at once, stale answers an old question, hanging waits for permission, obedient does
        /// what the prompt says: `go slow` or `use a tool`.
        #[arg(value_parser = PossibleValuesParser::new(Builtin::ALL.map(Builtin::name)).try_map(builtin))]
        name: Builtin,
        #[command(flatten)]
        profile: Like,
    },
}

/// Which agent in the field is mimicked where they differ.
#[derive(Args)]
struct Like {
    /// Take bad input as this agent does, and end like it.
    #[arg(
        long = "as",
        value_name = "AGENT",
        default_value = "strict",
        value_parser = PossibleValuesParser::new(Profile::names()).try_map(profile)
    )]
    like: Profile,
}

#[derive(Args)]
struct Distill {
    /// The recording.
    file: PathBuf,
    /// The id of the transcript [default: recorded/ and the name of the file].
    #[arg(long, value_name = "AREA/BEHAVIOUR")]
    id: Option<String>,
    /// The behaviour, as one sentence about the client.
    #[arg(long)]
    title: Option<String>,
    /// A requirement that the transcript is about; may be given several times.
    #[arg(long, value_name = "REQUIREMENT")]
    covers: Vec<String>,
    /// The agent's name and version, where it does not tell them itself.
    #[arg(long)]
    agent: Option<String>,
    /// Leave out what no turn depends on: lines that are no message, and what the agent tells of its
    /// commands, its usage and the like.
    #[arg(long)]
    drop_noise: bool,
    /// Keep only this turn, counted from 1, beside the start; may be given several times.
    #[arg(long, value_name = "N")]
    turn: Vec<usize>,
    /// Write the agent's side only, for `play`; nothing that the recorded client asked for is left out.
    #[arg(long)]
    agent_only: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            tell(format_args!("acp-fake-server: {error}"));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> io::Result<ExitCode> {
    match command {
        Command::Play { file, profile } => play(&file, profile.like),
        Command::Relay => relay(),
        Command::Check { paths } => check(&paths),
        Command::Distill(flags) => distilled(flags),
        Command::Agent { name, profile } => agent(name, profile.like),
    }
}

#[cfg(unix)]
fn agent(name: Builtin, profile: Profile) -> io::Result<ExitCode> {
    // Exit codes of a process are bytes.
    acp_fake_server::alone::run(name, profile).map(|code| ExitCode::from(code.to_le_bytes()[0]))
}

#[cfg(unix)]
fn play(file: &Path, profile: Profile) -> io::Result<ExitCode> {
    let fixture = match Fixture::load(file) {
        Ok(fixture) => fixture,
        Err(error) => {
            tell(error);
            return Ok(ExitCode::from(2));
        }
    };
    Ok(match acp_fake_server::play::run_as(&fixture, profile)? {
        Ok(()) => ExitCode::SUCCESS,
        Err(mismatch) => {
            tell(mismatch);
            ExitCode::FAILURE
        }
    })
}

#[cfg(unix)]
fn relay() -> io::Result<ExitCode> {
    acp_fake_server::relay::run().map(|()| ExitCode::SUCCESS)
}

#[cfg(not(unix))]
fn agent(name: Builtin, profile: Profile) -> io::Result<ExitCode> {
    let served =
        acp_fake_server::agents::serve_as(name, profile, io::stdin().lock(), io::stdout().lock());
    match served {
        // The client has gone away, which is how a conversation ends.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        other => other.map(|_| ExitCode::SUCCESS),
    }
}

#[cfg(not(unix))]
fn play(_: &Path, _: Profile) -> io::Result<ExitCode> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "play needs a Unix system",
    ))
}

#[cfg(not(unix))]
fn relay() -> io::Result<ExitCode> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "relay needs a Unix system",
    ))
}

fn check(paths: &[PathBuf]) -> io::Result<ExitCode> {
    let mut files = Vec::new();
    for path in paths {
        let found = if path.is_dir() {
            fixture::discover(path)
        } else {
            Ok(vec![path.clone()])
        };
        files.extend(found.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?);
    }
    let mut faulty = 0;
    let written = print_faults(&files, &mut faulty);
    // Nothing to check is most likely a wrong path.
    let code = if faulty == 0 && !files.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    match written {
        // Who reads no further, as `head` does, has seen enough. The exit code is right all the same.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(code),
        other => other.map(|()| code),
    }
}

fn distilled(flags: Distill) -> io::Result<ExitCode> {
    let recording = match Recording::load(&flags.file) {
        Ok(recording) => recording,
        Err(error) => {
            tell(error);
            return Ok(ExitCode::from(2));
        }
    };
    let stem = flags.file.file_stem().unwrap_or_default();
    let name: String = stem
        .to_string_lossy()
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => c,
            _ => '-',
        })
        .collect();
    let options = distill::Options {
        id: flags.id.unwrap_or_else(|| format!("recorded/{name}")),
        title: flags.title,
        covers: flags.covers,
        agent: flags.agent,
        drop_noise: flags.drop_noise,
        turns: flags.turn,
        agent_only: flags.agent_only,
    };
    let transcript = match distill(&recording, &options) {
        Ok(transcript) => transcript,
        Err(error) => {
            tell(&error);
            if let DistillError::NothingToPlay(_) = error {
                tell("--agent-only makes a transcript of the agent's side, to be played alone");
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    transcript.notes.iter().for_each(tell);
    let mut stdout = io::stdout().lock();
    stdout.write_all(transcript.text.as_bytes())?;
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Tells every fault of `files`, prints the totals, and counts the files that have some.
fn print_faults(files: &[PathBuf], faulty: &mut usize) -> io::Result<()> {
    for file in files {
        let faults = Fixture::faults(file);
        *faulty += usize::from(!faults.is_empty());
        faults.iter().for_each(tell);
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{} checked, {faulty} with faults", files.len())?;
    stdout.flush()
}

/// Tells a person what is wrong.
fn tell(what: impl Display) {
    // If standard error cannot be written either, there is nowhere to say so.
    let _ = writeln!(io::stderr(), "{what}");
}

fn builtin(name: String) -> Result<Builtin, String> {
    let known = Builtin::ALL.into_iter().find(|agent| agent.name() == name);
    known.ok_or_else(|| format!("no agent {name:?}"))
}

fn profile(name: String) -> Result<Profile, String> {
    Profile::named(&name).ok_or_else(|| format!("no profile {name:?}"))
}
