//! Which ports are meant, and which of them can be run.

use std::{
    env,
    path::{Path, PathBuf},
};

use acp_conformance::{
    limits::Limits,
    port::{self, Port},
    run::Skipped,
};

use super::{Fault, advice, flags};

/// Ports as they are found.
pub struct Found {
    /// Built, and with their drivers located.
    pub ready: Vec<Port>,
    /// Not to be run here.
    pub skipped: Vec<Skipped>,
}

/// The ports that are meant by `wanted`, or all. Of all, those that cannot be run here are skipped; one
/// that is asked for by name must be there.
pub fn ports(wanted: &[String], flags: &flags::Ports, limits: &Limits) -> Result<Found, Fault> {
    let mut found = Found {
        ready: Vec::new(),
        skipped: Vec::new(),
    };
    for (at, port) in named(wanted, &flags.ports)?.into_iter().enumerate() {
        match port.unavailable() {
            None => found.ready.push(port),
            Some(why) if wanted.is_empty() => found.skipped.push(Skipped { port, why }),
            Some(why) => {
                // Of ports that are asked for there are as many as names.
                let want = wanted.get(at).unwrap_or(&port.name);
                let advice = advice::make_available(&why, want, &flags.ports);
                let name = &port.name;
                return Err(format!("the port {name} cannot be run: {why}; {advice}").into());
            }
        }
    }
    let bin_dirs: Vec<PathBuf> = env::current_exe()?
        .parent()
        .map(Path::to_owned)
        .into_iter()
        .collect();
    for port in &mut found.ready {
        if port.build.is_some() && !flags.no_build {
            anstream::eprintln!("building the driver of {}", port.name);
            port.build(&[], limits)
                .map_err(|error| format!("failed to build the driver of {}: {error}", port.name))?;
        }
        port.locate(&bin_dirs);
    }
    Ok(found)
}

/// The ports that are meant by `wanted`, each a directory or a name, or all that are in `root`.
pub fn named(wanted: &[String], root: &Path) -> Result<Vec<Port>, Fault> {
    let all = || -> Result<Vec<Port>, Fault> {
        let dirs = port::discover(root)?;
        let ports = dirs.iter().map(|dir| Port::load(dir));
        Ok(ports.collect::<Result<_, _>>()?)
    };
    if wanted.is_empty() {
        return all();
    }
    let mut ports = Vec::new();
    for want in wanted {
        let dir = Path::new(want);
        if dir.join("port.toml").is_file() {
            ports.push(Port::load(dir)?);
            continue;
        }
        let known = if root.is_dir() { all()? } else { Vec::new() };
        let port = known.into_iter().find(|port| port.name == *want);
        ports.push(port.ok_or_else(|| {
            format!(
                "{want} is neither a directory with a port.toml nor a port in {}",
                root.display()
            )
        })?);
    }
    Ok(ports)
}
