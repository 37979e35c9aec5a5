//! Every verdict, given to a driver that earns it.
//!
//! The drivers are this program itself, started with a role in [`ROLE`].

#![expect(
    clippy::unwrap_used,
    reason = "this is a test, though with a `main` of its own"
)]

mod liar;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use acp_conformance::{
    cell::{self, Stage},
    known::Known,
    limits::Limits,
    port::Port,
    tier::Tier,
    verdict::{Cell, Verdict},
};
use acp_fake_server::Fixture;
use libtest_mimic::{Arguments, Failed, Trial};

const ROLE: &str = "ACP_CONFORMANCE_LIAR";

fn main() -> ExitCode {
    if let Ok(role) = env::var(ROLE) {
        return liar::drive(&role);
    }
    let cases: [(&str, &str, &str, &str); 26] = [
        // A driver that does its part, against which the others are held.
        ("honest", LOAD, "pass", ""),
        (
            "never-answers-hello",
            LOAD,
            "timeout",
            "did not answer hello",
        ),
        ("never-loads", LOAD, "timeout", "fixture.jsonl:3"),
        ("never-exits", LOAD, "timeout", "did not exit"),
        ("never-answers-bye", LOAD, "timeout", "did not answer bye"),
        (
            "exits-at-once",
            LOAD,
            "crash",
            "ended early, with exit status: 3",
        ),
        (
            "exits-in-load",
            LOAD,
            "crash",
            "ended early, with exit status: 3",
        ),
        (
            "exits-1-at-the-end",
            LOAD,
            "crash",
            "exit status: 1 after bye",
        ),
        ("reports-a-crash", LOAD, "crash", "load crashed: panicked"),
        ("prints-garbage", LOAD, "broken", "not JSON: Loading"),
        ("answers-twice", LOAD, "broken", "answered twice"),
        (
            "answers-what-was-not-asked",
            LOAD,
            "broken",
            "what was not asked",
        ),
        ("other-name", LOAD, "broken", "somebody"),
        ("unknown-capability", LOAD, "broken", "telepathy"),
        ("unknown-kind", LOAD, "broken", "sad"),
        ("newer-protocol", LOAD, "broken", "protocol version"),
        ("always-wrong", LOAD, "timeout", "fixture.jsonl:3"),
        ("always-wrong", NOT_LOADED, "fail", "fixture.jsonl:3"),
        ("unsupported", LOAD, "fail", "unsupported"),
        ("leaves-the-agent", LEAVE, "fail", "agent process 1"),
        (
            "leaves-the-agent",
            LOAD_FAILS,
            "fail",
            "when load had failed there still was agent process 1",
        ),
        (
            "honest",
            LINGER,
            "fail",
            "when the driver had exited there still was agent process 1",
        ),
        ("one-line-too-many", LOAD, "fail", "session/cancel"),
        ("invalid-to-the-schema", LOAD, "fail", "params/mcpServers/0"),
        ("honest", NEEDS_LANES, "n/a", "lanes"),
        ("honest", UNDECLARED_INVALID, "broken", "fixture.jsonl:4"),
    ];
    let mut trials: Vec<Trial> = cases
        .into_iter()
        .map(|(role, steps, word, reason)| {
            let name = format!("{role}{}", suffix(steps));
            Trial::test(name, move || {
                expect(&play(role, steps, Tier::ModelSource), word, reason)
            })
        })
        .collect();
    trials.push(Trial::test(
        "the-tier-requires-what-is-not-declared",
        || {
            let cell = play("honest", NEEDS_LANES, Tier::Complete);
            expect(
                &cell,
                "fail",
                "does not declare lanes, which its tier requires",
            )
        },
    ));
    trials.push(Trial::test("a-port-that-cannot-be-started", || {
        let mut port = port("honest", Tier::ModelSource);
        port.command = vec!["/no/such/driver".into()];
        expect(
            &cell::play(&fixture(LOAD), &port, &stage()),
            "broken",
            "/no/such/driver",
        )
    }));
    trials.push(Trial::test("standard-error-is-kept-and-not-judged", || {
        let cell = play("honest", LOAD, Tier::ModelSource);
        expect(&cell, "pass", "")?;
        check(cell.stderr_tail.contains("free text"), || {
            cell.stderr_tail.clone()
        })
    }));
    trials.push(Trial::test("the-transcript-is-kept", || {
        let cell = play("honest", LOAD, Tier::ModelSource);
        check(
            cell.steps_done == cell.steps_total && cell.steps_total > 5,
            || format!("{} of {} steps", cell.steps_done, cell.steps_total),
        )?;
        check(
            cell.transcript.contains(r#""method":"session/new""#),
            || cell.transcript.clone(),
        )
    }));
    trials.push(Trial::test(
        "known-failures-are-strict",
        known_failures_are_strict,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

const LOAD: &str = r#"
{"call":"load"}
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":1}}
{"want":"session/new","params":{"cwd":"$abspath","mcpServers":"$array"},"as":"new"}
{"reply":"new","result":{"sessionId":"s1"}}
{"returns":"load","ok":{"session_id":"s1"}}
{"call":"close"}
{"want_eof":true}
{"returns":"close","ok":{}}
"#;

/// The same, for a driver that does not close its agent's input either.
const LEAVE: &str = r#"
{"call":"load"}
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":1}}
{"want":"session/new","as":"new"}
{"reply":"new","result":{"sessionId":"s1"}}
{"returns":"load","ok":{"session_id":"s1"}}
{"call":"close"}
{"returns":"close","ok":{}}
"#;

/// An agent that no `close` is called for, and that the end of its input does not end.
const LINGER: &str = r#"
{"call":"load"}
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":1}}
{"want":"session/new","as":"new"}
{"linger":"eof"}
{"reply":"new","result":{"sessionId":"s1"}}
{"returns":"load","ok":{"session_id":"s1"}}
"#;

const NOT_LOADED: &str = r#"
{"call":"generate","args":{"messages":[{"role":"user","content":"hi"}]}}
{"returns":"generate","err":{"kind":"closed"}}
"#;

const LOAD_FAILS: &str = r#"
{"call":"load"}
{"want":"initialize","as":"init"}
{"reply":"init","error":{"code":-32603,"message":"m"}}
{"returns":"load","err":{"kind":"rejected"}}
"#;

const NEEDS_LANES: &str = r#"
{"call":"lane","args":{"lane":"second"}}
{"returns":"lane","ok":{}}
"#;

/// An agent that breaks the schema where the transcript does not say so.
const UNDECLARED_INVALID: &str = r#"
{"call":"load"}
{"want":"initialize","as":"init"}
{"reply":"init","result":{"protocolVersion":1,"authMethods":7}}
{"want":"session/new","as":"new"}
{"reply":"new","result":{"sessionId":"s1"}}
{"returns":"load","ok":{"session_id":"s1"}}
{"call":"close"}
{"want_eof":true}
{"returns":"close","ok":{}}
"#;

fn suffix(steps: &str) -> &'static str {
    match steps {
        LOAD_FAILS => "-of-a-failed-load",
        LINGER => "-with-an-agent-that-stays",
        NOT_LOADED => "-about-an-answer",
        NEEDS_LANES => "-without-lanes",
        UNDECLARED_INVALID => "-with-an-invalid-agent",
        _ => "",
    }
}

fn fixture(steps: &str) -> Fixture {
    let needs = if steps == NEEDS_LANES {
        r#","needs":["lanes"]"#
    } else {
        ""
    };
    let header = format!(
        r#"{{"fixture":"verdicts/fixture","format":1,"title":"t","level":"must","covers":["T-1"]{needs}}}"#
    );
    let text = format!("{header}{}", steps.trim_end());
    Fixture::parse(Path::new("verdicts/fixture.jsonl"), &text, &mut |_| None).unwrap()
}

fn port(role: &str, tier: Tier) -> Port {
    let program = env::current_exe().unwrap();
    Port {
        name: "liar".into(),
        language: "rust".into(),
        tier,
        version: None,
        command: vec![program.to_str().unwrap().to_owned()],
        requires: Vec::new(),
        setup: Vec::new(),
        build: None,
        env: BTreeMap::from([(ROLE.to_owned(), role.to_owned())]),
        dir: PathBuf::from("."),
        known: Known::default(),
    }
}

fn stage() -> Stage {
    // Long enough for what must come in time, short for what never comes.
    let limits = Limits::from_env().unwrap();
    Stage {
        relay: vec![env!("CARGO_BIN_EXE_acp-conformance").into(), "relay".into()],
        limits: Limits {
            hello: limits.hello / 2,
            wait: limits.wait / 4,
            ..limits
        },
    }
}

fn play(role: &str, steps: &str, tier: Tier) -> Cell {
    cell::play(&fixture(steps), &port(role, tier), &stage())
}

fn expect(cell: &Cell, word: &str, reason: &str) -> Result<(), Failed> {
    let verdict = cell.verdict.to_string();
    check(
        cell.verdict.word() == word && verdict.contains(reason),
        || {
            format!(
                "want {word} with {reason:?}, got {verdict}\n{}\n{}",
                cell.transcript, cell.stderr_tail
            )
        },
    )?;
    check(cell.elapsed < Duration::from_secs(60), || {
        format!("took {:?}", cell.elapsed)
    })
}

fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message().into()) }
}

fn known_failures_are_strict() -> Result<(), Failed> {
    let mut port = port("honest", Tier::ModelSource);
    port.known = Known::parse("[[known]]\nfixture = 'a/b'\nreason = 'late'").unwrap();
    let missing = vec!["lanes".to_owned()];
    let cases = [
        ("a/b", Verdict::Fail("f".into()), "known"),
        ("a/b", Verdict::Crash("c".into()), "known"),
        ("a/b", Verdict::Timeout("t".into()), "known"),
        ("a/b", Verdict::Broken("b".into()), "broken"),
        ("a/b", Verdict::Pass, "fail"),
        (
            "a/b",
            Verdict::NotApplicable {
                missing: missing.clone(),
            },
            "fail",
        ),
        ("a/c", Verdict::Fail("f".into()), "fail"),
        ("a/c", Verdict::Pass, "pass"),
        ("a/c", Verdict::NotApplicable { missing }, "n/a"),
    ];
    for (id, outcome, want) in cases {
        let got = cell::judge(outcome.clone(), &port, id);
        check(got.word() == want, || {
            format!("{id} {outcome}: want {want}, got {got}")
        })?;
    }
    Ok(())
}
