//! What came of it, as a table that can be pasted into a page.

use std::{fmt::Write as _, time::Duration};

use super::drive::{Cell, Row, Step};
use crate::say;

/// A line on standard error as soon as an agent is done, because some take a while.
pub fn print_progress(row: &Row) {
    let outcome = match &row.skipped {
        Some(why) => format!("skipped, {why}"),
        None if row.has_failed() => "FAILED".to_owned(),
        None => "ok".to_owned(),
    };
    eprintln!("{}: {outcome}", row.name);
}

/// The table, and below it what cells have no room for.
pub fn print(rows: &[Row]) {
    say(table(rows).trim_end());
    print_reasons(rows);
}

/// Why what was not well was not.
pub fn print_reasons(rows: &[Row]) {
    let reasons: Vec<_> = rows.iter().flat_map(reasons).collect();
    if !reasons.is_empty() {
        say(&format!("\n{}", reasons.join("\n")));
    }
}

fn table(rows: &[Row]) -> String {
    let head = ["name", "agent"].map(str::to_owned).into_iter();
    let steps = Step::ALL.map(|step| format!("{step:?}").to_lowercase());
    let mut lines = vec![head.chain(steps).collect::<Vec<_>>()];
    for row in rows {
        let mut line = vec![row.name.clone(), row.agent.clone()];
        line.extend(Step::ALL.map(|step| cell(row, step)));
        lines.push(line);
    }
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..lines[0].len()).map(width).collect();
    let mut table = String::new();
    for (i, line) in lines.iter().enumerate() {
        write_line(&mut table, line, &widths);
        if i == 0 {
            let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
            write_line(&mut table, &rule, &widths);
        }
    }
    table
}

fn write_line(table: &mut String, cells: &[String], widths: &[usize]) {
    table.push('|');
    for (cell, width) in cells.iter().zip(widths) {
        // Writing to a string does not fail.
        let _ = write!(table, " {cell:<width$} |");
    }
    table.push('\n');
}

fn cell(row: &Row, step: Step) -> String {
    if row.is_skipped() {
        return "skipped".to_owned();
    }
    match row.cell(step) {
        Cell::Took(took) => time(took),
        Cell::Failed(_) => "FAILED".to_owned(),
        Cell::Lacks(_) => "n/a".to_owned(),
        Cell::NotReached => "not reached".to_owned(),
    }
}

fn time(took: Duration) -> String {
    match took.as_millis() {
        0 => "< 1 ms".to_owned(),
        ms => format!("{ms} ms"),
    }
}

fn reasons(row: &Row) -> Vec<String> {
    let skipped = row
        .skipped
        .iter()
        .map(|why| format!("{} skipped: {why}", row.name));
    let cells = row.cells.iter().filter_map(|(step, cell)| {
        let step = format!("{step:?}").to_lowercase();
        match cell {
            Cell::Failed(why) => Some(format!("{} {step} FAILED: {why}", row.name)),
            Cell::Lacks(why) => Some(format!("{} {step} n/a: {why}", row.name)),
            Cell::Took(_) | Cell::NotReached => None,
        }
    });
    skipped.chain(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, cells: Vec<(Step, Cell)>, skipped: Option<&str>) -> Row {
        Row {
            name: name.into(),
            agent: "x 1".into(),
            skipped: skipped.map(str::to_owned),
            cells,
        }
    }

    #[test]
    fn every_outcome_has_its_cell_and_its_reason() {
        let took = |ms| Cell::Took(Duration::from_millis(ms));
        let cells = vec![
            (Step::Start, took(12)),
            (Step::Ask, took(0)),
            (Step::Warm, Cell::Failed("why".into())),
            (Step::Tool, Cell::Lacks("none".into())),
        ];
        let rows = [
            row("one", cells, None),
            row("two", vec![], Some("not installed")),
        ];
        let table = table(&rows);
        let lines: Vec<_> = table.lines().collect();
        assert!(
            lines[0].starts_with("| name | agent | start   | ask     |"),
            "{table}"
        );
        assert!(lines[2].starts_with("| one  | x 1   | 12 ms   | < 1 ms  | FAILED  | n/a     |"));
        assert!(lines[3].starts_with("| two  | x 1   | skipped |"));
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        assert_eq!(
            reasons(&rows[0]),
            ["one warm FAILED: why", "one tool n/a: none"]
        );
        assert_eq!(reasons(&rows[1]), ["two skipped: not installed"]);
        assert!(rows[0].has_failed() && !rows[1].has_failed());
    }

    #[test]
    fn a_row_is_well_when_every_step_was_reached() {
        let took = Cell::Took(Duration::ZERO);
        let mut cells: Vec<_> = Step::ALL.map(|step| (step, took.clone())).to_vec();
        assert!(!row("a", cells.clone(), None).has_failed());
        cells.pop();
        assert!(row("a", cells, None).has_failed());
    }
}
