//! `acp-conformance mutants`.

use acp_conformance::{
    mutants::{self, Mutant},
    run::{Plan, in_order},
    verdict::Verdict,
};
use acp_fake_server::Fixture;

use super::{ERROR, Fault, GOOD, conclude, find, flags, jobs, stage};

/// Hunts the mutants. False if one is not caught where it should be.
pub fn main(flags: flags::Mutants) -> Result<bool, Fault> {
    let fixtures = flags.fixtures.transcripts().load()?;
    let mut list = mutants::load(&flags.mutants)
        .map_err(|error| format!("{}: {error}", flags.mutants.display()))?;
    let mut faults = mutants::faults(&list, fixtures.iter().map(|fixture| fixture.id.as_str()));
    if !flags.mutant.is_empty() {
        list.retain(|mutant| flags.mutant.iter().any(|part| mutant.name.contains(part)));
    }
    let mut stage = stage()?;
    let wanted = std::slice::from_ref(&flags.port);
    let found = find::ports(wanted, &flags.ports, &stage.limits)?;
    let plan = Plan::new(fixtures, found.ready, &flags.fixtures.filter)?;
    let jobs = jobs(&flags.ports);

    // The unbroken port passes, or a mutant that fails shows nothing.
    plan.run(&stage, jobs, |cell| {
        if cell.verdict != Verdict::Pass {
            faults.push(format!(
                "unbroken, {} does not pass {}: {}",
                cell.port, cell.fixture, cell.verdict
            ));
        }
    });

    stage.limits = stage.limits.impatient();
    let mut hunted = 0;
    in_order(
        list.len(),
        jobs,
        |index| {
            let mutant = &list[index];
            let named = |fixture: &&Fixture| flags.full || mutant.caught_by.contains(&fixture.id);
            let fixtures = plan.fixtures.iter().filter(named);
            mutants::hunt(mutant, &plan.ports[0], fixtures, &stage)
        },
        |index, verdicts| {
            hunted += verdicts.len();
            faults.extend(report(&list[index], &verdicts));
        },
    );
    let good = conclude(&faults, &format!("{} mutants, {hunted} cells", list.len()));
    match hunted {
        0 => Err("no mutant was hunted, so nothing was shown".into()),
        _ => Ok(good),
    }
}

/// Prints what caught the mutant, and returns what should have and did not.
fn report(mutant: &Mutant, verdicts: &[(&Fixture, Verdict)]) -> Vec<String> {
    let mut caught_by = Vec::new();
    let mut faults = Vec::new();
    for (fixture, verdict) in verdicts {
        if verdict.is_caught() {
            caught_by.push(fixture.id.as_str());
        } else if mutant.caught_by.contains(&fixture.id) {
            faults.push(format!(
                "the mutant {} ({}) is not caught by {}: {verdict}",
                mutant.name, mutant.breaks, fixture.id
            ));
        }
    }
    // Where it was to be caught by none of those that were played, there is nothing to say.
    if caught_by.is_empty() && faults.is_empty() {
        return faults;
    }
    let (style, word) = if faults.is_empty() {
        (GOOD, "caught")
    } else {
        (ERROR, "survived")
    };
    super::say(format_args!(
        "{style}{word:8}{style:#}  {}  {}",
        mutant.name,
        caught_by.join(" ")
    ));
    faults
}
