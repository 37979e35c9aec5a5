//! The official Rust SDK as a measured client: `bench-rust-sdk handler|session ORDER`.
//!
//! `handler` is the faster of its two ways, a function for each notification; `session` is the one that its
//! documentation begins with, `ActiveSession`.

#[path = "../../../src/order.rs"]
mod order;
#[path = "../../../src/usage.rs"]
mod usage;

use std::{
    env,
    error::Error,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, Result as SdkResult, on_receive_notification,
    on_receive_request,
    schema::ProtocolVersion,
    util::MatchDispatch,
    v1::{
        ConnectionTo, SessionMessage,
        schema::{
            ContentBlock, ContentChunk, InitializeRequest, NewSessionRequest, PermissionOptionKind,
            PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
            RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification,
            SessionUpdate, TextContent,
        },
    },
};

use order::{Order, Outcome, Work};

/// The text of the turn that runs.
type Text = Arc<Mutex<String>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(client), Some(order)) = (args.next(), args.next()) else {
        eprintln!("usage: bench-rust-sdk handler|session ORDER");
        return ExitCode::from(2);
    };
    match run(&client, &order).await {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-rust-sdk {client}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(client: &str, order: &str) -> Result<String, Box<dyn Error>> {
    let Order { agent, work } = serde_json::from_str(order)?;
    let sessions = match client {
        "handler" => false,
        "session" => true,
        _ => return Err("there is no such client".into()),
    };
    let live = async |turns: Turns| {
        if sessions {
            with_session(&agent, turns).await
        } else {
            with_handler(&agent, turns).await
        }
    };
    let mut outcome = match work {
        Work::Turns {
            script,
            count,
            warm_up,
        } => {
            let turns = Turns {
                script,
                count,
                warm_up,
            };
            live(turns).await?
        }
        Work::Cycles { script, count } => {
            let mut outcome = Outcome::default();
            let cpu = usage::cpu_ns();
            for _ in 0..count {
                let turns = Turns {
                    script: script.clone(),
                    count: 1,
                    warm_up: 0,
                };
                let start = Instant::now();
                let life = live(turns).await?;
                outcome.samples_ns.push(nanos(start));
                outcome.text_bytes += life.text_bytes;
            }
            outcome.cpu_ns = usage::cpu_ns() - cpu;
            outcome
        }
        _ => return Err("this client does not do this".into()),
    };
    outcome.peak_rss = usage::peak_rss();
    Ok(serde_json::to_string(&outcome)?)
}

struct Turns {
    script: String,
    count: usize,
    warm_up: usize,
}

impl Turns {
    /// Runs them; `turn` gives the length of its text.
    async fn run(&self, mut turn: impl AsyncFnMut(&str) -> SdkResult<usize>) -> SdkResult<Outcome> {
        for _ in 0..self.warm_up {
            turn("bench echo").await?;
        }
        let mut outcome = Outcome::default();
        let cpu = usage::cpu_ns();
        for _ in 0..self.count {
            let start = Instant::now();
            let len = turn(&self.script).await?;
            outcome.samples_ns.push(nanos(start));
            outcome.text_bytes += len as u64;
        }
        outcome.cpu_ns = usage::cpu_ns() - cpu;
        Ok(outcome)
    }
}

async fn with_handler(agent: &[String], turns: Turns) -> SdkResult<Outcome> {
    let text = Text::default();
    let appended = Arc::clone(&text);
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                append(&appended, notification);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                responder.respond(allow(&request))
            },
            on_receive_request!(),
        )
        .connect_with(config(agent), async move |to: ConnectionTo<Agent>| {
            let initialize = InitializeRequest::new(ProtocolVersion::V1);
            to.send_request(initialize).block_task().await?;
            let new_session = NewSessionRequest::new(env::current_dir().unwrap_or_default());
            let session = to.send_request(new_session).block_task().await?.session_id;
            turns
                .run(async |script| {
                    let prompt = PromptRequest::new(session.clone(), blocks(script));
                    to.send_request(prompt).block_task().await?;
                    Ok(std::mem::take(&mut *lock(&text)).len())
                })
                .await
        })
        .await
}

async fn with_session(agent: &[String], turns: Turns) -> SdkResult<Outcome> {
    Client
        .v1()
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                responder.respond(allow(&request))
            },
            on_receive_request!(),
        )
        .connect_with(config(agent), async move |to: ConnectionTo<Agent>| {
            let initialize = InitializeRequest::new(ProtocolVersion::V1);
            to.send_request(initialize).block_task().await?;
            let builder = to.build_session_cwd()?;
            let mut session = builder.block_task().start_session().await?.session;
            turns
                .run(async |script| {
                    // As `ActiveSession::read_to_string` does.
                    let text = Text::default();
                    session.send_prompt_blocks(blocks(script))?;
                    loop {
                        match session.read_update().await? {
                            SessionMessage::PromptResponse(response) => {
                                response?;
                                return Ok(lock(&text).len());
                            }
                            SessionMessage::Message(dispatch) => {
                                MatchDispatch::new(dispatch.into_raw())
                                    .if_notification(async |notification| {
                                        append(&text, notification);
                                        Ok(())
                                    })
                                    .await
                                    .otherwise_ignore()?;
                            }
                            _ => {}
                        }
                    }
                })
                .await
        })
        .await
}

fn config(agent: &[String]) -> AcpAgent {
    let mut words = agent.iter().map(String::as_str);
    let program = words.next().unwrap_or_default();
    AcpAgent::new(AcpAgentConfig::new(program).args(words))
}

fn blocks(script: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::Text(TextContent::new(script))]
}

fn append(text: &Text, notification: SessionNotification) {
    if let SessionUpdate::AgentMessageChunk(ContentChunk {
        content: ContentBlock::Text(chunk),
        ..
    }) = notification.update
    {
        lock(text).push_str(&chunk.text);
    }
}

fn allow(request: &RequestPermissionRequest) -> RequestPermissionResponse {
    let allows = |kind| kind == PermissionOptionKind::AllowOnce;
    let option = request.options.iter().find(|option| allows(option.kind));
    let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
        let selected = SelectedPermissionOutcome::new(option.option_id.clone());
        RequestPermissionOutcome::Selected(selected)
    });
    RequestPermissionResponse::new(outcome)
}

fn lock(text: &Text) -> std::sync::MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
