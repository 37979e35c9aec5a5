//! What the options of the command line are read into.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use acp_core::{ConfigValue, PermissionPolicy, StatePolicy};
use clap::ValueEnum;
use clap::builder::PossibleValue;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Permission {
    /// The first option that allows, in the agent's order, which may allow for good.
    FirstAllow,
    /// Allow once, where that is offered.
    #[default]
    AllowOnce,
    /// Reject.
    Reject,
}

impl From<Permission> for PermissionPolicy {
    fn from(permission: Permission) -> Self {
        match permission {
            Permission::FirstAllow => Self::FirstAllow,
            Permission::AllowOnce => Self::AllowOnce,
            Permission::Reject => Self::Reject,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum State {
    /// All of it, into the same session, which piles up a copy for each turn.
    #[value(alias = "full_request")]
    FullRequest,
    /// All of it, into a session that was never used.
    #[value(alias = "fresh_session")]
    FreshSession,
    /// What is new, where the session holds exactly the rest; otherwise as fresh-session.
    #[default]
    #[value(alias = "verified_delta")]
    VerifiedDelta,
}

impl From<State> for StatePolicy {
    fn from(state: State) -> Self {
        match state {
            State::FullRequest => Self::FullRequest,
            State::FreshSession => Self::FreshSession,
            State::VerifiedDelta => Self::VerifiedDelta,
        }
    }
}

impl State {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FullRequest => "full-request",
            Self::FreshSession => "fresh-session",
            Self::VerifiedDelta => "verified-delta",
        }
    }
}

/// Which state policies are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchState {
    One(State),
    All,
}

impl ValueEnum for BenchState {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self::One(State::FullRequest),
                Self::One(State::FreshSession),
                Self::One(State::VerifiedDelta),
                Self::All,
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::One(state) => state.to_possible_value(),
            Self::All => Some(PossibleValue::new("all").help("All of these")),
        }
    }
}

/// The size of a prompt, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.char_indices().last() {
            Some((end, 'K' | 'k')) => (&text[..end], 1 << 10),
            Some((end, 'M' | 'm')) => (&text[..end], 1 << 20),
            _ => (text, 1),
        };
        let size: Option<usize> = digits.parse().ok();
        // A line of more than 64 MiB is not read by this library, nor by much else.
        match size.and_then(|size| size.checked_mul(unit)) {
            Some(size @ 1..=0x400_0000) => Ok(Self(size)),
            _ => Err("write it as 17, 12K or 1M, of 64M at most".to_owned()),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            size if size.is_multiple_of(1 << 20) => write!(f, "{} MiB", size >> 20),
            size if size.is_multiple_of(1 << 10) => write!(f, "{} KiB", size >> 10),
            size => write!(f, "{size} bytes"),
        }
    }
}

/// A configuration option and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) id: String,
    pub(crate) value: ConfigValue,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, value) = match text.split_once('=') {
            Some((id, value)) if !id.is_empty() && !value.is_empty() => (id, value),
            _ => return Err("write it as ID=VALUE; `acp inspect` lists the options".to_owned()),
        };
        let quoted = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let value = match (quoted, value) {
            (Some(text), _) => text.into(),
            (None, "true") => true.into(),
            (None, "false") => false.into(),
            (None, text) => text.into(),
        };
        Ok(Self {
            id: id.to_owned(),
            value,
        })
    }
}

/// A time limit; `None` is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<Duration>);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        match humantime::parse_duration(text) {
            // 0 is off wherever ACP clients take times as numbers.
            Ok(Duration::ZERO) => Ok(Self(None)),
            Ok(limit) => Ok(Self(Some(limit))),
            Err(error) => Err(format!("{error}; write it as 500ms, 30s, 5m or off")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_units() {
        let seconds = |n| Ok(Limit(Some(Duration::from_secs(n))));
        assert_eq!("90s".parse(), seconds(90));
        assert_eq!("1m 30s".parse(), seconds(90));
        assert_eq!("500ms".parse(), Ok(Limit(Some(Duration::from_millis(500)))));
        assert_eq!("off".parse(), Ok(Limit(None)));
        assert_eq!("0s".parse(), Ok(Limit(None)));
        for wrong in ["", "30", "-1s", "soon"] {
            let error = wrong.parse::<Limit>().unwrap_err();
            assert!(error.contains("30s"), "{error}");
        }
    }

    #[test]
    fn sizes_are_read_and_shown_in_binary_units() {
        for (text, size, shown) in [
            ("17", 17, "17 bytes"),
            ("12K", 12 << 10, "12 KiB"),
            ("1m", 1 << 20, "1 MiB"),
            ("64M", 64 << 20, "64 MiB"),
        ] {
            assert_eq!(text.parse(), Ok(Size(size)));
            assert_eq!(Size(size).to_string(), shown);
        }
        for wrong in [
            "",
            "0",
            "K",
            "-1",
            "1G",
            "65M",
            "99999999999999999999M",
            "1µ",
        ] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_text_but_for_true_and_false() {
        for (text, id, value) in [
            ("model=a=b", "model", ConfigValue::from("a=b")),
            ("fast=true", "fast", true.into()),
            ("fast=false", "fast", false.into()),
            ("fast=\"true\"", "fast", "true".into()),
            ("fast=True", "fast", "True".into()),
            ("q=\"", "q", "\"".into()),
        ] {
            let id = id.to_owned();
            assert_eq!(text.parse(), Ok(Setting { id, value }), "{text}");
        }
        for wrong in ["", "model", "=x", "model="] {
            let error = wrong.parse::<Setting>().unwrap_err();
            assert!(error.contains("ID=VALUE"), "{error}");
        }
    }
}
