//! A picture of the ratios: a row for each work, a dot for each client, on a logarithmic scale of multiples of the
//! floor's time.

use std::fmt::Write as _;

use crate::{
    report::{Report, WorkResult},
    table::has_ratios,
};

const WIDTH: f64 = 880.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 64.0;
const ROW: f64 = 34.0;
/// The scale, in multiples of the floor.
const LEAST: f64 = 0.5;
const GREATEST: f64 = 64.0;

/// Clients in the picture, with their colours: ours in the warm ones.
const CLIENTS: [(&str, &str); 7] = [
    ("blocking", "#d1495b"),
    ("tokio", "#edae49"),
    ("rust-sdk", "#30638e"),
    ("rust-sdk-session", "#7aa5d2"),
    ("typescript-sdk", "#00798c"),
    ("python-sdk", "#6a994e"),
    ("toolnexus", "#8d6a9f"),
];

pub fn svg(report: &Report) -> String {
    let works: Vec<&WorkResult> = report
        .works
        .iter()
        .filter(|work| has_ratios(work))
        .collect();
    let bottom = TOP + ROW * works.len() as f64;
    let height = bottom + 34.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\" fill=\"#222222\">time as a multiple of the \
         hand-written floor (less is better; median over rounds, bar: range)</text>\n"
    );
    legend(&mut svg, &works);
    for power in -1..=6 {
        let times = 2f64.powi(power);
        let x = x(times);
        let (width, colour) = if power == 0 {
            (1.5, "#222222")
        } else {
            (1.0, "#dddddd")
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555555\">{times}×</text>",
            bottom + 18.0,
        );
    }
    for (at, work) in works.iter().enumerate() {
        row(&mut svg, work, TOP + ROW * (at as f64 + 0.5));
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String, works: &[&WorkResult]) {
    let mut left = LEFT;
    let measured = |name: &str| works.iter().any(|work| work.client(name).is_some());
    for (name, colour) in CLIENTS.iter().filter(|(name, _)| measured(name)) {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"40\" r=\"5\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"44\" fill=\"#222222\">{name}</text>",
            left + 5.0,
            left + 14.0,
        );
        left += 34.0 + 7.0 * name.len() as f64;
    }
}

fn row(svg: &mut String, work: &WorkResult, y: f64) {
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#222222\">{}</text>",
        LEFT - 12.0,
        y + 4.0,
        work.name,
    );
    for (name, colour) in CLIENTS {
        let Some(ratio) = work.times(name, "floor") else {
            continue;
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"3\" stroke-opacity=\"0.35\"/>\
             <circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"><title>{name}: {:.2}×</title></circle>",
            x(ratio.least),
            x(ratio.greatest),
            x(ratio.median),
            ratio.median,
        );
    }
}

/// Where a multiple is; what is off the scale is at its end.
fn x(times: f64) -> f64 {
    let part = (times.clamp(LEAST, GREATEST) / LEAST).ln() / (GREATEST / LEAST).ln();
    LEFT + part * (WIDTH - LEFT - RIGHT)
}
