//! The page as Markdown.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Component, Path, PathBuf},
};

use super::{Column, Counts, Page, Row};
use crate::{
    coverage::counted,
    markdown::{address, path, prose, prose_in_table, verbatim},
    verdict::Verdict,
};

/// What the line with the date begins with.
pub(super) const DATE: &str = "- Date: ";

/// What stands in the table for a pass, so that everything else catches the eye.
pub(super) const PASS: &str = "✓";

/// What stands in the table for a cell that was never played.
pub(super) const NOT_PLAYED: &str = "·";

impl Page {
    /// The page's text. `file` is where it will stand, which its links start from; `date` is the day of
    /// the run, as `2026-01-31`.
    pub fn render(&self, file: &Path, date: &str) -> String {
        let mut text = String::new();
        self.push_head(&mut text, date);
        self.push_ports(&mut text);
        self.push_areas(&mut text);
        self.push_transcripts(&mut text, file);
        self.push_known(&mut text);
        self.push_red(&mut text);
        self.push_not_applicable(&mut text);
        self.push_skipped(&mut text);
        self.push_requirements(&mut text);
        text
    }

    // Writing to a string cannot fail, here and below.

    fn push_head(&self, text: &mut String, date: &str) {
        let _ = write!(
            text,
            "# Parity\n\n\
             Each transcript of [ACP](https://agentclientprotocol.com) played against each port: a client \
             library and the driver that adapts it. This page is written by `acp-conformance --parity` and \
             not by hand.\n\n\
             - {}, {}, {}\n\
             - Harness: acp-conformance {}\n\
             {DATE}{date}\n\n\
             {PASS} is a pass, `known` a failure that the port's `known.toml` explains, `n/a` one that needs a \
             capability which the port does not declare and its tier does not require, and {NOT_PLAYED} one \
             that was not played. Everything else is red.\n",
            counted(self.columns.len(), "port"),
            counted(self.rows.len(), "transcript"),
            counted(self.requirements.len(), "requirement"),
            env!("CARGO_PKG_VERSION"),
        );
    }

    fn push_ports(&self, text: &mut String) {
        text.push_str("\n## Ports\n\n| port | language | library version | tier |");
        for word in Verdict::WORDS {
            let _ = write!(text, " {word} |");
        }
        text.push_str("\n| --- | --- | --- | --- |");
        text.push_str(&" ---: |".repeat(Verdict::WORDS.len()));
        text.push('\n');
        for (at, column) in self.columns.iter().enumerate() {
            let counts = Counts::of(self.rows.iter().filter_map(|row| row.words[at]));
            let _ = write!(
                text,
                "| {} | {} | {} | `{}` |",
                verbatim(&column.name),
                verbatim(&column.language),
                verbatim(column.version.as_deref().unwrap_or_default()),
                column.tier.name()
            );
            for word in Verdict::WORDS {
                let _ = write!(text, " {} |", counts.count(word));
            }
            text.push('\n');
        }
    }

    fn push_areas(&self, text: &mut String) {
        text.push_str(
            "\n## Areas\n\nPasses, of the transcripts that were played and apply.\n\n| area |",
        );
        self.push_names(text);
        text.push_str("\n| --- |");
        text.push_str(&" ---: |".repeat(self.columns.len()));
        text.push('\n');
        for (area, rows) in self.areas() {
            let _ = write!(text, "| [{area}](#{area}) |");
            for at in 0..self.columns.len() {
                let counts = Counts::of(rows.iter().filter_map(|row| row.words[at]));
                match counts.played() - counts.count("n/a") {
                    0 => text.push_str(" – |"),
                    executed => {
                        let _ = write!(text, " {}/{executed} |", counts.count("pass"));
                    }
                }
            }
            text.push('\n');
        }
    }

