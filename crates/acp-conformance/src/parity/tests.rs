use std::{path::Path, time::Duration};

use super::*;
use crate::{ledger, port::Unavailable, protocol::Greeting, verdict::Verdict};

const REQUIREMENTS: &str = "
[[requirement]]
id = 'TURN-1'
level = 'must'
text = 'Text is text | never <more>.'
source = 'contract'
fixtures = ['turn/one', 'turn/two']

[[requirement]]
id = 'SESS-1'
level = 'should'
text = 'Sessions are kept.'
source = 'ACP v1'
excluded = 'nobody asks'
";

const KNOWN: &str = "
[[known]]
fixture = 'turn/one'
reason = 'answers with `{}`'
link = 'https://example.org/1'

[[known]]
fixture = 'turn/two'
reason = 'answers with `{}`'
link = 'https://example.org/1'
";

fn fixture(id: &str, needs: &str) -> Fixture {
    let text = format!(
        r#"{{"fixture":"{id}","format":1,"title":"States {id}","level":"must","covers":["TURN-1"],"needs":[{needs}]}}"#
    );
    let path = format!("{id}.jsonl");
    Fixture::parse(Path::new(&path), &text, &mut |_| None).unwrap()
}

fn fixtures() -> [Fixture; 3] {
    [
        fixture("ids/zero", r#""lanes""#),
        fixture("turn/one", ""),
        fixture("turn/two", ""),
    ]
}

fn port(name: &str, known: &str) -> Port {
    Port {
        name: name.into(),
        language: "any".into(),
        tier: Tier::Client,
        version: None,
        command: Vec::new(),
        requires: Vec::new(),
        setup: Vec::new(),
        build: None,
        env: BTreeMap::new(),
        dir: PathBuf::new(),
        known: Known::parse(known).unwrap(),
    }
}

fn page(ports: &[Port]) -> Page {
    Page::new(&fixtures(), ports, &ledger::parse(REQUIREMENTS).unwrap())
}

fn cell(port: &str, fixture: &str, verdict: Verdict) -> Cell {
    let without = [Capability::Lanes, Capability::Mode];
    let declared = Capability::ALL
        .into_iter()
        .filter(|one| !without.contains(one));
    Cell {
        port: port.into(),
        fixture: fixture.into(),
        verdict,
        greeting: Some(Greeting {
            name: port.into(),
            language: "any".into(),
            version: "1.2.3".into(),
            capabilities: declared.collect(),
        }),
        steps_done: 0,
        steps_total: 0,
        elapsed: Duration::from_millis(7),
        transcript: String::new(),
        stderr_tail: String::new(),
    }
}

fn known() -> Verdict {
    Verdict::Known {
        reason: "answers with `{}`".into(),
        link: None,
        failure: Box::new(Verdict::Fail("f".into())),
    }
}

/// What the port `a` came to, all but one transcript known to fail.
fn cells_of_a() -> [Cell; 3] {
    let missing = vec!["lanes".into()];
    [
        cell("a", "ids/zero", Verdict::NotApplicable { missing }),
        cell("a", "turn/one", known()),
        cell("a", "turn/two", known()),
    ]
}

const FILE: &str = "parity.md";

#[test]
fn the_whole_page() {
    let ports = [port("a", KNOWN), port("b", ""), port("c", "")];
    let mut page = page(&ports);
    let of_b = [
        cell("b", "turn/one", Verdict::Pass),
        cell("b", "turn/two", Verdict::Timeout("after 2.17 s".into())),
    ];
    page.fill(
        &[&cells_of_a()[..], &of_b].concat(),
        &[Skipped {
            port: port("c", ""),
            why: Unavailable::Missing(vec!["go".into()]),
        }],
    );
    let text = page.render(Path::new(FILE), "2026-01-31");
    let after = |heading: &str| {
        let (_, rest) = text.split_once(heading).unwrap_or_else(|| panic!("{text}"));
        rest.split("\n## ").next().unwrap().trim().to_owned()
    };
    assert!(
        text.contains("\n- 3 ports, 3 transcripts, 2 requirements\n"),
        "{text}"
    );
    assert!(text.contains("\n- Date: 2026-01-31\n"), "{text}");
    assert_eq!(
        after("## Ports"),
        "\
| port | language | library version | tier | pass | known | n/a | fail | crash | timeout | broken |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| a | any | 1.2.3 | `client` | 0 | 2 | 1 | 0 | 0 | 0 | 0 |
| b | any | 1.2.3 | `client` | 1 | 0 | 0 | 0 | 0 | 1 | 0 |
| c | any |  | `client` | 0 | 0 | 0 | 0 | 0 | 0 | 0 |"
    );
    assert!(
        after("## Areas").ends_with(
            "\
| area | a | b | c |
| --- | ---: | ---: | ---: |
| [ids](#ids) | – | – | – |
| [turn](#turn) | 0/2 | 1/2 | – |"
        ),
        "{text}"
    );
    assert_eq!(
        after("\n## turn"),
        r#"| transcript | a | b | c | what it states |
| --- | :---: | :---: | :---: | --- |
| <a id="turn--one"></a>turn/one | [known](#known-a-1) | ✓ | · | States turn/one [TURN-1](#turn-1) |
| <a id="turn--two"></a>turn/two | [known](#known-a-1) | **timeout** | · | States turn/two [TURN-1](#turn-1) |"#
    );
    assert_eq!(
        after("## Known failures"),
        r#"### a

- <a id="known-a-1"></a>answers with `{}` ([tracked](https://example.org/1)): [turn/one](#turn--one), [turn/two](#turn--two)"#
    );
    assert_eq!(after("## Red"), "- b [turn/two](#turn--two): timeout");
    assert!(
        after("## Not applicable")
            .ends_with("| a | `lanes` 1, `mode` 0 |\n| b | `lanes` 0, `mode` 0 |"),
        "{text}"
    );
    assert_eq!(after("## Skipped"), "- c: not in PATH: go");
    assert_eq!(
        after("## Requirements"),
        r#"| id | level | what a client must do | source | transcripts |
| --- | --- | --- | --- | --- |
| <a id="turn-1"></a>TURN-1 | must | Text is text \| never \<more\>. | contract | [turn/one](#turn--one), [turn/two](#turn--two) |
| <a id="sess-1"></a>SESS-1 | should | Sessions are kept. | ACP v1 | excluded: nobody asks |"#
    );
}

#[test]
fn what_a_run_leaves_out_stays_on_the_page() {
    let ports = [port("a", KNOWN), port("b", "")];
    let mut first = page(&ports);
    let of_b = ["ids/zero", "turn/one", "turn/two"].map(|id| cell("b", id, Verdict::Pass));
    first.fill(&[&cells_of_a()[..], &of_b].concat(), &[]);
    let text = first.render(Path::new(FILE), "2026-01-31");

    // Nothing was played, one port was skipped, and one cell of the other came to the same.
    let runs: [(&[Cell], &[Skipped]); 3] = [
        (&[], &[]),
        (
            &of_b,
            &[Skipped {
                port: port("a", KNOWN),
                why: Unavailable::NotSetUp,
            }],
        ),
        (&of_b[1..2], &[]),
    ];
    for (cells, skipped) in runs {
        let mut second = page(&ports);
        second.fill(cells, skipped);
        second.carry(&Earlier::parse(&text));
        let again = second.render(Path::new(FILE), "2026-02-01");
        assert_eq!(Difference::between(&text, &again), None);
        assert_eq!(second.counts(), first.counts());
    }

    let mut third = page(&ports);
    third.fill(&[cell("b", "turn/one", Verdict::Crash("c".into()))], &[]);
    third.carry(&Earlier::parse(&text));
    let again = third.render(Path::new(FILE), "2026-01-31");
    let difference = Difference::between(&text, &again).unwrap();
    assert!(difference.is.unwrap().starts_with("| b "), "{difference:?}");
    assert!(
        again.contains("| [known](#known-a-1) | **crash** |"),
        "{again}"
    );
}

#[test]
fn a_page_is_stale_when_what_it_shows_has_changed() {
    let ports = [port("a", KNOWN)];
    let mut first = page(&ports);
    first.fill(&cells_of_a(), &[]);
    let text = first.render(Path::new(FILE), "2026-01-31");
    let again = |fixtures: &[Fixture], ports: &[Port], requirements: &str| {
        let mut page = Page::new(fixtures, ports, &ledger::parse(requirements).unwrap());
        page.carry(&Earlier::parse(&text));
        page.render(Path::new(FILE), "2026-01-31")
    };
    let ours = fixtures();
    let stale = [
        // A transcript that is gone, and one whose needs have changed.
        again(&ours[1..], &ports, REQUIREMENTS),
        again(
            &[fixture("ids/zero", ""), ours[1].clone(), ours[2].clone()],
            &ports,
            REQUIREMENTS,
        ),
        // A new port, and other reasons.
        again(&ours, &[port("a", KNOWN), port("b", "")], REQUIREMENTS),
        again(
            &ours,
            &[port("a", &KNOWN.replace("answers", "replies"))],
            REQUIREMENTS,
        ),
        again(&ours, &ports, &REQUIREMENTS.replace("kept", "left")),
    ];
    for page in stale {
        assert_ne!(Difference::between(&text, &page), None, "{page}");
    }
    assert_eq!(again(&ours, &ports, REQUIREMENTS), text);
}

#[test]
fn the_first_difference_is_told() {
    let page = "a\n- Date: 2026-01-31\nb\n";
    let same = page.replace("01-31", "02-01");
    assert_eq!(Difference::between(page, &same), None);
    let difference = Difference {
        line: 3,
        is: Some("b"),
        should_be: None,
    };
    assert_eq!(
        Difference::between(page, &same.replace("b\n", "")),
        Some(difference)
    );
    assert_eq!(Difference::between("", "a\n").unwrap().line, 1);
}

#[test]
fn the_words_of_a_port_are_shown_as_they_are_and_read_back() {
    let mut odd = port(
        "_a_",
        &KNOWN.replace("answers with `{}`", "gives <b>[x](y)|z`|`"),
    );
    odd.language = "c|c++ [old]".into();
    odd.version = Some("1 | <2> `*".into());
    let mut first = page(&[odd.clone()]);
    let cells = cells_of_a().map(|cell| Cell {
        port: "_a_".into(),
        ..cell
    });
    first.fill(&cells, &[]);
    let text = first.render(Path::new(FILE), "2026-01-31");
    for want in [
        r"| \_a\_ | c\|c++ \[old\] | 1 \| \<2\> \`\* | `client` | 0 | 2 | 1 |",
        r"| transcript | \_a\_ | what it states |",
        r"gives \<b\>\[x\](y)\|z`|` ([tracked](https://example.org/1))",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
    // The version is now one that only the page knows.
    let mut second = page(&[Port {
        version: None,
        ..odd
    }]);
    second.carry(&Earlier::parse(&text));
    assert_eq!(second.render(Path::new(FILE), "2026-01-31"), text);
}

#[test]
fn a_spoilt_page_says_nothing() {
    for text in [
        "",
        "| port |",
        "| transcript | a |\n| --- |\n| turn/one |\n| turn/two | fine |",
    ] {
        assert_eq!(Earlier::parse(text), Earlier::default(), "{text}");
    }
}
