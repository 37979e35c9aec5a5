//! The results, as they are kept in a file.

use std::{fs, thread, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    figures::{Ratio, Rounds, median},
    place::Placement,
    works::{Is, Kind, Target, Value, WORKS, Work},
};

/// Everything that was measured in one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub machine: Machine,
    pub works: Vec<WorkResult>,
    /// One for each target of a work that was measured.
    pub verdicts: Vec<Verdict>,
}

/// What to keep in mind with the times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    pub cpus: usize,
    /// How many processes wanted a CPU in the minute before.
    pub load: f64,
    /// Whether the clients were built for debugging and did next to nothing.
    pub smoke: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkResult {
    pub name: String,
    pub about: String,
    pub placement: Option<Placement>,
    pub rounds: usize,
    pub clients: Vec<Measured>,
}

/// What one client came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    pub name: String,
    pub rounds: Rounds,
    /// Why it has not all rounds, or what is wrong with them.
    pub failure: Option<String>,
}

/// A target, and what was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verdict {
    pub work: String,
    pub client: String,
    /// As it is said to people.
    pub target: String,
    pub measured: Option<Ratio>,
    pub met: Option<bool>,
}

impl Machine {
    pub fn now(smoke: bool) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().and_then(|load| load.parse().ok());
        Self {
            cpus: thread::available_parallelism().map_or(1, usize::from),
            load: load.unwrap_or_default(),
            smoke,
        }
    }
}

impl WorkResult {
    pub fn of_processes(
        work: &Work,
        placement: Placement,
        rounds: usize,
        clients: Vec<Measured>,
    ) -> Self {
        Self {
            name: work.name.to_owned(),
            about: work.about.to_owned(),
            placement: Some(placement),
            rounds,
            clients,
        }
    }

    pub fn of_build(work: &Work, times: &[Duration], crates: usize) -> Self {
        let measured = |name: &str, values| Measured {
            name: name.to_owned(),
            rounds: Rounds {
                values,
                ..Rounds::default()
            },
            failure: None,
        };
        Self {
            name: work.name.to_owned(),
            about: work.about.to_owned(),
            placement: None,
            rounds: times.len(),
            clients: vec![
                measured(
                    "acp-core",
                    times.iter().map(|time| time.as_secs_f64() * 1e9).collect(),
                ),
                measured("acp-core crates", vec![crates as f64]),
            ],
        }
    }

    pub fn client(&self, name: &str) -> Option<&Measured> {
        self.clients.iter().find(|client| client.name == name)
    }

    /// How many times the time of another client this one takes.
    pub fn times(&self, client: &str, other: &str) -> Option<Ratio> {
        let values = |name| {
            self.client(name)
                .map(|client| client.rounds.values.as_slice())
        };
        Ratio::of(values(client)?, values(other)?)
    }
}

impl Report {
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            works: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    pub fn work(&self, name: &str) -> Option<&WorkResult> {
        self.works.iter().find(|work| work.name == name)
    }

    /// Clients and what failed.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        let clients = self.works.iter().flat_map(|work| &work.clients);
        clients.filter_map(|client| Some((&*client.name, client.failure.as_deref()?)))
    }

    /// Judges every target of the works that were measured.
    pub fn judge(&mut self) {
        let mut verdicts = Vec::new();
        for work in WORKS {
            for target in work.targets {
                verdicts.extend(
                    self.work(work.name)
                        .and_then(|result| self.verdict(result, target)),
                );
            }
        }
        self.verdicts = verdicts;
    }

    /// `None` where the target's client was not measured at all.
    fn verdict(&self, result: &WorkResult, target: &Target) -> Option<Verdict> {
        let client = result.client(match target.is {
            Is::Crates => "acp-core crates",
            _ => target.client,
        })?;
        let limit = target.limit;
        let alone = |unit: f64| {
            let scaled: Vec<f64> = client
                .rounds
                .values
                .iter()
                .map(|value| value / unit)
                .collect();
            Ratio::of(&scaled, &vec![1.0; scaled.len()])
        };
        let (measured, at_most) = match target.is {
            Is::AtMostTimes(other) => (result.times(target.client, other), true),
            Is::TimesAsFastAs(other) => (result.times(other, target.client), false),
            Is::AtMostTimesWork(other) => (
                self.work(other)
                    .and_then(|other| other.client(target.client))
                    .and_then(|other| Ratio::of(&client.rounds.values, &other.rounds.values)),
                true,
            ),
            Is::PeakMib => {
                let peak = client.rounds.peak_rss as f64 / f64::from(1 << 20);
                (Ratio::of(&[peak], &[1.0]), true)
            }
            Is::Millis => (alone(1e6), true),
            Is::Seconds => (alone(1e9), true),
            Is::Kib => (alone(1024.0), true),
            Is::Crates => (alone(1.0), true),
        };
        Some(Verdict {
            work: result.name.clone(),
            client: target.client.to_owned(),
            target: target.to_string(),
            measured,
            met: measured.map(|ratio| (ratio.median <= limit) == at_most),
        })
    }
}

impl Measured {
    pub fn value(&self) -> Option<f64> {
        median(&self.rounds.values)
    }
}

/// What the value of a work is, where its name is known.
pub fn value_of(work: &str) -> Value {
    let found = WORKS.iter().find(|known| known.name == work);
    match found.map(|work| &work.kind) {
        Some(Kind::Processes { value, .. }) => *value,
        _ => Value::Time,
    }
}