    fn push_transcripts(&self, text: &mut String, file: &Path) {
        let reasons: Vec<_> = self.columns.iter().map(|one| self.reasons(one)).collect();
        for (area, rows) in self.areas() {
            let _ = write!(text, "\n## {area}\n\n| transcript |");
            self.push_names(text);
            text.push_str(" what it states |\n| --- |");
            text.push_str(&" :---: |".repeat(self.columns.len()));
            text.push_str(" --- |\n");
            for row in rows {
                let _ = write!(
                    text,
                    "| <a id=\"{}\"></a>{} |",
                    anchor(&row.id),
                    linked(&row.id, relative(file, &row.path).map(|way| path(&way)))
                );
                for (at, word) in row.words.iter().enumerate() {
                    let column = &self.columns[at];
                    let _ = match word {
                        None => write!(text, " {NOT_PLAYED} |"),
                        Some("pass") => write!(text, " {PASS} |"),
                        Some("n/a") => write!(text, " n/a |"),
                        Some("known") => {
                            let of_row = |group: &Reason<'_>| group.fixtures.contains(&&*row.id);
                            match reasons[at].iter().position(of_row) {
                                Some(group) => {
                                    let name = known_anchor(column, group);
                                    write!(text, " [known](#{name}) |")
                                }
                                None => write!(text, " known |"),
                            }
                        }
                        Some(word) => write!(text, " **{word}** |"),
                    };
                }
                let _ = write!(text, " {}", prose_in_table(&row.title));
                for id in &row.covers {
                    let _ = write!(text, " {}", self.requirement_link(id));
                }
                text.push_str(" |\n");
            }
        }
    }

    fn push_known(&self, text: &mut String) {
        let mut heading = "\n## Known failures\n";
        for column in &self.columns {
            let reasons = self.reasons(column);
            if reasons.is_empty() {
                continue;
            }
            text.push_str(std::mem::take(&mut heading));
            let _ = write!(text, "\n### {}\n\n", verbatim(&column.name));
            for (group, reason) in reasons.iter().enumerate() {
                let anchor = known_anchor(column, group);
                let _ = write!(text, "- <a id=\"{anchor}\"></a>{}", prose(reason.text));
                if let Some(link) = reason.link {
                    let _ = write!(text, " ([tracked]({}))", address(link));
                }
                let _ = writeln!(text, ": {}", transcript_links(reason.fixtures.iter()));
            }
        }
    }

    fn push_red(&self, text: &mut String) {
        let mut heading = "\n## Red\n\n";
        for (at, column) in self.columns.iter().enumerate() {
            for row in &self.rows {
                if let Some(word) = row.words[at]
                    && !["pass", "known", "n/a"].contains(&word)
                {
                    text.push_str(std::mem::take(&mut heading));
                    let link = transcript_links([&row.id].into_iter());
                    let _ = writeln!(text, "- {} {link}: {word}", verbatim(&column.name));
                }
            }
        }
    }

    fn push_not_applicable(&self, text: &mut String) {
        let mut heading = "\n## Not applicable\n\n\
            The capabilities that a port does not declare, each with the number of transcripts that are `n/a` \
            for want of it.\n\n\
            | port | capabilities |\n| --- | --- |\n";
        for (at, column) in self.columns.iter().enumerate() {
            let Some(lacks) = &column.lacks else { continue };
            if lacks.is_empty() {
                continue;
            }
            text.push_str(std::mem::take(&mut heading));
            let count = |capability: &String| {
                let hit =
                    |row: &&Row| row.words[at] == Some("n/a") && row.needs.contains(capability);
                self.rows.iter().filter(hit).count()
            };
            let lacks: Vec<String> = lacks
                .iter()
                .map(|capability| format!("`{capability}` {}", count(capability)))
                .collect();
            let _ = writeln!(
                text,
                "| {} | {} |",
                verbatim(&column.name),
                lacks.join(", ")
            );
        }
    }

    fn push_skipped(&self, text: &mut String) {
        let mut heading = "\n## Skipped\n\n";
        for (at, column) in self.columns.iter().enumerate() {
            if let Some(why) = &column.skipped
                && self.rows.iter().all(|row| row.words[at].is_none())
            {
                text.push_str(std::mem::take(&mut heading));
                let _ = writeln!(text, "- {}: {}", verbatim(&column.name), verbatim(why));
            }
        }
    }

    fn push_requirements(&self, text: &mut String) {
        if self.requirements.is_empty() {
            return;
        }
        text.push_str(
            "\n## Requirements\n\n\
             | id | level | what a client must do | source | transcripts |\n\
             | --- | --- | --- | --- | --- |\n",
        );
        for one in &self.requirements {
            let evidence = match &one.excluded {
                Some(why) => format!("excluded: {}", prose_in_table(why)),
                None => transcript_links(one.fixtures.iter()),
            };
            let _ = writeln!(
                text,
                "| <a id=\"{}\"></a>{} | {} | {} | {} | {evidence} |",
                anchor(&one.id),
                verbatim(&one.id),
                one.level,
                prose_in_table(&one.text),
                prose_in_table(&one.source),
            );
        }
    }

