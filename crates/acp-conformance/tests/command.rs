//! The `acp-conformance` command: what it prints, writes and exits with.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

/// A directory with two transcripts that need no agent, and a port whose driver is a shell script.
struct Setup {
    dir: TempDir,
}

/// Answers `hello` and `bye`, and every other operation with `$1`.
const DRIVER: &str = r#"#!/bin/sh
while read -r line; do
    seq=${line#*'"seq":'}
    seq=${seq%%[,\}]*}
    case $line in
        *'"op":"hello"'*) echo '{"seq":'"$seq"',"ok":{"protocol":1,"port":{"name":"sh","language":"sh","version":"0"},"capabilities":["is_alive"]}}' ;;
        *'"op":"bye"'*) echo '{"seq":'"$seq"',"ok":{}}'; exit 0 ;;
        *) echo '{"seq":'"$seq,$1"'}' ;;
    esac
done
"#;

impl Setup {
    /// A port that answers everything with this body.
    fn new(body: &str) -> Setup {
        let setup = Setup {
            dir: TempDir::new().unwrap(),
        };
        setup.transcript("alive", "", r#"{"alive":false}"#);
        setup.transcript("lanes", r#","needs":["lanes"]"#, r#"{"alive":false}"#);
        let port = format!(
            "name = 'sh'\nlanguage = 'sh'\ntier = 'model-source'\ncommand = ['sh', 'driver.sh', '{body}']\n"
        );
        setup.write("ports/sh/port.toml", &port);
        setup.write("ports/sh/driver.sh", DRIVER);
        setup
    }

    fn transcript(&self, name: &str, needs: &str, ok: &str) {
        let text = format!(
            concat!(
                r#"{{"fixture":"host/{}","format":1,"title":"t","level":"must","covers":["T-1"]{}}}"#,
                "\n{{\"call\":\"is_alive\"}}\n{{\"returns\":\"is_alive\",\"ok\":{}}}\n"
            ),
            name, needs, ok
        );
        self.write(&format!("fixtures/host/{name}.jsonl"), &text);
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Runs the command in the directory and gives its exit code and output.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(env!("CARGO_BIN_EXE_acp-conformance"))
            .args(args)
            .current_dir(&self.dir)
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (status.code().unwrap(), text.concat())
    }
}

const RIGHT: &str = r#""ok":{"alive":false}"#;
const WRONG: &str = r#""ok":{"alive":true}"#;

#[test]
fn green_is_0_and_both_reports_are_complete() {
    let setup = Setup::new(RIGHT);
    let (code, output) = setup.run(&[
        "--port",
        "ports/sh",
        "--events",
        "out/events.jsonl",
        "--junit",
        "out/junit.xml",
    ]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("sh: 1 pass, 1 n/a"), "{output}");
    assert!(output.contains("sh host/lanes: needs lanes"), "{output}");
    assert!(
        !output.contains('\u{1b}'),
        "no colour in a pipe: {output:?}"
    );
    let events = fs::read_to_string(setup.path("out/events.jsonl")).unwrap();
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["run", "cell", "cell", "complete"]);
    assert_eq!(events[1]["steps_done"], events[1]["steps_total"]);
    let junit = fs::read_to_string(setup.path("out/junit.xml")).unwrap();
    assert!(
        junit.contains(r#"tests="2" failures="0" errors="0" skipped="1""#),
        "{junit}"
    );
}

#[test]
fn a_parity_page_is_brought_up_to_date_and_checked() {
    let setup = Setup::new(RIGHT);
    let run = |extra: &[&str]| setup.run(&[&["--port", "ports/sh"], extra].concat());
    let keep = ["--parity", "kept/parity.md", "--badges", "kept/badges"];
    let check = [
        "--check-parity",
        "kept/parity.md",
        "--check-badges",
        "kept/badges",
    ];

    let (code, output) = run(&check);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("kept/parity.md:1 is stale"), "{output}");
    assert!(output.contains("kept/badges/sh.svg is stale"), "{output}");
    assert!(output.contains("--parity FILE"), "{output}");
    assert!(!setup.path("kept").exists(), "a check writes nothing");

    let (code, output) = run(&keep);
    assert_eq!(code, 0, "{output}");
    let page = fs::read_to_string(setup.path("kept/parity.md")).unwrap();
    let row = "</a>[host/alive](../fixtures/host/alive.jsonl) | ✓ | t T-1 |";
    assert!(page.contains(row), "{page}");
    assert_eq!(run(&check).0, 0);

    // Another date alone is no reason to write.
    let older: Vec<&str> = page
        .lines()
        .map(|line| {
            if line.starts_with("- Date: ") {
                "- Date: 2001-01-01"
            } else {
                line
            }
        })
        .collect();
    let older = older.join("\n") + "\n";
    setup.write("kept/parity.md", &older);
    assert_eq!(run(&keep).0, 0);
    let kept = fs::read_to_string(setup.path("kept/parity.md")).unwrap();
    assert_eq!(kept, older);

    // A run of one transcript checks its own cells and keeps the others.
    assert_eq!(run(&[&check[..], &["--filter", "alive"]].concat()).0, 0);
    setup.write("kept/parity.md", &older.replace("| ✓ |", "| **fail** |"));
    let (code, output) = run(&[&check[..], &["--filter", "alive"]].concat());
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("kept/parity.md:"), "{output}");
    assert_eq!(run(&[&keep[..], &["--filter", "alive"]].concat()).0, 0);
    let kept = fs::read_to_string(setup.path("kept/parity.md")).unwrap();
    assert_eq!(
        kept.lines()
            .filter(|line| line.starts_with("- Date"))
            .count(),
        1
    );
    assert!(kept.contains(row), "{kept}");

