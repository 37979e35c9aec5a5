//! A connection of the SDK and its sessions.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Error, Result as SdkResult, on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ActiveSession, ConnectionTo,
        schema::{
            AuthMethod, Implementation, InitializeRequest, RequestPermissionRequest, SessionId,
            SetSessionModeRequest,
        },
    },
};
use serde_json::{Value, json};
use tokio::{
    select,
    sync::{Notify, oneshot, watch},
    task,
};

use crate::{
    answer::{agent_exited, process_exit, request_failed},
    permission::{self, CancelledTurns, Policy},
    turn::{Lane, Turn},
};

/// A connection that got as far as its first session.
pub struct Client {
    connection: Rc<Connection>,
    cwd: Option<String>,
    lanes: RefCell<HashMap<String, Rc<Lane>>>,
}

/// A request that failed: its method and the error.
pub type Failed = (&'static str, Error);

/// The agent's login methods, once it has told them.
type AuthMethods = Rc<OnceCell<Vec<AuthMethod>>>;

impl Client {
    /// Starts the agent and opens the main lane.
    pub async fn load(policy: Policy, args: &Value) -> Result<Self, Value> {
        let cancelled = CancelledTurns::default();
        let builder = agent_client_protocol::Client.v1().on_receive_request(
            {
                let cancelled = cancelled.clone();
                async move |request: RequestPermissionRequest, responder, _| {
                    responder.respond(if cancelled.contains(&request.session_id) {
                        permission::cancelled()
                    } else {
                        policy.answer(&request)
                    })
                }
            },
            on_receive_request!(),
        );
        let agent = AcpAgent::new(config(args));
        let cwd = args["cwd"].as_str().map(str::to_owned);
        let mode = args["mode"].as_str().map(str::to_owned);
        let close = Rc::new(Notify::new());
        let auth_methods = AuthMethods::default();
        let (opened_tx, opened) = oneshot::channel();
        let (ended_tx, mut ended) = watch::channel(None);
        {
            let (cwd, close) = (cwd.clone(), Rc::clone(&close));
            let auth_methods = Rc::clone(&auth_methods);
            let foreground = async move |to: ConnectionTo<Agent>| {
                let session = handshake(&to, &auth_methods, cwd.as_deref(), mode).await;
                let failure = session.as_ref().err().map(|(_, error)| error.clone());
                // Nobody waits for it any more where the driver is about to exit.
                let _ = opened_tx.send(session.map(|session| (to.clone(), session)));
                match failure {
                    Some(error) if !is_end_of_connection(&error) => return Err(error),
                    // How the process ended is in what the connection returns.
                    Some(_) => {}
                    None => select! {
                        () = close.notified() => {}
                        () = to.incoming_closed() => {}
                    },
                }
                Ok(())
            };
            task::spawn_local(async move {
                let result = builder.connect_with(agent, foreground).await;
                ended_tx.send_replace(Some(result));
            });
        }
        match opened.await {
            Ok(Ok((to, session))) => {
                let connection = Connection {
                    to,
                    cancelled,
                    auth_methods,
                    close,
                    closing: Cell::new(false),
                    ended,
                };
                let client = Self {
                    connection: Rc::new(connection),
                    cwd,
                    lanes: RefCell::default(),
                };
                client.add("main", session);
                Ok(client)
            }
            failed => {
                let ended = wait(&mut ended).await;
                let failed = failed.ok().and_then(Result::err);
                Err(load_failed(failed, &auth_methods, &ended))
            }
        }
    }

    /// Opens another session.
    pub async fn lane(&self, name: &str) -> Result<Value, Value> {
        match open(&self.connection.to, self.cwd.as_deref()).await {
            Ok(session) => {
                self.add(name, session);
                Ok(json!({"session_id": self.lane_id(name)}))
            }
            Err((method, error)) => Err(self.connection.failed(method, &error).await),
        }
    }

    /// The session of a lane.
    pub fn lane_id(&self, name: &str) -> Option<SessionId> {
        let lanes = self.lanes.borrow();
        lanes.get(name).map(|lane| lane.session_id().clone())
    }

    /// A turn to come on a lane, if there is such a lane.
    pub fn turn(&self, lane: &str) -> Option<Turn> {
        let lane = self.lanes.borrow().get(lane).cloned()?;
        Some(Turn::new(Rc::clone(&self.connection), lane))
    }

    /// Whether the connection to the agent is up.
    pub fn is_alive(&self) -> bool {
        let to = &self.connection.to;
        !to.is_incoming_closed() && to.termination().is_none()
    }

    /// Ends the connection by ending its foreground, and waits until the SDK has let the agent go.
    pub async fn close(&self) {
        self.connection.closing.set(true);
        self.connection.close.notify_one();
        // A failure of an agent that the host lets go is nothing that it can act on.
        let _ = self.connection.ended().await;
    }

    fn add(&self, name: &str, session: ActiveSession<'static, Agent>) {
        let lane = Rc::new(Lane::new(session));
        self.lanes.borrow_mut().insert(name.to_owned(), lane);
    }
}

/// What the sessions share.
pub struct Connection {
    pub to: ConnectionTo<Agent>,
    pub cancelled: CancelledTurns,
    auth_methods: AuthMethods,
    close: Rc<Notify>,
    closing: Cell<bool>,
    ended: watch::Receiver<Option<SdkResult<()>>>,
}

impl Connection {
    /// The error of a request: its own, or that of the connection which ended under it.
    pub async fn failed(&self, method: &str, error: &Error) -> Value {
        let ended = self.ended.borrow().is_some();
        if ended || is_end_of_connection(error) {
            self.gone().await
        } else {
            request_failed(method, error, told(&self.auth_methods))
        }
    }

    /// The error of what the connection's end leaves undone.
    pub async fn gone(&self) -> Value {
        let ended = self.ended().await;
        if self.closing.get() {
            json!({"kind": "closed", "message": "the connection was closed"})
        } else {
            agent_exited(&ended)
        }
    }

    /// How the connection ended, once it has.
    pub async fn ended(&self) -> SdkResult<()> {
        wait(&mut self.ended.clone()).await
    }
}

async fn handshake(
    to: &ConnectionTo<Agent>,
    auth_methods: &OnceCell<Vec<AuthMethod>>,
    cwd: Option<&str>,
    mode: Option<String>,
) -> Result<ActiveSession<'static, Agent>, Failed> {
    let this = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let initialize = InitializeRequest::new(ProtocolVersion::V1).client_info(this);
    let initialized = to.send_request(initialize).block_task().await;
    let initialized = initialized.map_err(|error| ("initialize", error))?;
    auth_methods.get_or_init(|| initialized.auth_methods);
    let session = open(to, cwd).await?;
    if let Some(mode) = mode {
        let set_mode = SetSessionModeRequest::new(session.session_id().clone(), mode);
        let set = to.send_request(set_mode).block_task().await;
        set.map_err(|error| ("session/set_mode", error))?;
    }
    Ok(session)
}

