//! The example agent of the official TypeScript SDK: an ACP agent that nobody of this project wrote, and
//! that needs no model and no account.
//!
//! It is installed once from the npm registry, at exact versions, into the target directory.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// 1.9.0 is the last release of the SDK that ships the example.
const SDK: &str = "@agentclientprotocol/sdk@1.9.0";
/// The SDK's one peer dependency, which npm would otherwise choose anew with each install.
const ZOD: &str = "zod@4.6.7";
/// Where the package holds the example.
const EXAMPLE: &str = "node_modules/@agentclientprotocol/sdk/dist/examples/agent.js";
/// The first major version of Node that has all that the example uses, such as a global `crypto`.
const MIN_NODE: u32 = 20;

/// What npm reports when the registry cannot be reached, or only something in front of it that says no.
/// Anything else is not the network's fault.
const NETWORK_ERRORS: [&str; 18] = [
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "E403",
    "E407",
    "E502",
    "E503",
    "E504",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTCACHED",
    "ENOTFOUND",
    "ERR_SOCKET_TIMEOUT",
    "ETIMEDOUT",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
];

/// Why there is no agent to test with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// This machine lacks something that the tests cannot bring along.
    Skip(String),
    /// It should have worked.
    Fail(String),
}

/// Installs the agent if that has not been done yet, and returns the path of its script.
///
/// Safe to call from several processes at once: each installs into a directory of its own, and the
/// first one to be done gives it the final name.
pub fn example_agent() -> Result<PathBuf, Unavailable> {
    check_node()?;
    let agents = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("agents");
    let installed = agents.join("sdk-example-1.9.0");
    let script = installed.join(EXAMPLE);
    if script.exists() {
        return Ok(script);
    }
    let broken = |what: &str, error: io::Error| Unavailable::Fail(format!("{what}: {error}"));
    fs::create_dir_all(&agents).map_err(|error| broken("no directory for the agent", error))?;
    let staging = tempfile::Builder::new()
        .prefix("installing-")
        .tempdir_in(&agents)
        .map_err(|error| broken("no directory to install into", error))?;
    install(staging.path())?;
    match fs::rename(staging.path(), &installed) {
        // There is nothing left for the guard to remove.
        Ok(()) => drop(staging.keep()),
        Err(_) if script.exists() => {} // Somebody else was faster.
        Err(error) => return Err(broken("the installed agent cannot be moved", error)),
    }
    if script.exists() {
        Ok(script)
    } else {
        Err(Unavailable::Fail(format!("{SDK} has no {EXAMPLE}")))
    }
}

/// A command of this machine, with the output that says whether it is there.
fn output_of(program: &str, args: &[&str], dir: &Path) -> Result<(bool, String), Unavailable> {
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unavailable::Skip(format!("no {program} in PATH")),
            _ => Unavailable::Fail(format!("{program} cannot be run: {error}")),
        })?;
    let text = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((output.status.success(), text))
}

fn check_node() -> Result<(), Unavailable> {
    let (_, version) = output_of("node", &["--version"], Path::new("."))?;
    let version = version.trim();
    let major = version
        .strip_prefix('v')
        .and_then(|version| version.split('.').next())
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(major) if major >= MIN_NODE => Ok(()),
        Some(_) => Err(Unavailable::Skip(format!(
            "node in PATH is {version}, and the agent needs {MIN_NODE} or later"
        ))),
        None => Err(Unavailable::Fail(format!(
            "node --version printed `{version}`"
        ))),
    }
}

fn install(dir: &Path) -> Result<(), Unavailable> {
    let args = [
        "install",
        "--prefix=.",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--no-update-notifier",
        // One retry: whoever is offline should not wait for minutes to be told.
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
        "--fetch-timeout=30000",
        SDK,
        ZOD,
    ];
    let (success, log) = output_of("npm", &args, dir)?;
    if success {
        return Ok(());
    }
    let in_ci = env::var_os("CI").is_some_and(|value| value == "true");
    Err(failed_install(&log, in_ci))
}

/// A registry out of reach is a reason to skip, but not where the tests are the gate.
fn failed_install(log: &str, in_ci: bool) -> Unavailable {
    // npm spelt the start of such a line `npm ERR!` until its version 10.
    let code = log.lines().find_map(|line| {
        let line = line
            .strip_prefix("npm error ")
            .or_else(|| line.strip_prefix("npm ERR! "))?;
        line.strip_prefix("code ").map(str::trim)
    });
    match code {
        Some(code) if NETWORK_ERRORS.contains(&code) && !in_ci => {
            Unavailable::Skip(format!("npm cannot reach its registry ({code})"))
        }
        _ => Unavailable::Fail(format!("npm install {SDK} failed:\n{log}")),
    }
}

/// A trial of the rules above, which no one machine shows all of.
pub fn check_failed_install() {
    for offline in [
        "npm error code ENOTFOUND\nnpm error syscall getaddrinfo\n",
        "npm ERR! code ENOTFOUND\nnpm ERR! syscall getaddrinfo\n",
    ] {
        let skip = Unavailable::Skip("npm cannot reach its registry (ENOTFOUND)".to_owned());
        assert_eq!(failed_install(offline, false), skip);
        let failed = failed_install(offline, true);
        assert!(matches!(failed, Unavailable::Fail(_)), "{failed:?}");
    }
    for log in ["npm error code ETARGET\nnpm error notarget …\n", ""] {
        let failed = failed_install(log, false);
        assert!(matches!(failed, Unavailable::Fail(_)), "{failed:?}");
    }
}
