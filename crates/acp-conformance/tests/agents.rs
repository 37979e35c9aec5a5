//! The checks of agents: that each can fail, that the strict agent passes all, and that the fake agent with
//! a profile does what the real one was seen to do.
//!
//! The agents are this program itself, started with [`BROKEN`] or [`LIKE`].

#![expect(
    clippy::unwrap_used,
    reason = "this is a test, though with a `main` of its own"
)]

mod broken;

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
    time::Duration,
};

use acp_conformance::agent_check::{
    self, Check, Limits, NotRunnable, Options, Prompts, Report, Verdict,
};
use acp_fake_server::{Profile, agents::Builtin, alone};
use libtest_mimic::{Arguments, Failed, Trial};

/// Then the name of what is broken.
const BROKEN: &str = "--broken-agent";

/// Then the names of a built-in agent and of a profile.
const LIKE: &str = "--agent-like";

/// Checks that the fake agent, which keeps no session beyond its process, does not mimic.
const NOT_MIMICKED: [&str; 2] = ["session/load", "session/load-unknown"];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [BROKEN, how, pids] => {
            broken::escape(how, Some(Path::new(pids))).unwrap();
            broken::serve("nothing").unwrap();
            ExitCode::SUCCESS
        }
        [BROKEN, how] => {
            broken::escape(how, None).unwrap();
            broken::serve(how).unwrap();
            ExitCode::SUCCESS
        }
        [LIKE, agent, profile] => {
            let agent = Builtin::ALL.into_iter().find(|one| one.name() == agent);
            let code = alone::run(agent.unwrap(), Profile::named(profile).unwrap()).unwrap();
            ExitCode::from(u8::try_from(code).unwrap())
        }
        _ => libtest_mimic::run(&Arguments::from_args(), trials()).exit_code(),
    }
}

fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("the_strict_agent_passes_all", || strict("obedient")),
        trial("echo_passes_all_that_it_can", || strict("echo")),
        trial("every_profile_has_its_evidence", evidence),
        trial("the_table_in_the_docs_is_that_of_the_results", docs),
        trial("an_agent_that_wants_a_login_is_not_judged", login),
        trial("an_agent_that_replays_all_first_is_good", loads),
        trial(
            "the_command_prints_keeps_and_exits_with_what_it_found",
            command,
        ),
        trial("what_leaves_the_process_group_is_ended_too", escaped),
        trial("a_flood_before_the_first_answer_is_called_one", flood),
        trial("an_agent_that_says_nothing_cannot_be_checked", || {
            not_runnable("silent")
        }),
        trial("an_agent_that_refuses_initialize_cannot_be_checked", || {
            not_runnable("refuses-initialize")
        }),
    ];
    for name in Profile::names() {
        if name != "strict" {
            trials.push(trial(
                &format!("the_fake_{name}_is_like_the_real_one"),
                move || like(name),
            ));
        }
    }
    for (how, check, verdict, outcome) in broken::FAULTS {
        trials.push(trial(
            &format!("{how}_is_{verdict}_in_{check}"),
            move || {
                let broken = [BROKEN.to_owned(), how.to_owned()];
                fails(&broken, check, verdict, outcome)
            },
        ));
    }
    for (profile, check, verdict, outcome) in broken::FAULTS_OF_PROFILES {
        trials.push(trial(
            &format!("{profile}_is_{verdict}_in_{check}"),
            move || {
                let like = [LIKE, "obedient", profile].map(str::to_owned);
                fails(&like, check, verdict, outcome)
            },
        ));
    }
    trials
}

fn strict(agent: &str) -> Result<(), Failed> {
    let report = check(&[LIKE, agent, "strict"].map(str::to_owned), |_| true)?;
    for entry in &report.checks {
        let is_good = matches!(entry.verdict, Verdict::Ok | Verdict::NotApplicable);
        if !is_good || !entry.faults.is_empty() {
            return Err(format!("{entry:?}").into());
        }
    }
    assert!(!report.is_red());
    Ok(())
}