    // Without any driver, what the page shows can still be held against its sources.
    let requirement = "[[requirement]]\nid = 'T-1'\nlevel = 'must'\ntext = 'x'\nsource = 's'\nfixtures = ['host/alive', 'host/lanes']\n";
    setup.write("spec/requirements.toml", requirement);
    setup.write(
        "mutants.toml",
        "[[mutant]]\nname = 'm'\nbreaks = 'b'\ncaught_by = ['host/alive', 'host/lanes']\n",
    );
    let ledger = |text: &str| {
        setup.write("kept/parity.md", text);
        setup.run(&[
            "ledger",
            "--mutants",
            "mutants.toml",
            "--ports",
            "ports",
            "--parity",
            "kept/parity.md",
            "--badges",
            "kept/badges",
        ])
    };
    assert_eq!(run(&keep).0, 0);
    let page = fs::read_to_string(setup.path("kept/parity.md")).unwrap();
    let (code, output) = ledger(&page);
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("1 requirements: 1 with transcripts"),
        "{output}"
    );
    assert!(
        output.contains("T: 1 requirement, 2 transcripts, 1 mutant\n"),
        "{output}"
    );
    let (code, output) = ledger(&page.replace("host/lanes", "host/trains"));
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("is stale"), "{output}");
    fs::remove_file(setup.path("kept/badges/sh.json")).unwrap();
    let (code, output) = ledger(&page);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("kept/badges/sh.json is stale"), "{output}");
}

#[test]
fn red_cells_come_with_the_rules_that_they_protect() {
    let setup = Setup::new(WRONG);
    let (_, output) = setup.run(&["--port", "ports/sh"]);
    assert!(output.contains("what it protects:\n    T-1\n"), "{output}");
    setup.write(
        "rules.toml",
        "[[requirement]]\nid = 'T-1'\nlevel = 'must'\ntext = 'it is dead'\nsource = 's'\n",
    );
    let with = ["--port", "ports/sh", "--requirements", "rules.toml"];
    let (_, output) = setup.run(&with);
    assert!(output.contains("    T-1: it is dead\n"), "{output}");
    let (_, output) = setup.run(&[&with[..], &["-v"]].concat());
    assert!(output.contains("host/lanes  n/a      T-1\n"), "{output}");
    let (code, output) = setup.run(&["--port", "ports/sh", "--requirements", "none.toml"]);
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("none.toml"), "{output}");
}

