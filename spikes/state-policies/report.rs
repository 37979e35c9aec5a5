//! Tables, and the claims they are held against.

use std::fmt::Write as _;
use std::time::Duration;

use spikes::claims::Claims;
use spikes::times::{median, spread};

use crate::context::shared_prefix;
use crate::subject::{Policy, Subject, Turn};
use crate::token;

/// Right answers of three, for the scripts `first`, `last` and `marker`.
pub type Answers = (Policy, [Result<usize, String>; 3]);

/// Turns in which the growth of a long conversation is shown.
const MARKS: [usize; 8] = [1, 2, 5, 10, 25, 50, 75, 100];

/// The tables, as Markdown.
pub fn tables(subjects: &[Subject], turns: usize, answers: &[Answers]) -> String {
    let mut text = String::new();
    row(
        &mut text,
        &[
            "policy",
            "turns 2 to N, ms",
            "model, KB: turn 1 → N",
            "in all",
            "on the side",
            "copies of the first message",
            "prefix shared",
            "MB (processes): turn 1 → N",
        ]
        .map(String::from),
        true,
    );
    for subject in subjects {
        let measured = &subject.turns[..subject.turns.len().min(turns)];
        let (Some(first), Some(last)) = (measured.first(), measured.last()) else {
            continue;
        };
        let sum = |which: fn(&Turn) -> usize| measured.iter().map(which).sum::<usize>();
        row(
            &mut text,
            &[
                subject.policy.name().to_owned(),
                spread(&walls(measured)),
                format!("{} → {}", kb(first.bytes().0), kb(last.bytes().0)),
                kb(sum(|turn| turn.bytes().0)),
                kb(sum(|turn| turn.bytes().1)),
                copies(last, 1).to_string(),
                format!("{:.1} %", 100.0 * prefix(measured)),
                match subject.policy {
                    Policy::Cold => "–".to_owned(),
                    _ => format!("{} → {}", memory(first), memory(last)),
                },
            ],
            false,
        );
    }
    for subject in subjects {
        if !subject.opened.is_empty() {
            let _ = writeln!(text, "\n`session/new`: {} ms.", spread(&subject.opened));
        }
        if let Some(failed) = &subject.failed {
            let _ = writeln!(text, "\n{}: given up in {failed}", subject.policy.name());
        }
    }
    if turns > 10 {
        growth(&mut text, subjects, turns);
    }
    edited(&mut text, subjects, turns);
    if !answers.is_empty() {
        let _ = writeln!(text, "\nRight answers, of three:\n");
        let header = ["policy", "first question", "last question", "marker"];
        row(&mut text, &header.map(String::from), true);
        for (policy, answers) in answers {
            let mut cells = vec![policy.name().to_owned()];
            cells.extend(answers.iter().map(|right| match right {
                Ok(right) => right.to_string(),
                Err(error) => error.clone(),
            }));
            row(&mut text, &cells, false);
        }
    }
    text
}

/// What is claimed of the policies that were measured, and whether it holds.
pub fn claims(subjects: &[Subject], turns: usize) -> Claims {
    let of = |policy| subjects.iter().find(|subject| subject.policy == policy);
    let mut claims = Claims::default();
    for subject in subjects {
        let Some(last) = subject.turns.get(turns - 1) else {
            let claim = format!("{} lasts {turns} turns", subject.policy.name());
            claims.claim(claim, false);
            continue;
        };
        if subject.policy != Policy::FullRequest {
            let claim = format!(
                "{} shows the model each message once",
                subject.policy.name()
            );
            claims.claim(claim, copies(last, 1) == 1);
        }
        if let Some(edited) = subject.turns.get(turns)
            && subject.policy != Policy::FullRequest
        {
            let claim = format!(
                "{} shows an edited message as it is now",
                subject.policy.name()
            );
            claims.claim(claim, copies(edited, 1) == 0 && copies(edited, 0) == 1);
        }
    }
    let full = of(Policy::FullRequest).filter(|subject| subject.turns.len() >= turns);
    let delta = of(Policy::Delta).filter(|subject| subject.turns.len() >= turns);
    if let (Some(full), Some(delta)) = (full, delta) {
        let sent = |subject: &Subject| -> usize {
            subject.turns[..turns]
                .iter()
                .map(|turn| turn.bytes().0)
                .sum()
        };
        claims.claim(
            "a delta sends the model less than full requests",
            sent(delta) < sent(full),
        );
        let wall = |subject: &Subject| median(&walls(&subject.turns[..turns]));
        claims.claim(
            "a turn with a delta takes no longer than one with a full request, give or take a half",
            wall(delta) <= wall(full) * 3 / 2,
        );
    }
    claims
}

fn growth(text: &mut String, subjects: &[Subject], turns: usize) {
    let marks: Vec<usize> = MARKS.into_iter().filter(|&mark| mark <= turns).collect();
    let _ = writeln!(text, "\nKB to the model in a turn, and ms around it:\n");
    let mut header = vec!["policy".to_owned()];
    header.extend(marks.iter().map(|mark| format!("turn {mark}")));
    row(text, &header, true);
    for subject in subjects {
        let mut cells = vec![subject.policy.name().to_owned()];
        cells.extend(marks.iter().map(|&mark| {
            let Some(turn) = subject.turns.get(mark - 1) else {
                return "–".to_owned();
            };
            // Single turns are noise.
            let around = mark.saturating_sub(3)..(mark + 2).min(subject.turns.len());
            let walls: Vec<Duration> = subject.turns[around].iter().map(|turn| turn.wall).collect();
            format!("{}, {}", kb(turn.bytes().0), median(&walls).as_millis())
        }));
        row(text, &cells, false);
    }
}

fn edited(text: &mut String, subjects: &[Subject], turns: usize) {
    let _ = writeln!(text, "\nAfter the host has edited its first message:\n");
    let header = ["policy", "old text", "new text", "KB", "ms"];
    row(text, &header.map(String::from), true);
    for subject in subjects {
        let Some(turn) = subject.turns.get(turns) else {
            continue;
        };
        row(
            text,
            &[
                subject.policy.name().to_owned(),
                copies(turn, 1).to_string(),
                copies(turn, 0).to_string(),
                kb(turn.bytes().0),
                turn.wall.as_millis().to_string(),
            ],
            false,
        );
    }
}

/// How often the model is shown what the user said in a turn.
fn copies(turn: &Turn, said_in: usize) -> usize {
    turn.context().matches(&token(said_in)).count()
}

/// The least that a turn shares with the one before, after the second.
fn prefix(turns: &[Turn]) -> f64 {
    let contexts: Vec<String> = turns.iter().map(Turn::context).collect();
    contexts
        .windows(2)
        .skip(1)
        .map(|pair| shared_prefix(&pair[0], &pair[1]))
        .fold(1.0, f64::min)
}

fn walls(turns: &[Turn]) -> Vec<Duration> {
    turns.iter().skip(1).map(|turn| turn.wall).collect()
}

fn memory(turn: &Turn) -> String {
    let memory = turn.memory;
    format!("{} ({})", memory.resident_kib / 1024, memory.processes)
}

fn kb(bytes: usize) -> String {
    (bytes.div_ceil(1000)).to_string()
}

fn row(text: &mut String, cells: &[String], header: bool) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
    if header {
        let _ = writeln!(text, "|{}", " --- |".repeat(cells.len()));
    }
}
