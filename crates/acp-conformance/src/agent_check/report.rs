//! The result of all checks, for people and for programs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CHECKS, Row, Verdict};
use crate::markdown::verbatim;

/// What came of the checks of one agent. As JSON it is what `--json` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// `agentInfo` of the answer to `initialize`, or null.
    pub agent: Value,
    /// In the order of [`CHECKS`].
    pub checks: Vec<Entry>,
}

/// One [`Row`], as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name of the check.
    pub check: String,
    /// What it came to.
    pub verdict: Verdict,
    /// What was seen, in few words.
    pub outcome: String,
    /// The agent's own words, or the reason of an `n/a`.
    pub detail: String,
    /// What was wrong with the lines that the agent wrote during this check.
    pub faults: Vec<String>,
}

impl Report {
    pub(super) fn new(initialized: &Value, rows: Vec<Row>) -> Report {
        let entry = |row: Row| Entry {
            check: row.check.name.to_owned(),
            verdict: row.verdict,
            outcome: row.outcome,
            detail: row.detail,
            faults: row.faults,
        };
        Report {
            agent: initialized.get("agentInfo").cloned().unwrap_or_default(),
            checks: rows.into_iter().map(entry).collect(),
        }
    }

    /// Whether the agent breaks a MUST, died or did not answer.
    #[must_use]
    pub fn is_red(&self) -> bool {
        self.checks.iter().any(|entry| entry.verdict.is_red())
    }

    /// The name and the version of the agent, where it tells them.
    #[must_use]
    pub fn agent_name(&self) -> Option<String> {
        let text = |key| self.agent.get(key).and_then(Value::as_str);
        let name = text("name")?;
        Some(match text("version") {
            Some(version) => format!("{name} {version}"),
            None => name.to_owned(),
        })
    }

    /// How many rows have each verdict: `30 ok, 5 differs, 1 wrong`.
    #[must_use]
    pub fn totals(&self) -> String {
        let counts = Verdict::ALL.into_iter().filter_map(|verdict| {
            let has = |entry: &&Entry| entry.verdict == verdict;
            let count = self.checks.iter().filter(has).count();
            (count > 0).then(|| format!("{count} {verdict}"))
        });
        counts.collect::<Vec<_>>().join(", ")
    }
}

/// A Markdown table of several agents, by the names that head their columns.
///
/// An `ok` has what was seen alone; every other verdict is named.
#[must_use]
pub fn table(reports: &[(String, Report)]) -> String {
    let names: Vec<String> = reports.iter().map(|(name, _)| verbatim(name)).collect();
    let mut lines = vec![
        format!("| check | {} |", names.join(" | ")),
        format!("| --- |{}", " --- |".repeat(names.len())),
    ];
    for check in CHECKS {
        let cells: Vec<String> = reports
            .iter()
            .map(|(_, report)| {
                let entry = report.checks.iter().find(|entry| entry.check == check.name);
                entry.map_or_else(String::new, cell)
            })
            .collect();
        lines.push(format!("| `{}` | {} |", check.name, cells.join(" | ")));
    }
    let totals: Vec<String> = reports.iter().map(|(_, report)| report.totals()).collect();
    lines.push(format!("| | {} |", totals.join(" | ")));
    lines.join("\n") + "\n"
}

fn cell(entry: &Entry) -> String {
    let outcome = verbatim(&entry.outcome);
    match entry.verdict {
        Verdict::Ok => outcome,
        Verdict::NotApplicable => entry.verdict.to_string(),
        Verdict::Died => format!("**{}**", entry.verdict),
        Verdict::Differs => format!("differs: {outcome}"),
        Verdict::Wrong | Verdict::Timeout => format!("**{}**: {outcome}", entry.verdict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(verdict: Verdict) -> Report {
        let entry = Entry {
            check: CHECKS[0].name.to_owned(),
            verdict,
            outcome: "version 1".to_owned(),
            detail: String::new(),
            faults: Vec::new(),
        };
        Report {
            agent: json!({"name": "a", "version": "2"}),
            checks: vec![entry],
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_check_and_the_totals() {
        let agents = [Verdict::Ok, Verdict::Wrong].map(|verdict| ("x".to_owned(), report(verdict)));
        let table = table(&agents);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), CHECKS.len() + 3);
        assert_eq!(lines[0], "| check | x | x |");
        assert_eq!(
            lines[2],
            "| `initialize/version` | version 1 | **wrong**: version 1 |"
        );
        assert_eq!(lines.last(), Some(&"| | 1 ok | 1 wrong |"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for verdict in Verdict::ALL {
            let written = serde_json::to_string(&report(verdict)).unwrap();
            assert!(written.contains(&format!("\"verdict\":\"{verdict}\"")));
            let read: Report = serde_json::from_str(&written).unwrap();
            assert_eq!(read, report(verdict));
            assert_eq!(read.agent_name().as_deref(), Some("a 2"));
        }
    }
}
