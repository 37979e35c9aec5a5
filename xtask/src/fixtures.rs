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
wrote fixtures/{id}.jsonl, which passes as it is; now
  1. say in its title what the client does, and in `covers` which requirement that is
  2. write its steps (spec/transcript-format.md); what the calls return may stay \"$any\"
  3. cargo xtask fixtures bless {id}
     fills in what they return, after showing it: is it what it should be?
  4. name it at its requirement in spec/requirements.toml, and under a mutant in conformance/mutants.toml
     that it fails, or a new one
  5. cargo xtask fixtures check
  6. cargo xtask conformance --filter {id} --mutants
docs/transcripts.md goes through all of it with an example"
    );
    Ok(true)
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
    }
}
