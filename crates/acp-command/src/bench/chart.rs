//! The numbers as a chart, an SVG file: for each size a bar of what a cold start is made of, and one for
//! each kind of warm turn, on a scale of its own.

use std::fmt::Write as _;
use std::time::Duration;

use super::measure::{Measured, Sized};
use super::samples::Samples;
use super::{conclusion, table};
use crate::terminal::human;

const WIDTH: usize = 860;
/// Where bars begin, and how wide the longest is.
const LEFT: f64 = 210.0;
const SCALE: f64 = 520.0;
const ROW: usize = 26;

const INITIALIZE: &str = "#b45309";
const SESSION: &str = "#f59e0b";
const PROMPT: &str = "#2563eb";
const DEMO: &str = "#9ca3af";

pub(super) fn draw(measured: &Measured) -> String {
    let mut body = String::new();
    let mut y = 78;
    for (i, sized) in measured.agent.sizes.iter().enumerate() {
        y = panel(&mut body, y, sized, measured.demo.sizes.get(i));
    }
    let height = y + 30;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    let about = conclusion::draw(measured).unwrap_or_default();
    // Writing to a string does not fail.
    let _ = writeln!(svg, "<desc>{}</desc>", escape(&about));
    let _ = writeln!(
        svg,
        "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"
    );
    let title = format!("{}: cold starts and warm turns", table::name(measured));
    label(&mut svg, 16.0, 28, "start", "font-size=\"17\"", &title);
    let mut x = 16.0;
    for (colour, text) in [
        (INITIALIZE, "initialize"),
        (SESSION, "session/new"),
        (PROMPT, "the prompt"),
        (DEMO, "the demo agent, which does nothing"),
    ] {
        rect(&mut svg, x, 42, 12.0, 12, colour);
        label(&mut svg, x + 18.0, 53, "start", "", text);
        x += 120.0;
    }
    svg.push_str(&body);
    let note = "Medians, with a line to the p90. What a warm session saves is the agent's own start-up; \
                ACP makes no agent faster.";
    label(
        &mut svg,
        16.0,
        height - 12,
        "start",
        "fill=\"#4b5563\"",
        note,
    );
    svg.push_str("</svg>\n");
    svg
}

/// The bars for one size; returns where the next panel begins.
fn panel(svg: &mut String, top: usize, sized: &Sized, demo: Option<&Sized>) -> usize {
    let heading = format!("prompts of {}", sized.size);
    label(
        svg,
        16.0,
        top + 14,
        "start",
        "font-weight=\"bold\"",
        &heading,
    );
    let cold = &sized.cold;
    let parts = [
        (&cold.initialize, INITIALIZE),
        (&cold.session, SESSION),
        (&cold.turn, PROMPT),
    ];
    let mut bars = vec![Bar {
        label: "cold".to_owned(),
        whole: &cold.answer,
        parts: parts.to_vec(),
    }];
    for warm in &sized.warm {
        bars.push(Bar {
            label: format!("warm, {}", warm.state.name()),
            whole: &warm.turn,
            parts: vec![(&warm.turn, PROMPT)],
        });
    }
    if let Some(demo) = demo {
        bars.push(Bar {
            label: "demo agent, cold".to_owned(),
            whole: &demo.cold.answer,
            parts: vec![(&demo.cold.answer, DEMO)],
        });
        for warm in &demo.warm {
            bars.push(Bar {
                label: format!("demo agent, {}", warm.state.name()),
                whole: &warm.turn,
                parts: vec![(&warm.turn, DEMO)],
            });
        }
    }
    let longest = bars.iter().filter_map(|bar| Some(bar.whole.spread()?.p90));
    let longest = longest.max().unwrap_or_default();
    let mut y = top + 22;
    for bar in bars {
        bar.draw(svg, y, longest);
        y += ROW;
    }
    y + 16
}

struct Bar<'a> {
    label: String,
    whole: &'a Samples,
    parts: Vec<(&'a Samples, &'static str)>,
}

impl Bar<'_> {
    fn draw(&self, svg: &mut String, y: usize, longest: Duration) {
        label(svg, LEFT - 10.0, y + 14, "end", "", &self.label);
        let Some(whole) = self.whole.spread() else {
            label(svg, LEFT, y + 14, "start", "", "not measured");
            return;
        };
        let mut x = LEFT;
        for (samples, colour) in &self.parts {
            let width = width_of(samples.median().unwrap_or_default(), longest);
            rect(svg, x, y, width, 18, colour);
            x += width;
        }
        let end = LEFT + width_of(whole.p90, longest);
        let middle = y + 9;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {middle}H{end:.1}M{end:.1} {y}v18\" stroke=\"#111827\"/>"
        );
        let text = human(whole.median);
        label(svg, x.max(end) + 8.0, y + 14, "start", "", &text);
    }
}

fn width_of(time: Duration, longest: Duration) -> f64 {
    let longest = longest.as_secs_f64();
    if longest > 0.0 {
        time.as_secs_f64() / longest * SCALE
    } else {
        0.0
    }
}

fn rect(svg: &mut String, x: f64, y: usize, width: f64, height: usize, colour: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{colour}\"/>"
    );
}

fn label(svg: &mut String, x: f64, y: usize, anchor: &str, more: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\" {more}>{text}</text>"
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::measured;

    #[test]
    fn a_cold_bar_is_made_of_its_parts() {
        let svg = draw(&measured());
        let width = |colour: &str| -> f64 {
            let line = svg.lines().find(|line| {
                line.starts_with("<rect") && line.contains(colour) && line.contains("height=\"18\"")
            });
            let rest = line.unwrap().split_once("width=\"").unwrap().1;
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        assert!((width(INITIALIZE) - SCALE * 2000.0 / 2240.0).abs() < 0.1);
        assert!((width(SESSION) - SCALE * 40.0 / 2240.0).abs() < 0.1);
        assert!((width(PROMPT) - SCALE * 200.0 / 2240.0).abs() < 0.1);
    }

    #[test]
    fn whatever_an_agent_is_called_is_text() {
        let mut measured = measured();
        measured.agent.implementation = Some(acp_core::Implementation::new("<a> & b", "1"));
        let svg = draw(&measured);
        assert!(svg.contains("&lt;a&gt; &amp; b 1: cold starts"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_a_chart_without_bars() {
        let svg = draw(&Measured::default());
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("height=\"18\""));
    }
}