fn login() -> Result<(), Failed> {
    let report = check(&[BROKEN, "wants-login"].map(str::to_owned), |check| {
        check.name.starts_with("turn/") || check.name == "session/new"
    })?;
    for entry in &report.checks {
        assert_eq!(entry.verdict, Verdict::NotApplicable, "{entry:?}");
        assert!(entry.detail.contains("logged in"), "{entry:?}");
    }
    Ok(())
}

fn loads() -> Result<(), Failed> {
    let report = check(&[BROKEN, "loads"].map(str::to_owned), |check| {
        ["turn/answer", "session/load", "session/load-unknown"].contains(&check.name)
    })?;
    let outcomes: Vec<(Verdict, &str)> = report
        .checks
        .iter()
        .map(|entry| (entry.verdict, entry.outcome.as_str()))
        .collect();
    assert_eq!(
        outcomes,
        [
            // It loads just anything.
            (Verdict::Differs, "answered"),
            (Verdict::Ok, "end_turn"),
            (Verdict::Ok, "replays, then answers"),
        ]
    );
    Ok(())
}

fn command() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let json = scratch.path().join("results/mine.json");
    let run = |agent: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acp-conformance"));
        command.args([
            "agent",
            "--check",
            "turn/answer",
            "--check",
            "message/array",
        ]);
        command.arg("--json").arg(&json).arg("--").args(agent);
        command.stdin(Stdio::null()).output()
    };
    let this = env::current_exe()?;
    let this = this.to_str().unwrap();
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();

    let good = run(&[this, LIKE, "obedient", "strict"])?;
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert!(text(&good).contains("acp-fake-server-obedient"), "{good:?}");
    assert!(text(&good).contains("2 ok"), "{good:?}");
    assert_eq!(read(&json).totals(), "2 ok");

    let red = run(&[this, LIKE, "obedient", "typescript-sdk"])?;
    assert_eq!(red.status.code(), Some(1), "{red:?}");
    assert!(text(&red).contains("as ACP has no batches"), "{red:?}");
    assert_eq!(read(&json).totals(), "1 ok, 1 died");

    let none = run(&["/no/such/agent"])?;
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let stderr = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(stderr.contains("/no/such/agent"), "{stderr}");
    Ok(())
}

