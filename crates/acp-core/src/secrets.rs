//! Secrets, and how they are kept out of what people read: traces, and the messages of errors.
//!
//! What goes over the wire is never touched.

mod shape;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

/// What stands where a secret was.
const MASK: &str = "[masked]";
/// Shorter values are no secrets, and masking them would eat ordinary words.
const MIN_SECRET: usize = 6;
const MIN_INHERITED_SECRET: usize = 12;

/// The secrets that a host knows of, besides those that can be told by their shape or their name.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    /// Adds a secret. Values of fewer than six characters are left alone.
    pub fn add(&mut self, value: impl Into<String>) {
        let value = value.into();
        if value.len() >= MIN_SECRET && !self.values.contains(&value) {
            // A secret may contain another one; the longer is masked first.
            let longer = |other: &String| other.len() >= value.len();
            let place = self.values.partition_point(longer);
            self.values.insert(place, value);
        }
    }

    /// Adds the values of this process's environment variables whose names say that they are secret.
    pub fn add_environment(&mut self) {
        for (name, value) in std::env::vars_os() {
            // Short values of inherited variables are words, such as the name of a keyboard.
            if is_secret_name(&name.to_string_lossy()) && value.len() >= MIN_INHERITED_SECRET {
                self.add(value.to_string_lossy());
            }
        }
    }

    /// Text without its secrets.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for value in &self.values {
            if text.contains(value) {
                text = Cow::Owned(text.replace(value, MASK));
            }
        }
        for pass in [shape::mask_tokens, shape::mask_named] {
            if let Cow::Owned(masked) = pass(&text) {
                text = Cow::Owned(masked);
            }
        }
        text
    }

    /// One line of the wire without its secrets: also the values of environment variables and of headers,
    /// and whatever goes with a login.
    pub fn mask_line<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let Ok(mut message) = serde_json::from_str::<Value>(line) else {
            return self.mask(line);
        };
        let login = message["method"] == "authenticate";
        let mut masked = false;
        for member in ["params", "result"] {
            if let Some(value) = message.get_mut(member) {
                masked |= mask_members(value, login);
            }
        }
        // A secret may stand in the line in another spelling than its own.
        if line.contains('\\') {
            let plain = self.mask_value(message.clone());
            masked |= plain != message;
            message = plain;
        }
        if !masked {
            return self.mask(line);
        }
        Cow::Owned(self.mask(&message.to_string()).into_owned())
    }

    /// A value without its secrets.
    pub(crate) fn mask_value(&self, mut value: Value) -> Value {
        self.mask_in(&mut value);
        value
    }

    fn mask_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_in(item)),
            Value::Object(members) => members.values_mut().for_each(|value| self.mask_in(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.values.len())
    }
}

/// Whether the name of a variable says that its value is secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    const WORDS: [&[u8]; 6] = [
        b"KEY",
        b"TOKEN",
        b"SECRET",
        b"PASSWORD",
        b"PASSWD",
        b"CREDENTIAL",
    ];
    // Every variable of the environment is looked at for every agent that is started.
    let name = name.as_bytes();
    (0..name.len()).any(|at| {
        let rest = &name[at..];
        let begins = |word: &&[u8]| {
            rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word)
        };
        WORDS.iter().any(begins)
    })
}

