//! The ledger for people: each requirement with its transcripts and the mutants that they catch.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{ledger::Requirement, mutants::Mutant};

/// The coverage, row by row, grouped by what the ids begin with. It ends without totals.
pub fn render(requirements: &[Requirement], mutants: &[Mutant]) -> String {
    let mut text = String::new();
    for section in requirements.chunk_by(|one, next| one.section() == next.section()) {
        let widest = section.iter().map(|one| one.id.len()).max();
        let width = widest.unwrap_or_default();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&heading(section, mutants));
        for requirement in section {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(
                text,
                "  {:width$}  {:6}  {}",
                requirement.id, requirement.level, requirement.source
            );
            let _ = writeln!(
                text,
                "  {:width$}  {:6}  {}",
                "",
                "",
                evidence(requirement, mutants)
            );
        }
    }
    text
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

fn evidence(requirement: &Requirement, mutants: &[Mutant]) -> String {
    if let Some(why) = &requirement.excluded {
        return format!("excluded: {why}");
    }
    let caught = caught(requirement, mutants);
    let mut text = format!(
        "{}, {}",
        counted(requirement.fixtures.len(), "transcript"),
        counted(caught.len(), "mutant")
    );
    if !caught.is_empty() {
        let _ = write!(text, ": {}", caught.join(" "));
    }
    text
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
text = "t"
source = "ACP v1 initialization"
fixtures = ["handshake/ok", "handshake/again"]

[[requirement]]
id = "INIT-10"
level = "should"
text = "t"
source = "contract"
excluded = "nobody asks for it"

[[requirement]]
id = "TURN-1"
level = "must"
text = "t"
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
  INIT-1   must    ACP v1 initialization
                   2 transcripts, 2 mutants: deaf mute
  INIT-10  should  contract
                   excluded: nobody asks for it

TURN: 1 requirement, 1 transcript, 1 mutant
  TURN-1  must    contract
                  1 transcript, 1 mutant: deaf
";
        assert_eq!(render(&requirements, &mutants), want);
    }
}
