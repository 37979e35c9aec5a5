//! One line of the agent: a message, or something that is none.

use serde_json::Value;

use crate::mutant::{Mutant, broken};

pub enum Line {
    Message(Message),
    Blank,
    Noise(String),
}

#[derive(Clone)]
pub struct Message {
    pub value: Value,
    /// Its JSON.
    pub text: String,
    /// Whether its line holds nothing else.
    pub is_alone: bool,
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
        if let Some(value) = object(text) {
            return Line::Message(Message {
                value,
                text: text.to_owned(),
                is_alone: true,
            });
        }
        // A log line that lacks its line feed stands in front of a message: the message counts.
        let starts = text.match_indices('{').map(|(at, _)| at);
        let glued = starts
            .filter(|at| *at > 0 && !broken(Mutant::GluedNoiseLosesMessage))
            .filter_map(|at| Some((at, object(&text[at..])?)))
            .find(|(_, value)| value.get("jsonrpc").is_some());
        match glued {
            // What is in the log of an agent that logs what it reads came from us.
            Some((_, value)) if is_ours(&value) && !broken(Mutant::OwnLineIsAnswered) => {
                Line::Noise(text.to_owned())
            }
            Some((at, value)) => Line::Message(Message {
                value,
                text: text[at..].to_owned(),
                is_alone: false,
            }),
            None => Line::Noise(text.to_owned()),
        }
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

/// Whether this is a message that only a client sends.
fn is_ours(message: &Value) -> bool {
    let method = message["method"].as_str().unwrap_or_default();
    match method.strip_prefix("session/") {
        Some(rest) => rest != "update" && rest != "request_permission",
        None => method == "initialize" || method == "authenticate",
    }
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
