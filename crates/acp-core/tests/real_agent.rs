//! The client against an agent that nobody of this project wrote: the official TypeScript SDK's example.
//!
//! A turn of the example is a script of five seconds, whatever it is asked:
//!
//! | after | it sends |
//! | --- | --- |
//! | 0 s | text ([`HELP`]) |
//! | 1 s, 2 s | a tool call, its end |
//! | 3 s | more text ([`UNDERSTAND`]) |
//! | 4 s | a tool call, and a permission request for it |
//! | 5 s | text that depends on the answer ([`PERFECT`] or [`SKIP`]) |
//!
//! It looks for a cancel once a second. A second prompt in a session aborts the first. Every trial
//! starts a process of its own, so they all run at the same time.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the agent is a real process, time is real, and a panic is how a trial fails"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use acp_core::{
    AcpModel, Dropped, GenerateError, GenerateRequest, GenerateResponse, LoadOptions,
    PermissionDecision, PermissionPolicy, StopReason, Turn, TurnOptions, load_acp,
};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use support::{Unavailable, example_agent};

const HELP: &str = "I'll help you with that. Let me start by reading some files to understand the \
                    current situation.";
const UNDERSTAND: &str =
    " Now I understand the project structure. I need to make some changes to improve it.";
const PERFECT: &str =
    " Perfect! I've successfully updated the configuration. The changes have been applied.";
const SKIP: &str =
    " I understand you prefer not to make that change. I'll skip the configuration update.";

/// How long a turn takes that nobody cancels.
const LENGTH_OF_TURN: Duration = Duration::from_secs(5);
/// More than a cancel takes, and less than the 4 s to the permission request, whose answer would end a
/// cancelled turn even if the agent were never told of the cancel.
const LENGTH_OF_CANCEL: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("failed_installs_are_told_apart", || {
            support::check_failed_install();
            Ok(())
        }),
        trial("turns_share_a_warm_session", turns_share_a_warm_session),
        trial("turns_at_once_run_in_order", turns_at_once_run_in_order),
        trial("text_streams_without_a_gap", text_streams_without_a_gap),
        trial("a_reject_changes_the_answer", a_reject_changes_the_answer),
        trial("a_cancel_ends_only_its_turn", a_cancel_ends_only_its_turn),
        trial("a_cancel_ends_a_permission", a_cancel_ends_a_permission),
        trial(
            "a_deadline_ends_only_its_turn",
            a_deadline_ends_only_its_turn,
        ),
        trial("lanes_run_side_by_side", lanes_run_side_by_side),
        trial("a_killed_agent_is_an_error", a_killed_agent_is_an_error),
        trial("a_drop_leaves_no_process", a_drop_leaves_no_process),
    ];
    // The trials wait for the agent's script and not for the processor.
    arguments.test_threads.get_or_insert(trials.len());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The agent's script, installed by the first trial that wants it.
static AGENT: LazyLock<Result<PathBuf, Unavailable>> = LazyLock::new(example_agent);

fn trial(name: &str, scenario: fn(&Path)) -> Trial {
    Trial::ignorable_test(name, move || match &*AGENT {
        Ok(script) => {
            scenario(script);
            Ok(Completion::Completed)
        }
        Err(Unavailable::Skip(why)) => Ok(Completion::ignored_with(format!(
            "SKIPPED real_agent: {why}"
        ))),
        Err(Unavailable::Fail(why)) => Err(Failed::from(why)),
    })
}

fn turns_share_a_warm_session(script: &Path) {
    let model = load(script, |options| options);
    let (process, session) = (model.agent().process_id(), model.session().session_id);
    assert_ne!(session, "");
    for question in ["First?", "Second?"] {
        let answer = ask(&model, question).unwrap();
        assert_eq!(answer.content, [HELP, UNDERSTAND, PERFECT].concat());
        assert_eq!(answer.stop_reason, StopReason::EndTurn);
        // Two calls and the end of each: all that came beside the text.
        let mut tools_only = Dropped::default();
        tools_only.tool_calls = 4;
        assert_eq!(answer.dropped, tools_only);
        assert_eq!(model.agent().process_id(), process);
        assert_eq!(model.session().session_id, session);
    }
    assert!(model.is_alive());
    model.close();
    // The end of its input is enough for this agent: nobody had to kill it.
    assert_eq!(model.agent().exit().and_then(|exit| exit.code), Some(0));
    assert!(!model.is_alive());
    assert!(!group_is_alive(process));
    assert_eq!(ask(&model, "Third?").unwrap_err().kind(), "closed");
}

