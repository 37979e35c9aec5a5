//! The memory of an agent that answers an old question.
//!
//! A client that sends the whole conversation each turn, to an agent that already holds it, shows the
//! agent every old question again. Agents have answered those. This one does so reliably, unless the
//! prompt names the question it is about.

/// The line that names the current question.
pub const MARKER: &str = "SUPERSEDES-ALL-PRIOR: ";

/// The question that the stale agent answers: the one named by the last marker line of the newest
/// prompt; without one, the first it remembers of those the newest prompt contains. `questions` are
/// all that it can recognise, `prompts` the texts of the session so far, the newest last.
///
/// # Errors
///
/// What the prompt names, if it is no such question, or `None` if the prompt contains none.
pub fn question<'a>(questions: &[&'a str], prompts: &[String]) -> Result<&'a str, Option<String>> {
    let newest = prompts.last().map_or("", String::as_str);
    let named = newest
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(MARKER));
    if let Some(named) = named {
        let found = questions
            .iter()
            .find(|question| **question == named.trim_end());
        return found.copied().ok_or_else(|| Some(named.to_owned()));
    }
    let mut remembered: Vec<&str> = Vec::new();
    for prompt in prompts {
        let mut fresh: Vec<(usize, &str)> = questions
            .iter()
            .filter(|question| !remembered.contains(question))
            .filter_map(|question| Some((prompt.find(question)?, *question)))
            .collect();
        fresh.sort_unstable();
        remembered.extend(fresh.into_iter().map(|(_, question)| question));
    }
    remembered
        .into_iter()
        .find(|question| newest.contains(question))
        .ok_or(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(prompts: &[&str]) -> Result<&'static str, Option<String>> {
        let prompts: Vec<String> = prompts.iter().map(|&p| p.to_owned()).collect();
        question(&["red?", "blue?", "green?"], &prompts)
    }

    #[test]
    fn without_a_marker_the_first_remembered_question_wins() {
        assert_eq!(ask(&["user: red?"]), Ok("red?"));
        assert_eq!(ask(&["user: red?", "user: red?\nuser: blue?"]), Ok("red?"));
        assert_eq!(
            ask(&["user: red?", "user: blue?"]),
            Ok("blue?"),
            "only what is in the prompt"
        );
        assert_eq!(
            ask(&["green? and red?"]),
            Ok("green?"),
            "in the order of the text"
        );
        assert_eq!(
            ask(&["blue?", "red? blue?"]),
            Ok("blue?"),
            "remembered before read"
        );
    }

    #[test]
    fn the_last_marker_names_the_question() {
        assert_eq!(
            ask(&["user: red?\nSUPERSEDES-ALL-PRIOR: blue?"]),
            Ok("blue?")
        );
        let two = "SUPERSEDES-ALL-PRIOR: blue?\nx\nSUPERSEDES-ALL-PRIOR: green?";
        assert_eq!(ask(&["red?", two]), Ok("green?"));
        assert_eq!(
            ask(&["red? SUPERSEDES-ALL-PRIOR: blue?"]),
            Ok("red?"),
            "a line of its own"
        );
        let old = "red?\nSUPERSEDES-ALL-PRIOR: blue?";
        assert_eq!(
            ask(&[old, "red? blue?"]),
            Ok("red?"),
            "the marker of an old prompt is over"
        );
    }

    #[test]
    fn a_prompt_without_a_question_has_no_answer() {
        assert_eq!(ask(&["red?", "user: hello"]), Err(None));
        assert_eq!(ask(&[]), Err(None));
        let unknown = ask(&["red?\nSUPERSEDES-ALL-PRIOR: mauve?"]);
        assert_eq!(unknown, Err(Some("mauve?".to_owned())));
    }
}
