//! Secrets that can be told by their shape, or by the name before them.
//!
//! The patterns are few and never change, so that they are read by hand, in one pass each. Whole answers and whole
//! lines of the wire go through here: no text, however it is made, takes more time than its length. The tests compare
//! the passes with regular expressions that say the same.

use std::borrow::Cow;
use std::ops::Range;

use super::MASK;

/// Words that tokens begin with.
const PREFIXES: [&str; 20] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "AIza",
    "AKIA",
    "hf_",
    "npm_",
    "pypi-",
];
/// How many characters at least follow such a word.
const MIN_TOKEN: usize = 10;
/// How a JSON Web Token begins, and how many characters its header has at least after that.
const JWT: &str = "eyJ";
const MIN_JWT_HEADER: usize = 8;
/// HTTP authentication schemes, and how many characters of credentials follow at least.
const SCHEMES: [&str; 2] = ["bearer", "basic"];
const MIN_CREDENTIALS: usize = 8;
/// What the name of a secret value contains, in lower case, and how many characters such a value has at least.
const NAMES: [&str; 9] = [
    "apikey",
    "api_key",
    "api-key",
    "token",
    "secret",
    "password",
    "passwd",
    "credential",
    "authorization",
];
const MIN_VALUE: usize = 6;

/// Masks tokens: a word of [`PREFIXES`], a JSON Web Token, or the credentials of a scheme. What they begin with stays.
pub(super) fn mask_tokens(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut masked = Masked::new(text);
    // No JSON Web Token begins before this.
    let mut no_jwt = 0;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let begins_word = at == 0 || !is_word(bytes[at - 1]);
        let found = match bytes[at] {
            _ if !begins_word => None,
            b'e' if at >= no_jwt && rest.starts_with(JWT.as_bytes()) => {
                let found = jwt(rest);
                if found.is_none() {
                    no_jwt = at + run(rest, is_token);
                }
                found.map(|len| (JWT.len(), len))
            }
            b'b' | b'B' => credentials(rest),
            b's' | b'g' | b'x' | b'A' | b'h' | b'n' | b'p' => token(rest),
            _ => None,
        };
        match found {
            Some((kept, len)) => {
                masked.mask(at + kept..at + len);
                at += len;
            }
            None => at += 1,
        }
    }
    masked.done()
}

/// The lengths of what begins the token at the start of this text, and of the whole.
fn token(text: &[u8]) -> Option<(usize, usize)> {
    let prefix = PREFIXES
        .iter()
        .find(|prefix| text.starts_with(prefix.as_bytes()))?;
    let len = run(&text[prefix.len()..], is_token);
    (len >= MIN_TOKEN).then_some((prefix.len(), prefix.len() + len))
}

/// The length of the JSON Web Token at the start of this text. Where there is none, none begins later among the
/// characters that could have been its header.
fn jwt(text: &[u8]) -> Option<usize> {
    let header = run(text, is_token);
    if header < JWT.len() + MIN_JWT_HEADER || text.get(header) != Some(&b'.') {
        return None;
    }
    let payload = run(&text[header + 1..], is_token);
    let dot = header + 1 + payload;
    if payload == 0 || text.get(dot) != Some(&b'.') {
        return None;
    }
    Some(dot + 1 + run(&text[dot + 1..], is_token))
}

fn credentials(text: &[u8]) -> Option<(usize, usize)> {
    let kept = scheme(text)?;
    let len = run(&text[kept..], |byte| {
        byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte)
    });
    (len >= MIN_CREDENTIALS).then_some((kept, kept + len))
}

/// The length of the scheme at the start of this text, with the spaces after it.
fn scheme(text: &[u8]) -> Option<usize> {
    let name = SCHEMES.iter().find(|name| begins(text, name))?.len();
    let spaces = run(&text[name..], |byte| byte == b' ');
    (spaces > 0).then_some(name + spaces)
}

/// Masks values that are told by their names: `NAME=value`, `name: value`, `"name": "value"`.
pub(super) fn mask_named(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut masked = Masked::new(text);
    let mut at = 0;
    while at < bytes.len() {
        let name = run(&bytes[at..], is_token);
        let after = at + name;
        // Only behind such a name is there a look ahead, which may be long.
        let value = names_secret(&bytes[at..after]).then(|| value(bytes, after));
        if let Some(value) = value.flatten() {
            at = value.end;
            // A number of tokens is no token, and a masked value stays as it is.
            let word = &text[value.clone()];
            if !MASK.starts_with(word) && !is_literal(word) {
                masked.mask(value);
            }
        } else {
            at = after + 1;
        }
    }
    masked.done()
}

/// Where the value is whose name ends here.
fn value(text: &[u8], name_end: usize) -> Option<Range<usize>> {
    let skip = |at: usize, what: fn(u8) -> bool| at + run(&text[at..], what);
    let quote = |at: usize| at + usize::from(text.get(at) == Some(&b'"'));
    let at = skip(quote(name_end), is_space);
    if !matches!(text.get(at), Some(b'=' | b':')) {
        return None;
    }
    let at = skip(at + 1, is_space);
    let behind_scheme = scheme(&text[at..]).map(|len| at + len);
    // Where nothing long enough comes after the scheme, it may be the value itself.
    let starts = [behind_scheme, Some(at)].into_iter().flatten();
    let mut values = starts.map(|start| quote(start)..skip(quote(start), is_value));
    values.find(|value| {
        let characters = text[value.clone()].iter();
        // As many as bytes that do not go on with a character.
        characters.filter(|&&byte| byte & 0xC0 != 0x80).count() >= MIN_VALUE
    })
}

