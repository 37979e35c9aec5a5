//! `acp-conformance ledger`.

use acp_conformance::{coverage, ledger, mutants, parity::Page, transcripts::Transcripts};

use super::{Fault, conclude, find, flags, kept, say};

/// Prints what holds each requirement. False if transcripts, requirements and mutants do not agree.
pub fn main(flags: flags::Ledger) -> Result<bool, Fault> {
    let fixtures = Transcripts::Dir(flags.fixtures).load()?;
    let requirements = ledger::load(&flags.requirements)
        .map_err(|error| format!("{}: {error}", flags.requirements.display()))?;
    let list = mutants::load(&flags.mutants)
        .map_err(|error| format!("{}: {error}", flags.mutants.display()))?;
    let mut faults = ledger::faults(&requirements, &fixtures);
    let ids = fixtures.iter().map(|fixture| fixture.id.as_str());
    faults.extend(mutants::faults(&list, ids));
    if let Some(path) = &flags.parity {
        let ports = find::named(&[], &flags.ports)?;
        let page = Page::new(&fixtures, &ports, &requirements);
        faults.extend(kept::check(page, path, flags.badges.as_deref())?);
    }
    if !flags.quiet {
        let rows = coverage::render(&requirements, &list, flags.verbose);
        say(format_args!("{rows}\n{}", coverage::totals(&requirements)));
    }
    let excluded = requirements
        .iter()
        .filter(|one| one.excluded.is_some())
        .count();
    Ok(conclude(
        &faults,
        &format!(
            "{} requirements: {} with transcripts, {excluded} excluded with a reason; {} \
             transcripts, {} mutants",
            requirements.len(),
            requirements.len() - excluded,
            fixtures.len(),
            list.len(),
        ),
    ))
}
