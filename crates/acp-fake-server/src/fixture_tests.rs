use std::fs;

use super::*;

const HEADER: &str = r#"{"fixture":"a/b","format":1,"title":"t","level":"must","covers":["X-1"]}"#;

fn parse(steps: &[&str]) -> Result<Fixture, FixtureError> {
    let mut text = HEADER.to_owned();
    for step in steps {
        text.push('\n');
        text.push_str(step);
    }
    Fixture::parse(Path::new("a/b.jsonl"), &text, &mut |_| None)
}

/// The place and the message of the fault in `steps`, which begin on line 2.
#[track_caller]
fn fault(steps: &[&str]) -> String {
    parse(steps).unwrap_err().to_string()
}

#[test]
fn a_header_is_read_with_its_defaults() {
    let fixture = parse(&[]).unwrap();
    assert_eq!(fixture.id, "a/b");
    assert_eq!(fixture.level, Level::Must);
    assert_eq!(fixture.covers, ["X-1"]);
    assert_eq!(
        (fixture.source.as_str(), fixture.about),
        ("hand-written", None)
    );
    assert!(fixture.needs.is_empty() && fixture.steps.is_empty());

    let text = r#"{"fixture":"a/b-2","format":1,"title":"t","level":"should","covers":["X","Y"],"needs":["lanes"],"source":"recorded gemini 1","about":"more"}"#;
    let fixture = Fixture::parse(Path::new("x"), text, &mut |_| None).unwrap();
    assert_eq!(
        (fixture.level, fixture.needs),
        (Level::Should, vec!["lanes".to_owned()])
    );
    assert_eq!(
        (fixture.source.as_str(), fixture.about.as_deref()),
        ("recorded gemini 1", Some("more"))
    );
}

