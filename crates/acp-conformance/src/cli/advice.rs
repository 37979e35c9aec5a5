//! What to type next, in the words of who asked: `cargo xtask` runs this program for a developer of the
//! project, who need not know that.

use std::{env, path::Path};

use acp_conformance::port::Unavailable;

/// Set by `cargo xtask`, with its name.
const ASKED_BY: &str = "ACP_CONFORMANCE_ASKED_BY";

/// What is to be done about a port that cannot be run. `want` is what the user called it, and `ports` where
/// it was looked for by name.
pub fn make_available(why: &Unavailable, want: &str, ports: &Path) -> String {
    match why {
        Unavailable::Missing(programs) => {
            let those = if programs.len() == 1 { "it" } else { "them" };
            format!("install {} or put {those} in PATH", programs.join(", "))
        }
        Unavailable::NotSetUp | Unavailable::Outdated => {
            format!("`{}` fetches what it needs", set_up(want, ports))
        }
    }
}

/// What is to be done about ports that were skipped, if there is anything.
pub fn skipped<'a>(why: impl IntoIterator<Item = &'a Unavailable>, ports: &Path) -> Option<String> {
    let can_be_set_up = |why: &Unavailable| !matches!(why, Unavailable::Missing(_));
    why.into_iter()
        .any(can_be_set_up)
        .then(|| format!("`{}` sets up what was skipped", set_up("all", ports)))
}

/// What brings the parity page and the badges up to date.
pub fn renew() -> &'static str {
    match asked_by_xtask() {
        true => "`cargo xtask conformance --parity` renews it",
        false => "--parity FILE --badges DIR renew it",
    }
}

fn set_up(want: &str, ports: &Path) -> String {
    let is_elsewhere =
        !Path::new(want).join("port.toml").is_file() && ports != Path::new(super::flags::PORTS);
    let want = quoted(want);
    if asked_by_xtask() {
        return format!("cargo xtask conformance --setup {want}");
    }
    match is_elsewhere {
        true => {
            let ports = quoted(&ports.to_string_lossy());
            format!("acp-conformance setup {want} --ports {ports}")
        }
        false => format!("acp-conformance setup {want}"),
    }
}

fn asked_by_xtask() -> bool {
    env::var_os(ASKED_BY).is_some()
}

/// The word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |each: char| each.is_alphanumeric() || "-_./~+:@%".contains(each);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_can_be_pasted() {
        assert_eq!(quoted("./acp-port"), "./acp-port");
        assert_eq!(quoted("my port"), "'my port'");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }
}
