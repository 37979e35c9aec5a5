//! The reports that are kept with the sources: the parity page and the badges.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use acp_conformance::{
    badge::Badge,
    ledger::Requirement,
    parity::{Difference, Earlier, Page},
    port::Port,
    run::Skipped,
    verdict::Cell,
};
use acp_fake_server::Fixture;

use super::{
    Fault, advice,
    find::{self, Found},
    flags, parent_made,
};

/// The parity page of a run, as far as it is made.
pub struct Kept {
    page: Page,
}

impl Kept {
    /// The page of all the ports that there are, and of those of the run.
    pub fn new(
        flags: &flags::Reports,
        ports: &Path,
        fixtures: &[Fixture],
        found: &Found,
        requirements: &[Requirement],
    ) -> Result<Kept, Fault> {
        let of_run = || {
            let skipped = found.skipped.iter().map(|skipped| &skipped.port);
            found.ready.iter().chain(skipped)
        };
        let mut all: Vec<Port> = Vec::new();
        let is_kept = [
            &flags.parity,
            &flags.check_parity,
            &flags.badges,
            &flags.check_badges,
        ];
        if ports.is_dir() && is_kept.iter().any(|path| path.is_some()) {
            all = find::named(&[], ports)?;
        }
        for port in of_run() {
            match all.iter_mut().find(|other| other.name == port.name) {
                Some(other) => other.clone_from(port),
                None => all.push(port.clone()),
            }
        }
        Ok(Kept {
            page: Page::new(fixtures, &all, requirements),
        })
    }

    /// Puts the results of the run on the page.
    pub fn fill(&mut self, cells: &[Cell], skipped: &[Skipped]) {
        self.page.fill(cells, skipped);
    }

    /// Writes or checks what the command line says, and returns what is stale.
    pub fn settle(mut self, flags: &flags::Reports) -> Result<Vec<String>, Fault> {
        let mut faults = Vec::new();
        if let Some(path) = flags.parity.as_deref().or(flags.check_parity.as_deref()) {
            let old = read(path)?;
            let text = complete(&mut self.page, path, &old);
            match Difference::between(&old, &text) {
                Some(_) if flags.parity.is_some() => fs::write(parent_made(path)?, text)?,
                Some(difference) => faults.push(stale(path, difference)),
                None => {}
            }
        }
        if let Some(dir) = &flags.badges {
            for (path, text) in badges(&self.page, dir) {
                fs::write(parent_made(&path)?, text)?;
            }
        }
        if let Some(dir) = &flags.check_badges {
            faults.extend(stale_badges(&self.page, dir)?);
        }
        Ok(faults)
    }
}

/// What is stale on a page and in a directory of badges, when nothing was run.
pub fn check(mut page: Page, path: &Path, dir: Option<&Path>) -> Result<Vec<String>, Fault> {
    let old = read(path)?;
    let text = complete(&mut page, path, &old);
    let difference = Difference::between(&old, &text);
    let stale = difference.map(|difference| stale(path, difference));
    let mut faults = Vec::from_iter(stale);
    if let Some(dir) = dir {
        faults.extend(stale_badges(&page, dir)?);
    }
    Ok(faults)
}

/// The day, in UTC.
pub fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// The page's text with what an earlier one knows beside.
fn complete(page: &mut Page, path: &Path, old: &str) -> String {
    page.carry(&Earlier::parse(old));
    page.render(path, &today())
}

fn stale(path: &Path, difference: Difference<'_>) -> String {
    let shown = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
    format!(
        "{}:{} is stale: {}\n  is:        {}\n  should be: {}",
        path.display(),
        difference.line,
        advice::renew(),
        shown(difference.is),
        shown(difference.should_be)
    )
}

fn stale_badges(page: &Page, dir: &Path) -> Result<Vec<String>, Fault> {
    let mut faults = Vec::new();
    for (path, text) in badges(page, dir) {
        if read(&path)? != text {
            faults.push(format!("{} is stale: {}", path.display(), advice::renew()));
        }
    }
    Ok(faults)
}

fn badges(page: &Page, dir: &Path) -> Vec<(PathBuf, String)> {
    let counts = page.counts().into_iter();
    let files = counts.flat_map(|(port, counts)| Badge::new(port, &counts).files());
    files.map(|(name, text)| (dir.join(name), text)).collect()
}

/// The file's text. One that is not there yet has none.
fn read(path: &Path) -> Result<String, Fault> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("failed to read {}: {error}", path.display()).into()),
    }
}
