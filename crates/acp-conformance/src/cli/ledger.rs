//! `acp-conformance ledger`.

use acp_conformance::{coverage, ledger, mutants, run};

use super::{Fault, conclude, flags};

/// Prints what holds each requirement. False if transcripts, requirements and mutants do not agree.
pub fn main(flags: flags::Ledger) -> Result<bool, Fault> {
    let fixtures = run::load_fixtures(&flags.fixtures)?;
    let requirements = ledger::load(&flags.requirements)
        .map_err(|error| format!("{}: {error}", flags.requirements.display()))?;
    let list = mutants::load(&flags.mutants)
        .map_err(|error| format!("{}: {error}", flags.mutants.display()))?;
    let mut faults = ledger::faults(&requirements, &fixtures);
    let ids = fixtures.iter().map(|fixture| fixture.id.as_str());
    faults.extend(mutants::faults(&list, ids));
    super::say(format_args!("{}", coverage::render(&requirements, &list)));
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
