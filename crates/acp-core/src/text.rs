//! Text out of JSON strings that strict decoders refuse.
//!
//! Agents written in languages with UTF-16 strings cut text between the two halves of a surrogate
//! pair, so one chunk ends in `"\ud83d"` and the next begins with `"\ude00"`. Neither is valid
//! alone, and `serde_json` refuses both. [`push_json_string`] takes such a string, joins halves over
//! chunks, and puts U+FFFD where a half stays alone.

use std::borrow::Cow;

/// The first half of a surrogate pair that ended a piece of text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HighSurrogate(Option<u16>);

impl HighSurrogate {
    /// Ends the text: a half that is still open becomes U+FFFD.
    pub(crate) fn flush(&mut self, text: &mut String) {
        if self.0.take().is_some() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }

    pub(crate) fn is_open(self) -> bool {
        self.0.is_some()
    }

    /// Appends one UTF-16 code unit.
    fn push_unit(&mut self, unit: u16, text: &mut String) {
        if let Some(high) = self.0.take() {
            if let Some(Ok(joined)) = char::decode_utf16([high, unit]).next() {
                text.push(joined);
                return;
            }
            text.push(char::REPLACEMENT_CHARACTER);
        }
        match char::decode_utf16([unit]).next() {
            Some(Ok(character)) => text.push(character),
            _ if (0xD800..0xDC00).contains(&unit) => self.0 = Some(unit),
            _ => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
}

/// Appends the value of a JSON string, given with its quotes, to `text`.
///
/// `json` has been scanned by `serde_json` before, so its escapes are complete; anything else is
/// taken literally. Returns false, and appends nothing, if `json` is no string.
pub(crate) fn push_json_string(json: &str, open: &mut HighSurrogate, text: &mut String) -> bool {
    let Some(body) = json
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    else {
        return false;
    };
    let mut rest = body;
    while !rest.is_empty() {
        let plain = rest.find('\\').unwrap_or(rest.len());
        if plain > 0 {
            open.flush(text);
            text.push_str(&rest[..plain]);
            rest = &rest[plain..];
            continue;
        }
        let mut characters = rest[1..].chars();
        let Some(escape) = characters.next() else {
            break;
        };
        rest = characters.as_str();
        if escape == 'u' {
            let Some(unit) = rest
                .get(..4)
                .and_then(|hex| u16::from_str_radix(hex, 16).ok())
            else {
                continue;
            };
            rest = &rest[4..];
            open.push_unit(unit, text);
            continue;
        }
        open.flush(text);
        text.push(match escape {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            other => other,
        });
    }
    true
}

/// JSON in which every half of a surrogate pair that stands alone is U+FFFD, for values that are read
/// whole: one broken character in a field that nobody needs must not lose the rest.
pub(crate) fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let unit_at = |at: usize| {
        let hex = json.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(hex, 16).ok()
    };
    let mut repaired = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        at += found;
        let low = |at| unit_at(at).is_some_and(|unit| (0xDC00..0xE000).contains(&unit));
        match unit_at(at) {
            Some(0xD800..0xDC00) if low(at + 6) => at += 12,
            Some(0xD800..0xE000) => {
                repaired.push_str(&json[copied..at]);
                repaired.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            Some(_) => at += 6,
            // Every other escape is two bytes, and a lone backslash at the end is no JSON anyway.
            None => at = (at + 2).min(json.len()),
        }
        while !json.is_char_boundary(at) {
            at += 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    repaired.push_str(&json[copied..]);
    Cow::Owned(repaired)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(pieces: &[&str]) -> String {
        let (mut open, mut text) = (HighSurrogate::default(), String::new());
        for piece in pieces {
            assert!(push_json_string(piece, &mut open, &mut text), "{piece}");
        }
        open.flush(&mut text);
        text
    }

    #[test]
    fn decodes_what_serde_json_decodes() {
        for value in ["", "plain", "a\"b\\c/\n\t\r\u{8}\u{c}", "é😀", "\u{1}"] {
            let json = serde_json::to_string(value).unwrap();
            assert_eq!(join(&[&json]), value);
        }
        assert_eq!(join(&[r#""\ud83d\ude00\u00e9""#]), "😀é");
    }

    #[test]
    fn halves_join_over_pieces_and_broken_ones_are_replaced() {
        assert_eq!(join(&[r#""a\ud83d""#, r#""\ude00b""#]), "a😀b");
        assert_eq!(join(&[r#""\ud83d""#, r#""x""#]), "\u{fffd}x");
        assert_eq!(join(&[r#""\ude00""#]), "\u{fffd}");
        assert_eq!(join(&[r#""\ud83d\ud83d\ude00""#]), "\u{fffd}😀");
        assert_eq!(join(&[r#""\ud83d\n""#]), "\u{fffd}\n");
    }

    #[test]
    fn lone_surrogates_are_repaired_and_everything_else_is_kept() {
        for whole in [
            r#"{"a":"\ud83d\ude00","b":"\\ud83d","c":"\n\"é"}"#,
            "",
            r"\",
            r"\é",
        ] {
            assert!(matches!(without_lone_surrogates(whole), Cow::Borrowed(same) if same == whole));
        }
        for (broken, repaired) in [
            (r#"["\ud83d"]"#, r#"["\ufffd"]"#),
            (
                r#"["\ude00x\ud83d\ud83d\ude00"]"#,
                r#"["\ufffdx\ufffd\ud83d\ude00"]"#,
            ),
            (r#"["\\\ud83dé"]"#, r#"["\\\ufffdé"]"#),
            (r#"["\u00e9\ud83d"]"#, r#"["\u00e9\ufffd"]"#),
        ] {
            assert_eq!(without_lone_surrogates(broken), repaired);
            assert!(serde_json::from_str::<serde_json::Value>(repaired).is_ok());
        }
    }

    #[test]
    fn other_values_are_no_text() {
        let (mut open, mut text) = (HighSurrogate::default(), String::new());
        for json in ["null", "42", "{}", "\""] {
            assert!(!push_json_string(json, &mut open, &mut text));
        }
        assert_eq!(text, "");
    }
}
