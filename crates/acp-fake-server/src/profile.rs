//! How an agent in the field takes what the protocol does not settle, as data.
//!
//! A profile is a file in `profiles/`. `strict.toml` has every key; another profile has the keys in which
//! its agent differs. Each says of which version of the agent it was seen. See "Profiles" in
//! `docs/agents.md`.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// The files, by name. The strict one is what the others differ from.
const FILES: [(&str, &str); 8] = [
    ("strict", include_str!("profiles/strict.toml")),
    ("claude", include_str!("profiles/claude.toml")),
    ("claude-0.49", include_str!("profiles/claude-0.49.toml")),
    ("codex", include_str!("profiles/codex.toml")),
    ("gemini", include_str!("profiles/gemini.toml")),
    ("opencode", include_str!("profiles/opencode.toml")),
    ("python-sdk", include_str!("profiles/python-sdk.toml")),
    (
        "typescript-sdk",
        include_str!("profiles/typescript-sdk.toml"),
    ),
];

/// How one kind of agent takes what the protocol does not settle.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The agent and the version in which this was seen.
    pub mimics: String,
    pub(crate) input: Inputs,
    pub(crate) turn: Turns,
    pub(crate) shutdown: Shutdown,
}

impl Profile {
    /// The names of all profiles.
    #[must_use]
    pub fn names() -> [&'static str; FILES.len()] {
        FILES.map(|(name, _)| name)
    }

    /// The profile with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Profile> {
        let (_, text) = FILES.into_iter().find(|(known, _)| *known == name)?;
        // The files are part of this program, and a test reads them all.
        read(text).ok()
    }
}

impl Default for Profile {
    /// The strict agent.
    fn default() -> Profile {
        // Every player has one, and reading it takes longer than playing a short transcript.
        static STRICT: LazyLock<Profile> = LazyLock::new(|| {
            #[expect(
                clippy::unwrap_used,
                reason = "the file is part of this program, and tested"
            )]
            read(FILES[0].1).unwrap()
        });
        STRICT.clone()
    }
}

/// What becomes of each kind of input that some agent refuses.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inputs {
    /// A line that is not JSON.
    pub(crate) garbage: Reaction,
    pub(crate) empty_line: Reaction,
    pub(crate) invalid_utf8: Reaction,
    /// JSON that is neither an object nor an array.
    pub(crate) scalar: Reaction,
    pub(crate) array: Reaction,
    /// An object without `jsonrpc: "2.0"`.
    pub(crate) no_jsonrpc: Reaction,
    /// Any request before `initialize`.
    pub(crate) before_initialize: Reaction,
    /// `initialize` without an integer as `protocolVersion`.
    pub(crate) no_version: Reaction,
    /// What an unknown version is answered with.
    pub(crate) latest_version: u64,
    /// Whether an unknown version is answered with itself instead.
    pub(crate) echoes_unknown_version: bool,
    pub(crate) relative_cwd: Reaction,
    /// A `cwd` that is no directory here.
    pub(crate) missing_cwd: Reaction,
    pub(crate) no_mcp_servers: Reaction,
    /// A request for a session that was never handed out.
    pub(crate) unknown_session: Reaction,
    /// `session/set_mode` with a mode that was never offered.
    pub(crate) unknown_mode: Reaction,
    pub(crate) unknown_method: Reaction,
    /// A request whose method begins with `_`.
    pub(crate) extension: Reaction,
    pub(crate) unknown_notification: Reaction,
}

/// What an agent does with an input.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Reaction {
    /// It does what is asked, as if nothing were wrong.
    Accept,
    /// It says nothing.
    Ignore,
    /// It answers with this error.
    Refuse {
        code: i32,
        /// `{}` stands for the method, or for the session.
        message: String,
        /// Leaves out the member `id` where the input has none, in place of a null.
        #[serde(default)]
        without_id: bool,
    },
    /// It answers with this result.
    Answer {
        /// As JSON.
        #[serde(deserialize_with = "json")]
        result: Value,
    },
    /// Its process ends with this exit code.
    Exit { code: i32 },
}

/// What is peculiar about turns.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turns {
    /// What a second prompt in a busy session does.
    pub(crate) busy: Busy,
    /// The kinds of the options of a permission request, in order.
    pub(crate) options: Vec<String>,
    /// The stop reason of a turn in which the client rejected.
    pub(crate) rejected: String,
    /// The stop reason of a turn that was cancelled while a permission request was open.
    pub(crate) cancelled_asking: String,
    /// Whether the ids of the agent's requests are strings.
    pub(crate) string_ids: bool,
}

/// What a second prompt in a busy session does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Busy {
    /// It waits until the first has ended.
    Queue {
        /// What becomes of it when the first is cancelled.
        on_cancel: OnCancel,
    },
    /// It ends the first as cancelled, and runs.
    Cancel,
    /// It makes the first fail with this error, and runs.
    Fail { code: i32, message: String },
    /// Both run.
    Both,
}

/// What becomes of a prompt that waits when the turn before it is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnCancel {
    /// It runs.
    Run,
    /// It is cancelled, too.
    Cancel,
    /// It is never answered.
    Lose,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shutdown {
    /// Whether it lives on after the end of its input.
    pub(crate) outlives_eof: bool,
    /// Whether it lives on after the end of its input while a turn runs.
    pub(crate) outlives_eof_mid_turn: bool,
    pub(crate) ignores_term: bool,
    /// Whether a process of its own, in the same group, lives on after its end.
    pub(crate) leaves_a_process: bool,
}

fn json<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let text = String::deserialize(deserializer)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
}

/// Reads a profile over the strict one.
fn read(text: &str) -> Result<Profile, toml::de::Error> {
    let mut all: toml::Table = FILES[0].1.parse()?;
    for (key, value) in text.parse::<toml::Table>()? {
        match (all.get_mut(&key), value) {
            (Some(toml::Value::Table(known)), toml::Value::Table(own)) => known.extend(own),
            (_, value) => {
                all.insert(key, value);
            }
        }
    }
    all.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_profile_with_its_evidence() {
        for (name, text) in FILES {
            let profile = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!profile.mimics.is_empty(), "{name}");
            assert_eq!(Profile::named(name), Some(profile));
        }
        assert_eq!(Profile::named("nobody"), None);
        assert_eq!(Profile::default(), read(FILES[0].1).unwrap());
    }

    #[test]
    fn a_profile_has_what_it_says_and_is_strict_otherwise() {
        let profile = read("mimics = \"x\"\n[input]\narray = { do = \"exit\", code = 3 }").unwrap();
        assert_eq!(profile.input.array, Reaction::Exit { code: 3 });
        let strict = Profile::default();
        assert_eq!(profile.input.scalar, strict.input.scalar);
        assert_eq!(profile.turn, strict.turn);
    }

    #[test]
    fn unknown_keys_and_words_are_errors() {
        for text in [
            "unknown = 1",
            "[input]\nunknown = { do = \"ignore\" }",
            "[input]\narray = { do = \"ingore\" }",
            "[input]\narray = { do = \"exit\", code = 1, why = \"x\" }",
            "[input]\narray = { do = \"answer\", result = \"{\" }",
            "[turn]\nbusy = { do = \"wait\" }",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
