//! Hooks: in which order they come, and what they can change.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use acp_core::{GenerateResponse, InProcessClient, Message, ToolResult};
use serde_json::json;

use crate::model::{Script, calling, results, text, tool};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn hooks_come_in_the_order_in_which_they_were_added() {
    let log = Log::default();
    let model = Script::new([calling(["t", "t"]), text("done")]);
    let mut client = InProcessClient::new(model).tools_side_by_side(
        const {
            // One after the other, so that the tools have an order, too.
            std::num::NonZeroUsize::new(1).unwrap()
        },
    );
    for name in ["x", "y"] {
        let logs = [(); 4].map(|()| log.clone());
        let [before_model, after_model, before_tool, after_tool] = logs;
        client = client
            .before_model(move |_, context| {
                before_model.add(format!("before model {name} {}", context.turn));
                ControlFlow::Continue(())
            })
            .after_model(move |_, context| {
                after_model.add(format!("after model {name} {}", context.turn));
            })
            .before_tool(move |call, _| {
                before_tool.add(format!("before {} {name}", call.id));
                ControlFlow::Continue(())
            })
            .after_tool(move |call, _, _| after_tool.add(format!("after {} {name}", call.id)));
    }
    let inside = log.clone();
    let client = client.tool(tool("t", move || {
        inside.add("tool");
        Ok(String::new())
    }));
    client.run("?").unwrap();
    assert_eq!(
        log.lines(),
        [
            "before model x 1",
            "before model y 1",
            "after model x 1",
            "after model y 1",
            "before c0 x",
            "before c0 y",
            "before c1 x",
            "before c1 y",
            "tool",
            "tool",
            "after c0 x",
            "after c0 y",
            "after c1 x",
            "after c1 y",
            "before model x 2",
            "before model y 2",
            "after model x 2",
            "after model y 2",
        ]
    );
}

#[test]
fn a_hook_changes_what_goes_in_and_what_comes_out() {
    let model = Script::new([calling(["add"]), text("secret")]);
    let add = acp_core::Tool::new("add", "", json!({}), |n: serde_json::Value| {
        Ok::<_, String>(n)
    });
    let client = InProcessClient::new(model)
        .tool(add)
        .before_model(|request, _| {
            request.messages.insert(0, Message::system("from a hook"));
            ControlFlow::Continue(())
        })
        .after_model(|response, _| response.content = response.content.replace("secret", "***"))
        .before_tool(|call, _| {
            call.arguments["n"] = json!(7);
            call.id = "of no meaning".to_owned();
            ControlFlow::Continue(())
        })
        .after_tool(|_, result, _| result.content.push('!'));
    let run = client.run("?").unwrap();
    let asked = client.model().asked();
    for request in &asked {
        assert_eq!(request.messages[0], Message::system("from a hook"));
        assert_eq!(request.messages[1], Message::user("?"));
    }
    assert_eq!(
        results(&run.messages),
        [("c0".to_owned(), "{\"n\":7}!".to_owned())]
    );
    // The conversation has what the model said, and neither what it was told beside it.
    assert_eq!(run.messages[1].tool_calls()[0].arguments, json!({}));
    assert_eq!(run.tools().next().unwrap().call.arguments, json!({"n": 7}));
    assert_eq!(run.text(), "***");
    let Ok(kept) = client.messages();
    assert_eq!(kept.last(), Some(&Message::assistant("***")));
}

#[test]
fn a_hook_can_call_another_tool() {
    let model = Script::new([calling(["old"]), text("")]);
    let client = InProcessClient::new(model)
        .tool(tool("new", || Ok("from the new one".to_owned())))
        .before_tool(|call, _| {
            call.name = call.name.replace("old", "new");
            ControlFlow::Continue(())
        });
    let run = client.run("?").unwrap();
    assert_eq!(results(&run.messages)[0].1, "from the new one");
}

#[test]
fn a_veto_is_the_result_and_the_rest_does_not_happen() {
    let log = Log::default();
    let [second, after] = [log.clone(), log.clone()];
    let model = Script::new([calling(["danger", "safe"]), text("done")]);
    let client = InProcessClient::new(model)
        .tool(tool("danger", || unreachable!("it was forbidden")))
        .tool(tool("safe", || Ok("fine".to_owned())))
        .before_tool(|call, _| match &*call.name {
            "danger" => ControlFlow::Break(ToolResult::error("not today")),
            _ => ControlFlow::Continue(()),
        })
        .before_tool(move |call, _| {
            second.add(format!("second {}", call.name));
            ControlFlow::Continue(())
        })
        .after_tool(move |call, result, _| {
            after.add(format!("after {}: {}", call.name, result.content));
        });
    let run = client.run("?").unwrap();
    let expected = [("c0", "error: not today"), ("c1", "fine")];
    let expected = expected.map(|(id, text)| (id.to_owned(), text.to_owned()));
    assert_eq!(results(&run.messages), expected);
    assert_eq!(
        log.lines(),
        ["second safe", "after danger: not today", "after safe: fine"]
    );
}

#[test]
fn a_hook_answers_in_the_place_of_the_model() {
    let log = Log::default();
    let [second, after] = [log.clone(), log.clone()];
    let client = InProcessClient::new(Script::default())
        .before_model(|_, _| ControlFlow::Break(GenerateResponse::text("from a cache")))
        .before_model(move |_, _| {
            second.add("second");
            ControlFlow::Continue(())
        })
        .after_model(move |response, _| after.add(format!("after {}", response.content)));
    let run = client.run("?").unwrap();
    assert_eq!(run.text(), "from a cache");
    assert_eq!(client.model().asked().len(), 0);
    assert_eq!(log.lines(), ["after from a cache"]);
    assert!(run.turns[0].duration.is_zero() && run.timings.model.is_zero());
    let Ok(kept) = client.messages();
    assert_eq!(
        kept,
        [Message::user("?"), Message::assistant("from a cache")]
    );
}