fn not_runnable(how: &str) -> Result<(), Failed> {
    let mut options = options(&[BROKEN, how].map(str::to_owned));
    options.limits.start = Duration::from_millis(300);
    let result = agent_check::run(&options, |_| true, |_| {});
    match result {
        Err(NotRunnable::NoAgent(_)) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn escaped() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    for how in ["escapes", "escapes-with-a-pipe"] {
        let pids = dir.path().join(how);
        let agent = [BROKEN, how, pids.to_str().unwrap()].map(str::to_owned);
        let report = check(&agent, |check| check.name == "shutdown/eof")?;
        let entry = &report.checks[0];
        assert_eq!(entry.detail, "sleep in another process group", "{entry:?}");
        // One of the process that is initialized first, and one of the check's own.
        let pids = fs::read_to_string(pids)?;
        assert_eq!(pids.lines().count(), 2, "{pids}");
        for pid in pids.lines() {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let runs = !stat.is_empty() && !stat.contains(") Z ");
            assert!(!runs, "{how}: {stat}");
        }
    }
    Ok(())
}

fn flood() -> Result<(), Failed> {
    let mut options = options(&[]);
    options.command = ["sh", "-c", "while :; do printf %65536d 1; done"]
        .map(str::to_owned)
        .into();
    match agent_check::run(&options, |_| true, |_| {}) {
        Err(NotRunnable::NoAgent(why)) => {
            assert_eq!(why, "it wrote a line of more than 8 MiB");
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}

fn fails(agent: &[String], name: &str, verdict: Verdict, outcome: &str) -> Result<(), Failed> {
    // What these checks judge has to be said first.
    let needs_turn = name.starts_with("wire/") || name == "session/load";
    let wanted = |check: &Check| check.name == name || (needs_turn && check.name == "turn/answer");
    let report = check(agent, wanted)?;
    let entry = report.checks.last().unwrap();
    assert_eq!(
        (entry.check.as_str(), entry.verdict, entry.outcome.as_str()),
        (name, verdict, outcome),
        "{entry:?}"
    );
    assert_eq!(
        report.is_red(),
        !matches!(verdict, Verdict::Differs),
        "{report:?}"
    );
    Ok(())
}

/// The fake agent's rows against those of the real one.
fn like(profile: &str) -> Result<(), Failed> {
    // The echo example has neither slow turns nor questions.
    let agent = if profile == "python-sdk" {
        "echo"
    } else {
        "obedient"
    };
    let wanted = |check: &Check| !NOT_MIMICKED.contains(&check.name);
    let rows = |report: Report| -> BTreeMap<String, (Verdict, String)> {
        let rows = report.checks.into_iter();
        let rows = rows.filter(|entry| !NOT_MIMICKED.contains(&entry.check.as_str()));
        rows.map(|entry| (entry.check, (entry.verdict, entry.outcome)))
            .collect()
    };
    let fake = rows(check(&[LIKE, agent, profile].map(str::to_owned), wanted)?);
    let real = rows(read(&results().join(format!("{profile}.json"))));
    let differences: Vec<String> = real
        .iter()
        .filter(|(name, row)| fake.get(*name) != Some(row))
        .map(|(name, row)| format!("{name}: real {row:?}, fake {:?}", fake.get(name)))
        .collect();
    if !differences.is_empty() {
        return Err(differences.join("\n").into());
    }
    assert_eq!(fake.len(), real.len());
    Ok(())
}

fn evidence() -> Result<(), Failed> {
    let files: Vec<String> = kept()?
        .iter()
        .filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
        .collect();
    let docs = fs::read_to_string(root().join("docs/agents.md"))?;
    for name in Profile::names()
        .into_iter()
        .filter(|name| *name != "strict")
    {
        assert!(
            files.iter().any(|file| file == name),
            "{name} has no results"
        );
        let mimics = Profile::named(name).unwrap().mimics;
        assert!(
            docs.contains(&mimics),
            "docs/agents.md does not name {mimics}"
        );
    }
    Ok(())
}

fn docs() -> Result<(), Failed> {
    let reports: Vec<(String, Report)> = kept()?
        .iter()
        .map(|file| {
            (
                file.file_stem().unwrap().to_string_lossy().into(),
                read(file),
            )
        })
        .collect();
    let docs = fs::read_to_string(root().join("docs/agents.md"))?;
    if !docs.contains(&agent_check::table(&reports)) {
        return Err("docs/agents.md is stale: see there how its table is made".into());
    }
    Ok(())
}

fn check(agent: &[String], wanted: impl Fn(&Check) -> bool) -> Result<Report, Failed> {
    Ok(agent_check::run(&options(agent), wanted, |_| {})?)
}

fn options(agent: &[String]) -> Options {
    let program = env::current_exe().unwrap().to_str().unwrap().to_owned();
    let mut command = vec![program];
    command.extend_from_slice(agent);
    let seconds = Duration::from_secs;
    Options {
        command,
        cwd: env::temp_dir(),
        mode: None,
        prompts: Prompts {
            plain: "hello".to_owned(),
            slow: "go slow".to_owned(),
            tool: "use a tool in {cwd}".to_owned(),
        },
        // What these agents do they do at once, and what they do not is not waited for long.
        limits: Limits {
            cancel: seconds(3),
            settle: seconds(1),
            exit: seconds(3),
            ..Limits::scaled(1.0)
        },
    }
}

fn read(file: &Path) -> Report {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// The files with results, in the order of the table.
fn kept() -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(results())?.collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> = files.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    Ok(files)
}

fn results() -> PathBuf {
    root().join("conformance/agents")
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn trial(name: &str, body: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    Trial::test(name, body)
}
