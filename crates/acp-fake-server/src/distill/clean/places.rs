//! Where a recording was made, and by whom: directories in whatever spelling, and the user's name.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex, escape};

use super::pattern;

/// Between two names of a path: as it is, escaped in JSON, or percent-encoded.
const SEPARATOR: &str = r"(?:\\*/|\\+|%2[Ff]|%5[Cc])";

/// Users with these names are everybody's, and these are also words of the protocol and of its agents.
const ORDINARY: [&str; 38] = [
    "acp",
    "admin",
    "agent",
    "app",
    "build",
    "builder",
    "chat",
    "client",
    "code",
    "codespace",
    "content",
    "debian",
    "dev",
    "developer",
    "docker",
    "guest",
    "home",
    "host",
    "initialize",
    "job",
    "main",
    "message",
    "mode",
    "model",
    "node",
    "nobody",
    "project",
    "prompt",
    "root",
    "runner",
    "server",
    "session",
    "text",
    "tool",
    "ubuntu",
    "user",
    "vscode",
    "work",
];
const SHORTEST_USER: usize = 3;

/// Home directories, and the directories for temporary files on macOS, of whoever it is.
static WELL_KNOWN: LazyLock<[(Regex, &'static str); 2]> = LazyLock::new(|| {
    let name = r#"[^/\\\s"':%]+"#;
    [
        (
            pattern(&format!("({SEPARATOR})(?:home|Users){SEPARATOR}{name}")),
            "/home/user",
        ),
        (
            pattern(&format!(
                r"(?:{SEPARATOR}private)?({SEPARATOR})var{SEPARATOR}folders{SEPARATOR}{name}{SEPARATOR}{name}{SEPARATOR}T\b"
            )),
            "/tmp",
        ),
    ]
});

/// What may stand before the path of a directory at the root and end in a letter or a digit: a flag, an
/// escape or an encoded character.
static BEFORE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:(?:^|[^A-Za-z0-9])--?[A-Za-z]+|\\[bfnrt]|%[0-9A-Fa-f]{2})$"));

/// What is known of the places of a recording.
#[derive(Debug, Default)]
pub(in crate::distill) struct Places {
    /// The longest first.
    places: Vec<Place>,
    users: Vec<String>,
}

#[derive(Debug)]
struct Place {
    path: String,
    /// Group 1 is what its names begin with, group 2 the first separator.
    pattern: Regex,
    /// One name alone can be part of any path.
    is_specific: bool,
    name: String,
}

impl Places {
    /// From now on this directory has a neutral name.
    pub(in crate::distill) fn hide(&mut self, path: &str, name: &str) {
        let path = path.trim_end_matches(['/', '\\']);
        let is_known = self.places.iter().any(|place| place.path == path);
        if !crate::pattern::is_absolute(path) || path == name || is_known {
            return;
        }
        let mut names: Vec<&str> = path
            .split(['/', '\\'])
            .filter(|it| !it.is_empty())
            .collect();
        let drive = match names.first() {
            Some(first) if first.len() == 2 && first.ends_with(':') => {
                Some(names.remove(0).trim_end_matches(':'))
            }
            _ => None,
        };
        let Some((first, others)) = names.split_first() else {
            return;
        };
        let mut text = match drive {
            // Windows does not care for the case.
            Some(drive) => format!("(?i)({drive}(?::|%3A))"),
            // On macOS these are links to the same in another directory.
            None if ["tmp", "var"].contains(first) => format!("(?:{SEPARATOR}private)?()"),
            None => "()".to_owned(),
        };
        text += &format!("({SEPARATOR})");
        text += &spelled(first);
        for other in others {
            text += SEPARATOR;
            text += &spelled(other);
        }
        self.places.push(Place {
            path: path.to_owned(),
            pattern: pattern(&text),
            is_specific: !others.is_empty() || drive.is_some(),
            name: name.to_owned(),
        });
        self.places
            .sort_by_key(|place| std::cmp::Reverse(place.path.len()));
    }

    /// From now on whose home directory this is has no name.
    pub(in crate::distill) fn hide_user(&mut self, home: &str) {
        let name = home.rsplit(['/', '\\']).find(|it| !it.is_empty());
        let name = name.unwrap_or_default();
        let is_ordinary = ORDINARY.contains(&&*name.to_ascii_lowercase());
        if name.chars().count() >= SHORTEST_USER
            && !is_ordinary
            && !self.users.iter().any(|it| it == name)
        {
            self.users.push(name.to_owned());
        }
    }

    /// Text without places and users.
    pub(in crate::distill) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for place in &self.places {
            text = place.masked(&text);
        }
        for (place, name) in WELL_KNOWN.iter() {
            let by = |found: &Captures<'_>| name.replace('/', &found[1]);
            text = place.replace_all(&text, by).into_owned();
        }
        for user in &self.users {
            text = replace_word(&text, user, "user");
        }
        text
    }

    /// What of all this a text still shows.
    pub(in crate::distill) fn shown(&self, text: &str) -> Option<String> {
        let place = self.places.iter().find(|place| place.masked(text) != text);
        let place = place.map(|place| format!("the directory {}", place.path));
        place.or_else(|| {
            let user = self
                .users
                .iter()
                .find(|user| replace_word(text, user, "") != text);
            user.map(|user| format!("the user's name {user}"))
        })
    }
}