/// The agent would abort the first turn for the second, so the second has to wait here.
fn turns_at_once_run_in_order(script: &Path) {
    let model = load(script, |options| {
        options.permission(PermissionPolicy::Reject)
    });
    let [first, second] = ["First?", "Second?"].map(|question| start(&model, question));
    let answer = first.wait().unwrap();
    assert_eq!(answer.content, [HELP, UNDERSTAND, SKIP].concat());
    assert_eq!(cancel_at_first_text(second).partial(), HELP);
}

fn text_streams_without_a_gap(script: &Path) {
    let model = load(script, |options| options);
    let mut pieces = Vec::new();
    let answer = start(&model, "Go on.").wait_with(|text| pieces.push(text.to_owned()));
    // Seconds lie between the chunks, so each must have been handed out by itself.
    assert_eq!(pieces, [HELP, UNDERSTAND, PERFECT]);
    assert_eq!(answer.unwrap().content, pieces.concat());
}

fn a_reject_changes_the_answer(script: &Path) {
    let model = load(script, |options| {
        options.permission(PermissionPolicy::Reject)
    });
    let answer = ask(&model, "Change it.").unwrap();
    assert_eq!(answer.content, [HELP, UNDERSTAND, SKIP].concat());
    assert_eq!(answer.dropped.tool_calls, 3, "the rejected call has no end");
}

fn a_cancel_ends_only_its_turn(script: &Path) {
    let model = load(script, |options| options);
    let process = model.agent().process_id();
    let session = model.session().session_id;
    let asked = Instant::now();
    let error = cancel_at_first_text(start(&model, "Stop at once."));
    assert_eq!((error.kind(), error.partial()), ("cancelled", HELP));
    assert!(asked.elapsed() < LENGTH_OF_CANCEL);
    let answer = ask(&model, "And now to the end.").unwrap();
    assert_eq!(answer.content, [HELP, UNDERSTAND, PERFECT].concat());
    assert_eq!(model.agent().process_id(), process);
    assert_eq!(model.session().session_id, session);
}

/// The agent waits for the answer to its permission request and looks for no cancel meanwhile: only the
/// answer `cancelled` frees it, whatever the host is still thinking about.
fn a_cancel_ends_a_permission(script: &Path) {
    let (asked, was_asked) = mpsc::channel();
    let (decision, decisions) = mpsc::channel();
    let decisions = Mutex::new(decisions);
    let model = load(script, |options| {
        options.ask_permission(move |request| {
            asked.send(request.clone()).unwrap();
            decisions.lock().unwrap().recv().unwrap()
        })
    });
    let session = model.session().session_id;
    let turn = start(&model, "Stop at the question.");
    let request = was_asked.recv().unwrap();
    assert_eq!(request.session_id, session);
    assert_eq!(request.tool_call["toolCallId"], "call_2");
    let kinds: Vec<_> = request.options.iter().map(|option| &option.kind).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    turn.cancel();
    let error = turn.wait().unwrap_err();
    assert_eq!(error.kind(), "cancelled");
    assert_eq!(error.partial(), [HELP, UNDERSTAND].concat());
    // The decision that comes too late is nobody's answer; the next one is the next request's.
    decision
        .send(PermissionDecision::Select("allow".to_owned()))
        .unwrap();
    decision
        .send(PermissionDecision::Select("reject".to_owned()))
        .unwrap();
    let answer = ask(&model, "And now to the end.").unwrap();
    assert_eq!(answer.content, [HELP, UNDERSTAND, SKIP].concat());
    assert_eq!(model.session().session_id, session);
}

fn a_deadline_ends_only_its_turn(script: &Path) {
    let model = load(script, |options| options);
    let session = model.session().session_id;
    let limit = TurnOptions::default().deadline(Duration::from_millis(1500));
    let request = GenerateRequest::user("Be quick.");
    let error = model.start(&request, limit).unwrap().wait().unwrap_err();
    assert_eq!((error.kind(), error.partial()), ("deadline_exceeded", HELP));
    let answer = ask(&model, "Take your time.").unwrap();
    assert_eq!(answer.content, [HELP, UNDERSTAND, PERFECT].concat());
    assert_eq!(model.session().session_id, session);
}

