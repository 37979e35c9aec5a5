//! The ledger for people: each requirement with what holds it.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    ledger::{Level, Requirement},
    mutants::Mutant,
};

/// How long the lines are, in characters. A word that is longer stays whole.
const WIDTH: usize = 110;

/// The coverage, row by row, grouped by what the ids begin with. It ends without totals.
///
/// With `verbose` each row says also where the requirement comes from, and names its transcripts and the
/// mutants that they catch.
pub fn render(requirements: &[Requirement], mutants: &[Mutant], verbose: bool) -> String {
    let mut text = String::new();
    for section in requirements.chunk_by(|one, next| one.section() == next.section()) {
        let widest = section.iter().map(|one| one.id.len()).max();
        let width = widest.unwrap_or_default();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&heading(section, mutants));
        for requirement in section {
            let mut start = format!("  {:width$}  {:6}  ", requirement.id, requirement.level);
            for paragraph in row(requirement, mutants, verbose) {
                let rest = " ".repeat(start.len());
                for line in wrapped(&paragraph, WIDTH.saturating_sub(start.len())) {
                    // Writing to a string cannot fail, here and below.
                    let _ = writeln!(text, "{start}{line}");
                    start.clone_from(&rest);
                }
            }
        }
    }
    text
}

/// How much of each level is covered, and what is not. It ends without a newline.
pub fn totals(requirements: &[Requirement]) -> String {
    let mut text = String::new();
    for level in [Level::Must, Level::Should] {
        let of_level = || requirements.iter().filter(|one| one.level == level);
        let with = of_level().filter(|one| !one.fixtures.is_empty()).count();
        let all = counted(of_level().count(), "requirement");
        let _ = writeln!(text, "{level}: {all}, {with} with transcripts");
    }
    let without = requirements.iter().filter(|one| one.fixtures.is_empty());
    let mut heading = "without a transcript:\n";
    for one in without {
        text.push_str(std::mem::take(&mut heading));
        let why = one.excluded.as_deref().unwrap_or("and not excluded");
        let start = format!("  {}: ", one.id);
        for (at, line) in wrapped(why, WIDTH - 4).iter().enumerate() {
            let _ = match at {
                0 => writeln!(text, "{start}{line}"),
                _ => writeln!(text, "    {line}"),
            };
        }
    }
    text.trim_end().to_owned()
}

fn heading(section: &[Requirement], mutants: &[Mutant]) -> String {
    let name = section.first().map_or("", Requirement::section);
    let transcripts: BTreeSet<&String> = section.iter().flat_map(|one| &one.fixtures).collect();
    let catching: BTreeSet<&str> = section
        .iter()
        .flat_map(|one| caught(one, mutants))
        .collect();
    format!(
        "{name}: {}, {}, {}\n",
        counted(section.len(), "requirement"),
        counted(transcripts.len(), "transcript"),
        counted(catching.len(), "mutant"),
    )
}

/// What is said of a requirement, each paragraph from a line of its own.
fn row(requirement: &Requirement, mutants: &[Mutant], verbose: bool) -> Vec<String> {
    let mut paragraphs = vec![requirement.text.clone()];
    if verbose {
        paragraphs.push(format!("source: {}", requirement.source));
    }
    if let Some(why) = &requirement.excluded {
        paragraphs.push(format!("excluded: {why}"));
        return paragraphs;
    }
    let caught = caught(requirement, mutants);
    let transcripts = counted(requirement.fixtures.len(), "transcript");
    let catching = counted(caught.len(), "mutant");
    match verbose {
        false => paragraphs.push(format!("{transcripts}, {catching}")),
        true => {
            paragraphs.push(named(transcripts, &requirement.fixtures));
            paragraphs.push(named(catching, &caught));
        }
    }
    paragraphs
}

fn named(counted: String, names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.is_empty() {
        true => counted,
        false => format!("{counted}: {}", names.join(" ")),
    }
}

/// The lines of a paragraph.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The names of the mutants that fail one of the requirement's transcripts.
fn caught<'a>(requirement: &Requirement, mutants: &'a [Mutant]) -> Vec<&'a str> {
    let fails = |mutant: &&Mutant| {
        let mut named = mutant.caught_by.iter();
        named.any(|fixture| requirement.fixtures.contains(fixture))
    };
    let caught = mutants.iter().filter(fails);
    caught.map(|mutant| mutant.name.as_str()).collect()
}

/// A number of things, with the plural that their names have here.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger, mutants};

    const REQUIREMENTS: &str = r#"
[[requirement]]
id = "INIT-1"
level = "must"
text = "The first."
source = "ACP v1 initialization"
fixtures = ["handshake/ok", "handshake/again"]

[[requirement]]
id = "INIT-10"
level = "should"
text = "The tenth."
source = "contract"
excluded = "nobody asks for it"

[[requirement]]
id = "TURN-1"
level = "must"
text = "A turn."
source = "contract"
fixtures = ["turn/one"]
"#;

    const MUTANTS: &str = r#"
[[mutant]]
name = "deaf"
breaks = "b"
caught_by = ["handshake/again", "turn/one"]

[[mutant]]
name = "mute"
breaks = "b"
caught_by = ["handshake/ok"]
"#;

    #[test]
    fn each_row_says_what_holds_it() {
        let requirements = ledger::parse(REQUIREMENTS).unwrap();
        let mutants = mutants::parse(MUTANTS).unwrap();
        let want = "\
INIT: 2 requirements, 2 transcripts, 2 mutants
  INIT-1   must    The first.
                   2 transcripts, 2 mutants
  INIT-10  should  The tenth.
                   excluded: nobody asks for it

TURN: 1 requirement, 1 transcript, 1 mutant
  TURN-1  must    A turn.
                  1 transcript, 1 mutant
";
        assert_eq!(render(&requirements, &mutants, false), want);
        let want = "\
INIT: 2 requirements, 2 transcripts, 2 mutants
  INIT-1   must    The first.
                   source: ACP v1 initialization
                   2 transcripts: handshake/ok handshake/again
                   2 mutants: deaf mute
";
        let verbose = render(&requirements, &mutants, true);
        assert!(verbose.starts_with(want), "{verbose}");
    }

    #[test]
    fn the_totals_name_what_is_without_a_transcript() {
        let requirements = ledger::parse(REQUIREMENTS).unwrap();
        let want = "\
must: 2 requirements, 2 with transcripts
should: 1 requirement, 0 with transcripts
without a transcript:
  INIT-10: nobody asks for it";
        assert_eq!(totals(&requirements), want);
        let without = "should: 0 requirements, 0 with transcripts";
        assert!(totals(&requirements[..1]).ends_with(without));
    }

    #[test]
    fn long_text_is_wrapped_at_words() {
        assert_eq!(
            wrapped("a bb ccc  dddddd e", 6),
            ["a bb", "ccc", "dddddd", "e"]
        );
        assert_eq!(wrapped("", 6), [""; 0]);
    }
}
