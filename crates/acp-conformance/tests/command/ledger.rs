//! `ledger` and `bless`: what is said of the transcripts themselves.

use std::process::Output;

use super::{RIGHT, Setup};

/// Two requirements, one of them without a transcript, and a mutant that one transcript catches.
fn setup() -> Setup {
    let setup = Setup::new(RIGHT);
    let requirements = "[[requirement]]\nid = 'T-1'\nlevel = 'must'\ntext = 'It is dead.'\nsource = 'contract'\n\
        fixtures = ['host/alive', 'host/lanes']\n\
        [[requirement]]\nid = 'T-2'\nlevel = 'should'\ntext = 'It rests.'\nsource = 's'\nexcluded = 'no time'\n";
    setup.write("spec/requirements.toml", requirements);
    let mutants = "[[mutant]]\nname = 'm'\nbreaks = 'b'\ncaught_by = ['host/alive']\n";
    setup.write("conformance/mutants.toml", mutants);
    setup
}

#[test]
fn the_ledger_says_what_each_requirement_is_and_what_is_without_a_transcript() {
    let setup = setup();
    let output = setup.command(&["ledger"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    for want in [
        "  T-1  must    It is dead.\n               2 transcripts, 1 mutant\n",
        "must: 1 requirement, 1 with transcripts\n",
        "without a transcript:\n  T-2: no time\n",
    ] {
        assert!(stdout.contains(want), "{stdout}");
    }
    assert!(!stdout.contains("contract"), "{stdout}");
    let output = setup.command(&["ledger", "-v"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    for want in ["source: contract", "2 transcripts: host/alive host/lanes"] {
        assert!(stdout.contains(want), "{stdout}");
    }
}

#[test]
fn what_is_wrong_is_told_apart_from_the_ledger() {
    let Output {
        status,
        stdout,
        stderr,
    } = setup().command(&["ledger", "--quiet"]).output().unwrap();
    assert_eq!(status.code(), Some(1));
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    assert!(stdout.contains("1 mutants, 1 faults"), "{stdout}");
    let want = "error: host/lanes stands in the `caught_by` of no mutant";
    assert!(stderr.starts_with(want), "{stderr}");
}

#[test]
fn a_transcript_that_is_not_there_is_not_blessed_and_nothing_is_built() {
    let setup = setup();
    let port = "name = 'sh'\nlanguage = 'sh'\ntier = 'client'\ncommand = ['sh']\nbuild = ['touch', 'built']\n";
    setup.write("ports/sh/port.toml", port);
    let bless = ["bless", "--port", "ports/sh", "host/alive", "host/alvie"];
    let (code, output) = setup.run(&bless);
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("fixtures/host/alvie.jsonl"), "{output}");
    assert!(!setup.path("ports/sh/built").exists());
}