/// The agent accepts a mode it does not have. It has no `session/close`, and complains on standard error
/// about requests that it does not know.
fn lanes_run_side_by_side(script: &Path) {
    let model = load(script, |options| options.mode("careful"));
    let lanes = [model.lane().unwrap(), model.lane().unwrap()];
    let mut sessions: Vec<_> = lanes
        .iter()
        .map(|lane| lane.session().session_id)
        .chain([model.session().session_id])
        .collect();
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
    let started = Instant::now();
    thread::scope(|scope| {
        for lane in &lanes {
            scope.spawn(|| {
                let answer = lane.generate(&GenerateRequest::user("Here?")).unwrap();
                assert_eq!(answer.content, [HELP, UNDERSTAND, PERFECT].concat());
                assert_eq!(answer.dropped.other_sessions, 0);
            });
        }
        ask(&model, "And there?").unwrap();
    });
    assert!(
        started.elapsed() < 2 * LENGTH_OF_TURN,
        "one after the other"
    );
    drop(lanes);
    let error = cancel_at_first_text(start(&model, "Still there?"));
    assert_eq!((error.kind(), error.partial()), ("cancelled", HELP));
    assert_eq!(model.agent().diagnostics(), "");
}

fn a_killed_agent_is_an_error(script: &Path) {
    let model = load(script, |options| options);
    let process = model.agent().process_id();
    let error = start(&model, "Who goes there?")
        .wait_with(|_| kill(pid(process), Signal::SIGKILL).unwrap())
        .unwrap_err();
    assert_eq!(error.partial(), HELP);
    let GenerateError::AgentExited { error, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.exit.signal, Some(Signal::SIGKILL as i32));
    assert!(!model.is_alive());
    assert_eq!(ask(&model, "Hello?").unwrap_err().kind(), "agent_exited");
}

/// Through a launcher that leaves something behind, as real ones do: the end of its input ends the agent
/// and then the launcher, but not what else the launcher has started.
fn a_drop_leaves_no_process(script: &Path) {
    let launcher = "sleep 600 & node \"$0\"; exit $?";
    let command = [
        "sh".as_ref(),
        "-c".as_ref(),
        launcher.as_ref(),
        script.as_os_str(),
    ];
    let model = load_acp(LoadOptions::new(command)).unwrap();
    let process = model.agent().process_id();
    let (send, first_text) = mpsc::channel();
    let turn = start(&model, "Never mind.");
    let waiter = thread::spawn(move || turn.wait_with(|text| send.send(text.to_owned()).unwrap()));
    assert_eq!(first_text.recv().unwrap(), HELP);
    assert!(group_is_alive(process));
    drop(model);
    assert!(!group_is_alive(process));
    let error = waiter.join().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.partial()), ("closed", HELP));
}

fn load(script: &Path, with: impl FnOnce(LoadOptions) -> LoadOptions) -> AcpModel {
    let options = LoadOptions::new(["node".as_ref(), script.as_os_str()]);
    load_acp(with(options)).unwrap()
}

fn start(model: &AcpModel, question: &str) -> Turn {
    let request = GenerateRequest::user(question);
    model.start(&request, TurnOptions::default()).unwrap()
}

fn cancel_at_first_text(turn: Turn) -> GenerateError {
    let canceller = turn.canceller();
    turn.wait_with(|_| canceller.cancel()).unwrap_err()
}

fn ask(model: &AcpModel, question: &str) -> Result<GenerateResponse, GenerateError> {
    model.generate(&GenerateRequest::user(question))
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap())
}

/// Whether a process of the group that the agent leads still runs.
///
/// The kernel keeps an ended orphan in its group until somebody waits for it, which in a container
/// without an init nobody does. So where there is a `/proc` the state of each member counts.
fn group_is_alive(leader: u32) -> bool {
    if killpg(pid(leader), None) == Err(Errno::ESRCH) {
        return false;
    }
    let Ok(processes) = fs::read_dir("/proc") else {
        return true;
    };
    let mut stats = processes.filter_map(|process| {
        // What ends while the directory is read has no file any more.
        fs::read_to_string(process.ok()?.path().join("stat")).ok()
    });
    stats.any(|stat| {
        // `pid (name) state parent group …`, where the name may hold anything.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<_> = fields.split(' ').collect();
        fields[0] != "Z" && fields[2] == leader.to_string()
    })
}
