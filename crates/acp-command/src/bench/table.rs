//! The numbers as a table, with bars where somebody looks.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::conclusion;
use super::measure::{Measured, Sized};
use super::samples::Samples;
use crate::terminal::{harmless, human};

const COLD: Style = AnsiColor::Yellow.on_default();
const WARM: Style = AnsiColor::Green.on_default();
const DEMO: Style = Style::new().dimmed();

/// The longest bar, in characters.
const BAR_WIDTH: usize = 30;

pub(super) fn draw(measured: &Measured, bars: bool) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "agent  {}", name(measured));
    for (i, sized) in measured.agent.sizes.iter().enumerate() {
        let rows = rows(sized, measured.demo.sizes.get(i));
        let longest = rows.iter().filter_map(|row| row.samples.median()).max();
        let _ = writeln!(
            text,
            "\n{:<30}{:>9}{:>9}{:>9}",
            format!("prompts of {}", sized.size),
            "min",
            "median",
            "p90"
        );
        for row in rows {
            row.draw(&mut text, longest.filter(|_| bars));
        }
    }
    if let Some(conclusion) = conclusion::draw(measured) {
        text.push('\n');
        wrap(&mut text, &conclusion);
    }
    text
}

/// The agent's own name, which is not trusted with a terminal.
pub(super) fn name(measured: &Measured) -> String {
    let name = measured.agent.implementation.as_ref().map_or_else(
        || "(it gives no name)".to_owned(),
        |it| format!("{} {}", it.name, it.version).trim_end().to_owned(),
    );
    harmless(&name).replace('\n', " ")
}

struct Row<'a> {
    label: String,
    samples: &'a Samples,
    style: Style,
}

fn rows<'a>(sized: &'a Sized, demo: Option<&'a Sized>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut row = |label: String, samples, style| {
        rows.push(Row {
            label,
            samples,
            style,
        });
    };
    let cold = &sized.cold;
    row("cold, to the answer".to_owned(), &cold.answer, COLD);
    row("  initialize".to_owned(), &cold.initialize, COLD);
    row("  session/new".to_owned(), &cold.session, COLD);
    row("  the prompt".to_owned(), &cold.turn, COLD);
    row("cold, end of the process".to_owned(), &cold.close, COLD);
    for warm in &sized.warm {
        let state = warm.state.name();
        row(format!("warm, {state}"), &warm.turn, WARM);
        row("  its first prompt".to_owned(), &warm.first, WARM);
    }
    if let Some(demo) = demo {
        row("demo agent, cold".to_owned(), &demo.cold.answer, DEMO);
        for warm in &demo.warm {
            let state = warm.state.name();
            row(format!("demo agent, {state}"), &warm.turn, DEMO);
        }
    }
    rows
}

impl Row<'_> {
    fn draw(&self, text: &mut String, longest: Option<Duration>) {
        let Some(spread) = self.samples.spread() else {
            let _ = writeln!(text, "  {:<28}{:>9}", self.label, "-");
            return;
        };
        let _ = write!(
            text,
            "  {:<28}{:>9}{:>9}{:>9}",
            self.label,
            human(spread.min),
            human(spread.median),
            human(spread.p90)
        );
        if let Some(longest) = longest {
            let style = self.style;
            let _ = write!(text, "  {style}{}{style:#}", bar(spread.median, longest));
        }
        text.push('\n');
    }
}

/// A bar of this part of the longest one, to an eighth of a character.
fn bar(time: Duration, longest: Duration) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let width = (BAR_WIDTH * 8) as u128;
    let filled = (time.as_nanos() * width).checked_div(longest.as_nanos());
    let filled = usize::try_from(filled.unwrap_or(0).clamp(1, width)).unwrap_or(1);
    "█".repeat(filled / 8) + EIGHTHS[filled % 8]
}

fn wrap(text: &mut String, words: &str) {
    let mut column = 0;
    for word in words.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 100 {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::{measured, ms};

    #[test]
    fn bars_are_parts_of_the_longest() {
        assert_eq!(bar(ms(8), ms(8)), "█".repeat(BAR_WIDTH));
        assert_eq!(bar(ms(4), ms(8)), "█".repeat(BAR_WIDTH / 2));
        assert_eq!(bar(ms(9), ms(8 * 30)), "█▏");
        for (time, longest) in [(0, 9), (1, 100_000), (0, 0)] {
            assert_eq!(bar(ms(time), ms(longest)), "▏", "there, if hardly");
        }
    }

    #[test]
    fn every_thing_measured_has_a_row_and_bars_are_for_terminals() {
        let plain = draw(&measured(), false);
        assert!(!plain.contains('█') && !plain.contains('\x1b'), "{plain}");
        for row in [
            "agent  an agent 1.0\n",
            "prompts of 17 bytes",
            "  cold, to the answer             2.2 s    2.2 s    2.2 s\n",
            "  warm, verified-delta            20 ms    20 ms    20 ms\n",
            "  demo agent, cold               3.0 ms",
            "\nFrom nothing",
        ] {
            assert!(plain.contains(row), "no {row:?} in\n{plain}");
        }
        assert!(plain.lines().all(|line| line.len() <= 100));
        let drawn = draw(&measured(), true);
        assert!(drawn.contains(&"█".repeat(BAR_WIDTH)), "{drawn}");
    }

    #[test]
    fn an_agents_name_does_nothing_to_the_terminal() {
        let mut measured = measured();
        let name = "\x1b[31mred\nline";
        measured.agent.implementation = Some(acp_core::Implementation::new(name, ""));
        assert!(draw(&measured, false).starts_with("agent  red line\n"));
    }
}
