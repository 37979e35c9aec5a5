//! The results for people.

use std::fmt::Write as _;

use crate::{
    figures::{Ratio, median},
    place::Placement,
    report::{Measured, Report, WorkResult, value_of},
    works::{Value, WORKS},
};

const FLOOR: &str = "floor";

/// What can be measured, with its targets.
pub fn of_works() -> String {
    let mut text = String::new();
    for work in WORKS {
        let _ = writeln!(text, "{:13} {}", work.name, work.about);
        for target in work.targets {
            let _ = writeln!(text, "{:13}   {:9} {target}", "", target.client);
        }
    }
    text
}

/// The clients of one work.
pub fn of_result(result: &WorkResult, machine_is_smoke: bool) -> String {
    let placement = result.placement.map_or("", Placement::name);
    let mut text = format!(
        "\n{}: {} ({placement}{}{} round{})\n",
        result.name,
        result.about,
        if placement.is_empty() { "" } else { ", " },
        result.rounds,
        if result.rounds == 1 { "" } else { "s" },
    );
    if machine_is_smoke {
        text += "  a smoke run: the times mean nothing\n";
    }
    let _ = writeln!(
        text,
        "  {:17}{:>11}{:>11}{:>11}{:>11}  {:22}{:13}CPU × floor",
        "", "median", "p99", "CPU", "peak", "× floor (range)", "best × best"
    );
    for client in &result.clients {
        text += &row(result, client);
    }
    text
}

fn row(result: &WorkResult, client: &Measured) -> String {
    let rounds = &client.rounds;
    let value = client.value().map_or(String::new(), |value| {
        match (&*client.name, value_of(&result.name)) {
            ("acp-core crates", _) => format!("{value:.0}"),
            (_, Value::LaneBytes) => format!("{:.1} KiB", value / 1024.0),
            _ => time(value),
        }
    });
    let p99 = median(&rounds.p99_ns).map_or(String::new(), time);
    let cpu = median(&rounds.cpu_ns).map_or(String::new(), time);
    let peak = match rounds.peak_rss {
        0 => String::new(),
        bytes => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    };
    let times = match &*client.name {
        FLOOR => None,
        name => result.times(name, FLOOR),
    };
    let floor = result.client(FLOOR);
    let cpu_times = floor.and_then(|floor| Ratio::of(&rounds.cpu_ns, &floor.rounds.cpu_ns));
    let cpu_times = cpu_times.filter(|_| client.name != FLOOR);
    let mut text = format!(
        "  {:17}{value:>11}{p99:>11}{cpu:>11}{peak:>11}  {:22}{:13}{}",
        client.name,
        times.map_or(String::new(), ratio),
        times.map_or(String::new(), |ratio| format!("{:.2}", ratio.of_best)),
        cpu_times.map_or(String::new(), |ratio| format!("{:.2}", ratio.median)),
    );
    if let Some(failure) = &client.failure {
        let _ = write!(text, "  FAILED: {failure}");
    }
    format!("{}\n", text.trim_end())
}

/// The targets, with what was measured.
pub fn of_targets(report: &Report) -> String {
    if report.verdicts.is_empty() || report.machine.smoke {
        return String::new();
    }
    let mut text = "\ntargets\n".to_owned();
    for verdict in &report.verdicts {
        let mark = match verdict.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        };
        let _ = writeln!(
            text,
            "  {:13}{:10}{:30}{:24}{mark}",
            verdict.work,
            verdict.client,
            verdict.target,
            verdict.measured.map_or(String::new(), ratio),
        );
    }
    let machine = &report.machine;
    let _ = writeln!(
        text,
        "({} CPUs, load {:.1} when it began; more load than none makes times longer and ratios less sure)",
        machine.cpus, machine.load
    );
    text
}

fn ratio(ratio: Ratio) -> String {
    let Ratio {
        median,
        least,
        greatest,
        ..
    } = ratio;
    if least == greatest {
        return format!("{median:.2}");
    }
    format!("{median:.2} ({least:.2}–{greatest:.2})")
}

fn time(ns: f64) -> String {
    match ns.abs() {
        ..1e5 => format!("{:.1} µs", ns / 1e3),
        1e5..1e6 => format!("{:.0} µs", ns / 1e3),
        1e6..1e8 => format!("{:.2} ms", ns / 1e6),
        1e8..1e9 => format!("{:.0} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// Whether a work has a place in a picture of ratios.
pub fn has_ratios(work: &WorkResult) -> bool {
    work.clients.len() > 1 && work.client(FLOOR).is_some()
}
