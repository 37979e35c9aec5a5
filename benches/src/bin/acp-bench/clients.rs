//! The clients that are measured, as far as they are set up.

use std::{ffi::OsString, path::PathBuf};

use clap::ValueEnum;

use crate::cargo::Cargo;

/// Which clients are measured that are not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peers {
    /// None, so that nothing is built but this workspace
    None,
    /// The official Rust SDK
    Rust,
    /// Both ways to use it, the TypeScript and Python SDKs, and toolnexus: `cargo xtask conformance --setup all`
    /// installs them
    All,
}

/// A program that takes an order.
pub struct Client {
    pub name: &'static str,
    program: PathBuf,
    args: Vec<OsString>,
    /// Whether a failure of it is one of the bench.
    pub ours: bool,
}

impl Client {
    /// The program and its arguments, but for the order.
    pub fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args);
        command
    }
}

/// The clients that can be run; says which cannot.
pub fn find(peers: Peers, cargo: &Cargo) -> Vec<Client> {
    let own = cargo.programs.join("bench-client");
    let mut clients: Vec<Client> = ["floor", "floor-single", "ceiling", "blocking", "tokio"]
        .map(|name| Client {
            name,
            program: own.clone(),
            args: vec![name.into()],
            ours: true,
        })
        .into();
    if peers != Peers::None {
        match cargo.rust_sdk() {
            Ok(program) => {
                let mut add = |name, way: &str| {
                    clients.push(Client {
                        name,
                        program: program.clone(),
                        args: vec![way.into()],
                        ours: false,
                    });
                };
                add("rust-sdk", "handler");
                if peers == Peers::All {
                    add("rust-sdk-session", "session");
                }
            }
            Err(why) => eprintln!("left out: rust-sdk ({why})"),
        }
    }
    if peers == Peers::All {
        let ports = cargo.root.join("conformance/ports");
        let scripts = cargo.root.join("benches/peers");
        // What runs it, what must be installed for that, and the script.
        let others = [
            (
                "typescript-sdk",
                "node",
                "typescript-sdk/node_modules",
                "typescript-sdk.mjs",
            ),
            (
                "python-sdk",
                "python-sdk/.venv/bin/python",
                "python-sdk/.venv",
                "python-sdk.py",
            ),
            (
                "toolnexus",
                "python/.venv/bin/python",
                "python/.venv",
                "toolnexus-kit.py",
            ),
        ];
        for (name, program, installed, script) in others {
            if !ports.join(installed).exists() {
                let port = installed.split('/').next().unwrap_or_default();
                eprintln!("left out: {name} (cargo xtask conformance --setup {port} installs it)");
                continue;
            }
            let program = match program {
                "node" => program.into(),
                relative => ports.join(relative),
            };
            clients.push(Client {
                name,
                program,
                args: vec![scripts.join(script).into()],
                ours: false,
            });
        }
    }
    clients
}
