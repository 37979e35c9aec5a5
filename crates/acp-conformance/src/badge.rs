//! A badge for each port: an SVG image, and the JSON that badge services take.

use serde_json::json;

use crate::parity::Counts;

/// What the left half of every badge says.
const LABEL: &str = "ACP parity";

/// The parts of a badge that depend on the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Badge {
    port: String,
    message: String,
    color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Color {
    /// Everything passes that applies.
    Green,
    /// What fails is known.
    Amber,
    /// Something fails that is not known, or nothing was shown.
    Red,
}

impl Badge {
    /// The badge of a port with these results.
    pub fn new(port: &str, counts: &Counts) -> Badge {
        let mut parts = vec![format!("{} pass", counts.count("pass"))];
        if counts.count("known") > 0 {
            parts.push(format!("{} known", counts.count("known")));
        }
        if counts.red() > 0 {
            parts.push(format!("{} red", counts.red()));
        }
        let color = if counts.red() > 0 || counts.count("pass") == 0 {
            Color::Red
        } else if counts.count("known") > 0 {
            Color::Amber
        } else {
            Color::Green
        };
        Badge {
            port: port.to_owned(),
            message: parts.join(" · "),
            color,
        }
    }

    /// The files of the badge: their names, and what is in them.
    pub fn files(&self) -> [(String, String); 2] {
        [
            (format!("{}.svg", self.port), self.svg()),
            (format!("{}.json", self.port), self.endpoint()),
        ]
    }

    /// The image.
    pub fn svg(&self) -> String {
        let (left, right) = (width(LABEL), width(&self.message));
        let total = left + right;
        let title = format!("{LABEL} of {}: {}", self.port, self.message);
        let title = title
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;");
        // `textLength` makes the text fit, whatever font there is.
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" aria-label="{title}">
<title>{title}</title>
<clipPath id="r"><rect width="{total}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="20" fill="#444c56"/>
<rect x="{left}" width="{right}" height="20" fill="{fill}"/>
</g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{left_middle}" y="14" textLength="{left_text}">{LABEL}</text>
<text x="{right_middle}" y="14" textLength="{right_text}">{message}</text>
</g>
</svg>
"##,
            fill = self.color.hex(),
            left_middle = left / 2,
            left_text = left - PADDING,
            right_middle = left + right / 2,
            right_text = right - PADDING,
            message = self.message,
        )
    }

    /// The JSON of an endpoint, in the shape that shields.io has made common.
    pub fn endpoint(&self) -> String {
        let endpoint = json!({
            "schemaVersion": 1,
            "label": LABEL,
            "message": self.message,
            "color": self.color.hex(),
        });
        format!("{endpoint:#}\n")
    }
}

impl Color {
    /// Dark enough for white text on it.
    fn hex(self) -> &'static str {
        match self {
            Color::Green => "#1a7f37",
            Color::Amber => "#9a6700",
            Color::Red => "#cf222e",
        }
    }
}

/// On both sides of a text together, in pixels.
const PADDING: usize = 12;

/// The width of half a badge, in pixels, with the mean width of a character in the font.
fn width(text: &str) -> usize {
    text.chars().count() * 13 / 2 + PADDING
}

#[cfg(test)]
mod tests {
    use super::*;

    fn badge(words: &[(&'static str, usize)]) -> Badge {
        let words = words.iter();
        let words = words.flat_map(|(word, count)| std::iter::repeat_n(*word, *count));
        Badge::new("python", &Counts::of(words))
    }

    #[test]
    fn the_colour_follows_the_worst() {
        let cases: [(&[_], _, _); 5] = [
            (&[("pass", 2), ("n/a", 9)], "2 pass", Color::Green),
            (
                &[("pass", 198), ("known", 18)],
                "198 pass · 18 known",
                Color::Amber,
            ),
            (
                &[("pass", 3), ("known", 1), ("fail", 1), ("timeout", 1)],
                "3 pass · 1 known · 2 red",
                Color::Red,
            ),
            (&[("pass", 3), ("broken", 1)], "3 pass · 1 red", Color::Red),
            (&[("n/a", 3)], "0 pass", Color::Red),
        ];
        for (words, message, color) in cases {
            let badge = badge(words);
            assert_eq!((badge.message.as_str(), badge.color), (message, color));
        }
    }

    #[test]
    fn both_files_say_the_same() {
        let [(svg_name, svg), (json_name, json)] = badge(&[("pass", 1), ("known", 1)]).files();
        assert_eq!(
            (svg_name.as_str(), json_name.as_str()),
            ("python.svg", "python.json")
        );
        assert!(svg.contains(">1 pass · 1 known</text>"), "{svg}");
        assert!(
            svg.contains("<title>ACP parity of python: 1 pass · 1 known</title>"),
            "{svg}"
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["message"], "1 pass · 1 known");
        assert_eq!(json["color"], "#9a6700");
    }
}
