//! Measuring: one process after the other, the clients in another order each round.

use std::{
    io::Read as _,
    process::{Child, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use acp_bench::order::{self, Order, Outcome};

use crate::{
    cargo::Cargo,
    clients::Client,
    figures::Rounds,
    place::{Cpus, Placement},
    report::{Measured, WorkResult},
    works::{Kind, Value, Work},
};

/// The longest that one measurement may take.
const LIMIT: Duration = Duration::from_secs(300);
/// How often `acp-core` is built from nothing.
const BUILDS: usize = 3;

pub struct Runner<'a> {
    pub clients: &'a [Client],
    pub cpus: Cpus,
    pub cargo: &'a Cargo,
    pub smoke: bool,
    pub rounds: Option<usize>,
    pub placement: Option<Placement>,
}

impl Runner<'_> {
    /// Measures a work. `None` if it cannot be done here, which is said.
    pub fn measure(&self, work: &Work) -> Result<Option<WorkResult>, String> {
        match &work.kind {
            Kind::Processes {
                placement,
                clients,
                rounds,
                order,
                text,
                value,
            } => {
                let placement = match *placement {
                    Placement::Free => Placement::Free,
                    usual => self.placement.unwrap_or(usual),
                };
                if !self.cpus.allow(placement) {
                    eprintln!("left out: {} (it needs two CPUs)", work.name);
                    return Ok(None);
                }
                let rounds = match self.smoke {
                    true => 1,
                    false => self.rounds.unwrap_or(*rounds),
                };
                let able: Vec<&Client> = self
                    .clients
                    .iter()
                    .filter(|client| clients.include(client.name))
                    .collect();
                let work_order = order(self.smoke);
                let expected = Expected {
                    text: text(self.smoke),
                    value: *value,
                };
                let clients =
                    self.rounds(work.name, &able, placement, rounds, &work_order, &expected)?;
                Ok(Some(WorkResult::of_processes(
                    work, placement, rounds, clients,
                )))
            }
            Kind::Build if self.smoke => Ok(None),
            Kind::Build => {
                let crates = self.cargo.crates()?;
                let mut times = Vec::new();
                for round in 1..=BUILDS {
                    eprintln!("{}: round {round} of {BUILDS}", work.name);
                    times.push(self.cargo.clean_build()?);
                }
                Ok(Some(WorkResult::of_build(work, &times, crates)))
            }
            Kind::Engine => {
                self.cargo.engine()?;
                Ok(None)
            }
        }
    }

    fn rounds(
        &self,
        work: &str,
        clients: &[&Client],
        placement: Placement,
        rounds: usize,
        order: &order::Work,
        expected: &Expected,
    ) -> Result<Vec<Measured>, String> {
        let mut measured: Vec<(Rounds, Option<String>)> =
            clients.iter().map(|_| (Rounds::default(), None)).collect();
        for round in 0..rounds {
            eprintln!("{work}: round {} of {rounds}", round + 1);
            for turn in 0..clients.len() {
                let at = (round + turn) % clients.len();
                let (figures, failure) = &mut measured[at];
                if failure.is_some() {
                    continue;
                }
                match self.once(clients[at], placement, order)? {
                    Ok(outcome) => {
                        *failure = expected.is_missing(clients[at], order, &outcome);
                        figures.add(outcome, expected.value);
                    }
                    Err(why) => *failure = Some(why),
                }
                if let Some(why) = failure {
                    eprintln!("{work}: {} failed: {why}", clients[at].name);
                }
            }
        }
        let clients = clients.iter().zip(measured);
        Ok(clients
            .map(|(client, (rounds, failure))| Measured {
                name: client.name.to_owned(),
                rounds,
                failure,
            })
            .collect())
    }

    /// Runs one client; the outer error is the bench's own.
    fn once(
        &self,
        client: &Client,
        placement: Placement,
        work: &order::Work,
    ) -> Result<Result<Outcome, String>, String> {
        let agent = self.cargo.programs.join("bench-agent");
        let mut agent = vec![agent.to_string_lossy().into_owned()];
        agent.extend(self.cpus.agent_args(placement));
        let order = Order {
            agent,
            work: work.clone(),
        };
        let order = serde_json::to_string(&order).map_err(|error| error.to_string())?;
        let mut command = client.command();
        command
            .arg(order)
            .current_dir(&self.cargo.root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let started = self.cpus.with_client(placement, || command.spawn())?;
        Ok(match started {
            Ok(child) => finish(child),
            Err(error) => Err(error.to_string()),
        })
    }
}

/// What every sample has to bring.
struct Expected {
    text: u64,
    value: Value,
}

impl Expected {
    fn is_missing(
        &self,
        client: &Client,
        order: &order::Work,
        outcome: &Outcome,
    ) -> Option<String> {
        let samples = match order {
            order::Work::Turns { count, .. } | order::Work::Cycles { count, .. } => *count,
            order::Work::Crowd { .. } => 1,
            order::Work::History { .. } | order::Work::IdleLanes { .. } => return None,
        };
        let expected = self.text * samples as u64;
        // The ceiling does not look at text.
        let missing = client.name != "ceiling" && outcome.text_bytes != expected;
        missing.then(|| {
            format!(
                "it has got {} bytes of text of {expected}",
                outcome.text_bytes
            )
        })
    }
}

/// Waits for the outcome. A client that takes too long is killed; its agent ends with its input.
fn finish(mut child: Child) -> Result<Outcome, String> {
    let (done, line) = mpsc::channel();
    let Some(mut stdout) = child.stdout.take() else {
        return Err("it has no standard output".into());
    };
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.read_to_string(&mut text).map(|_| text);
        // Nobody listens any more if it took too long.
        let _ = done.send(read);
    });
    let text = match line.recv_timeout(LIMIT) {
        Ok(text) => text.map_err(|error| error.to_string()),
        Err(_) => {
            child.kill().map_err(|error| error.to_string())?;
            Err(format!("it took more than {} s", LIMIT.as_secs()))
        }
    };
    let status = child.wait().map_err(|error| error.to_string())?;
    let text = text?;
    reader.join().map_err(|_| "its output could not be read")?;
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    serde_json::from_str(&text).map_err(|error| format!("it printed no outcome: {error}"))
}