async fn open(
    to: &ConnectionTo<Agent>,
    cwd: Option<&str>,
) -> Result<ActiveSession<'static, Agent>, Failed> {
    let builder = match cwd {
        Some(cwd) => Ok(to.build_session(cwd)),
        None => to.build_session_cwd(),
    };
    let setup = match builder {
        Ok(builder) => builder.block_task().start_session().await,
        Err(error) => Err(error),
    };
    let setup = setup.map_err(|error| ("session/new", error))?;
    Ok(setup.session)
}

fn config(args: &Value) -> AcpAgentConfig {
    let words = args["command"].as_array().into_iter().flatten();
    let mut words = words.filter_map(Value::as_str);
    let env = args["env"].as_object().into_iter().flatten();
    AcpAgentConfig::new(words.next().unwrap_or_default())
        .args(words)
        .envs(env.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())))
}

/// The error of a start. The SDK tells of a program that cannot be started, and of one that ended,
/// where it tells how the connection ended.
fn load_failed(
    request: Option<Failed>,
    auth_methods: &OnceCell<Vec<AuthMethod>>,
    ended: &SdkResult<()>,
) -> Value {
    match (request, ended) {
        (Some((method, error)), _) if !is_end_of_connection(&error) => {
            request_failed(method, &error, told(auth_methods))
        }
        (None, Err(error)) if process_exit(error).is_none() => {
            json!({"kind": "spawn_failed", "message": error.to_string()})
        }
        _ => agent_exited(ended),
    }
}

fn told(auth_methods: &OnceCell<Vec<AuthMethod>>) -> &[AuthMethod] {
    auth_methods.get().map_or(&[], Vec::as_slice)
}

fn is_end_of_connection(error: &Error) -> bool {
    agent_client_protocol::is_incoming_transport_closed(error)
        || agent_client_protocol::is_connection_terminated(error)
}

async fn wait(ended: &mut watch::Receiver<Option<SdkResult<()>>>) -> SdkResult<()> {
    match ended.wait_for(Option::is_some).await {
        Ok(ended) => ended.clone().unwrap_or(Ok(())),
        // Its task cannot go before it has said so.
        Err(_) => Ok(()),
    }
}
