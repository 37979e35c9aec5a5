//! What is written beside the matrix.

use std::fs;

use serde_json::Value;

use super::{RIGHT, Setup, WRONG};

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
