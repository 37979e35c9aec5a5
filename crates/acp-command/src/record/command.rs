//! The agent's command line, as it may be shown.

use std::ffi::OsString;
use std::sync::LazyLock;

use acp_core::Secrets;
use regex_lite::{Captures, Regex};

const MASK: &str = "[masked]";

/// A value that follows a secret flag is looked for on the wire, too, if it is as long as this and has a
/// digit: shorter ones are words, such as the way to log in.
const SHORTEST_ELSEWHERE: usize = 12;

/// The name of a flag, a variable or a header whose value is secret.
const NAME: &str = "(?:[a-z0-9]+[-_.])*\
    (?:key|pass|pat|pwd|auth|bearer|cookie|credentials?\
    |[a-z0-9]*(?:apikey|token|secret|passwd|password|passphrase|authorization))\
    (?:[-_.][a-z0-9]+)*";

/// A word after which a secret comes.
static FLAG: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("(?i)^--?{NAME}$")));

/// A secret within a word, which may be the script of a shell: what follows a flag, a variable, a header,
/// or the user in a URL.
static WITHIN: LazyLock<Regex> = LazyLock::new(|| {
    let value = r#""[^"]*"|'[^']*'|(?:Bearer|Basic) +[^\s"']+|[^\s"']+"#;
    pattern(&format!(
        r#"(?i)((?:^|[\s"'])--?{NAME}\s+|(?:^|[^a-z0-9]){NAME}\s*[=:]\s*)({value})|([a-z][a-z0-9+.-]*://)([^/\s"']+)@"#
    ))
});

/// The words of a command line without their secrets, which `secrets` knows afterwards.
pub(super) fn masked(words: &[OsString], secrets: &mut Secrets) -> Vec<String> {
    let mut follows_flag = false;
    let mut shown = Vec::new();
    for word in words {
        let word = word.to_string_lossy();
        if follows_flag {
            remember(&word, secrets);
            shown.push(MASK.to_owned());
            follows_flag = false;
            continue;
        }
        follows_flag = FLAG.is_match(&word);
        let mut found = Vec::new();
        let text = WITHIN.replace_all(&word, |it: &Captures<'_>| {
            let part = |number| it.get(number).map_or("", |part| part.as_str());
            found.push(format!("{}{}", part(2), part(4)));
            let end = if part(4).is_empty() { "" } else { "@" };
            format!("{}{}{MASK}{end}", part(1), part(3))
        });
        shown.push(secrets.mask(&text).into_owned());
        for value in found {
            // Of a user and a password, the password.
            remember(value.rsplit(':').next().unwrap_or_default(), secrets);
        }
    }
    shown
}

fn remember(value: &str, secrets: &mut Secrets) {
    let value = value.trim_matches(['"', '\'']);
    let is_path = value.starts_with('/') || value.starts_with('.');
    if value.len() >= SHORTEST_ELSEWHERE
        && value.contains(|c: char| c.is_ascii_digit())
        && !value.contains(char::is_whitespace)
        && !is_path
    {
        secrets.add(value);
    }
}

fn pattern(text: &str) -> Regex {
    #[expect(
        clippy::expect_used,
        reason = "the patterns are constants, and a test uses each"
    )]
    Regex::new(text).expect("a valid pattern")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        masked(&words, &mut Secrets::default()).join(" ")
    }

    #[test]
    fn what_follows_a_secret_flag_is_masked() {
        for flag in [
            "--api-key",
            "--apikey",
            "--api_key",
            "-key",
            "--token",
            "--github-token",
            "--authToken",
            "--password",
            "--client-secret",
            "--auth",
            "--API-KEY",
        ] {
            let want = format!("agent {flag} [masked] -v");
            assert_eq!(shown(&["agent", flag, "x y", "-v"]), want);
            assert_eq!(
                shown(&["agent", &format!("{flag}=x")]),
                format!("agent {flag}=[masked]")
            );
        }
        assert_eq!(shown(&["agent", "--token"]), "agent --token");
    }

    #[test]
    fn secrets_within_a_word_are_masked() {
        for (word, want) in [
            (
                "https://me:pw@example.com/x",
                "https://[masked]@example.com/x",
            ),
            ("--url=http://me:p@w@h", "--url=http://[masked]@h"),
            ("MY_TOKEN=x", "MY_TOKEN=[masked]"),
            (
                "exec agent --api-key x -v",
                "exec agent --api-key [masked] -v",
            ),
            ("agent --token 'a b' -v", "agent --token [masked] -v"),
            ("X-Api-Key: x", "X-Api-Key: [masked]"),
            ("Authorization: Bearer x", "Authorization: [masked]"),
            ("sk-abcdefghijklmnop", "sk-[masked]"),
        ] {
            assert_eq!(shown(&[word]), want);
        }
    }

    #[test]
    fn other_words_stay() {
        for word in [
            "--max-tokens",
            "--keymap",
            "press the key now",
            "monkey=1",
            "https://example.com/a@b",
            "git@example.com",
            "--acp",
        ] {
            assert_eq!(shown(&[word, "7"]), format!("{word} 7"));
        }
    }

    #[test]
    fn what_was_masked_is_masked_on_the_wire() {
        let mut secrets = Secrets::default();
        let words = ["--key", "correct4horse", "--auth-type", "subscription"];
        let words = words.map(OsString::from);
        masked(&words, &mut secrets);
        let log = "correct4horse, subscription";
        assert_eq!(secrets.mask(log), "[masked], subscription");
        let url = ["http://me:battery9staple@h".into()];
        masked(&url, &mut secrets);
        assert_eq!(secrets.mask("battery9staple"), MASK);
    }
}
