//! `mutants`.

use std::fs;

use super::{DRIVER, RIGHT, Setup};

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
    setup.transcript("still", "", r#"{"alive":false}"#);
    let args = ["mutants", "--port", "ports/sh", "--mutants", "mutants.toml"];
    let (_, output) = setup.run(&[&args[..], &["--full", "--filter", "still"]].concat());
    assert!(output.contains("caught    undead  host/still"), "{output}");
    setup.transcript("odd", "", r#"{"alive":"$any"}"#);
    let (_, output) = setup.run(&[&args[..], &["--full", "--filter", "odd"]].concat());
    assert!(
        !output.contains("undead"),
        "what catches nothing is not caught: {output}"
    );
    fs::remove_file(setup.path("fixtures/host/still.jsonl")).unwrap();
    fs::remove_file(setup.path("fixtures/host/odd.jsonl")).unwrap();
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
