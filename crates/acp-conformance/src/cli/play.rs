//! `acp-conformance run`.

use std::{fs, path::Path};

use acp_conformance::{
    events::{self, Events},
    html,
    ledger::{self, Requirement},
    report::Report,
    run::Plan,
    transcripts::{self, Transcripts},
};
use acp_fake_server::Fixture;

use super::{
    Fault, advice, complain, create, find, flags, jobs,
    kept::{Kept, today},
    parent_made, say, stage,
};

/// Where the requirements are unless the command line says otherwise.
const REQUIREMENTS: &str = "spec/requirements.toml";

/// Plays the cells and writes the reports. False if something is red.
pub fn main(flags: flags::Run) -> Result<bool, Fault> {
    let transcripts = flags.fixtures.transcripts();
    let fixtures = transcripts.load()?;
    let filters = &flags.fixtures.filter;
    if flags.list {
        let plan = Plan::new(fixtures, Vec::new(), filters)?;
        list(&plan.fixtures, flags.verbose);
        return Ok(true);
    }
    let requirements = requirements(flags.reports.requirements.as_deref(), &transcripts)?;
    if transcripts == Transcripts::BuiltIn {
        anstream::eprintln!("playing the built-in transcripts");
    }
    let stage = stage()?;
    let found = find::ports(&flags.port, &flags.ports, &stage.limits)?;
    // The page is about every transcript, whichever are played.
    let mut kept = Kept::new(
        &flags.reports,
        &flags.ports.ports,
        &fixtures,
        &found,
        &requirements,
    )?;
    let mut plan = Plan::new(fixtures, found.ready, filters)?;
    plan.skipped = found.skipped;
    plan.requirements = requirements;

    let mut events = match &flags.reports.events {
        Some(path) => Some(Events::begin(create(path)?, &plan)?),
        None => None,
    };
    let mut report = Report::new(&plan, flags.verbose);
    let mut written = Ok(());
    say(format_args!("{}", report.heading()));
    plan.run(&stage, jobs(&flags.ports), |cell| {
        if let Some(events) = &mut events
            && written.is_ok()
        {
            written = events.cell(&cell);
        }
        if let Some(row) = report.add(cell) {
            say(format_args!("{row}"));
        }
    });
    written?;
    say(format_args!(
        "{}",
        report.conclusion().trim_end_matches('\n')
    ));
    let skipped = plan.skipped.iter().map(|skipped| &skipped.why);
    if let Some(advice) = advice::skipped(skipped, &flags.ports.ports) {
        anstream::eprintln!("{advice}");
    }
    if let Some(events) = events {
        events.end(report.summary())?;
    }
    if let Some(path) = &flags.reports.junit {
        fs::write(parent_made(path)?, events::junit(&plan, report.cells()))?;
    }
    if let Some(path) = &flags.reports.html {
        let page = html::page(&plan, &transcripts, report.cells(), path, &today())?;
        fs::write(parent_made(path)?, page)?;
    }
    kept.fill(report.cells(), &plan.skipped);
    let faults = kept.settle(&flags.reports)?;
    complain(&faults);
    if report.summary().executed() == 0 {
        return Err("no cell was executed, so nothing was shown".into());
    }
    Ok(report.summary().is_green() && faults.is_empty())
}

/// The requirements in that file, or in the usual one, or those of the built-in transcripts. Where there are
/// none, the ids in the transcripts have to do.
fn requirements(path: Option<&Path>, transcripts: &Transcripts) -> Result<Vec<Requirement>, Fault> {
    let usual = Path::new(REQUIREMENTS);
    match path.or_else(|| usual.is_file().then_some(usual)) {
        Some(path) => {
            ledger::load(path).map_err(|error| format!("{}: {error}", path.display()).into())
        }
        None if *transcripts == Transcripts::BuiltIn => {
            Ok(ledger::parse(transcripts::BUILT_IN_REQUIREMENTS)?)
        }
        None => Ok(Vec::new()),
    }
}

fn list(fixtures: &[Fixture], verbose: bool) {
    for fixture in fixtures {
        if !verbose {
            say(format_args!("{}", fixture.id));
            continue;
        }
        say(format_args!(
            "{} ({}): {}",
            fixture.id, fixture.level, fixture.title
        ));
        say(format_args!("    covers {}", fixture.covers.join(", ")));
        if !fixture.needs.is_empty() {
            say(format_args!("    needs {}", fixture.needs.join(", ")));
        }
        if let Some(about) = &fixture.about {
            say(format_args!("    {about}"));
        }
    }
}
