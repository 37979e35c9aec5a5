//! The beginning of a new transcript.

use std::{fs, io::Write, path::Path};

/// Writes a transcript that can be read already, and says what is left to do. It overwrites nothing.
pub fn new(root: &Path, id: &str) -> Result<bool, String> {
    let path = check_id(id).map(|()| root.join("fixtures").join(format!("{id}.jsonl")))?;
    if let Some(area) = path.parent() {
        fs::create_dir_all(area).map_err(|error| format!("{}: {error}", area.display()))?;
    }
    fs::File::create_new(&path)
        .and_then(|mut file| file.write_all(scaffold(id).as_bytes()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!(
        "\
wrote fixtures/{id}.jsonl, a turn that can be played already. To make it yours:
  1. In its first line, replace the TODO of `title` by what the client does, as one sentence, and the TODO
     of `covers` by the id of the requirement that it is about; `cargo xtask spec` prints them all.
  2. Write what the agent does between the lines `want` and `reply` (spec/transcript-format.md has the
     steps), and leave what the calls return as \"$any\".
  3. cargo xtask fixtures bless {id}
     plays it, shows what the calls return and offers to write that. Is it what a client must do?
  4. In spec/requirements.toml, add \"{id}\" to the `fixtures` of that requirement.
  5. In conformance/mutants.toml, add \"{id}\" to the `caught_by` of a mutant, a client broken on purpose,
     that gets this wrong. Which do is what
     cargo xtask conformance --port rust --filter {id} --full
     prints, and an error for as long as none has it; if none does, docs/transcripts.md says how to make one.
  6. cargo xtask fixtures check
     fails until 1, 4 and 5 are done, and says what is missing.
  7. cargo xtask conformance --filter {id} --mutants --parity
     plays it on every port that is set up and on its mutants, and adds it to the parity page.
docs/transcripts.md goes through all of it with an example."
    );
    Ok(true)
}

/// Fails at the first id that is none, or of no transcript: before anything is built.
pub fn exist(root: &Path, ids: &[String]) -> Result<(), String> {
    for id in ids {
        check_id(id)?;
        let file = format!("fixtures/{id}.jsonl");
        if !root.join(&file).is_file() {
            return Err(format!(
                "there is no transcript {id}: {file} is not there; `cargo xtask conformance --list` names all"
            ));
        }
    }
    Ok(())
}

fn check_id(id: &str) -> Result<(), String> {
    let word = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && text
                .chars()
                .all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == '-')
    };
    match id.split_once('/') {
        Some((area, behaviour)) if word(area) && word(behaviour) => Ok(()),
        _ => Err(format!(
            "{id:?} is no id: it takes AREA/BEHAVIOUR, in lower case letters, digits and `-`"
        )),
    }
}

fn scaffold(id: &str) -> String {
    [
        format!(
            r#"{{"fixture":"{id}","format":1,"title":"TODO: what the client does, as one sentence","level":"must","covers":["TODO"]}}"#
        ),
        r#"{"call":"load"}"#.into(),
        r#"{"use":"ready"}"#.into(),
        r#"{"call":"generate","args":{"messages":[{"role":"user","content":"hi"}]}}"#.into(),
        r#"{"want":"session/prompt","params":{"sessionId":"s1"},"as":"p1"}"#.into(),
        r#"{"say":"hello"}"#.into(),
        r#"{"reply":"p1","result":{"stopReason":"end_turn"}}"#.into(),
        r#"{"returns":"generate","ok":"$any"}"#.into(),
        r#"{"use":"bye"}"#.into(),
        String::new(),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_an_area_and_a_behaviour() {
        for id in ["turn/one", "ids/id-0"] {
            assert_eq!(check_id(id), Ok(()), "{id}");
        }
        for id in [
            "",
            "turn",
            "turn/",
            "/one",
            "a/b/c",
            "Turn/one",
            "../x",
            "_prelude/x",
            "a/b-",
            "a/b c",
        ] {
            assert!(check_id(id).is_err(), "{id}");
        }
    }

    #[test]
    fn what_is_written_can_be_read_and_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let preludes = dir.path().join("fixtures").join("_prelude");
        fs::create_dir_all(&preludes).unwrap();
        for name in ["ready.jsonl", "bye.jsonl"] {
            let ours = Path::new("../fixtures/_prelude").join(name);
            fs::copy(ours, preludes.join(name)).unwrap();
        }
        assert_eq!(new(dir.path(), "area/behaviour"), Ok(true));
        let path = dir.path().join("fixtures/area/behaviour.jsonl");
        let fixture = acp_fake_server::Fixture::load(&path).unwrap();
        assert_eq!(fixture.id, "area/behaviour");
        assert!(new(dir.path(), "area/behaviour").is_err());
        let exist = |id: &str| exist(dir.path(), &[id.to_owned()]);
        assert_eq!(exist("area/behaviour"), Ok(()));
        for id in ["area/other", "fixtures/area/behaviour.jsonl"] {
            assert!(exist(id).is_err(), "{id}");
        }
    }
}
