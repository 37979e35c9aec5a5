//! The `acp-conformance` command: what it prints, writes and exits with.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

mod ledger;
mod mutants;
mod ports;
mod reports;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

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
        } = self.command(args).output().unwrap();
        let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (status.code().unwrap(), text.concat())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acp-conformance"));
        command
            .args(args)
            .current_dir(&self.dir)
            .env_remove("NO_COLOR")
            .env_remove("ACP_CONFORMANCE_ASKED_BY");
        command
    }
}

const RIGHT: &str = r#""ok":{"alive":false}"#;
const WRONG: &str = r#""ok":{"alive":true}"#;

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
    let (code, output) = setup.run(&["--port", "ports/sh", "--filter", "lanes"]);
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("no cell was executed"), "{output}");
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
fn filters_that_match_nothing_are_named_beside_those_that_do() {
    let setup = Setup::new(RIGHT);
    let one = ["--filter", "alive"];
    let (code, output) = setup.run(&[&["--port", "ports/sh"][..], &one].concat());
    assert_eq!(code, 0, "{output}");
    let others = ["--filter", "alvie", "--filter", "nothing"];
    for args in [&["--port", "ports/sh"][..], &["--list"]] {
        for (filters, named) in [
            (&others[..2], "in its id: `alvie`\n"),
            (
                &[&one[..], &others].concat(),
                "in its id: `alvie`, `nothing`\n",
            ),
        ] {
            let (code, output) = setup.run(&[args, filters].concat());
            assert_eq!(code, 2, "{output}");
            assert!(output.contains(named), "{output}");
        }
    }
}

#[test]
fn output_that_is_not_utf_8_is_named_with_its_line() {
    let setup = Setup::new(RIGHT);
    let half = DRIVER.replace(
        "        *) echo",
        r"        *) printf '{\303 half\n' ;; *) echo",
    );
    setup.write("ports/sh/driver.sh", &half);
    let (code, output) = setup.run(&["--port", "ports/sh", "--filter", "alive"]);
    assert_eq!(code, 1, "{output}");
    let want = "the driver wrote a line that is not valid UTF-8 at its byte 2, line 2 of its output: \
                {\u{fffd} half";
    assert!(output.contains(want), "{output}");
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
fn the_help_names_the_exit_codes() {
    let setup = Setup::new(RIGHT);
    let (code, output) = setup.run(&["--help"]);
    assert_eq!(code, 0);
    assert!(output.contains("Exits 0 when all is green"), "{output}");
    assert!(!output.contains("relay"), "{output}");
}

#[test]
fn a_driver_that_writes_a_line_without_end_is_broken() {
    let setup = Setup::new(RIGHT);
    let flood = "#!/bin/sh\nread -r line\nhead -c 67108865 /dev/zero\n";
    setup.write("ports/sh/driver.sh", flood);
    let (code, output) = setup.run(&["--port", "ports/sh", "--filter", "alive"]);
    assert_eq!(code, 1, "{output}");
    let want = "sh: the driver wrote a line of more than 64 MiB";
    assert!(output.contains(want), "{output}");
}
