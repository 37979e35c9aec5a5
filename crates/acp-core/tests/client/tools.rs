//! Which calls run at once.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_core::{CancelToken, InProcessClient, RunContext, RunRequest, Tool};
use serde_json::{Value, json};

use crate::model::{Meeting, Script, calling, results, text, tool};

#[test]
fn the_calls_of_one_answer_run_side_by_side() {
    let model = Script::new([calling(["meet", "meet", "meet"]), text("")]);
    let meeting = Meeting::default();
    let meet = tool("meet", move || match meeting.of(3) {
        true => Ok("met".to_owned()),
        false => Err("alone".to_owned()),
    });
    let run = InProcessClient::new(model).tool(meet).run("?").unwrap();
    for result in results(&run.messages) {
        assert_eq!(result.1, "met");
    }
    let longest = run.tools().map(|tool| tool.duration).max().unwrap();
    assert!(longest > Duration::ZERO);
    assert!(run.timings.tools >= longest);
}

#[test]
fn a_hook_that_takes_its_time_is_no_time_of_the_tools() {
    let pause = Duration::from_millis(30);
    let model = Script::new([calling(["quick", "quick"]), text("")]);
    let client = InProcessClient::new(model)
        .tool(tool("quick", || Ok(String::new())))
        .before_tool(move |_, _| {
            std::thread::sleep(pause);
            ControlFlow::Continue(())
        })
        .after_tool(move |_, _, _| std::thread::sleep(pause));
    let timings = client.run("?").unwrap().timings;
    assert!(timings.total >= timings.tools + 4 * pause, "{timings:?}");
}

/// How many were at work at once, at most.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let result = work();
        self.now.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

#[test]
fn no_more_run_at_once_than_are_allowed() {
    for (allowed, calls) in [(1, 3), (2, 6), (3, 6)] {
        let names = vec!["work"; calls];
        let answer = match names.as_slice() {
            &[a, b, c] => calling([a, b, c]),
            _ => calling(["work"; 6]),
        };
        let model = Script::new([answer, text("")]);
        let crowd = Arc::new(Crowd::default());
        let meeting = Meeting::default();
        let inside = Arc::clone(&crowd);
        let work = tool("work", move || match inside.work(|| meeting.of(allowed)) {
            true => Ok("met".to_owned()),
            false => Err("alone".to_owned()),
        });
        let client = InProcessClient::new(model)
            .tool(work)
            .tools_side_by_side(NonZeroUsize::new(allowed).unwrap());
        let run = client.run("?").unwrap();
        assert_eq!(run.tools().count(), calls);
        assert!(run.tools().all(|tool| !tool.result.is_error));
        assert_eq!(crowd.most.load(Ordering::SeqCst), allowed);
    }
}

#[test]
fn a_serial_tool_runs_alone_and_in_its_place() {
    let model = Script::new([
        calling(["read", "read", "write", "write", "read", "read"]),
        text(""),
    ]);
    let log = Arc::new(Mutex::new(Vec::new()));
    let logged = |name: &'static str, together: usize| {
        let log = Arc::clone(&log);
        let meetings = [Meeting::default(), Meeting::default()];
        let calls = AtomicUsize::new(0);
        tool(name, move || {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            log.lock().unwrap().push(format!("{name} begins"));
            let met = meetings[call / together % 2].of(together);
            log.lock().unwrap().push(format!("{name} ends"));
            met.then(String::new).ok_or("alone".to_owned())
        })
    };
    let client = InProcessClient::new(model)
        .tool(logged("read", 2))
        .tool(logged("write", 1).serial());
    let run = client.run("?").unwrap();
    assert!(run.tools().all(|tool| !tool.result.is_error));
    let pair = |name: &str| {
        [
            format!("{name} begins"),
            format!("{name} begins"),
            format!("{name} ends"),
            format!("{name} ends"),
        ]
    };
    let alone = |name: &str| [format!("{name} begins"), format!("{name} ends")];
    let expected = [
        &pair("read")[..],
        &alone("write"),
        &alone("write"),
        &pair("read"),
    ];
    assert_eq!(*log.lock().unwrap(), expected.concat());
}

#[test]
fn a_tool_is_told_of_its_run() {
    let model = Script::new([calling(["where"]), calling(["where"]), text("")]);
    let whereabouts = Tool::new_with(
        "where",
        "",
        json!({"type": "object"}),
        |_: Value, context: &RunContext| {
            let cancelled = context.cancel.is_cancelled();
            Ok::<_, String>(format!(
                "{} {} {cancelled}",
                context.conversation, context.turn
            ))
        },
    );
    let client = InProcessClient::new(model).tool(whereabouts);
    let request = RunRequest::user("?")
        .conversation("c")
        .cancel(&CancelToken::new());
    let run = client.run(request).unwrap();
    let results: Vec<_> = results(&run.messages)
        .into_iter()
        .map(|result| result.1)
        .collect();
    assert_eq!(results, ["c 1 false", "c 2 false"]);
}