impl Place {
    fn masked(&self, text: &str) -> String {
        let mut masked = String::new();
        let mut done = 0;
        let mut at = 0;
        while let Some(found) = self.pattern.captures_at(text, at) {
            let (Some(whole), Some(start), Some(separator)) =
                (found.get(0), found.get(1), found.get(2))
            else {
                break;
            };
            // A path that only begins like it is another one.
            let ends = !text[whole.end()..].starts_with(char::is_alphanumeric);
            if ends && (self.is_specific || begins(&text[..whole.start()])) {
                masked += &text[done..whole.start()];
                masked += start.as_str();
                masked += &self.name.replace('/', separator.as_str());
                done = whole.end();
                at = done;
            } else {
                // A separator is ASCII.
                at = whole.start() + 1;
            }
        }
        masked + &text[done..]
    }
}

/// Whether a path can begin after this text.
fn begins(before: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    !before.ends_with(is_part) || BEFORE.is_match(before)
}

/// A pattern of a name in every spelling.
fn spelled(name: &str) -> String {
    let mut text = String::new();
    let mut bytes = [0; 4];
    let mut units = [0; 2];
    for c in name.chars() {
        let literal = escape(c.encode_utf8(&mut bytes));
        if c.is_ascii_alphanumeric() || "-_.~".contains(c) {
            text += &literal;
            continue;
        }
        let encoded = c.encode_utf8(&mut bytes).bytes();
        let encoded: String = encoded.map(|byte| format!("%{byte:02X}")).collect();
        let units = c.encode_utf16(&mut units).iter();
        let escaped: String = units.map(|unit| format!(r"\\+u{unit:04x}")).collect();
        text += &format!("(?:{literal}|(?i:{encoded}|{escaped}))");
    }
    text
}

/// Replaces `word` where it is not part of a longer word.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(word).filter(|_| !word.is_empty()) {
        let (before, found) = rest.split_at(start);
        let after = &found[word.len()..];
        // The escapes of JSON begin with a letter.
        let is_inside = before.ends_with(char::is_alphanumeric) && !BEFORE.is_match(before);
        let is_whole = !is_inside && !after.starts_with(char::is_alphanumeric);
        replaced += before;
        replaced += if is_whole { by } else { word };
        rest = after;
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let mut places = Places::default();
        places.hide("/home/me/p", "/project");
        places.hide("/home/me", "/home/user");
        places.hide("/srv/the job", "/project");
        places.hide("/scratch/", "/tmp");
        places.hide("/var/x/T", "/tmp");
        places.hide(r"C:\Users\Me\Büro", "/project");
        places.hide("/tmp", "/tmp");
        places.hide("/", "/project");
        places.hide("relative/x", "/project");
        places
    }

    #[test]
    fn places_are_neutral_in_every_spelling() {
        let places = places();
        for (text, want) in [
            ("/home/me/p/a.txt", "/project/a.txt"),
            ("/home/me/p", "/project"),
            ("/home/me/pq", "/home/user/pq"),
            ("/home/me/p-old", "/project-old"),
            ("/home/other/x", "/home/user/x"),
            ("/Users/me/x", "/home/user/x"),
            ("/scratch/1", "/tmp/1"),
            ("a/scratch/1", "a/scratch/1"),
            ("-I/scratch/1", "-I/tmp/1"),
            ("-isystem/scratch/1", "-isystem/tmp/1"),
            (r"log:\n/scratch/1", r"log:\n/tmp/1"),
            ("file%3A%2F%2F%2Fscratch%2F1", "file%3A%2F%2F%2Ftmp%2F1"),
            ("-I/home/me/p/x", "-I/project/x"),
            (r"\/home\/me\/p\/x", r"\/project\/x"),
            (r"\\/home\\/me\\/p", r"\\/project"),
            ("%2Fhome%2fme%2Fp%2Fx", "%2Fproject%2Fx"),
            ("/srv/the job/x", "/project/x"),
            ("/srv/the%20job/x", "/project/x"),
            ("%2Fsrv%2Fthe%20job", "%2Fproject"),
            (r"C:\Users\Me\Büro\x", r"C:\project\x"),
            (r"c:\\users\\me\\büro\\x", r"c:\\project\\x"),
            (r"C:\\Users\\Me\\B\u00fcro", r"C:\\project"),
            ("file:///C:/Users/Me/B%C3%BCro/x", "file:///C:/project/x"),
            ("C%3A%5CUsers%5CMe%5CB%C3%BCro", "C%3A%5Cproject"),
            (r"D:\Users\Other\x", r"D:\home\user\x"),
            (r"\/Users\/other\/x", r"\/home\/user\/x"),
            ("/private/var/folders/ab/c_d/T/x", "/tmp/x"),
            ("/private/var/x/T/y /var/x/T", "/tmp/y /tmp"),
        ] {
            let masked = places.masked(text);
            assert_eq!(masked, want);
            assert_eq!(places.masked(&masked), want, "twice changes nothing");
            assert_eq!(places.shown(want), None);
        }
        assert_eq!(
            places.shown("x/srv/the job"),
            Some("the directory /srv/the job".to_owned())
        );
    }

    #[test]
    fn a_user_has_no_name() {
        let mut places = Places::default();
        places.hide_user("/home/jdoe");
        places.hide_user("/root");
        places.hide_user("/x/ab");
        places.hide_user(r"C:\Users\Ännchen");
        for (text, want) in [
            ("jdoe@host", "user@host"),
            ("the-jdoe_x", "the-user_x"),
            (r"by:\njdoe", r"by:\nuser"),
            ("jdoes root ab", "jdoes root ab"),
            ("ännchen Ännchen", "ännchen user"),
        ] {
            assert_eq!(places.masked(text), want);
        }
        assert_eq!(
            places.shown("hi jdoe"),
            Some("the user's name jdoe".to_owned())
        );
    }
}
