//! Secrets: by the name of what holds them, by their shape, or because they were seen elsewhere.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};
use serde_json::{Map, Value};

use super::pattern;

pub(super) const MASK: &str = "[masked]";

/// A secret that was seen is looked for everywhere, if it is as long as this and has a digit: others
/// may be words.
const SHORTEST_KNOWN: usize = 8;
/// A `token` may be many things; one that is shorter is no secret.
const SHORTEST_TOKEN: usize = 6;
/// As a number, the digits of a secret.
const SHORTEST_NUMBER: usize = 8;

/// Tokens that can be told by their shape; what is kept of them says what they were.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"\b(?:(sk-|sk_live_|sk_test_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AIza|AKIA|hf_|npm_|pypi-)",
        r"[A-Za-z0-9_-]{10,}",
        r"|(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
        r"|((?i:Bearer|Basic) +)[A-Za-z0-9._~+/=-]{8,})",
    ))
});

/// Values whose name says in a text that they are secret: `NAME=value`, `name: value`, `--name value`.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let name = r"[A-Za-z0-9_.-]*(?:api[_-]?key|access[_-]?key|token|secret|passwd|password|passphrase|credentials?|authorization)";
    let prefix = format!(
        r#"(?:[^\sA-Za-z0-9]?{name}[A-Za-z0-9_-]*\\*"?\s*[=:]\s*(?:(?:Bearer|Basic) +)?\\*["']?|(?:^|[\s"'])--?{name}\s+["']?)"#
    );
    pattern(&format!(r#"(?i)({prefix})([^\s"',;&}}\]\\]{{6,}})"#))
});

/// A flag on a command line that a secret follows.
static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?i)^--?(?:[a-z0-9]+[-_.])*(?:key|pass|pat|pwd|auth|bearer|cookie|credentials?",
        r"|[a-z0-9]*(?:apikey|token|secret|passwd|password|passphrase|authorization))$",
    ))
});

/// The user and the password in a URL.
static USER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"([A-Za-z][A-Za-z0-9+.-]*:\\*/\\*/)[^/\s"'\\@]*:[^/\s"'\\]*@"#));

/// Names of members whose text is secret.
static MEMBER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?i)(?:(?:api|access|private|secret)[_-]?key|secret|password|passwd|passphrase|credentials?",
        r"|authorization|cookie|[a-z_-]token)$",
    ))
});

/// Names of variables and headers whose value is secret.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)key|token|secret|passw|passphrase|credential|authorization|cookie")
});

/// Members that tell of a secret, and not the secret.
const ABOUT: [&str; 8] = [
    "description",
    "kind",
    "label",
    "protocol",
    "provider",
    "scheme",
    "title",
    "type",
];

/// How much of a value is secret.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Secrecy {
    None,
    /// What variables and headers are set to.
    Values,
    All,
}

/// The secrets that were seen.
#[derive(Debug, Default)]
pub(in crate::distill) struct Secrets {
    /// The longest first.
    known: Vec<String>,
}

impl Secrets {
    /// Takes note of every secret in a value.
    pub(in crate::distill) fn learn(&mut self, value: &Value) {
        let mut found = Vec::new();
        hidden(value, Secrecy::None, &mut found);
        texts(value, &mut |text| {
            let named = NAMED.captures_iter(text);
            found.extend(named.map(|it| it[2].to_owned()));
        });
        for secret in found {
            let is_random = secret.chars().any(|c| c.is_ascii_digit())
                && !secret.contains(char::is_whitespace)
                && secret.parse::<f64>().is_err();
            if secret.len() >= SHORTEST_KNOWN && is_random && !self.known.contains(&secret) {
                self.known.push(secret);
            }
        }
        self.known
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Text without secrets.
    pub(in crate::distill) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.known {
            text = text.replace(secret, MASK);
        }
        let keep = |found: &Captures<'_>| {
            let prefix = found.iter().skip(1).flatten().next();
            format!("{}{MASK}", prefix.map_or("", |prefix| prefix.as_str()))
        };
        let text = TOKEN.replace_all(&text, keep);
        let text = USER.replace_all(&text, |found: &Captures<'_>| {
            format!("{}{MASK}@", &found[1])
        });
        let text = NAMED.replace_all(&text, |found: &Captures<'_>| match &found[2] {
            // A number of tokens is no token, and a masked value stays as it is.
            value if MASK.starts_with(value) || value.contains("[masked") || is_literal(value) => {
                found[0].to_owned()
            }
            _ => format!("{}{MASK}", &found[1]),
        });
        text.into_owned()
    }

    /// Whether a text still shows one.
    pub(in crate::distill) fn are_in(&self, text: &str) -> bool {
        TOKEN.is_match(text) || self.known.iter().any(|secret| text.contains(secret))
    }
}

/// A value without what its structure marks as secret.
pub(in crate::distill) fn without_secrets(value: &Value) -> Value {
    hidden(value, Secrecy::None, &mut Vec::new())
}

fn hidden(value: &Value, secrecy: Secrecy, found: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) if secrecy != Secrecy::None => {
            if secrecy == Secrecy::All && text != MASK {
                found.push(text.clone());
            }
            MASK.into()
        }
        Value::Number(number)
            if secrecy == Secrecy::All && number.to_string().len() >= SHORTEST_NUMBER =>
        {
            0.into()
        }
        Value::Array(items) => {
            let mut follows = false;
            let items = items.iter().map(|item| {
                let secrecy = if follows { Secrecy::All } else { secrecy };
                follows = item.as_str().is_some_and(|word| FLAG.is_match(word)) && !follows;
                hidden(item, secrecy, found)
            });
            items.collect()
        }
        Value::Object(members) => {
            let is_set = is_secret_variable(members);
            let members = members.iter().map(|(key, value)| {
                let secrecy = of_member(key, value, secrecy, is_set);
                (key.clone(), hidden(value, secrecy, found))
            });
            Value::Object(members.collect())
        }
        scalar => scalar.clone(),
    }
}

