//! One line of the agent: a message, or something that is none.

use serde_json::Value;

use crate::mutant::{Mutant, broken};

pub enum Line {
    Message(Value),
    Blank,
    Noise(String),
}

impl Line {
    /// Reads a line. Bytes that are no UTF-8 become U+FFFD, and so do halves of characters that find no
    /// other half (see [`join_halves`]).
    pub fn read(bytes: &[u8]) -> Line {
        if broken(Mutant::CarriageReturnIsNoise) && bytes.ends_with(b"\r\n")
            || broken(Mutant::InvalidUtf8IsNoise) && str::from_utf8(bytes).is_err()
        {
            return Line::Noise(String::new());
        }
        let text = String::from_utf8_lossy(bytes);
        if broken(Mutant::ByteOrderMarkIsNoise) && text.starts_with('\u{feff}') {
            return Line::Noise(String::new());
        }
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Line::Blank;
        }
        if let Some(message) = object(text) {
            return Line::Message(message);
        }
        // A log line that lacks its line feed stands in front of a message: the message counts.
        let starts = text.match_indices('{').map(|(at, _)| at);
        let glued = starts
            .filter(|at| *at > 0 && !broken(Mutant::GluedNoiseLosesMessage))
            .filter_map(|at| object(&text[at..]))
            .find(|message| message.get("jsonrpc").is_some());
        glued.map_or_else(|| Line::Noise(text.to_owned()), Line::Message)
    }
}

/// Puts halves of characters together that came in different pieces of text, and U+FFFD for others.
///
/// Agents that hold text in UTF-16 cut it inside a surrogate pair. JSON can write such a half, but a
/// Rust string cannot hold it, so [`Line::read`] puts one of the last 2048 private characters for it.
/// Text that really holds those would be misread, which this small client puts up with.
pub fn join_halves(text: &str) -> String {
    let mut units = Vec::new();
    for character in text.chars() {
        match u32::from(character)
            .checked_sub(FIRST_PRIVATE)
            .map(u16::try_from)
        {
            Some(Ok(half)) => units.push(FIRST_HALF + half),
            _ => units.extend_from_slice(character.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16_lossy(&units)
}

const FIRST_HALF: u16 = 0xD800;
const FIRST_PRIVATE: u32 = 0x10_F800;

fn object(text: &str) -> Option<Value> {
    let read = |text: &str| match serde_json::from_str(text) {
        Ok(message @ Value::Object(_)) => Some(message),
        _ => None,
    };
    if !text.starts_with('{') {
        return None;
    }
    read(text).or_else(|| {
        let repaired = broken(Mutant::LoneHalfIsNoise).then(|| text.to_owned());
        read(&repaired.unwrap_or_else(|| without_lone_halves(text)))
    })
}

/// The JSON `text` with a private character for each escape of half a character that stands alone.
fn without_lone_halves(text: &str) -> String {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let mut repaired = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        repaired.push_str(before);
        let low = escape.get(6..).and_then(unit);
        let length = match unit(escape) {
            Some(0xD800..0xDC00) if matches!(low, Some(0xDC00..0xE000)) => 12,
            Some(half @ 0xD800..0xE000) => {
                let private = char::from_u32(FIRST_PRIVATE + u32::from(half - FIRST_HALF))
                    .filter(|_| !broken(Mutant::HalvesNotJoined));
                repaired.push(private.unwrap_or(char::REPLACEMENT_CHARACTER));
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            None => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        repaired.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    repaired.push_str(rest);
    repaired
}