/// Masks what the structure of a message marks as secret; whether there was anything.
fn mask_members(value: &mut Value, all: bool) -> bool {
    let mut masked = false;
    match value {
        Value::Array(items) => {
            for item in items {
                masked |= mask_members(item, all);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let secret = all || matches!(&**name, "env" | "headers");
                match value {
                    Value::String(text) if all && name != "methodId" && name != "name" => {
                        MASK.clone_into(text);
                        masked = true;
                    }
                    _ => masked |= mask_members(value, secret),
                }
            }
        }
        _ => {}
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mask(text: &str) -> String {
        Secrets::default().mask(text).into_owned()
    }

    #[test]
    fn tokens_are_told_by_their_shape() {
        for (text, masked) in [
            (
                "401 invalid key sk-ant-REDACTED!",
                "401 invalid key sk-[masked]!",
            ),
            ("ghp_abcdefghijklmnop", "ghp_[masked]"),
            (
                "Authorization: Bearer abc.def-ghi12",
                "Authorization: Bearer [masked]",
            ),
            ("x eyJhbGciOiJI.eyJzdWIiOi.sig_1 y", "x eyJ[masked] y"),
            ("key AIzaSyA1234567890abcdef", "key AIza[masked]"),
        ] {
            assert_eq!(mask(text), masked);
            assert_eq!(mask(masked), masked, "masking twice changes nothing");
        }
    }

    #[test]
    fn any_json_on_a_line_is_masked() {
        let mut secrets = Secrets::default();
        secrets.add("correct\"horse/é");
        for line in [
            "42",
            "true",
            "null",
            "\"x\"",
            "[1]",
            "[{}]",
            "{}",
            r#"{"params":7}"#,
        ] {
            assert_eq!(secrets.mask_line(line), line);
        }
        for line in [
            r#"{"params":{"a":"correct\"horse/é"}}"#,
            r#"{"params":{"a":"correct\"horse\/\u00e9"}}"#,
            r#"{"result":{"a":["correct\"horse/\u00e9"]}}"#,
            r#"["correct\"horse/é"]"#,
            r#"{"result":{"env":[{"name":"N","value":"v"}]}}"#,
        ] {
            let masked = secrets.mask_line(line);
            assert!(
                masked.contains("[masked]") && !masked.contains("horse"),
                "{masked}"
            );
        }
    }

    #[test]
    fn every_pattern_masks() {
        for prefix in [
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
            "Bearer ",
            "bASIC ",
        ] {
            let masked = mask(&format!("a {prefix}abcdefghijkl"));
            assert_eq!(masked, format!("a {prefix}[masked]"));
        }
        for name in [
            "apikey",
            "API-KEY",
            "api_key",
            "aToken",
            "SECRET",
            "password",
            "PASSWD",
            "credentials",
            "Authorization",
        ] {
            assert_eq!(mask(&format!("{name}=abcdef")), format!("{name}=[masked]"));
        }
    }

    #[test]
    fn values_are_told_by_their_name() {
        for (text, masked) in [
            (
                "OPENAI_API_KEY=abcdef123 next",
                "OPENAI_API_KEY=[masked] next",
            ),
            (r#"{"apiKey": "abcdef123"}"#, r#"{"apiKey": "[masked]"}"#),
            ("password: hunter22", "password: [masked]"),
            ("client_secret='x'", "client_secret='x'"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "the task is done",
            "sk-8",
            r#"{"inputTokens":1234567,"outputTokens":7654321}"#,
            "ask-me-anything-you-like",
            "tokens: 1234567",
        ] {
            assert!(
                matches!(Secrets::default().mask(text), Cow::Borrowed(_)) || mask(text) == text
            );
            assert_eq!(mask(text), text);
        }
    }

    #[test]
    fn what_the_host_knows_is_masked_anywhere() {
        let mut secrets = Secrets::default();
        secrets.add("hunter2-hunter2");
        secrets.add("hunter2-hunter2-longer");
        secrets.add("a");
        assert_eq!(
            secrets.mask("a hunter2-hunter2-longer hunter2-hunter2"),
            "a [masked] [masked]"
        );
        assert_eq!(format!("{secrets:?}"), "2 secrets");
    }

    #[test]
    fn lines_lose_the_values_of_variables_headers_and_logins() {
        let secrets = Secrets::default();
        let line = json!({"method": "session/new", "params": {"cwd": "/w", "mcpServers": [
            {"name": "m", "command": "c", "env": [{"name": "A", "value": "plain"}]},
            {"name": "h", "headers": [{"name": "X", "value": "plain"}]},
        ]}})
        .to_string();
        let masked = secrets.mask_line(&line);
        assert!(
            !masked.contains("plain") && masked.contains("\"/w\""),
            "{masked}"
        );
        let login =
            json!({"method": "authenticate", "params": {"methodId": "m", "_meta": {"k": "plain"}}})
                .to_string();
        let masked = secrets.mask_line(&login);
        assert!(
            !masked.contains("plain") && masked.contains("\"methodId\":\"m\""),
            "{masked}"
        );
        let other = r#"{"method":"session/prompt","params":{"sessionId":"s1"}}"#;
        assert_eq!(secrets.mask_line(other), other);
        assert_eq!(
            secrets.mask_line("log: token=abcdef"),
            "log: token=[masked]"
        );
    }
}