#[test]
fn a_wrong_header_is_a_fault_of_line_1() {
    for (from, to, message) in [
        (r#""a/b""#, r#""a""#, "is not AREA/BEHAVIOUR"),
        (r#""a/b""#, r#""a/B""#, "is not AREA/BEHAVIOUR"),
        (r#""a/b""#, r#""a/b/c""#, "is not AREA/BEHAVIOUR"),
        (r#""format":1"#, r#""format":2"#, "\"format\" must be 1"),
        (r#""title":"t","#, "", "needs the key \"title\""),
        (r#""must""#, r#""may""#, "not \"must\" or \"should\""),
        (r#"["X-1"]"#, "[]", "names no requirement"),
        (r#"["X-1"]"#, "[1]", "must be a list of strings"),
        (r#""title""#, r#""source":"guessed","title""#, "is none of"),
        (
            r#""title""#,
            r#""titel":"t","title""#,
            "unknown key \"titel\" in the header",
        ),
    ] {
        let text = HEADER.replace(from, to);
        let error = Fixture::parse(Path::new("a/b.jsonl"), &text, &mut |_| None).unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.starts_with("a/b.jsonl:1: ") && shown.contains(message),
            "{shown}"
        );
    }
}

#[test]
fn a_line_that_is_no_step_is_a_fault_of_that_line() {
    for (step, message) in [
        ("", "blank line"),
        ("[]", "a line is a JSON object"),
        ("{", "not JSON"),
        ("{}", "no verb among the keys []"),
        (r#"{"wnat":"x"}"#, r#"no verb among the keys ["wnat"]"#),
        (r#"{"say":"a","tell":"b"}"#, "two verbs in one step"),
        (r#"{"note":"a","extra":1}"#, "unknown key \"extra\" in note"),
        (r#"{"note":1}"#, "\"note\" must be a string"),
        (r#"{"use":"nope"}"#, "there is no prelude \"nope\""),
        (r#"{"call":"lod"}"#, "unknown operation \"lod\""),
        (
            r#"{"call":"load","args":{"cdw":"."}}"#,
            "\"load\" has no argument \"cdw\"",
        ),
        (
            r#"{"call":"load","args":{"cwd":1}}"#,
            "\"cwd\" has the wrong type",
        ),
        (r#"{"call":"load","args":[]}"#, "\"args\" must be an object"),
        (
            r#"{"call":"generate"}"#,
            "\"generate\" needs the argument \"messages\"",
        ),
        (r#"{"returns":"load"}"#, "needs either \"ok\" or \"err\""),
        (
            r#"{"returns":"load","ok":{},"err":{}}"#,
            "needs either \"ok\" or \"err\"",
        ),
        (
            r#"{"returns":"load","ok":"$nope"}"#,
            "\"ok\": unknown wildcard",
        ),
        (r#"{"want":"m","params":{"$re":"("}}"#, "regular expression"),
        (
            r#"{"want_reply":"x"}"#,
            "needs either \"result\" or \"error\"",
        ),
        (r#"{"want_eof":false}"#, "\"want_eof\" can only be true"),
        (r#"{"reply":"x"}"#, "needs either \"result\" or \"error\""),
        (r#"{"say":[]}"#, "a string or a list of strings"),
        (r#"{"say":"a","kind":"chunk"}"#, "is no chunk kind"),
        (r#"{"ask_permission":"allow_once"}"#, "must be a list"),
        (r#"{"raw":"€"}"#, "above U+00FF"),
        (r#"{"raw":"a","times":-1}"#, "without sign or fraction"),
        (r#"{"split":{"say":["a","b"]},"every":1}"#, "writes several"),
        (r#"{"split":{"say":"a"}}"#, "needs either \"at\""),
        (r#"{"split":{"say":"a"},"at":[3,3]}"#, "ascending offsets"),
        (r#"{"split":{"say":"a"},"at":[0]}"#, "ascending offsets"),
        (r#"{"split":{"say":"a"},"every":0}"#, "a number above 0"),
        (
            r#"{"split":{"raw":"a"},"every":1}"#,
            "\"raw\" writes no line",
        ),
        (r#"{"batch":[]}"#, "has no step"),
        (r#"{"batch":[{"exit":1}]}"#, "\"exit\" writes no line"),
        (
            r#"{"batch":[{"say":"a","kid":"b"}]}"#,
            "unknown key \"kid\"",
        ),
        (r#"{"exit":256}"#, "0 to 255"),
        (
            r#"{"signal":"KILL"}"#,
            "unknown signal \"KILL\"; known are SIGHUP",
        ),
        (r#"{"stop_reading":1}"#, "must be true or false"),
        (r#"{"linger":"forever"}"#, "not \"eof\" or \"term\""),
        (r#"{"grandchild":false}"#, "can only be true"),
        (r#"{"process":1}"#, "the next process is number 2"),
        (r#"{"process":3}"#, "the next process is number 2"),
        (r#"{"any_order":[]}"#, "has no step"),
        (
            r#"{"any_order":[{"say":"a"}]}"#,
            "\"tell\" cannot stand in \"any_order\"",
        ),
        (r#"{"choose":"x","cases":[]}"#, "has no case"),
        (
            r#"{"choose":"x","cases":[{"steps":[]},{"steps":[]}]}"#,
            "must be the last",
        ),
        (
            r#"{"choose":"x","cases":[{"steps":[],"wehn":1}]}"#,
            "unknown key \"wehn\" in a case",
        ),
        (
            r#"{"stale":"x","answers":{"q":1}}"#,
            "maps questions to texts",
        ),
        (r#"{"delay_ms":5}"#, "delay_ms needs the key \"note\""),
        (r#"{"fence":1}"#, "must be true or false"),
    ] {
        let shown = fault(&[r#"{"note":"line 2"}"#, step, r#"{"note":"line 4"}"#]);
        assert!(
            shown.starts_with("a/b.jsonl:3: ") && shown.contains(message),
            "{step}: {shown}"
        );
    }
}

#[test]
fn steps_that_do_not_fit_together_are_a_fault_of_the_later_one() {
    let cases: [(&[&str], u32, &str); 21] = [
        (
            &[r#"{"call":"load"}"#],
            2,
            "the call \"load\" never returns",
        ),
        (
            &[r#"{"returns":"load","ok":{}}"#],
            2,
            "no call \"load\" that could return",
        ),
        (
            &[r#"{"call":"load"}"#, r#"{"call":"load"}"#],
            3,
            "has not returned yet",
        ),
        (
            &[r#"{"call":"cancel","args":{"call":"generate"}}"#],
            2,
            "no generate \"generate\"",
        ),
        (
            &[
                r#"{"call":"load"}"#,
                r#"{"call":"cancel","args":{"call":"load"}}"#,
            ],
            3,
            "no generate",
        ),
        (
            &[r#"{"reply":"x","result":1}"#],
            2,
            "no \"want\" has bound a request as \"x\"",
        ),
        (
            &[r#"{"stale":"x","answers":{}}"#],
            2,
            "no \"want\" has bound",
        ),
        (
            &[r#"{"choose":"x","cases":[{"steps":[]}]}"#],
            2,
            "no \"want\" has bound",
        ),
        (
            &[r#"{"want_reply":"x","result":1}"#],
            2,
            "no request \"x\" of the agent",
        ),
        (
            &[
                r#"{"ask":"m","as":"x"}"#,
                r#"{"want_reply":"x","result":1}"#,
                r#"{"want_reply":"x","result":1}"#,
            ],
            4,
            "no request \"x\" of the agent",
        ),
        (
            &[r#"{"exit":0}"#, r#"{"say":"a"}"#],
            3,
            "has ended: exit at line 2",
        ),
        (
            &[r#"{"signal":"SIGKILL"}"#, r#"{"want_eof":true}"#],
            3,
            "has ended: signal at line 2",
        ),
        (
            &[r#"{"want_eof":true}"#, r#"{"want":"m"}"#],
            3,
            "nothing can come from standard input",
        ),
        (
            &[r#"{"want_eof":true}"#, r#"{"fence":true}"#],
            3,
            "nothing can come",
        ),
        (
            &[r#"{"close_stdout":true}"#, r#"{"raw":"a"}"#],
            3,
            "nothing can be written",
        ),
        (
            &[r#"{"close_stdout":true}"#, r#"{"batch":[{"say":"a"}]}"#],
            3,
            "nothing can be written",
        ),
        (
            &[r#"{"want":"m","params":{"$ref":"c"}}"#],
            2,
            "nothing has been captured as \"c\"",
        ),
        (
            &[
                r#"{"want":"m","as":"x"}"#,
                r#"{"process":2}"#,
                r#"{"reply":"x","result":1}"#,
            ],
            4,
            "no \"want\" has bound",
        ),
        (
            &[
                r#"{"want":"m","as":"x"}"#,
                r#"{"choose":"x","cases":[{"when":1,"steps":[{"call":"load"}]},{"steps":[]}]}"#,
            ],
            3,
            "the cases differ",
        ),
        (
            &[
                r#"{"want":"m","as":"x"}"#,
                r#"{"choose":"x","cases":[{"when":1,"steps":[{"want":"n","as":"y"}]},{"steps":[]}]}"#,
                r#"{"reply":"y","result":1}"#,
            ],
            4,
            "bound a request as \"y\"",
        ),
        (
            &[
                r#"{"want":"m","as":"x"}"#,
                r#"{"choose":"x","cases":[{"steps":[{"reply":"z","result":1}]}]}"#,
            ],
            3,
            "bound a request as \"z\"",
        ),
    ];
    for (steps, line, message) in cases {
        let shown = fault(steps);
        let place = format!("a/b.jsonl:{line}: ");
        assert!(
            shown.starts_with(&place) && shown.contains(message),
            "{steps:?}: {shown}"
        );
    }
}

#[test]
fn labels_may_be_used_again_when_they_are_free() {
    parse(&[
        r#"{"call":"load"}"#,
        r#"{"want":"m","as":"x"}"#,
        r#"{"want":"m","as":"x"}"#,
        r#"{"reply":"x","result":1}"#,
        r#"{"reply":"x","result":2}"#,
        r#"{"ask":"m","as":"y"}"#,
        r#"{"want_reply":"y","result":"$any"}"#,
        r#"{"ask":"m","as":"y"}"#,
        r#"{"returns":"load","ok":{}}"#,
        r#"{"call":"load"}"#,
        r#"{"returns":"load","err":{}}"#,
        r#"{"exit":1}"#,
        r#"{"call":"generate","args":{"messages":[]}}"#,
        r#"{"returns":"generate","err":{}}"#,
        r#"{"call":"cancel","args":{"call":"generate"}}"#,
        r#"{"returns":"cancel","ok":{}}"#,
        r#"{"process":2}"#,
        r#"{"say":"a"}"#,
    ])
    .unwrap();
}

#[test]
fn what_a_transcript_needs_can_be_asked() {
    let host = parse(&[r#"{"call":"load"}"#, r#"{"returns":"load","err":{}}"#]).unwrap();
    assert_eq!(host.processes(), 0);
    assert_eq!(parse(&[r#"{"want":"m"}"#]).unwrap().processes(), 1);
    let ordered = [r#"{"any_order":[{"want":"m"}]}"#];
    assert_eq!(parse(&ordered).unwrap().processes(), 1);
    let two = parse(&[
        r#"{"want":"m","as":"x"}"#,
        r#"{"choose":"x","cases":[{"steps":[{"grandchild":true}]}]}"#,
        r#"{"process":2}"#,
    ])
    .unwrap();
    assert_eq!(two.processes(), 2);
    assert!(two.uses("grandchild") && two.uses("choose") && !two.uses("exit"));
}

#[test]
fn a_prelude_takes_arguments_and_keeps_its_own_places() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    write(
        "_prelude/open.jsonl",
        "{\"prelude\":\"open\",\"args\":{\"x\":1,\"y\":[]}}\n{\"tell\":\"m\",\"params\":{\"x\":{\"$arg\":\"x\"},\"y\":[{\"$arg\":\"y\"}]}}\n",
    );
    let file = write(
        "a/b.jsonl",
        &format!("{HEADER}\n{}\n", r#"{"use":"open","y":{"z":0}}"#),
    );
    let fixture = Fixture::load(&file).unwrap();
    let step = &fixture.steps[0];
    let Verb::Send(Send {
        message: Message::Tell {
            params: Some(params),
            ..
        },
        ..
    }) = &step.verb
    else {
        panic!("{step:?}")
    };
    assert_eq!(params.to_string(), r#"{"x":1,"y":[{"z":0}]}"#);
    let place = step.location.to_string();
    assert!(
        place.contains("open.jsonl:2 (used by ") && place.ends_with("b.jsonl:2)"),
        "{place}"
    );

    let load = |text: &str| {
        let file = write("a/b.jsonl", &format!("{HEADER}\n{text}\n"));
        Fixture::load(&file).unwrap_err().to_string()
    };
    assert!(load(r#"{"use":"open","w":0}"#).contains("has no argument \"w\""));
    write(
        "_prelude/bad.jsonl",
        "{\"prelude\":\"bad\"}\n{\"say\":{\"$arg\":\"x\"}}\n",
    );
    let shown = load(r#"{"use":"bad"}"#);
    assert!(
        shown.contains("bad.jsonl:2 (used by ") && shown.contains("declares no argument \"x\"")
    );
    write("_prelude/bad.jsonl", "{\"prelude\":\"worse\"}\n");
    assert!(load(r#"{"use":"bad"}"#).contains("bad.jsonl:1 (used by "));
    write(
        "_prelude/bad.jsonl",
        "{\"prelude\":\"bad\"}\n{\"use\":\"open\"}\n",
    );
    assert!(load(r#"{"use":"bad"}"#).contains("\"use\" stands for steps"));
}

#[test]
fn a_file_is_found_and_must_be_what_its_path_says() {
    let root = tempfile::tempdir().unwrap();
    for name in ["b/two", "a/one", "_prelude/p", "a/x/three"] {
        let path = root.path().join(name).with_extension("jsonl");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, HEADER).unwrap();
    }
    fs::write(root.path().join("a/notes.txt"), "x").unwrap();
    let found = discover(root.path()).unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|path| path.strip_prefix(root.path()).unwrap())
        .collect();
    assert_eq!(
        names,
        ["a/one.jsonl", "a/x/three.jsonl", "b/two.jsonl"].map(Path::new)
    );
    assert!(discover(&root.path().join("none")).is_err());

    let error = Fixture::load(&found[0]).unwrap_err();
    assert_eq!(error.message, "the id \"a/b\" is not the end of the path");
    assert!(
        Fixture::load(Path::new("/none.jsonl"))
            .unwrap_err()
            .message
            .contains("cannot be read")
    );
    fs::write(&found[0], b"{}\n{\"\xff\":1}\n").unwrap();
    assert!(
        Fixture::load(&found[0])
            .unwrap_err()
            .to_string()
            .ends_with(":2: not UTF-8")
    );
    fs::write(&found[0], "").unwrap();
    assert!(
        Fixture::load(&found[0])
            .unwrap_err()
            .to_string()
            .ends_with(":1: the file is empty")
    );
}
