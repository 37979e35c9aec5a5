//! `spec/transcript.schema.json`, which editors complete by, against the reader of transcripts.

#![expect(clippy::unwrap_used, reason = "these are tests, and their helpers")]

use std::fs;
use std::path::{Path, PathBuf};

use acp_fake_server::Fixture;
use acp_fake_server::fixture::discover;
use jsonschema::Validator;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> Validator {
    let text = fs::read_to_string(root().join("spec/transcript.schema.json")).unwrap();
    jsonschema::draft202012::new(&serde_json::from_str(&text).unwrap()).unwrap()
}

const HEADER: &str = r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":["X-1"]}"#;

/// Whether the reader takes this line, as a step before which everything has been bound.
fn is_read(line: &str) -> bool {
    let line = line.to_owned();
    let before = [
        r#"{"call":"load"}"#,
        r#"{"call":"generate","args":{"messages":[]},"as":"g"}"#,
        r#"{"want":"initialize","as":"r"}"#,
        r#"{"ask":"x","as":"a"}"#,
    ];
    let text = if line.contains("\"fixture\"") {
        line
    } else {
        format!("{HEADER}\n{}\n{line}\n", before.join("\n"))
    };
    match Fixture::parse(Path::new("a/b.jsonl"), &text, &mut |_| None) {
        Ok(_) => true,
        // The calls need no end here.
        Err(fault) => fault.message.contains("never returns"),
    }
}

#[test]
fn every_line_of_every_transcript_is_valid() {
    let schema = schema();
    let mut files = discover(&root().join("fixtures")).unwrap();
    let preludes = fs::read_dir(root().join("fixtures/_prelude")).unwrap();
    files.extend(preludes.map(|entry| entry.unwrap().path()));
    assert!(files.len() > 200, "{}", files.len());
    let mut faults = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (line, number) in text.lines().zip(1..) {
            let value: Value = serde_json::from_str(line).unwrap();
            if let Err(fault) = schema.validate(&value) {
                faults.push(format!("{}:{number}: {fault}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_the_reader_takes_the_schema_allows() {
    let schema = schema();
    for line in [
        HEADER,
        r#"{"call":"load","args":{"mode":"x","state":"x"},"as":"l"}"#,
        r#"{"call":"cancel","args":{"call":"g"}}"#,
        r#"{"returns":"g","ok":{},"err":{}}"#,
        r#"{"want_reply":"a","error":{}}"#,
        r#"{"reply":"r","result":null}"#,
        r#"{"reply":"r","result":1,"error":2,"invalid":"both"}"#,
        r#"{"reply":"r","result":1,"id_as_string":true}"#,
        r#"{"reply":"r","result":1,"id":7}"#,
        r#"{"say":["a","b"],"kind":"agent_thought_chunk","session":"s2","message_id":null}"#,
        r#"{"ask_permission":["allow_once",{"optionId":"x"}],"tool":{}}"#,
        r#"{"split":{"tell":"x"},"every":3}"#,
        r#"{"batch":[{"say":"a"},{"update":{}}]}"#,
        r#"{"raw":"\u00ff\n","times":2}"#,
        r#"{"exit":255}"#,
        r#"{"signal":"SIGKILL"}"#,
        r#"{"any_order":[{"want_eof":true},{"returns":"g","ok":"$any"}]}"#,
        r#"{"choose":"r","cases":[{"when":{"a":1},"steps":[{"fence":true}]},{"steps":[]}]}"#,
        r#"{"stale":"r","answers":{"q":"a"}}"#,
        r#"{"delay_ms":5,"note":"why"}"#,
        r#"{"note":"n"}"#,
        r#"{"linger":"eof"}"#,
    ] {
        assert!(is_read(line), "{line}");
        let value = serde_json::from_str(line).unwrap();
        assert!(schema.is_valid(&value), "{line}");
    }
}

#[test]
fn what_the_reader_refuses_the_schema_refuses() {
    let schema = schema();
    for line in [
        r#"{"fixture":"a/b","format":2,"title":"t","level":"must","covers":["X-1"]}"#,
        r#"{"fixture":"a/b","format":1,"title":"t","level":"may","covers":["X-1"]}"#,
        r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":[]}"#,
        r#"{"fixture":"A","format":1,"title":"t","level":"must","covers":["X-1"]}"#,
        r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":["X-1"],"by":"me"}"#,
        r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":["X-1"],"source":"x"}"#,
        r#"{}"#,
        r#"{"shout":"x"}"#,
        r#"{"call":"fly"}"#,
        r#"{"call":"load","args":{"speed":1}}"#,
        r#"{"call":"load","args":{"mode":1}}"#,
        r#"{"call":"load","args":[]}"#,
        r#"{"call":"lane"}"#,
        r#"{"call":"generate","args":{}}"#,
        r#"{"returns":"g"}"#,
        r#"{"returns":1,"ok":{}}"#,
        r#"{"want":"x","parms":{}}"#,
        r#"{"want_eof":false}"#,
        r#"{"reply":"r"}"#,
        r#"{"reply":"r","result":1,"error":2}"#,
        r#"{"reply":"r","result":1,"id":7,"id_as_string":true}"#,
        r#"{"say":[]}"#,
        r#"{"say":1}"#,
        r#"{"say":"a","kind":"plan"}"#,
        r#"{"say":"a","tell":"b"}"#,
        r#"{"split":{"fence":true},"every":3}"#,
        r#"{"split":{"tell":"x"}}"#,
        r#"{"split":{"tell":"x"},"every":0}"#,
        r#"{"batch":[]}"#,
        r#"{"raw":"\u0100"}"#,
        r#"{"exit":256}"#,
        r#"{"signal":"SIGUSR1"}"#,
        r#"{"linger":"for ever"}"#,
        r#"{"any_order":[{"say":"a"}]}"#,
        r#"{"choose":"r","cases":[]}"#,
        r#"{"delay_ms":5}"#,
        r#"{"delay_ms":600001,"note":"n"}"#,
        r#"{"fence":1}"#,
    ] {
        assert!(!is_read(line), "the reader takes {line}");
        let value = serde_json::from_str(line).unwrap();
        assert!(!schema.is_valid(&value), "the schema takes {line}");
    }
}