fn names_secret(name: &[u8]) -> bool {
    (0..name.len()).any(|at| {
        let rest = &name[at..];
        // Most letters of a text are gone past here.
        matches!(rest[0] | 0x20, b'a' | b'c' | b'p' | b's' | b't')
            && NAMES.iter().any(|word| begins(rest, word))
    })
}

fn is_literal(value: &str) -> bool {
    value.parse::<f64>().is_ok() || matches!(value, "true" | "false" | "null")
}

fn begins(text: &[u8], word: &str) -> bool {
    let start = text.get(..word.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// How many bytes at the start of this text are of a kind.
fn run(text: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    let other = text.iter().position(|&byte| !kind(byte));
    other.unwrap_or(text.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_token(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn is_value(byte: u8) -> bool {
    !is_space(byte) && !b"\"',;&}]".contains(&byte)
}

/// A text that loses parts of it.
struct Masked<'a> {
    text: &'a str,
    /// What stands for the text up to `done`.
    masked: String,
    done: usize,
}

impl<'a> Masked<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            masked: String::new(),
            done: 0,
        }
    }

    /// Puts the mask in the place of this part, which lies behind all that were masked before.
    fn mask(&mut self, part: Range<usize>) {
        self.masked.push_str(&self.text[self.done..part.start]);
        self.masked.push_str(MASK);
        self.done = part.end;
    }

    fn done(mut self) -> Cow<'a, str> {
        if self.done == 0 {
            return Cow::Borrowed(self.text);
        }
        self.masked.push_str(&self.text[self.done..]);
        Cow::Owned(self.masked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex_lite::{Captures, Regex};

    /// What the passes do, as regular expressions.
    fn by_expressions(text: &str) -> String {
        let tokens = Regex::new(concat!(
            r"\b(sk-|sk_live_|sk_test_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AIza|AKIA|hf_|npm_|pypi-)",
            r"[A-Za-z0-9_-]{10,}",
            r"|\b(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
            r"|(?i:\b((?:Bearer|Basic) +))[A-Za-z0-9._~+/=-]{8,}",
        ));
        let named = Regex::new(concat!(
            r#"(?i)([A-Za-z0-9_-]*(?:api[_-]?key|token|secret|password|passwd|credential|authorization)"#,
            r#"[A-Za-z0-9_-]*"?\s*[=:]\s*(?:Bearer +|Basic +)?"?)([^\s"',;&}\]]{6,})"#,
        ));
        let (tokens, named) = (tokens.unwrap(), named.unwrap());
        let text = tokens.replace_all(text, |found: &Captures<'_>| {
            let kept = found.iter().skip(1).flatten().next().unwrap();
            format!("{}{MASK}", kept.as_str())
        });
        let text = named.replace_all(&text, |found: &Captures<'_>| match &found[2] {
            value if MASK.starts_with(value) || is_literal(value) => found[0].to_owned(),
            _ => format!("{}{MASK}", &found[1]),
        });
        text.into_owned()
    }

    fn by_hand(text: &str) -> String {
        mask_named(&mask_tokens(text)).into_owned()
    }

    /// Texts that are made of what the patterns are about.
    fn texts() -> impl Strategy<Value = String> {
        let words = PREFIXES.iter().chain(&NAMES).chain(&SCHEMES).copied();
        let words: Vec<&'static str> = words.chain([JWT, "Bearer", "API", MASK, "true"]).collect();
        let piece = prop_oneof![
            4 => prop::sample::select(words).prop_map(str::to_owned),
            3 => "[A-Za-z0-9_-]{1,12}",
            1 => "[0-9]{1,8}",
            3 => prop::sample::select(vec![":", "=", " ", ".", "\"", "-", "_", "  ", ",", "'", "}", "&"])
                .prop_map(str::to_owned),
            1 => "[\\t\\n\u{b}\u{c}éß→\u{a0}\u{2028}]{1,3}",
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_passes_are_what_the_expressions_say(text in texts()) {
            prop_assert_eq!(by_hand(&text), by_expressions(&text));
        }

        #[test]
        fn masking_twice_changes_nothing(text in texts()) {
            let once = by_hand(&text);
            prop_assert_eq!(by_hand(&once), once);
        }
    }

    #[test]
    fn the_corners_of_the_patterns() {
        for (text, masked) in [
            ("token: Bearer ab", "token: [masked] ab"),
            ("token: Basic ab", "token: Basic ab"),
            ("token: Bearer \"abcdef\"", "token: Bearer \"[masked]\""),
            ("token=éééééé é", "token=[masked] é"),
            ("token=ééééé é", "token=ééééé é"),
            ("token = x secret=abcdef", "token = x secret=[masked]"),
            ("asecret_sk-abcdefghij", "asecret_sk-abcdefghij"),
            ("eyJabcdefgh-eyJabcdefgh.x.", "eyJ[masked]"),
            (
                "eyJabcdefgh-eyJabcdefgh.x eyJabcdefgh.x.y",
                "eyJabcdefgh-eyJabcdefgh.x eyJ[masked]",
            ),
        ] {
            assert_eq!(
                (by_hand(text).as_str(), by_expressions(text).as_str()),
                (masked, masked)
            );
        }
    }

    /// Texts that invite a pass to look at the same part again and again, which would take it minutes here.
    #[test]
    fn long_runs_of_what_begins_a_secret_are_read() {
        let parts = [
            "eyJabcdefgh-",
            "eyJabcdefgh.",
            "bearer ",
            "token ",
            "token=",
            "token:\n",
            "sk-abc-",
            "basic: ",
            " ",
            "a",
            "-",
            "=",
        ];
        for part in parts {
            for start in ["", "token", "token:", "token: Bearer", "eyJ", "sk-"] {
                let text = format!("{start}{}", part.repeat(300_000 / part.len()));
                let masked = by_hand(&text);
                assert_eq!(by_hand(&masked), masked, "{start}{part}");
            }
        }
    }
}