/// Whether an object sets a variable or a header that is secret.
fn is_secret_variable(members: &Map<String, Value>) -> bool {
    let name = ["name", "key"].iter().find_map(|key| members.get(*key));
    let name = name.and_then(Value::as_str);
    members.contains_key("value") && name.is_some_and(|name| VARIABLE.is_match(name))
}

fn of_member(key: &str, value: &Value, outer: Secrecy, is_set: bool) -> Secrecy {
    let is_secret = MEMBER.is_match(key)
        || (is_set && key == "value")
        || (key.eq_ignore_ascii_case("token")
            && value
                .as_str()
                .is_none_or(|text| text.len() >= SHORTEST_TOKEN));
    match (key, outer) {
        (_, Secrecy::All) if ABOUT.contains(&key) => Secrecy::None,
        (_, Secrecy::All) => Secrecy::All,
        _ if is_secret => Secrecy::All,
        ("name" | "key" | "type", Secrecy::Values) => Secrecy::None,
        (_, Secrecy::Values) if VARIABLE.is_match(key) => Secrecy::All,
        (_, Secrecy::Values) => Secrecy::Values,
        ("env" | "headers", _) => Secrecy::Values,
        _ => Secrecy::None,
    }
}

fn texts(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, each)),
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            each(key);
            texts(value, each);
        }),
        _ => {}
    }
}

fn is_literal(value: &str) -> bool {
    value.parse::<f64>().is_ok() || matches!(value, "true" | "false" | "null" | "string")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_in_text_are_told_by_shape_and_by_name() {
        let secrets = Secrets::default();
        for (text, want) in [
            ("key sk-ant-REDACTED", "key sk-[masked]"),
            ("Bearer abcdefgh12", "Bearer [masked]"),
            ("eyJhbGciOiJI.eyJzdWIi.x", "eyJ[masked]"),
            ("X_TOKEN=abcdef x", "X_TOKEN=[masked] x"),
            ("agent --api-key abcdef -v", "agent --api-key [masked] -v"),
            (r#"{"apiKey":"abcdef"}"#, r#"{"apiKey":"[masked]"}"#),
            (r#"{\"apiKey\":\"abcdef\"}"#, r#"{\"apiKey\":\"[masked]\"}"#),
            (
                "Authorization: Bearer abcdef",
                "Authorization: Bearer [masked]",
            ),
            ("https://me:pw@host/x", "https://[masked]@host/x"),
            ("https:\\/\\/me:p@w@host", "https:\\/\\/[masked]@host"),
            ("https://host/a@b", "https://host/a@b"),
            ("inputTokens: 1234567", "inputTokens: 1234567"),
            ("the token is gone", "the token is gone"),
        ] {
            assert_eq!(secrets.masked(text), want);
            assert_eq!(secrets.masked(want), want, "twice changes nothing");
            assert!(!secrets.are_in(want), "{want}");
        }
    }

    #[test]
    fn secrets_are_told_by_where_they_stand() {
        for (value, want) in [
            (json!({"apiKey": "abc"}), json!({"apiKey": MASK})),
            (
                json!({"access_token": "abc"}),
                json!({"access_token": MASK}),
            ),
            (json!({"token": "t"}), json!({"token": "t"})),
            (json!({"token": "abcdef"}), json!({"token": MASK})),
            (json!({"inputTokens": 3}), json!({"inputTokens": 3})),
            (json!({"password": 12_345_678}), json!({"password": 0})),
            (
                json!({"authorization": {"type": "bearer", "value": ["x"]}}),
                json!({"authorization": {"type": "bearer", "value": [MASK]}}),
            ),
            (
                json!({"api-key": {"provider": "google"}}),
                json!({"api-key": {"provider": "google"}}),
            ),
            (
                json!({"env": [{"name": "X_TOKEN", "value": "x"}, {"name": "A", "value": "y"}]}),
                json!({"env": [{"name": "X_TOKEN", "value": MASK}, {"name": "A", "value": MASK}]}),
            ),
            (
                json!({"headers": {"X-Key": "x", "Accept": "y"}}),
                json!({"headers": {"X-Key": MASK, "Accept": MASK}}),
            ),
            (
                json!([{"name": "MY_KEY", "value": "x"}, {"name": "size", "value": "x"}]),
                json!([{"name": "MY_KEY", "value": MASK}, {"name": "size", "value": "x"}]),
            ),
            (
                json!({"args": ["--token", "x", "--max-tokens", "y", "-key", "--key"]}),
                json!({"args": ["--token", MASK, "--max-tokens", "y", "-key", MASK]}),
            ),
            (
                json!({"vars": [{"name": "MY_KEY"}]}),
                json!({"vars": [{"name": "MY_KEY"}]}),
            ),
        ] {
            assert_eq!(without_secrets(&value), want);
        }
    }

    #[test]
    fn what_was_secret_once_is_secret_everywhere() {
        let mut secrets = Secrets::default();
        secrets.learn(&json!({"env": [{"name": "A_KEY", "value": "hunter22x"}]}));
        secrets.learn(&json!({"password": "required", "x": "MY_SECRET=battery9staple"}));
        let text = "required hunter22x battery9staple";
        assert!(secrets.are_in(text));
        assert_eq!(secrets.masked(text), "required [masked] [masked]");
    }
}
