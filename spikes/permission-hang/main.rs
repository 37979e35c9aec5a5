//! Does a turn hang when nobody answers the agent's permission request? See `SPIKE.md`.

use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use acp_core::{AcpAgent, GenerateRequest, LoadOptions, PermissionDecision, PermissionPolicy};
use acp_fake_server::agents::Builtin;
use acp_mock_model::Script;
use clap::Parser;
use serde_json::{Value, json};
use spikes::builtin;
use spikes::claims::{self, Claims};
use spikes::program::Program;
use spikes::raw::Raw;
use spikes::which::Which;

/// What makes the mock model want to write a file where the agent may, and the fake agent ask for anything.
fn prompt(program: &Program) -> String {
    let file = program.cwd.join("written-by-a-spike.txt");
    format!("Please use a tool path={}", file.display())
}

/// How long nothing is said before a turn is taken to hang. The other steps take milliseconds.
const SILENCE: Duration = Duration::from_secs(5);

/// Leaves a permission request unanswered, and then answers in each way that there is.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    which: Which,
}

fn main() -> ExitCode {
    builtin::serve_if_asked().unwrap_or_else(|| claims::conclude(measure(&Arguments::parse())))
}

fn measure(arguments: &Arguments) -> io::Result<Claims> {
    let agent = arguments.which.agent(Builtin::Hanging, Script::Obey)?;
    let mut claims = Claims::default();
    println!("| the client | the turn |\n| --- | --- |");
    unanswered(&agent.program, &mut claims)?;

    let policies: [(&str, Configure); 4] = [
        ("acp-core, allow once", |options| {
            options.permission(PermissionPolicy::AllowOnce)
        }),
        ("acp-core, the first that allows", |options| {
            options.permission(PermissionPolicy::FirstAllow)
        }),
        ("acp-core, reject", |options| {
            options.permission(PermissionPolicy::Reject)
        }),
        (
            "acp-core, a host that does not decide for a minute",
            |options| {
                options
                    .ask_permission(|_| {
                        thread::sleep(Duration::from_secs(60));
                        PermissionDecision::Cancelled
                    })
                    .permission_timeout(Duration::from_millis(500))
            },
        ),
    ];
    for (name, configure) in policies {
        let mut options = configure(agent.program.options()).deadline(Duration::from_secs(60));
        if let Some(mode) = &agent.program.mode {
            options = options.mode(mode);
        }
        let model = AcpAgent::start(options).map_err(io::Error::other)?;
        let lane = model.lane().map_err(io::Error::other)?;
        let begun = Instant::now();
        let end = lane.generate(&GenerateRequest::user(prompt(&agent.program)));
        let took = begun.elapsed().as_millis();
        let (ended, how) = match &end {
            Ok(response) => (true, response.stop_reason.as_str().to_owned()),
            Err(error) => (error.kind() != "turn_timeout", error.kind().to_owned()),
        };
        println!("| {name} | {how} after {took} ms |");
        claims.claim(format!("{name}: the turn ends"), ended);
    }
    Ok(claims)
}

type Configure = fn(LoadOptions) -> LoadOptions;

/// A client that says nothing; then cancels; and then says that the request is cancelled as well.
fn unanswered(program: &Program, claims: &mut Claims) -> io::Result<()> {
    let mut agent = Raw::start(program)?;
    agent.initialize()?;
    let session = agent.session(program)?;
    let prompt = agent.prompt(&session, &prompt(program))?;
    let asks = |message: &Value| message["method"] == "session/request_permission";
    let Some(asked) = agent.wait_for(Duration::from_secs(60), asks) else {
        return Err(io::Error::other("the agent asks for no permission"));
    };
    let silent = agent.answer(prompt, SILENCE).is_none();
    println!(
        "| says nothing | {} |",
        if silent { "hangs" } else { "ends" }
    );
    claims.claim("a turn hangs while its permission request is open", silent);

    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    agent.send(cancel)?;
    let mut end = agent.answer(prompt, SILENCE);
    println!(
        "| cancels, and leaves the request unanswered | {} |",
        end.as_ref().map_or("hangs".to_owned(), stop_reason)
    );
    if end.is_none() {
        let outcome = json!({"outcome": {"outcome": "cancelled"}});
        agent.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}))?;
        end = agent.answer(prompt, SILENCE);
        println!(
            "| answers the request with `cancelled` | {} |",
            end.as_ref().map_or("hangs".to_owned(), stop_reason)
        );
    }
    claims.claim(
        "a cancel, with its request answered, ends it",
        end.is_some(),
    );
    Ok(())
}

fn stop_reason(end: &Value) -> String {
    match end["result"]["stopReason"].as_str() {
        Some(reason) => format!("ends: {reason}"),
        None => format!("ends: error {}", end["error"]["code"]),
    }
}
