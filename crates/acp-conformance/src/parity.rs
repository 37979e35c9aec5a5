//! The parity page: a Markdown file, kept with the sources, that says what each port gets right.
//!
//! A run rarely is of everything: a toolchain is missing, or one transcript is being written. So a run
//! replaces the cells that it has played, and the others stay as the page has them. Everything else on
//! the page is made anew from the transcripts, the requirements and the ports. A page is *stale* when
//! that would change it, however much was run.

mod read;
mod render;

use std::{collections::BTreeMap, path::PathBuf};

use acp_fake_server::Fixture;

pub use self::read::Earlier;
pub(crate) use self::render::relative;
use crate::{
    known::Known,
    ledger::Requirement,
    port::Port,
    run::Skipped,
    tier::{Capability, Tier},
    verdict::Cell,
};

/// All that is on the page.
#[derive(Debug, Clone)]
pub struct Page {
    columns: Vec<Column>,
    rows: Vec<Row>,
    requirements: Vec<Requirement>,
}

/// What the page says about a port.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    language: String,
    tier: Tier,
    /// The pinned version, or what the driver said.
    version: Option<String>,
    /// The names of the capabilities that it does not declare; not known before it was run.
    lacks: Option<Vec<String>>,
    known: Known,
    /// Why it could not be run.
    skipped: Option<String>,
}

/// What the page says about a transcript.
#[derive(Debug, Clone)]
struct Row {
    id: String,
    title: String,
    covers: Vec<String>,
    needs: Vec<String>,
    path: PathBuf,
    /// The verdict's word for each column; nothing where it was never played.
    words: Vec<Option<&'static str>>,
}

impl Page {
    /// A page on which nothing was played yet.
    pub fn new(fixtures: &[Fixture], ports: &[Port], requirements: &[Requirement]) -> Page {
        let column = |port: &Port| Column {
            name: port.name.clone(),
            language: port.language.clone(),
            tier: port.tier,
            version: port.version.clone(),
            lacks: None,
            known: port.known.clone(),
            skipped: None,
        };
        let row = |fixture: &Fixture| Row {
            id: fixture.id.clone(),
            title: fixture.title.clone(),
            covers: fixture.covers.clone(),
            needs: fixture.needs.clone(),
            path: fixture.path.clone(),
            words: vec![None; ports.len()],
        };
        Page {
            columns: ports.iter().map(column).collect(),
            rows: fixtures.iter().map(row).collect(),
            requirements: requirements.to_vec(),
        }
    }

    /// Puts the results of a run on the page.
    pub fn fill(&mut self, cells: &[Cell], skipped: &[Skipped]) {
        for skipped in skipped {
            if let Some(at) = self.column(&skipped.port.name) {
                self.columns[at].skipped = Some(skipped.why.to_string());
            }
        }
        for cell in cells {
            let Some(at) = self.column(&cell.port) else {
                continue;
            };
            if let Some(greeting) = &cell.greeting {
                let column = &mut self.columns[at];
                column
                    .version
                    .get_or_insert_with(|| greeting.version.clone());
                let lacks = |one: &Capability| !greeting.capabilities.contains(one);
                let lacking = Capability::ALL.into_iter().filter(lacks);
                column.lacks = Some(lacking.map(|one| one.name().to_owned()).collect());
            }
            if let Some(row) = self.rows.iter_mut().find(|row| row.id == cell.fixture) {
                row.words[at] = Some(cell.verdict.word());
            }
        }
    }

    /// Takes from an earlier page what is not on this one.
    pub fn carry(&mut self, earlier: &Earlier) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let Some(of_port) = earlier.ports.get(&column.name) else {
                continue;
            };
            if column.version.is_none() {
                column.version.clone_from(&of_port.version);
            }
            if column.lacks.is_none() {
                column.lacks.clone_from(&of_port.lacks);
            }
            for row in &mut self.rows {
                let word = of_port.words.get(&row.id).copied();
                row.words[at] = row.words[at].or(word);
            }
        }
    }

    /// The counts of each port that was played at all, by its name.
    pub fn counts(&self) -> BTreeMap<&str, Counts> {
        let counts = self.columns.iter().enumerate().map(|(at, column)| {
            let words = self.rows.iter().filter_map(|row| row.words[at]);
            (column.name.as_str(), Counts::of(words))
        });
        counts.filter(|(_, counts)| counts.played() > 0).collect()
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// How often each verdict was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    /// Counts verdicts by their words.
    pub fn of(words: impl IntoIterator<Item = &'static str>) -> Counts {
        let mut counts = Counts::default();
        for word in words {
            *counts.0.entry(word).or_default() += 1;
        }
        counts
    }

    /// How often the verdict of that word was given.
    pub fn count(&self, word: &str) -> usize {
        self.0.get(word).copied().unwrap_or_default()
    }

    /// How many verdicts there are.
    pub fn played(&self) -> usize {
        self.0.values().sum()
    }

    /// How many of them are neither `pass` nor `known` nor `n/a`.
    pub fn red(&self) -> usize {
        self.played() - self.count("pass") - self.count("known") - self.count("n/a")
    }
}

/// Where a page is stale first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The number of the line, from 1.
    pub line: usize,
    /// The line, if there is one.
    pub is: Option<&'a str>,
    /// What would stand there, if anything.
    pub should_be: Option<&'a str>,
}

impl<'a> Difference<'a> {
    /// Compares a page with what it should be. The date alone makes no difference.
    pub fn between(page: &'a str, should_be: &'a str) -> Option<Difference<'a>> {
        let is_date = |line: Option<&str>| line.is_some_and(|line| line.starts_with(render::DATE));
        let (mut old, mut new) = (page.lines(), should_be.lines());
        for line in 1.. {
            match (old.next(), new.next()) {
                (None, None) => break,
                (is, should_be) if is == should_be || is_date(is) && is_date(should_be) => {}
                (is, should_be) => {
                    return Some(Difference {
                        line,
                        is,
                        should_be,
                    });
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
