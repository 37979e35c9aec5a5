//! What an earlier page says about cells that were not played again.

use std::collections::BTreeMap;

use super::render::{NOT_PLAYED, PASS};
use crate::{
    markdown::{split_cells, unescape},
    verdict::Verdict,
};

/// The part of a page that only a run can tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Earlier {
    pub(super) ports: BTreeMap<String, EarlierPort>,
}

/// What a page says about a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EarlierPort {
    pub version: Option<String>,
    pub lacks: Option<Vec<String>>,
    /// By transcript.
    pub words: BTreeMap<String, &'static str>,
}

impl Earlier {
    /// Reads the text of a page. What is not of its shape is taken to say nothing, so that a page which
    /// was spoilt by hand is stale and not an error.
    pub fn parse(text: &str) -> Earlier {
        let mut earlier = Earlier::default();
        let mut header: Vec<&str> = Vec::new();
        for line in text.lines() {
            let cells = cells(line);
            match (header.first(), cells.as_slice()) {
                (_, []) => header.clear(),
                (None, _) => header = cells,
                (Some(&"port"), [name, rest @ ..]) => earlier.port(name, &header[1..], rest),
                (Some(&"transcript"), [id, rest @ ..]) => {
                    earlier.transcript(id, &header[1..], rest);
                }
                _ => {}
            }
        }
        // A port without capabilities that it lacks is not listed with those that have some.
        for port in earlier.ports.values_mut() {
            if !port.words.is_empty() {
                port.lacks.get_or_insert_default();
            }
        }
        earlier
    }

    fn port(&mut self, name: &str, header: &[&str], cells: &[&str]) {
        // The line below the header.
        if name.starts_with("---") {
            return;
        }
        let port = self.ports.entry(unescape(name)).or_default();
        for (title, cell) in header.iter().zip(cells) {
            match *title {
                "library version" if !cell.is_empty() => port.version = Some(unescape(cell)),
                "capabilities" => {
                    let names = cell.split(", ").filter_map(|one| one.split('`').nth(1));
                    port.lacks = Some(names.map(str::to_owned).collect());
                }
                _ => {}
            }
        }
    }

    fn transcript(&mut self, id: &str, header: &[&str], cells: &[&str]) {
        let id = id.rsplit_once("</a>").map_or(id, |(_, id)| id);
        let id = label(id);
        for (name, cell) in header.iter().zip(cells) {
            if let Some(word) = word(cell) {
                let port = self.ports.entry(unescape(name)).or_default();
                port.words.insert(id.to_owned(), word);
            }
        }
    }
}

/// The cells of a line of a table; none if it is no such line.
fn cells(line: &str) -> Vec<&str> {
    let inner = line
        .strip_prefix('|')
        .and_then(|line| line.strip_suffix('|'));
    inner.map_or_else(Vec::new, split_cells)
}

fn word(cell: &str) -> Option<&'static str> {
    let cell = label(cell).trim_matches('*');
    match cell {
        PASS => Some("pass"),
        NOT_PLAYED => None,
        _ => Verdict::WORDS.into_iter().find(|word| *word == cell),
    }
}

/// The text of a link.
fn label(cell: &str) -> &str {
    let inner = cell.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    inner.map_or(cell, |(label, _)| label)
}