#[test]
fn the_html_page_stands_alone() {
    let setup = Setup::new(WRONG);
    setup.write(
        "ports/sh/known.toml",
        "[[known]]\nfixture = 'host/alive'\nreason = 'a </script> & more'\n",
    );
    let (code, output) = setup.run(&["--port", "ports/sh", "--html", "out/parity.html"]);
    assert_eq!(code, 0, "{output}");
    let page = fs::read_to_string(setup.path("out/parity.html")).unwrap();
    for outside in ["http://", "https://", "<link", "src=", "{{"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let (_, rest) = page
        .split_once(r#"<script id="data" type="application/json">"#)
        .unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let row = &data["rows"][0];
    assert_eq!(row["href"], "../fixtures/host/alive.jsonl");
    assert!(row["text"].as_str().unwrap().ends_with("}}\n"));
    let cell = &row["cells"][0];
    assert_eq!(cell["verdict"], "known");
    assert_eq!(cell["reason"], "a </script> & more");
    assert_eq!(cell["stopped_at"], 3);
    let failure = cell["failure"].as_str().unwrap();
    assert!(
        failure.starts_with("fail: fixtures/host/alive.jsonl:3"),
        "{failure}"
    );
    let wire: Vec<&str> = cell["wire"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| {
            data["lines"][number.as_u64().unwrap() as usize]
                .as_str()
                .unwrap()
        })
        .collect();
    assert!(wire[0].starts_with("call is_alive"), "{wire:?}");
    assert_eq!(data["rows"][1]["cells"][0]["reason"], "needs lanes");
}

#[test]
fn red_is_1_and_says_where() {
    let setup = Setup::new(WRONG);
    let (code, output) = setup.run(&["run", "--port", "ports/sh"]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("fixtures/host/alive.jsonl:3"), "{output}");
    assert!(!output.contains("the whole transcript"), "{output}");
    let (_, output) = setup.run(&["run", "--port", "ports/sh", "-v"]);
    assert!(output.contains("the whole transcript"), "{output}");
}

#[test]
fn a_known_failure_is_green_until_it_passes() {
    let setup = Setup::new(WRONG);
    let known = "[[known]]\nfixture = 'host/alive'\nreason = 'it never dies'\n";
    setup.write("ports/sh/known.toml", known);
    let (code, output) = setup.run(&["--port", "ports/sh"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("sh host/alive: it never dies"), "{output}");

    let setup = Setup::new(RIGHT);
    setup.write("ports/sh/known.toml", known);
    let (code, output) = setup.run(&["--port", "ports/sh"]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("but it passes"), "{output}");

    setup.write("ports/sh/known.toml", &known.replace("alive", "dead"));
    let (code, output) = setup.run(&["--port", "ports/sh"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("known.toml of sh lists host/dead, which is no transcript"),
        "{output}"
    );
}

#[test]
fn a_run_that_executes_nothing_is_2() {
    let setup = Setup::new(RIGHT);
    for filter in ["nothing", "lanes"] {
        let (code, output) = setup.run(&["--port", "ports/sh", "--filter", filter]);
        assert_eq!(code, 2, "{output}");
        assert!(output.contains("no cell was executed"), "{output}");
    }
    let toml = setup.path("ports/sh/port.toml");
    let text = fs::read_to_string(&toml).unwrap();
    fs::write(&toml, text + "requires = ['no-such-tool']\n").unwrap();
    let (code, output) = setup.run(&["--ports", "ports", "--junit", "junit.xml"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("sh: skipped, not in PATH: no-such-tool"),
        "{output}"
    );
    assert!(output.contains("no cell was executed"), "{output}");
    assert!(setup.path("junit.xml").exists(), "the reports are there");
}

#[test]
fn what_cannot_be_run_is_2() {
    let setup = Setup::new(RIGHT);
    let cases: [(&[&str], &str); 5] = [
        (&["--prot", "x"], "unexpected argument"),
        (
            &["--port", "nowhere", "--ports", "ports"],
            "nowhere is neither",
        ),
        (
            &["--port", "sh", "--ports", "ports", "--fixtures", "none"],
            "none",
        ),
        (&["ledger"], "spec/requirements.toml"),
        (&["relay"], "ACP_FAKE_CONTROL"),
    ];
    for (args, want) in cases {
        let (code, output) = setup.run(args);
        assert_eq!(code, 2, "{args:?}: {output}");
        assert!(output.contains(want), "{args:?}: {output}");
    }
    setup.write("fixtures/host/odd.jsonl", "{}\n");
    let (code, output) = setup.run(&["--port", "ports/sh"]);
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("odd.jsonl:1"), "{output}");
}

#[test]
fn ports_are_found_by_name_and_built_before_they_run() {
    let setup = Setup::new(RIGHT);
    fs::rename(
        setup.path("ports/sh/driver.sh"),
        setup.path("ports/sh/source.sh"),
    )
    .unwrap();
    let toml = setup.path("ports/sh/port.toml");
    let text = fs::read_to_string(&toml).unwrap();
    fs::write(&toml, text + "build = ['cp', 'source.sh', 'driver.sh']\n").unwrap();
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 0, "{output}");

    let text = fs::read_to_string(&toml).unwrap();
    fs::write(&toml, text.replace("source.sh", "nothing.sh")).unwrap();
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("failed to build the driver of sh"),
        "{output}"
    );
}

#[test]
fn a_port_is_set_up_once_for_each_version() {
    let setup = Setup::new(RIGHT);
    let toml = setup.path("ports/sh/port.toml");
    let text = fs::read_to_string(&toml).unwrap();
    let commands =
        "requires = ['sh']\nsetup = [['sh', '-c', 'echo x >> fetched']]\nversion = '1'\n";
    fs::write(&toml, text.clone() + commands).unwrap();

    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("not set up; `acp-conformance setup sh --ports ports` fetches"),
        "{output}"
    );
    let (_, output) = setup.run(&["--port", "./ports/sh"]);
    let want = "not set up; `acp-conformance setup ./ports/sh` fetches";
    assert!(output.contains(want), "{output}");
    for (flag, want, fetched) in [
        (&[][..], "sh (1): set up in", "x\n"),
        (&[], "sh (1): is set up already", "x\n"),
        (&["--force"], "sh (1): set up in", "x\nx\n"),
    ] {
        let (code, output) = setup.run(&[&["setup", "sh", "--ports", "ports"], flag].concat());
        assert_eq!(code, 0, "{output}");
        assert!(output.contains(want), "{output}");
        let lines = fs::read_to_string(setup.path("ports/sh/fetched")).unwrap();
        assert_eq!(lines, fetched);
    }
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 0, "{output}");

    fs::write(&toml, text + &commands.replace("'1'", "'2'")).unwrap();
    let (code, output) = setup.run(&["--port", "sh", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("set up for another version"), "{output}");
}

#[test]
fn of_all_ports_those_that_cannot_run_are_skipped_for_all_to_see() {
    let setup = Setup::new(RIGHT);
    let lacking = "name = 'other'\nlanguage = 'l'\ntier = 'client'\ncommand = ['d']\n\
                   requires = ['no-such-tool']\nsetup = [['touch', 'ran']]\n";
    setup.write("ports/other/port.toml", lacking);
    let (code, output) = setup.run(&["--ports", "ports", "--events", "events.jsonl"]);
    assert_eq!(code, 0, "{output}");
    let want = "other: skipped, not in PATH: no-such-tool";
    assert!(output.contains(want), "{output}");
    let events = fs::read_to_string(setup.path("events.jsonl")).unwrap();
    let header: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!(header["skipped"][0]["name"], "other");

    let (code, output) = setup.run(&["setup", "all", "--ports", "ports"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains(want), "{output}");
    let (code, output) = setup.run(&["--port", "other", "--ports", "ports"]);
    assert_eq!(code, 2, "{output}");
    assert!(
        output.contains("install no-such-tool or put it in PATH"),
        "{output}"
    );
    assert!(!output.contains("acp-conformance setup"), "{output}");
    let (code, output) = setup.run(&["setup", "other", "--ports", "ports"]);
    assert_eq!(code, 1, "{output}");
    assert!(!setup.path("ports/other/ran").exists());
}

#[test]
fn a_list_runs_nothing() {
    let setup = Setup::new(RIGHT);
    let (code, output) = setup.run(&["--list"]);
    assert_eq!((code, output.as_str()), (0, "host/alive\nhost/lanes\n"));
    let (_, output) = setup.run(&["--list", "-v", "--filter", "lanes"]);
    assert_eq!(
        output,
        "host/lanes (must): t\n    covers T-1\n    needs lanes\n"
    );
}

#[test]
fn colour_can_be_had_in_a_pipe() {
    let setup = Setup::new(RIGHT);
    let (_, output) = setup.run(&["--port", "ports/sh", "--color", "always"]);
    assert!(output.contains("\u{1b}[32m"), "{output:?}");
}

#[test]
fn a_mutant_that_survives_is_red() {
    // Knows one mutant, and has no rule that the other could break.
    let setup = Setup::new(RIGHT);
    let driver = DRIVER.replace(
        "while",
        "[ \"$MUTANT\" = undead ] && set -- '\"ok\":{\"alive\":true}'\nwhile",
    );
    setup.write("ports/sh/driver.sh", &driver);
    fs::remove_file(setup.path("fixtures/host/lanes.jsonl")).unwrap();
    let mutants = |name: &str| {
        let entry =
            format!("[[mutant]]\nname = '{name}'\nbreaks = 'b'\ncaught_by = ['host/alive']\n");
        setup.write("mutants.toml", &entry);
        setup.run(&["mutants", "--port", "ports/sh", "--mutants", "mutants.toml"])
    };
    let (code, output) = mutants("undead");
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("caught    undead  host/alive"), "{output}");
    let (code, output) = mutants("harmless");
    assert_eq!(code, 1, "{output}");
    assert!(
        output.contains("harmless (b) is not caught by host/alive: pass"),
        "{output}"
    );
}

#[test]
fn a_mutant_that_does_not_start_is_not_caught() {
    let setup = Setup::new(RIGHT);
    let driver = DRIVER.replace("while", "[ -z \"$MUTANT\" ] || exit 2\nwhile");
    setup.write("ports/sh/driver.sh", &driver);
    fs::remove_file(setup.path("fixtures/host/lanes.jsonl")).unwrap();
    setup.write(
        "mutants.toml",
        "[[mutant]]\nname = 'unknown'\nbreaks = 'b'\ncaught_by = ['host/alive']\n",
    );
    let (code, output) = setup.run(&["mutants", "--port", "ports/sh", "--mutants", "mutants.toml"]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("the mutant did not start"), "{output}");
}

#[test]
fn the_help_names_the_exit_codes() {
    let setup = Setup::new(RIGHT);
    let (code, output) = setup.run(&["--help"]);
    assert_eq!(code, 0);
    assert!(output.contains("Exits 0 when all is green"), "{output}");
    assert!(!output.contains("relay"), "{output}");
}
