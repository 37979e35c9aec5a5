//! Standard output and standard error: plain or coloured, and the spinner.
//!
//! What an agent writes is never trusted with the terminal: control characters are taken out of it
//! there. Where standard output is a file or a pipe its bytes are left as they are.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();
const SPINNER_TICK: Duration = Duration::from_millis(100);

/// Tells of an error.
pub(crate) fn error(text: impl Display) {
    let text = text.to_string();
    stderr_line(format_args!("{ERROR}error:{ERROR:#} {}", harmless(&text)));
}

/// Tells something beside the answer, dimmed.
pub(crate) fn note(text: impl Display) {
    let text = text.to_string();
    stderr_line(format_args!("{DIM}{}{DIM:#}", harmless(&text)));
}

/// Tells something that only matters to a person who watches, dimmed.
pub(crate) fn aside(text: impl Display) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

/// Tells how long work gets on, where no spinner does.
pub(crate) fn log(text: impl Display) {
    if !io::stderr().is_terminal() {
        note(text);
    }
}

/// Asks for input, where a person reads standard error.
pub(crate) fn prompt(text: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        // See `stderr_line`.
        let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
    }
}

/// Writes to standard output.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes a report to standard output, line by line: the words of agents, with no escape sequences on a
/// terminal.
pub(crate) fn print_report(text: &str) -> io::Result<()> {
    let mut answer = Answer::new();
    answer.write(text)?;
    answer.finish()
}

/// Writes a report of our own to standard output, without its colours where they are not wanted.
pub(crate) fn print_styled(text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes one JSON object as a line to standard output.
pub(crate) fn print_json(value: &serde_json::Value) -> io::Result<()> {
    print(format!("{value}\n").as_bytes())
}

fn stderr_line(line: std::fmt::Arguments<'_>) {
    // If standard error is closed there is nowhere to say so.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// An answer on standard output, as it comes.
pub(crate) struct Answer {
    on_terminal: bool,
    /// Whether what was written ends in the middle of a line.
    open_line: bool,
}

impl Answer {
    pub(crate) fn new() -> Self {
        Self {
            on_terminal: io::stdout().is_terminal(),
            open_line: false,
        }
    }

    /// Writes the next part.
    pub(crate) fn write(&mut self, text: &str) -> io::Result<()> {
        if !text.is_empty() {
            self.open_line = !text.ends_with('\n');
        }
        if self.on_terminal {
            print(without_controls(text).as_bytes())
        } else {
            print(text.as_bytes())
        }
    }

    /// Ends the line that is open where what comes next on standard error would go on in it.
    pub(crate) fn make_way(&mut self) -> io::Result<()> {
        if self.open_line && self.on_terminal && io::stderr().is_terminal() {
            self.open_line = false;
            return print(b"\n");
        }
        Ok(())
    }

    /// Ends the last line.
    pub(crate) fn finish(self) -> io::Result<()> {
        if self.open_line { print(b"\n") } else { Ok(()) }
    }
}

/// Shows that something is waited for, where a person reads standard error. Gone when dropped.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if !io::stderr().is_terminal() || dumb {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        bar.set_message(harmless(&message.into()));
        bar.enable_steady_tick(SPINNER_TICK);
        Self(bar)
    }

    pub(crate) fn message(&self, message: impl Into<String>) {
        self.0.set_message(harmless(&message.into()));
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Words of an agent or a person as a message: no escape sequences, no control characters.
pub(crate) fn harmless(text: &str) -> String {
    without_controls(&strip_str(text).to_string())
}

/// An escape sequence loses what makes it one and shows as the rest of its characters. Unlike a parser
/// of sequences this has no state, so that a chunk may end anywhere and an open sequence swallows
/// nothing.
fn without_controls(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

/// A duration for people.
pub(crate) fn human(time: Duration) -> String {
    if time < Duration::from_millis(10) {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    } else if time < Duration::from_secs(1) {
        format!("{:.0} ms", time.as_secs_f64() * 1e3)
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

/// A duration for programs: milliseconds, to the microsecond.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_at_their_own_scale() {
        assert_eq!(human(Duration::from_micros(1234)), "1.2 ms");
        assert_eq!(human(Duration::from_millis(87)), "87 ms");
        assert_eq!(human(Duration::from_millis(2345)), "2.3 s");
        assert!((millis(Duration::from_nanos(1_234_567)) - 1.235).abs() < 1e-9);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let chunks = ["a\x1b[3", "1mb\x1b]0;title\x07c\r\n\té\u{9b}2J\u{7f}"];
        assert_eq!(
            chunks.map(without_controls).concat(),
            "a[31mb]0;titlec\n\té2J"
        );
        assert_eq!(harmless("\x1b[31mred\x1b[0m\u{9b}"), "red");
    }
}
