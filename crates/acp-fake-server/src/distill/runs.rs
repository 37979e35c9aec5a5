//! What is to be hidden and was written in several chunks.

use std::collections::BTreeMap;

use super::clean::Cleaner;
use super::process::Process;
use super::wire::{Message, session_of};

/// No token of any agent is as short as to split a path or a secret into more chunks.
const LONGEST_RUN: usize = 64;

/// Moves what `cleaner` hides, but only in one piece, into the first of the chunks that it was split
/// over. Agents write a path in as many chunks as it has tokens.
pub(super) fn join(process: &mut Process, cleaner: &Cleaner) {
    let mut runs: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    let mut done = Vec::new();
    for (index, read) in process.reads.iter().enumerate() {
        if read.is_prompt() {
            done.extend(std::mem::take(&mut runs).into_values());
        }
        if let Message::Notification {
            params: Some(params),
            ..
        } = &read.message
        {
            let update = &params["update"];
            let kind = update["sessionUpdate"].as_str().unwrap_or_default();
            if crate::fixture::CHUNKS.contains(&kind) && update["content"]["text"].is_string() {
                let session = session_of(params).unwrap_or_default();
                let key = (session.to_owned(), kind.to_owned());
                runs.entry(key).or_default().push(index);
            }
        }
    }
    done.extend(runs.into_values());
    for run in done {
        let texts: Vec<String> = run.iter().map(|index| text_of(process, *index)).collect();
        let joined = joined(&texts, cleaner);
        for (index, text) in run.into_iter().zip(joined) {
            if let Message::Notification {
                params: Some(params),
                ..
            } = &mut process.reads[index].message
            {
                params["update"]["content"]["text"] = text.into();
            }
        }
    }
}

fn text_of(process: &Process, index: usize) -> String {
    match &process.reads[index].message {
        Message::Notification {
            params: Some(params),
            ..
        } => {
            let text = params["update"]["content"]["text"].as_str();
            text.unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

fn joined(texts: &[String], cleaner: &Cleaner) -> Vec<String> {
    let mut texts = texts.to_vec();
    let mut alone: Vec<String> = texts.iter().map(|text| cleaner.masked(text)).collect();
    // Whether something in these is hidden only when they are one.
    let is_split =
        |texts: &[String], alone: &[String]| cleaner.masked(&texts.concat()) != alone.concat();
    if !is_split(&texts, &alone) {
        return texts;
    }
    let mut last = 1;
    while last < texts.len() {
        let earliest = last.saturating_sub(LONGEST_RUN);
        let split_from = |first: &usize| is_split(&texts[*first..=last], &alone[*first..=last]);
        let first = Some(earliest).filter(split_from);
        let first = first.and_then(|_| (earliest..last).rev().find(split_from));
        let Some(first) = first else {
            last += 1;
            continue;
        };
        // Half a token may look like a whole one.
        while last + 1 < texts.len() {
            let head = texts[first..=last].concat();
            let both = format!("{}{}", cleaner.masked(&head), alone[last + 1]);
            if cleaner.masked(&(head + &texts[last + 1])) == both {
                break;
            }
            last += 1;
        }
        // And the beginning of a word like a word.
        if is_split(&texts[first..=last], &alone[first..=last]) {
            texts[first] = cleaner.masked(&texts[first..=last].concat());
            alone[first].clone_from(&texts[first]);
            texts[first + 1..=last].fill(String::new());
            alone[first + 1..=last].fill(String::new());
        }
        last += 1;
    }
    if is_split(&texts, &alone) {
        texts[0] = cleaner.masked(&texts.concat());
        texts[1..].fill(String::new());
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_split_is_hidden_in_its_first_chunk() {
        let mut cleaner = Cleaner::default();
        cleaner.hide(&crate::recording::Directories {
            cwd: Some("/srv/job".to_owned()),
            ..Default::default()
        });
        for (texts, want) in [
            (
                vec!["in ", "/srv", "/job", "/a", " now"],
                vec!["in ", "/project", "", "/a", " now"],
            ),
            (
                vec!["/s", "rv/j", "o", "b", "s"],
                vec!["/s", "rv/j", "o", "b", "s"],
            ),
            (vec!["/srv/job", "/x"], vec!["/srv/job", "/x"]),
            (
                vec!["sk", "-ab", "cdefghij", "klm", "nop", " end"],
                vec!["sk-[masked]", "", "", "", "", " end"],
            ),
            (vec!["plain", " text"], vec!["plain", " text"]),
        ] {
            let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            let joined = joined(&texts, &cleaner);
            assert_eq!(joined, want);
        }
    }
}
