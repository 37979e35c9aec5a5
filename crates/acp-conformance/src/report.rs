//! The report for people: one row a transcript, one column a port, and then what went wrong.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::{
    run::{Plan, Summary},
    verdict::{Cell, Verdict},
};

/// Prints rows as their cells arrive, in the order of the plan. Colour is always in the text; what it
/// is written to decides whether it is shown.
pub struct Report<'a> {
    plan: &'a Plan,
    verbose: bool,
    cells: Vec<Cell>,
    summary: Summary,
}

impl<'a> Report<'a> {
    /// A report on `plan`. With `verbose` failures come with the whole transcript.
    pub fn new(plan: &'a Plan, verbose: bool) -> Report<'a> {
        Report {
            plan,
            verbose,
            cells: Vec::new(),
            summary: Summary::default(),
        }
    }

    /// The heading of the columns.
    pub fn heading(&self) -> String {
        let mut text = format!("{:width$}", "", width = self.id_width());
        for port in &self.plan.ports {
            push(
                &mut text,
                &format!("  {:width$}", port.name, width = column(&port.name)),
                BOLD,
            );
        }
        text
    }

    /// Takes in the next cell. Returns the row, once its last cell is there.
    pub fn add(&mut self, cell: Cell) -> Option<String> {
        self.summary.add(&cell.verdict);
        self.cells.push(cell);
        let columns = self.plan.ports.len();
        if !self.cells.len().is_multiple_of(columns) {
            return None;
        }
        let row = &self.cells[self.cells.len() - columns..];
        let mut text = format!("{:width$}", row[0].fixture, width = self.id_width());
        for cell in row {
            let word = format!(
                "  {:width$}",
                cell.verdict.word(),
                width = column(&cell.port)
            );
            push(&mut text, &word, style(&cell.verdict));
        }
        if self.verbose {
            let rules: Vec<&str> = self.plan.rules(&row[0].fixture).map(|(id, _)| id).collect();
            push(&mut text, &format!("  {}", rules.join(" ")), DIM);
        }
        for cell in row.iter().filter(|cell| !cell.verdict.is_green()) {
            let reason = cell.verdict.reason().unwrap_or_default();
            let _ = write!(text, "\n    {}: {}", cell.port, first_line(&reason));
        }
        Some(text)
    }

    /// Everything after the rows: failures in full, known failures, what does not apply, counts.
    pub fn conclusion(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| !cell.verdict.is_green()) {
            self.push_failure(&mut text, cell);
        }
        self.push_list(&mut text, "Known failures", |verdict| {
            matches!(verdict, Verdict::Known { .. })
        });
        self.push_list(&mut text, "Not applicable", |verdict| {
            matches!(verdict, Verdict::NotApplicable { .. })
        });
        text.push('\n');
        for port in &self.plan.ports {
            let mut counts = Summary::default();
            for cell in self.cells.iter().filter(|cell| cell.port == port.name) {
                counts.add(&cell.verdict);
            }
            let words: Vec<String> = Verdict::WORDS
                .iter()
                .map(|word| (word, counts.count(word)))
                .filter(|(_, count)| *count > 0)
                .map(|(word, count)| format!("{count} {word}"))
                .collect();
            let style = if counts.is_green() { GREEN } else { RED };
            push(&mut text, &port.name, style);
            let _ = writeln!(text, ": {}", words.join(", "));
        }
        for skipped in &self.plan.skipped {
            push(&mut text, &skipped.port.name, YELLOW);
            let _ = writeln!(text, ": skipped, {}", skipped.why);
        }
        text
    }

    /// The cells so far.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The counts so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn id_width(&self) -> usize {
        let lengths = self.plan.fixtures.iter().map(|fixture| fixture.id.len());
        lengths.max().unwrap_or_default()
    }

    fn push_failure(&self, text: &mut String, cell: &Cell) {
        text.push('\n');
        push(text, cell.verdict.word(), style(&cell.verdict));
        let _ = writeln!(
            text,
            " {} {} (step {} of {}, {:.2} s)",
            cell.port,
            cell.fixture,
            cell.steps_done,
            cell.steps_total,
            cell.elapsed.as_secs_f64()
        );
        push_indented(text, &cell.verdict.reason().unwrap_or_default());
        text.push_str("  what it protects:\n");
        for (id, rule) in self.plan.rules(&cell.fixture) {
            let _ = match rule {
                Some(rule) => writeln!(text, "    {id}: {rule}"),
                None => writeln!(text, "    {id}"),
            };
        }
        if self.verbose {
            text.push_str("  the whole transcript:\n");
            push_indented(text, &cell.transcript);
        }
        if !cell.stderr_tail.is_empty() {
            text.push_str("  the driver's standard error ends with:\n");
            push_indented(text, last_lines(&cell.stderr_tail, 20));
        }
    }

    fn push_list(&self, text: &mut String, heading: &str, belongs: fn(&Verdict) -> bool) {
        let mut cells = self
            .cells
            .iter()
            .filter(|cell| belongs(&cell.verdict))
            .peekable();
        if cells.peek().is_none() {
            return;
        }
        text.push('\n');
        push(text, heading, BOLD);
        text.push('\n');
        for cell in cells {
            let reason = cell.verdict.reason().unwrap_or_default();
            let _ = writeln!(text, "  {} {}: {reason}", cell.port, cell.fixture);
        }
    }
}

const BOLD: Style = Style::new().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();

fn style(verdict: &Verdict) -> Style {
    match verdict {
        Verdict::Pass => GREEN,
        Verdict::Known { .. } => YELLOW,
        Verdict::NotApplicable { .. } => DIM,
        Verdict::Fail(_) | Verdict::Crash(_) | Verdict::Timeout(_) | Verdict::Broken(_) => RED,
    }
}

fn push(text: &mut String, styled: &str, style: Style) {
    // Writing to a string cannot fail, here and elsewhere in this file.
    let _ = write!(text, "{style}{styled}{style:#}");
}

fn push_indented(text: &mut String, block: &str) {
    for line in block.lines() {
        let _ = writeln!(text, "    {line}");
    }
}

/// Wide enough for a port's name and for the longest verdict.
fn column(name: &str) -> usize {
    name.len().max("timeout".len())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn last_lines(text: &str, count: usize) -> &str {
    let start = text
        .trim_end()
        .rmatch_indices('\n')
        .nth(count - 1)
        .map_or(0, |(at, _)| at + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_text() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last_lines("a\nb\nc", 1), "c");
        assert_eq!(last_lines("a\n", 5), "a\n");
        assert_eq!(last_lines("", 1), "");
    }
}
