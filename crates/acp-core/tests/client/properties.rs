//! Whatever a model calls and whatever becomes of it: results are in the order of the calls, every call has
//! one, and a conversation changes only with a run that has ended well.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;

use acp_core::{
    CancelToken, ConversationStore, DEFAULT_CONVERSATION, GenerateError, GenerateRequest,
    GenerateResponse, InProcessClient, Message, RunContext, RunRequest, Tool, ToolCall, ToolResult,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a call is to do.
#[derive(Debug, Clone, Copy)]
enum Act {
    Succeed,
    Fail,
    Panic,
    Unknown,
    BadArguments,
    Veto,
    Cancel,
}

/// How the script of a run ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Answer,
    ModelError,
    OneTurnTooMany,
}

#[derive(Debug, Clone)]
struct Call {
    act: Act,
    serial: bool,
    millis: u64,
}

fn any_call(acts: &'static [Act]) -> impl Strategy<Value = Call> {
    (proptest::sample::select(acts), any::<bool>(), 0..3_u64).prop_map(|(act, serial, millis)| {
        Call {
            act,
            serial,
            millis,
        }
    })
}

const HARMLESS: &[Act] = &[
    Act::Succeed,
    Act::Succeed,
    Act::Fail,
    Act::Panic,
    Act::Unknown,
    Act::BadArguments,
    Act::Veto,
];
const ALL: &[Act] = &[
    Act::Succeed,
    Act::Succeed,
    Act::Fail,
    Act::Veto,
    Act::Cancel,
];

fn act(arguments: Value, context: &RunContext) -> Result<Value, String> {
    let number = &arguments["number"];
    std::thread::sleep(Duration::from_millis(arguments["millis"].as_u64().unwrap()));
    match arguments["act"].as_str().unwrap() {
        "Fail" => Err(format!("{number} failed")),
        "Panic" => panic!("{number} panicked"),
        "Cancel" => {
            context.cancel.cancel();
            Ok(json!(number))
        }
        _ => Ok(json!(number)),
    }
}

#[derive(serde::Deserialize)]
struct Strict {
    #[serde(rename = "nowhere")]
    _nowhere: u8,
}

fn to_answer(calls: &[Call], first: usize) -> GenerateResponse {
    let calls = calls.iter().enumerate().map(|(index, call)| {
        let number = first + index;
        let name = match call.act {
            Act::Unknown => "unknown",
            Act::BadArguments => "strict",
            _ if call.serial => "serial",
            _ => "parallel",
        };
        let arguments =
            json!({"number": number, "act": format!("{:?}", call.act), "millis": call.millis});
        ToolCall::new(format!("c{number}"), name, arguments)
    });
    GenerateResponse::calling(calls.collect::<Vec<_>>())
}

type Model = Box<dyn Fn(&GenerateRequest) -> Result<GenerateResponse, GenerateError>>;

fn client(script: &[Vec<Call>], end: End, side_by_side: usize) -> InProcessClient<Model> {
    let mut first = 0;
    let mut answers = Vec::new();
    for calls in script {
        answers.push(to_answer(calls, first));
        first += calls.len();
    }
    if let End::Answer = end {
        answers.push(GenerateResponse::text("done"));
    }
    let answers = Mutex::new(answers.into_iter());
    let model: Model = Box::new(move |_| {
        let closed = GenerateError::Closed {
            partial: String::new(),
        };
        answers.lock().unwrap().next().ok_or(closed)
    });
    let schema = || json!({"type": "object"});
    let turns = match end {
        End::Answer | End::ModelError => script.len() + 1,
        End::OneTurnTooMany => script.len(),
    };
    InProcessClient::new(model)
        .tool(Tool::new_with("parallel", "", schema(), act))
        .tool(Tool::new_with("serial", "", schema(), act).serial())
        .tool(Tool::new("strict", "", schema(), |_: Strict| {
            Ok::<_, String>("accepted")
        }))
        .before_tool(|call, _| match call.arguments["act"] == "Veto" {
            true => ToolResult::error(format!("{} vetoed", call.arguments["number"])).into_break(),
            false => std::ops::ControlFlow::Continue(()),
        })
        .tools_side_by_side(NonZeroUsize::new(side_by_side).unwrap())
        .max_turns(u32::try_from(turns).unwrap())
}

trait IntoBreak: Sized {
    fn into_break(self) -> std::ops::ControlFlow<Self> {
        std::ops::ControlFlow::Break(self)
    }
}

impl IntoBreak for ToolResult {}

/// Every call of every answer has its result right behind it, in order.
fn assert_well_formed(messages: &[Message]) {
    let mut rest = messages.iter();
    while let Some(message) = rest.next() {
        assert_ne!(message.role, "tool");
        for call in message.tool_calls() {
            let result = rest.next().expect("a result");
            assert_eq!(result.role, "tool");
            assert_eq!(result.other["tool_call_id"], *call.id);
        }
    }
}

fn expected(number: usize, act: Act) -> String {
    match act {
        Act::Succeed | Act::Cancel => number.to_string(),
        Act::Fail => format!("error: {number} failed"),
        Act::Panic => format!("error: the tool panicked: {number} panicked"),
        Act::Unknown => "error: there is no tool `unknown`".to_owned(),
        Act::BadArguments => "error: the arguments do not fit: missing field `nowhere`".to_owned(),
        Act::Veto => format!("error: {number} vetoed"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn results_are_in_the_order_of_the_calls(
        script in vec(vec(any_call(HARMLESS), 1..6), 1..4),
        side_by_side in 1..5_usize,
    ) {
        let client = client(&script, End::Answer, side_by_side);
        let run = client.run("?").unwrap();
        assert_well_formed(&run.messages);
        let acts = script.iter().flatten().map(|call| call.act);
        let results = crate::model::results(&run.messages);
        prop_assert_eq!(results.len(), acts.clone().count());
        for (number, (act, (id, text))) in acts.zip(&results).enumerate() {
            prop_assert_eq!(id, &format!("c{number}"));
            let expected = expected(number, act);
            prop_assert!(text.starts_with(&expected), "{} is not {}", text, expected);
        }
        prop_assert_eq!(run.text(), "done");
    }

    #[test]
    fn a_conversation_changes_only_with_a_run_that_ends_well(
        script in vec(vec(any_call(ALL), 1..4), 1..4),
        end in proptest::sample::select(&[End::Answer, End::ModelError, End::OneTurnTooMany][..]),
        side_by_side in 1..4_usize,
        abort in any::<bool>(),
    ) {
        let client = client(&script, end, side_by_side).abort_on_tool_error(abort);
        let before = [Message::user("before"), Message::assistant("yes")];
        let Ok(()) = client.store().append(DEFAULT_CONVERSATION, &before);
        let token = CancelToken::new();
        let result = client.run(RunRequest::user("?").cancel(&token));
        let Ok(after) = client.messages();
        let ends_well = matches!(end, End::Answer)
            && !token.is_cancelled()
            && !(abort && script.iter().flatten().any(|call| matches!(call.act, Act::Fail | Act::Veto)));
        prop_assert_eq!(result.is_ok(), ends_well);
        match result {
            Ok(run) => {
                assert_well_formed(&run.messages);
                prop_assert_eq!(&after[..2], &before);
                prop_assert_eq!(&after[2..], &run.messages);
            }
            Err(error) => {
                prop_assert_eq!(&after, &before);
                let run = error.run().unwrap();
                assert_well_formed(&run.messages);
                prop_assert_eq!(&run.messages[0], &Message::user("?"));
                prop_assert_eq!(error.kind() == "cancelled", token.is_cancelled());
            }
        }
    }
}
