//! The machine-readable reports of a run: JSON Lines, and JUnit XML.
//!
//! The JSON Lines begin with a header, have one line a cell, written as soon as the cell is judged,
//! and end with a footer. A file without its footer is of a run that was cut short.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde_json::{Value, json};

use crate::{
    port::Port,
    run::{Plan, Summary},
    verdict::{Cell, Verdict},
};

/// Writes the events of a run.
pub struct Events<'a, W> {
    output: W,
    plan: &'a Plan,
}

impl<'a, W: Write> Events<'a, W> {
    /// Writes the header.
    pub fn begin(output: W, plan: &'a Plan) -> io::Result<Events<'a, W>> {
        let about = |port: &Port| {
            json!({"name": port.name, "language": port.language, "tier": port.tier,
                "version": port.version})
        };
        let ports: Vec<_> = plan.ports.iter().map(about).collect();
        let skipped: Vec<_> = plan
            .skipped
            .iter()
            .map(|skipped| {
                let mut line = about(&skipped.port);
                line["why"] = json!(skipped.why.to_string());
                line
            })
            .collect();
        let requirements: serde_json::Map<String, Value> = plan
            .requirements
            .iter()
            .map(|one| (one.id.clone(), json!(one.text)))
            .collect();
        let mut events = Events { output, plan };
        events.line(&json!({
            "event": "run",
            "format": 1,
            "harness": concat!("acp-conformance ", env!("CARGO_PKG_VERSION")),
            "ports": ports,
            "skipped": skipped,
            "requirements": requirements,
            "cells": plan.cells(),
        }))?;
        Ok(events)
    }

    /// Writes one cell.
    pub fn cell(&mut self, cell: &Cell) -> io::Result<()> {
        let covers: Vec<&str> = self.plan.rules(&cell.fixture).map(|(id, _)| id).collect();
        let mut line = json!({
            "event": "cell",
            "port": cell.port,
            "fixture": cell.fixture,
            "covers": covers,
            "verdict": cell.verdict.word(),
            "steps_done": cell.steps_done,
            "steps_total": cell.steps_total,
            "elapsed_ms": u64::try_from(cell.elapsed.as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(reason) = cell.verdict.reason() {
            line["reason"] = json!(reason);
        }
        if let Verdict::Known { link, failure, .. } = &cell.verdict {
            line["link"] = json!(link);
            line["failure"] = json!({"verdict": failure.word(), "reason": failure.reason()});
        }
        self.line(&line)
    }

    /// Writes the footer.
    pub fn end(mut self, summary: &Summary) -> io::Result<()> {
        let mut counts = serde_json::Map::new();
        for word in Verdict::WORDS {
            counts.insert(word.to_owned(), json!(summary.count(word)));
        }
        self.line(&json!({
            "event": "complete",
            "executed": summary.executed(),
            "green": summary.is_green(),
            "counts": counts,
        }))
    }

    fn line(&mut self, value: &serde_json::Value) -> io::Result<()> {
        // Cells arrive some tens of milliseconds apart, and a reader wants to follow them.
        writeln!(self.output, "{value}")?;
        self.output.flush()
    }
}

/// The run as JUnit XML: a test suite for each port, a test case for each transcript. A port that was
/// skipped has one test case, which was skipped.
pub fn junit(plan: &Plan, cells: &[Cell]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for port in &plan.ports {
        let cells: Vec<_> = cells.iter().filter(|cell| cell.port == port.name).collect();
        let count =
            |test: fn(&Verdict) -> bool| cells.iter().filter(|cell| test(&cell.verdict)).count();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" \
             time=\"{:.3}\">",
            escaped(&port.name),
            cells.len(),
            count(Verdict::is_caught),
            count(|verdict| matches!(verdict, Verdict::Broken(_))),
            count(|verdict| verdict.is_green() && *verdict != Verdict::Pass),
            cells
                .iter()
                .map(|cell| cell.elapsed.as_secs_f64())
                .sum::<f64>(),
        );
        for cell in cells {
            junit_case(&mut xml, plan, cell);
        }
        xml.push_str("  </testsuite>\n");
    }
    for skipped in &plan.skipped {
        let name = escaped(&skipped.port.name);
        let why = escaped(&skipped.why.to_string());
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\">\n    \
             <testcase classname=\"{name}\" name=\"all\">\n      <skipped message=\"{why}\"/>\n    \
             </testcase>\n  </testsuite>",
        );
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn junit_case(xml: &mut String, plan: &Plan, cell: &Cell) {
    let _ = write!(
        xml,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        escaped(&cell.port),
        escaped(&cell.fixture),
        cell.elapsed.as_secs_f64()
    );
    xml.push_str(">\n      <properties>\n");
    for (id, rule) in plan.rules(&cell.fixture) {
        let rule = match rule {
            Some(rule) => format!("{id}: {rule}"),
            None => id.to_owned(),
        };
        let rule = escaped(&rule);
        let _ = writeln!(
            xml,
            "        <property name=\"requirement\" value=\"{rule}\"/>"
        );
    }
    xml.push_str("      </properties>\n");
    let Some(reason) = cell.verdict.reason() else {
        xml.push_str("    </testcase>\n");
        return;
    };
    let element = match &cell.verdict {
        Verdict::Broken(_) => "error",
        verdict if verdict.is_green() => "skipped",
        _ => "failure",
    };
    let _ = writeln!(
        xml,
        "      <{element} message=\"{}: {}\">{}</{element}>\n    </testcase>",
        cell.verdict.word(),
        escaped(reason.lines().next().unwrap_or_default()),
        escaped(&format!("{reason}\n\n{}", cell.transcript)),
    );
}

/// Text for an attribute or an element. XML 1.0 has no way to write most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(character),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{known::Known, ledger, port::Unavailable, run::Skipped, tier::Tier};
    use acp_fake_server::Fixture;
    use std::{path::Path, time::Duration};

    fn port() -> Port {
        Port {
            name: "toy".into(),
            language: "rust".into(),
            tier: Tier::ModelSource,
            version: None,
            command: Vec::new(),
            requires: Vec::new(),
            setup: Vec::new(),
            build: None,
            env: Default::default(),
            dir: Default::default(),
            known: Known::default(),
        }
    }

    const REQUIREMENTS: &str =
        "[[requirement]]\nid = 'TURN-1'\nlevel = 'must'\ntext = 'a < b'\nsource = 's'\n";

    fn plan() -> Plan {
        let header = r#"{"fixture":"turn/two","format":1,"title":"t","level":"must","covers":["TURN-1","X-1"]}"#;
        let fixture = Fixture::parse(Path::new("turn/two.jsonl"), header, &mut |_| None).unwrap();
        Plan {
            fixtures: vec![fixture],
            ports: vec![port()],
            requirements: ledger::parse(REQUIREMENTS).unwrap(),
            skipped: vec![Skipped {
                port: Port {
                    name: "other".into(),
                    ..port()
                },
                why: Unavailable::Missing(vec!["mvn".into()]),
            }],
        }
    }

    fn cell(fixture: &str, verdict: Verdict) -> Cell {
        Cell {
            port: "toy".into(),
            fixture: fixture.into(),
            verdict,
            greeting: None,
            steps_done: 3,
            steps_total: 4,
            elapsed: Duration::from_millis(1500),
            transcript: "agent1 > \u{1}<&>\n".into(),
            stderr_tail: String::new(),
        }
    }

    #[test]
    fn events_have_a_header_a_line_a_cell_and_a_footer() {
        let mut output = Vec::new();
        let mut summary = Summary::default();
        let plan = plan();
        let mut events = Events::begin(&mut output, &plan).unwrap();
        for cell in [
            cell("turn/one", Verdict::Pass),
            cell("turn/two", Verdict::Fail("f".into())),
        ] {
            summary.add(&cell.verdict);
            events.cell(&cell).unwrap();
        }
        events.end(&summary).unwrap();
        let lines: Vec<Value> = String::from_utf8(output)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0]["cells"], 1);
        assert_eq!(lines[0]["requirements"]["TURN-1"], "a < b");
        assert_eq!(lines[0]["skipped"][0]["why"], "not in PATH: mvn");
        assert_eq!(lines[0]["ports"][0]["tier"], "model-source");
        assert_eq!(lines[1].get("reason"), None);
        assert_eq!(lines[2]["verdict"], "fail");
        assert_eq!(lines[2]["steps_done"], 3);
        assert_eq!(lines[2]["covers"], json!(["TURN-1", "X-1"]));
        assert_eq!(lines[3]["event"], "complete");
        assert_eq!(lines[3]["green"], false);
        assert_eq!(lines[3]["counts"]["pass"], 1);
    }

    #[test]
    fn junit_counts_and_escapes() {
        let cells = [
            cell("turn/one", Verdict::Pass),
            cell("turn/two", Verdict::Fail("want \"<a>\"".into())),
            cell("turn/three", Verdict::Broken("b".into())),
            cell(
                "turn/four",
                Verdict::NotApplicable {
                    missing: vec!["lanes".into()],
                },
            ),
        ];
        let xml = junit(&plan(), &cells);
        assert!(
            xml.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""),
            "{xml}"
        );
        assert!(
            xml.contains("message=\"fail: want &quot;&lt;a&gt;&quot;\""),
            "{xml}"
        );
        assert!(xml.contains("agent1 &gt; \u{fffd}&lt;&amp;&gt;"), "{xml}");
        assert!(
            xml.contains("<skipped message=\"not in PATH: mvn\"/>"),
            "{xml}"
        );
        assert!(xml.contains("name=\"turn/one\" time=\"1.500\">"), "{xml}");
        assert!(
            xml.contains("<property name=\"requirement\" value=\"TURN-1: a &lt; b\"/>"),
            "{xml}"
        );
    }
}
