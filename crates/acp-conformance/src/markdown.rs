//! Words of others as Markdown that shows them as they are.

/// What means something to a reader of Markdown, wherever it stands in a line. An underscore within a word
/// does not.
const SPECIAL: &[char] = &['\\', '`', '*', '[', ']', '<', '>', '&', '|', '~', '$'];

/// Text that means nothing but itself, in a table or outside of one, as one line.
pub(crate) fn verbatim(text: &str) -> String {
    let line = one_line(text);
    let mut escaped = String::with_capacity(line.len());
    push_escaped(&mut escaped, &line);
    escaped
}

/// Prose in which code stands between backticks, and nothing else has a meaning, as one line.
pub(crate) fn prose(text: &str) -> String {
    prose_in(text, false)
}

/// [`prose`] for the cell of a table, where a `|` ends the cell even within code.
pub(crate) fn prose_in_table(text: &str) -> String {
    prose_in(text, true)
}

/// What [`verbatim`] was made of.
pub(crate) fn unescape(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown.chars();
    while let Some(each) = rest.next() {
        match each {
            '\\' => text.extend(rest.next()),
            each => text.push(each),
        }
    }
    text
}

/// The cells between the `|` of a line of a table, without the first and the last.
pub(crate) fn split_cells(inner: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, each) in inner.char_indices() {
        match each {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '|' => {
                cells.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.push(inner[start..].trim());
    cells
}

/// An address as the destination of a link, which neither ends early nor spoils a table.
pub(crate) fn address(link: &str) -> String {
    encoded(link, "")
}

/// A path as the destination of a link.
pub(crate) fn path(path: &str) -> String {
    encoded(path, "%?#")
}

fn encoded(text: &str, also: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for each in text.chars() {
        let is_kept = !each.is_whitespace()
            && !each.is_control()
            && !"\\`*[]<>()|\"'".contains(each)
            && !also.contains(each);
        if is_kept {
            encoded.push(each);
            continue;
        }
        for byte in each.encode_utf8(&mut [0; 4]).bytes() {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn prose_in(text: &str, in_table: bool) -> String {
    let line = one_line(text);
    let mut escaped = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some(start) = rest.find('`') {
        let (before, from_tick) = rest.split_at(start);
        push_escaped(&mut escaped, before);
        let fence = from_tick.len() - from_tick.trim_start_matches('`').len();
        let code = code_span(from_tick, fence);
        match code {
            // Within code a backslash is one, but one before a `|` of a table is not: there is no code that
            // shows both.
            Some(code) if in_table && code.contains("\\|") => push_escaped(&mut escaped, code),
            Some(code) if in_table => escaped.push_str(&code.replace('|', "\\|")),
            Some(code) => escaped.push_str(code),
            None => push_escaped(&mut escaped, &from_tick[..fence]),
        }
        rest = &from_tick[code.map_or(fence, str::len)..];
    }
    push_escaped(&mut escaped, rest);
    escaped
}

/// The code at the beginning of `text`, with the backticks around it: as many at its end as at its beginning.
fn code_span(text: &str, fence: usize) -> Option<&str> {
    let mut at = fence;
    loop {
        let start = at + text[at..].find('`')?;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        at = start + run;
        if run == fence {
            return Some(&text[..at]);
        }
    }
}

fn push_escaped(escaped: &mut String, text: &str) {
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(each) = rest.next() {
        let in_word = |side: Option<&char>| side.is_some_and(|side| side.is_alphanumeric());
        let is_underscore = each == '_' && !(in_word(before.as_ref()) && in_word(rest.peek()));
        if SPECIAL.contains(&each) || is_underscore {
            escaped.push('\\');
        }
        escaped.push(each);
        before = Some(each);
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_mean_nothing() {
        for (text, want) in [
            ("a | b\n  c", r"a \| b c"),
            ("[x](y) <b> &amp;", r"\[x\](y) \<b\> \&amp;"),
            (r"a\b `c` *d* ~e~ $f$", r"a\\b \`c\` \*d\* \~e\~ \$f\$"),
            ("_a_ b_c __d", r"\_a\_ b_c \_\_d"),
            (r"\|", r"\\\|"),
        ] {
            assert_eq!(verbatim(text), want);
            let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(unescape(want), one_line);
        }
    }

    #[test]
    fn code_in_prose_stays_code() {
        for (text, want, in_table) in [
            ("a | <b> `<c>`\n d", r"a \| \<b\> `<c>` d", None),
            ("`a|b` [c]", r"`a|b` \[c\]", Some(r"`a\|b` \[c\]")),
            ("``a`b`` `c*`", "``a`b`` `c*`", None),
            ("a ` b <c> `` d", r"a \` b \<c\> \`\` d", None),
            (r"`a\|b`", r"`a\|b`", Some(r"\`a\\\|b\`")),
        ] {
            assert_eq!(prose(text), want);
            assert_eq!(prose_in_table(text), in_table.unwrap_or(want));
        }
    }

    #[test]
    fn a_cell_ends_at_a_bar_that_is_not_escaped() {
        assert_eq!(split_cells(r" a \| b | c\\| d "), [r"a \| b", r"c\\", "d"]);
        assert_eq!(split_cells(""), [""]);
    }

    #[test]
    fn a_destination_does_not_end_early() {
        let link = "https://example.org/a_(b)?c=d|e#f%20";
        assert_eq!(address(link), "https://example.org/a_%28b%29?c=d%7Ce#f%20");
        assert_eq!(path("../a b/c#1_100%.jsonl"), "../a%20b/c%231_100%25.jsonl");
    }
}
