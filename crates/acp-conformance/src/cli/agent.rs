//! `acp-conformance agent`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use acp_conformance::{
    agent_check::{self, CHECKS, Check, Limits, Options, Prompts, Report, Row, Verdict},
    limits,
    started::Scratch,
};
use anstyle::{AnsiColor, Style};

use super::{ERROR, Fault, GOOD, flags, parent_made, say};

const WARNING: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();

/// Checks an agent. False if it should be mended.
pub fn main(flags: flags::Agent) -> Result<bool, Fault> {
    let wanted = |check: &Check| {
        flags.check.is_empty() || flags.check.iter().any(|part| check.name.contains(part))
    };
    if !CHECKS.iter().any(wanted) {
        return Err(format!("no check has {} in its name", flags.check.join(" or ")).into());
    }
    if !flags.table.is_empty() {
        return table(&flags.table);
    }
    if flags.list {
        for check in CHECKS.iter().filter(|check| wanted(check)) {
            list(check);
        }
        return Ok(true);
    }
    // Kept until all is done, and then removed with what the agent has written there.
    let scratch;
    let cwd = match &flags.cwd {
        Some(cwd) => fs::canonicalize(cwd)
            .map_err(|error| format!("the directory {}: {error}", cwd.display()))?,
        None => {
            scratch = Scratch::new("acp-agent-")?;
            fs::canonicalize(scratch.path())?
        }
    };
    let options = Options {
        command: flags.command.clone(),
        cwd,
        mode: flags.mode.clone(),
        prompts: Prompts {
            plain: flags.prompt.clone(),
            slow: flags.slow_prompt.clone(),
            tool: flags.tool_prompt.clone(),
        },
        limits: Limits::scaled(limits::scale_from_env()?),
    };
    let report = agent_check::run(&options, wanted, |row| print(row, flags.verbose))?;
    let style = if report.is_red() { ERROR } else { GOOD };
    let name = report
        .agent_name()
        .unwrap_or_else(|| flags.command[0].clone());
    say(format_args!("{style}{name}: {}{style:#}", report.totals()));
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        let written = write(path, &text);
        written.map_err(|error| format!("failed to write {}: {error}", path.display()))?;
    }
    Ok(!report.is_red())
}

fn write(path: &Path, text: &str) -> Result<(), Fault> {
    Ok(fs::write(parent_made(path)?, text)?)
}

fn table(files: &[PathBuf]) -> Result<bool, Fault> {
    let mut reports = Vec::new();
    for file in files {
        let read =
            || -> Result<Report, Fault> { Ok(serde_json::from_str(&fs::read_to_string(file)?)?) };
        let report = read().map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        reports.push((name.into_owned(), report));
    }
    say(format_args!("{}", agent_check::table(&reports).trim_end()));
    Ok(true)
}

fn list(check: &Check) {
    say(format_args!(
        "{:38} {:9}  {}",
        check.name, check.level, check.asks
    ));
    say(format_args!(
        "{:38} {FAINT}{:9}  {}{FAINT:#}",
        "", "", check.source
    ));
}

fn print(row: &Row, verbose: bool) {
    let style = match row.verdict {
        Verdict::Ok => GOOD,
        Verdict::Differs => WARNING,
        Verdict::NotApplicable => FAINT,
        Verdict::Wrong | Verdict::Died | Verdict::Timeout => ERROR,
    };
    let check = row.check;
    say(format_args!(
        "{:38} {style}{:7}{style:#}  {:30}  {FAINT}{}{FAINT:#}",
        check.name, row.verdict, row.outcome, row.detail
    ));
    if verbose || !matches!(row.verdict, Verdict::Ok | Verdict::NotApplicable) {
        let (level, asks, source) = (check.level, check.asks, check.source);
        say(format_args!(
            "    {level}: {asks} {FAINT}({source}){FAINT:#}"
        ));
    }
    for fault in &row.faults {
        say(format_args!(
            "    {WARNING}the agent wrote:{WARNING:#} {fault}"
        ));
    }
}
