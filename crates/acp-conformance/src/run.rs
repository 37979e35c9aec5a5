//! A run: every transcript against every port, by a few workers, reported in a fixed order.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use acp_fake_server::Fixture;

use crate::{
    cell::{self, Stage},
    ledger::Requirement,
    port::{Port, Unavailable},
    protocol::Greeting,
    verdict::{Cell, Verdict},
};

/// What is run: each fixture with each port, the fixtures in the outer order.
#[derive(Debug)]
pub struct Plan {
    /// The transcripts, sorted by id.
    pub fixtures: Vec<Fixture>,
    /// The ports, in the order of the report's columns.
    pub ports: Vec<Port>,
    /// The ports that were meant and cannot be run here, which every report shows.
    pub skipped: Vec<Skipped>,
    /// What the transcripts cover, as far as it is known.
    pub requirements: Vec<Requirement>,
}

/// A port that is not run.
#[derive(Debug)]
pub struct Skipped {
    /// The port.
    pub port: Port,
    /// Why not.
    pub why: Unavailable,
}

impl Plan {
    /// A plan of the transcripts whose id holds one of `filters`, or of all if there are none.
    ///
    /// Two ports of one name, entries of `known.toml` that name no transcript, and a filter that no transcript
    /// has in its id, are errors.
    pub fn new(
        mut fixtures: Vec<Fixture>,
        ports: Vec<Port>,
        filters: &[String],
    ) -> Result<Plan, PlanError> {
        for (index, port) in ports.iter().enumerate() {
            if ports[..index].iter().any(|other| other.name == port.name) {
                return Err(PlanError::SameName(port.name.clone()));
            }
            for known in port.known.fixtures() {
                if !fixtures.iter().any(|fixture| fixture.id == known) {
                    return Err(PlanError::UnknownFixture {
                        port: port.name.clone(),
                        fixture: known.to_owned(),
                    });
                }
            }
        }
        // What was misspelled would be missing in the run, and the others would hide it.
        let unmatched: Vec<_> = filters
            .iter()
            .filter(|filter| !fixtures.iter().any(|one| one.id.contains(*filter)))
            .map(|filter| format!("`{filter}`"))
            .collect();
        if !unmatched.is_empty() {
            return Err(PlanError::UnmatchedFilters(unmatched.join(", ")));
        }
        fixtures.retain(|fixture| {
            filters.is_empty() || filters.iter().any(|filter| fixture.id.contains(filter))
        });
        Ok(Plan {
            fixtures,
            ports,
            skipped: Vec::new(),
            requirements: Vec::new(),
        })
    }

    /// The rules that a transcript protects: the ids in its header, each with the text where it is known.
    pub fn rules<'a>(
        &'a self,
        fixture: &'a str,
    ) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        let fixture = self.fixtures.iter().find(|one| one.id == fixture);
        let covers = fixture.into_iter().flat_map(|fixture| &fixture.covers);
        covers.map(|id| {
            let requirement = self.requirements.iter().find(|one| one.id == *id);
            (id.as_str(), requirement.map(|one| one.text.as_str()))
        })
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.fixtures.len() * self.ports.len()
    }

    /// Plays every cell with `jobs` workers and hands the finished ones to `on_cell`, in the order
    /// of the plan.
    pub fn run(&self, stage: &Stage, jobs: NonZeroUsize, mut on_cell: impl FnMut(Cell)) {
        let impatient = Stage {
            limits: stage.limits.impatient(),
            ..stage.clone()
        };
        let greetings: Vec<OnceLock<Greeting>> =
            self.ports.iter().map(|_| OnceLock::new()).collect();
        in_order(
            self.cells(),
            jobs,
            |index| {
                let fixture = &self.fixtures[index / self.ports.len()];
                let port = &self.ports[index % self.ports.len()];
                // Many a known failure is that nothing comes any more, and there is no use in waiting.
                let stage = match port.known.get(&fixture.id) {
                    Some(_) => &impatient,
                    None => stage,
                };
                let greeting = &greetings[index % self.ports.len()];
                let mut cell = greeting
                    .get()
                    .and_then(|said| cell::not_applicable(fixture, port, said))
                    .unwrap_or_else(|| cell::play(fixture, port, stage));
                if let Some(said) = &cell.greeting {
                    greeting.get_or_init(|| said.clone());
                }
                cell.verdict = cell::judge(cell.verdict, port, &fixture.id);
                cell
            },
            |_, cell| on_cell(cell),
        );
    }
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The reports could not tell the two apart.
    #[error("two ports are named {0}")]
    SameName(String),
    /// A stale entry of `known.toml`.
    #[error("known.toml of {port} lists {fixture}, which is no transcript")]
    UnknownFixture {
        /// The port.
        port: String,
        /// What its `known.toml` lists.
        fixture: String,
    },
    /// Filters that no transcript has in its id.
    #[error("no transcript has the text of this --filter in its id: {0}")]
    UnmatchedFilters(String),
}

/// The counts of a run, by the verdict's word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    counts: BTreeMap<&'static str, usize>,
    executed: usize,
    red: usize,
}

impl Summary {
    /// Counts one verdict.
    pub fn add(&mut self, verdict: &Verdict) {
        *self.counts.entry(verdict.word()).or_default() += 1;
        self.executed += usize::from(!matches!(verdict, Verdict::NotApplicable { .. }));
        self.red += usize::from(!verdict.is_green());
    }

    /// How often that verdict was given.
    pub fn count(&self, word: &str) -> usize {
        self.counts.get(word).copied().unwrap_or_default()
    }

    /// Whether all is well. A run that executed no cell has shown nothing, and is not.
    pub fn is_green(&self) -> bool {
        self.red == 0 && self.executed > 0
    }

    /// How many cells were executed, that is all but those that are `n/a`.
    pub fn executed(&self) -> usize {
        self.executed
    }
}

/// Does `work` for every index below `count` with several workers, and hands them with their
/// results to `then` in the order of the indices, each as soon as it and all before it are there.
pub fn in_order<T: Send>(
    count: usize,
    jobs: NonZeroUsize,
    work: impl Fn(usize) -> T + Sync,
    mut then: impl FnMut(usize, T),
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(count) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody receives any more only if `then` panicked.
                    if index >= count || sender.send((index, work(index))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (index, result) in results {
            early.insert(index, result);
            while let Some(result) = early.remove(&expected) {
                then(expected, result);
                expected += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Barrier, time::Duration};

    #[test]
    fn results_come_in_order_however_long_each_takes() {
        let jobs = NonZeroUsize::new(2).unwrap();
        // The first result waits for the second, so it is always ready later.
        let both = Barrier::new(2);
        let mut seen = Vec::new();
        in_order(
            6,
            jobs,
            |index| {
                if index < 2 {
                    both.wait();
                }
                if index == 0 {
                    thread::sleep(Duration::from_millis(20));
                }
                index * 10
            },
            |index, result| seen.push((index, result)),
        );
        assert_eq!(seen, [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]);
    }

    #[test]
    fn a_run_without_an_executed_cell_is_not_green() {
        let mut summary = Summary::default();
        assert!(!summary.is_green());
        summary.add(&Verdict::NotApplicable {
            missing: vec!["lanes".into()],
        });
        assert!(!summary.is_green());
        summary.add(&Verdict::Pass);
        assert!(summary.is_green());
        summary.add(&Verdict::Broken("b".into()));
        assert!(!summary.is_green());
        assert_eq!((summary.executed(), summary.count("broken")), (2, 1));
    }
}