    fn push_names(&self, text: &mut String) {
        for column in &self.columns {
            let _ = write!(text, " {} |", verbatim(&column.name));
        }
    }

    fn areas(&self) -> impl Iterator<Item = (&str, &[Row])> {
        let area = |row: &Row| row.id.split('/').next().unwrap_or_default().to_owned();
        let chunks = self.rows.chunk_by(move |one, next| area(one) == area(next));
        chunks.filter_map(|rows| Some((rows.first()?.id.split('/').next()?, rows)))
    }

    /// The port's known failures, those with one reason together, in the order of the transcripts.
    fn reasons<'a>(&'a self, column: &'a Column) -> Vec<Reason<'a>> {
        let at = self.column(&column.name);
        let mut places = BTreeMap::new();
        let mut reasons: Vec<Reason<'a>> = Vec::new();
        for row in &self.rows {
            let failed = at.is_some_and(|at| row.words[at] == Some("known"));
            let Some(known) = column.known.get(&row.id).filter(|_| failed) else {
                continue;
            };
            let link = known.link.as_deref();
            let place = *places
                .entry((known.reason.as_str(), link))
                .or_insert(reasons.len());
            if place == reasons.len() {
                reasons.push(Reason {
                    text: &known.reason,
                    link,
                    fixtures: Vec::new(),
                });
            }
            reasons[place].fixtures.push(&row.id);
        }
        reasons
    }

    fn requirement_link(&self, id: &str) -> String {
        match self.requirements.iter().any(|one| one.id == id) {
            true => linked(id, Some(format!("#{}", anchor(id)))),
            false => verbatim(id),
        }
    }
}

/// Known failures that have one cause.
struct Reason<'a> {
    text: &'a str,
    link: Option<&'a str>,
    fixtures: Vec<&'a str>,
}

fn transcript_links(ids: impl Iterator<Item = impl AsRef<str>>) -> String {
    let links: Vec<String> = ids
        .map(|id| linked(id.as_ref(), Some(format!("#{}", anchor(id.as_ref())))))
        .collect();
    links.join(", ")
}

fn known_anchor(column: &Column, group: usize) -> String {
    format!("known-{}-{}", column.name, group + 1)
}

/// The fragment that leads to a transcript or a requirement. The ids of transcripts have a slash and
/// those of requirements have none, so the two never meet, and neither meets a heading.
fn anchor(id: &str) -> String {
    let plain = |each: char| match each {
        '.' | '_' | '-' => each,
        each if each.is_ascii_alphanumeric() => each.to_ascii_lowercase(),
        _ => '-',
    };
    id.replace('/', "--").chars().map(plain).collect()
}

fn linked(text: &str, target: Option<String>) -> String {
    match target {
        Some(target) => format!("[{}]({target})", verbatim(text)),
        None => verbatim(text),
    }
}

/// The way from `file` to `target`, if both exist or could.
pub(crate) fn relative(file: &Path, target: &Path) -> Option<String> {
    let from = absolute(file.parent()?)?;
    let to = target.canonicalize().ok()?;
    let common = from
        .components()
        .zip(to.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(common)).collect();
    way.to_str().map(str::to_owned)
}

/// The directory without links in its path, as far as it is there already.
fn absolute(dir: &Path) -> Option<PathBuf> {
    let dir = std::path::absolute(dir).ok()?;
    match (dir.canonicalize(), dir.parent(), dir.file_name()) {
        (Ok(dir), _, _) => Some(dir),
        (Err(_), Some(parent), Some(name)) => Some(absolute(parent)?.join(name)),
        (Err(_), _, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_go_from_the_page_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("fixtures/turn/one.jsonl");
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(&target, "").unwrap();
        let way = |file: &str| relative(&dir.path().join(file), &target);
        assert_eq!(way("page.md").unwrap(), "fixtures/turn/one.jsonl");
        // The directory of the page is made later.
        assert_eq!(
            way("conformance/new/page.md").unwrap(),
            "../../fixtures/turn/one.jsonl"
        );
        assert_eq!(
            relative(&dir.path().join("page.md"), Path::new("/no/such")),
            None
        );
    }
}
