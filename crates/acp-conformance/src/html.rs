//! One page that shows a run in a browser, with nothing beside it: the matrix, and behind each cell
//! what went over the wire.

use std::{collections::HashMap, io, path::Path};

use acp_fake_server::Fixture;
use serde_json::{Value, json};

use crate::{
    parity,
    port::Port,
    run::{Plan, Summary},
    transcripts::Transcripts,
    verdict::{Cell, Verdict},
};

const TEMPLATE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The page for a run of `plan`. `file` is where it will stand, which its links start from, and `date`
/// the day of the run.
///
/// # Errors
///
/// A transcript that cannot be read again.
pub fn page(
    plan: &Plan,
    transcripts: &Transcripts,
    cells: &[Cell],
    file: &Path,
    date: &str,
) -> io::Result<String> {
    let mut lines = Lines::default();
    let columns = plan.ports.len().max(1);
    let rows = plan
        .fixtures
        .iter()
        .zip(cells.chunks(columns))
        .map(|(fixture, cells)| row(fixture, transcripts, cells, file, &mut lines))
        .collect::<io::Result<Vec<_>>>()?;
    let requirements: serde_json::Map<String, Value> = plan
        .requirements
        .iter()
        .map(|one| {
            let about =
                json!({"level": one.level.to_string(), "text": one.text, "source": one.source});
            (one.id.clone(), about)
        })
        .collect();
    let skipped: Vec<Value> = plan
        .skipped
        .iter()
        .map(|skipped| json!({"name": skipped.port.name, "why": skipped.why.to_string()}))
        .collect();
    let data = json!({
        "harness": concat!("acp-conformance ", env!("CARGO_PKG_VERSION")),
        "date": date,
        "verdicts": Verdict::WORDS,
        "ports": ports(plan, cells),
        "skipped": skipped,
        "requirements": requirements,
        "rows": rows,
        "lines": lines.distinct,
    });
    // No `<` of the data can end the element that it stands in, or open another.
    let data = data.to_string().replace('<', "\\u003c");
    Ok(fill(&[
        ("style", STYLE),
        ("data", &data),
        ("script", SCRIPT),
    ]))
}

/// The template with its `{{name}}`s replaced, in order. What replaces one is not looked at again.
fn fill(parts: &[(&str, &str)]) -> String {
    let mut page = String::new();
    let mut rest = TEMPLATE;
    for (name, text) in parts {
        let mark = format!("{{{{{name}}}}}");
        let Some((before, after)) = rest.split_once(&mark) else {
            continue;
        };
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

fn ports(plan: &Plan, cells: &[Cell]) -> Vec<Value> {
    let about = |port: &Port| {
        let mut summary = Summary::default();
        let own = || cells.iter().filter(|cell| cell.port == port.name);
        own().for_each(|cell| summary.add(&cell.verdict));
        let counts: serde_json::Map<String, Value> = Verdict::WORDS
            .into_iter()
            .map(|word| (word.to_owned(), json!(summary.count(word))))
            .collect();
        let said = || own().find_map(|cell| cell.greeting.as_ref());
        let version = port.version.clone();
        json!({
            "name": port.name,
            "language": port.language,
            "tier": port.tier,
            "version": version.or_else(|| said().map(|greeting| greeting.version.clone())),
            "counts": counts,
        })
    };
    plan.ports.iter().map(about).collect()
}

fn row(
    fixture: &Fixture,
    transcripts: &Transcripts,
    cells: &[Cell],
    file: &Path,
    lines: &mut Lines,
) -> io::Result<Value> {
    Ok(json!({
        "id": fixture.id,
        "title": fixture.title,
        "level": fixture.level.to_string(),
        "covers": fixture.covers,
        "needs": fixture.needs,
        "source": fixture.source,
        "about": fixture.about,
        "href": parity::relative(file, &fixture.path),
        "text": transcripts.text(fixture)?,
        "cells": cells.iter().map(|cell| cell_data(fixture, cell, lines)).collect::<Vec<_>>(),
    }))
}

fn cell_data(fixture: &Fixture, cell: &Cell, lines: &mut Lines) -> Value {
    let mut data = json!({
        "verdict": cell.verdict.word(),
        "ms": u64::try_from(cell.elapsed.as_millis()).unwrap_or(u64::MAX),
        "wire": cell.transcript.lines().map(|line| lines.number(line)).collect::<Vec<_>>(),
    });
    if let Some(reason) = cell.verdict.reason() {
        data["reason"] = json!(reason);
    }
    let failure = match &cell.verdict {
        Verdict::Pass | Verdict::NotApplicable { .. } => return data,
        Verdict::Known { link, failure, .. } => {
            data["link"] = json!(link);
            failure
        }
        failure => failure,
    };
    data["failure"] = json!(format!(
        "{}: {}",
        failure.word(),
        failure.reason().unwrap_or_default()
    ));
    data["stopped_at"] = json!(stopped_at(fixture, cell));
    data["stderr"] = json!(cell.stderr_tail);
    data
}

/// The line of the transcript's own file at which the play stopped, if it did not come to the end.
fn stopped_at(fixture: &Fixture, cell: &Cell) -> Option<u32> {
    let step = fixture.steps.get(cell.steps_done)?;
    let place = &step.location;
    Some(place.used_by.as_deref().unwrap_or(place).line)
}

/// Text by number, as many cells have the same lines.
#[derive(Default)]
struct Lines {
    distinct: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Lines {
    fn number(&mut self, line: &str) -> usize {
        if let Some(number) = self.numbers.get(line) {
            return *number;
        }
        let number = self.distinct.len();
        self.distinct.push(line.to_owned());
        self.numbers.insert(line.to_owned(), number);
        number
    }
}
