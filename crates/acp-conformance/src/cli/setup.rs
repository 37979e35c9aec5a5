//! `acp-conformance setup`.

use std::time::Instant;

use acp_conformance::{
    limits::Limits,
    port::{Port, Unavailable},
};

use super::{ERROR, Fault, GOOD, find, flags, say};

/// Sets the ports up, one after the other. False if one could not be.
pub fn main(flags: &flags::Setup) -> Result<bool, Fault> {
    let limits = Limits::from_env()?;
    let all = flags.port.iter().any(|want| want == "all");
    let wanted = if all { &[][..] } else { &flags.port };
    let mut good = true;
    for port in find::named(wanted, &flags.ports)? {
        // One that lacks a program is not ready, although there are no commands to run for it.
        if port.setup.is_empty() && port.unavailable().is_none() {
            if !all {
                say(format_args!("{}: needs no setup", about(&port)));
            }
            continue;
        }
        match port.unavailable() {
            None if !flags.force => {
                say(format_args!("{}: is set up already", about(&port)));
                continue;
            }
            Some(why @ Unavailable::Missing(_)) if all => {
                say(format_args!("{}: skipped, {why}", about(&port)));
                continue;
            }
            _ => {}
        }
        anstream::eprintln!("setting up {}", about(&port));
        let started = Instant::now();
        match port.set_up(&[], &limits) {
            Ok(()) => say(format_args!(
                "{}: {GOOD}set up{GOOD:#} in {:.1} s",
                about(&port),
                started.elapsed().as_secs_f64()
            )),
            Err(error) => {
                good = false;
                anstream::eprintln!("{}: {ERROR}error:{ERROR:#} {error}", about(&port));
            }
        }
    }
    Ok(good)
}

/// The port's name, with the version that is pinned.
fn about(port: &Port) -> String {
    match &port.version {
        Some(version) => format!("{} ({version})", port.name),
        None => port.name.clone(),
    }
}
