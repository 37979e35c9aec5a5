//! What a transcript does not show.

use std::path::Path;

use serde_json::{Value, json};

use super::{agent, both, chunk, client, done, opened, prompt, recording, steps};
use crate::distill::{Cleaner, Options, check, distill};
use crate::recording::Recording;

#[test]
fn nothing_that_was_recorded_shows_where_or_by_whom() {
    let start =
        json!({"start": {"cwd": "/home/jdoe/job", "home": "/home/jdoe", "temp": "/scratch"}});
    let session = "0f0f-0f0f";
    let update = |update: Value| {
        let params = json!({"sessionId": session, "update": update});
        agent(json!({"method": "session/update", "params": params}))
    };
    let mut lines = opened();
    lines[1].1 = lines[1].1.replace("acme", "acme-/home/jdoe/job");
    lines.extend([
        prompt(2, "read /home/jdoe/job/a"),
        update(json!({
            "sessionUpdate": "agent_message_chunk",
            "messageId": "jdoe-1",
            "content": {"type": "text", "text": "in /home/jd"},
        })),
        update(json!({
            "sessionUpdate": "agent_message_chunk",
            "messageId": "jdoe-1",
            "content": {"type": "text", "text": "oe/job/a, hunter22x"},
        })),
        update(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": "/home/jdoe/job:1",
            "rawInput": {
                "/home/jdoe/job/b": ["-I/home/jdoe/job/c", "-I/scratch/d", "%2Fhome%2Fjdoe%2Fjob"],
                "env": [{"name": "X_TOKEN", "value": "hunter22x"}],
                "authorization": {"value": "plain"},
                "log": "{\"cwd\":\"\\/home\\/jdoe\\/job\"}",
            },
        })),
        agent(json!({"method": "_acme//home/jdoe/job", "params": {"by": "jdoe"}})),
        agent(json!({"id": "/home/jdoe/job#1", "method": "_acme/jdoe", "params": {}})),
        client(json!({"id": "/home/jdoe/job#1", "error": {"code": -32601, "message": "no"}})),
        (
            "a2c",
            r#"no message: \/home\/jdoe\/job, API_KEY=hunter22x"#.to_owned(),
        ),
        done(2, "end_turn"),
    ]);
    for options in [
        Options::default(),
        Options {
            agent_only: true,
            ..Options::default()
        },
    ] {
        let mut recording = recording(&lines, &[]);
        let starts = Recording::parse(Path::new("r.jsonl"), &format!("{start}\n")).unwrap();
        recording.processes[0].splice(0..0, starts.processes[0].clone());
        let (lines, _) = steps(&recording, options);
        let text = lines.join("\n");
        for shown in ["jdoe", "scratch", "hunter", "plain"] {
            assert!(!text.contains(shown), "{shown} in {text}");
        }
        for wanted in [
            r#""source":"recorded acme-/project 1.2""#,
            r#"{"say":["in /project/a, [masked]",""],"message_id":"user-1"}"#,
            r#""toolCallId":"/project:1""#,
            r#""/project/b":["-I/project/c","-I/tmp/d","%2Fproject"]"#,
            r#"{"tell":"_acme//project","params":{"by":"user"}}"#,
            r#""id":"/project#1""#,
        ] {
            assert!(text.contains(wanted), "no {wanted} in {text}");
        }
    }
}

#[test]
fn a_client_can_choose_the_option_that_it_is_offered() {
    let mut lines = opened();
    let options = json!([
        {"optionId": "once:/srv/job", "name": "Once", "kind": "allow_once"},
        {"optionId": "ask:/srv/job", "name": "Ask", "kind": "other"},
        {"optionId": "no:/srv/job", "name": "No", "kind": "reject_once"},
    ]);
    let asked =
        json!({"sessionId": "0f0f-0f0f", "toolCall": {"toolCallId": "t"}, "options": options});
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": "ask:/srv/job"}});
    lines.extend([
        prompt(2, "hi"),
        agent(json!({"id": 7, "method": "session/request_permission", "params": asked})),
        client(json!({"id": 7, "result": chosen})),
        chunk("a"),
        done(2, "end_turn"),
    ]);
    let lines = both(&lines);
    assert_eq!(
        lines[1],
        r#"{"call":"load","args":{"permission":"ask","permission_answers":["ask:/project"]}}"#
    );
    assert!(
        lines[9].contains(r#"{"optionId":"ask:/project","#),
        "{}",
        lines[9]
    );
    let want = r#"{"want_reply":"perm1","result":{"outcome":{"outcome":"selected","optionId":"ask:/project"}}}"#;
    assert_eq!(lines[10], want);
}

#[test]
fn a_transcript_that_could_not_be_used_is_an_error() {
    let recording = recording(&opened(), &[]);
    let fails = |options: Options| distill(&recording, &options).unwrap_err().to_string();
    let options = |title: &str, covers: &str| Options {
        id: "recorded/test".to_owned(),
        title: Some(title.to_owned()),
        covers: vec![covers.to_owned()],
        ..Options::default()
    };
    let error = fails(options("In /srv/job", "X-1"));
    let shows = "line 1 of the transcript would show the directory /srv/job";
    assert!(error.starts_with(shows), "{error}");
    let error = fails(options("With sk-abcdefghijklmnop", "X-1"));
    assert!(
        error.contains("would show a secret") && !error.contains("sk-"),
        "{error}"
    );
    let text = distill(&recording, &options("t", "X-1")).unwrap().text;
    let text = text.replace(r#"{"want_eof":true}"#, r#"{"signal":"SIGPIPE"}"#);
    let error = check(&text, "recorded/test", &Cleaner::default()).unwrap_err();
    let error = error.to_string();
    let faulty =
        "what came of the recording is no transcript: recorded/test.jsonl:9: unknown signal";
    assert!(error.starts_with(faulty), "{error}");
}
