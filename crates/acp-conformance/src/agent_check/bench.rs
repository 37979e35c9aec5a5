//! What a check works with: processes of the agent, shared where that is harmless.

use std::{cell::RefCell, env, rc::Rc};

use serde_json::{Value, json};

use super::{
    NotRunnable, Options, Row, Verdict,
    checks::Check,
    talk::{Agent, Answer, RpcError, Stop, too_long},
    wire::Wire,
};

/// `-32000`: the agent wants its client to log in first.
const AUTH_REQUIRED: i64 = -32000;

/// How much of the agent's own words is shown, in characters.
const SHOWN: usize = 160;

/// What a check found.
#[derive(Debug)]
pub(super) struct Finding {
    verdict: Verdict,
    outcome: String,
    detail: String,
}

impl Finding {
    pub(super) fn new(verdict: Verdict, outcome: impl Into<String>) -> Finding {
        Finding {
            verdict,
            outcome: outcome.into(),
            detail: String::new(),
        }
    }

    /// With the agent's own words.
    pub(super) fn with(mut self, detail: impl Into<String>) -> Finding {
        self.detail = detail.into();
        self
    }

    /// What an error of the agent comes to.
    pub(super) fn error(verdict: Verdict, error: &RpcError) -> Finding {
        Finding::new(verdict, format!("error {}", error.code)).with(&error.message)
    }
}

/// The agent under check.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) wire: Rc<RefCell<Wire>>,
    /// What it answered to the first `initialize`.
    initialized: Value,
    /// The process that checks share: initialized, and idle.
    shared: Option<Agent>,
    /// A session of the shared process in which nothing runs.
    session: Option<Session>,
    /// The kinds of the options of the first permission request, in the agent's order.
    pub(super) options_seen: Option<Vec<String>>,
    /// The session of the first good turn.
    pub(super) told: Option<Session>,
}

/// A session that the agent has opened.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) id: String,
}

impl<'a> Bench<'a> {
    /// Starts the agent, which must answer `initialize`.
    pub(super) fn open(options: &'a Options) -> Result<Bench<'a>, NotRunnable> {
        let mut bench = Bench {
            options,
            wire: Rc::default(),
            initialized: Value::Null,
            shared: None,
            session: None,
            options_seen: None,
            told: None,
        };
        let mut agent = bench.fresh().map_err(not_runnable)?;
        let answer = bench.initialize(&mut agent, 1).map_err(not_runnable)?;
        match answer.result {
            Ok(result) => bench.initialized = result,
            Err(error) => {
                let why = format!("error {}: {}", error.code, error.message);
                return Err(NotRunnable::NoAgent(why));
            }
        }
        bench.shared = Some(agent);
        Ok(bench)
    }

    /// What the agent answered to `initialize`.
    pub(super) fn initialized(&self) -> &Value {
        &self.initialized
    }

    /// Does one check.
    pub(super) fn run(&mut self, check: &'static Check) -> Result<Row, NotRunnable> {
        let mark = self.wire.borrow().mark();
        let finding = match check.run(self) {
            Ok(finding) => finding,
            Err(Stop::NotApplicable(why)) => {
                Finding::new(Verdict::NotApplicable, "not checked").with(why)
            }
            Err(Stop::Died(how)) => {
                self.lose();
                Finding::new(Verdict::Died, "died").with(how)
            }
            Err(Stop::TooLong) => {
                self.lose();
                let why = "nothing after it can be read, and no answer can be told from it";
                Finding::new(Verdict::Wrong, too_long()).with(why)
            }
            Err(Stop::Timeout(what)) => {
                self.lose();
                Finding::new(Verdict::Timeout, what)
            }
            Err(Stop::System(error)) => return Err(NotRunnable::Start(error)),
        };
        Ok(Row {
            check,
            verdict: finding.verdict,
            outcome: finding.outcome,
            detail: self.shown(&finding.detail),
            faults: self.wire.borrow().since(mark),
        })
    }

    /// A process that nothing was said to.
    pub(super) fn fresh(&self) -> Result<Agent, Stop> {
        Ok(Agent::start(self.options, &self.wire)?)
    }

    /// A process of the check's own, initialized.
    pub(super) fn ready(&self) -> Result<Agent, Stop> {
        let mut agent = self.fresh()?;
        self.initialize(&mut agent, 1)?;
        Ok(agent)
    }

    /// Initializes a process.
    pub(super) fn initialize(&self, agent: &mut Agent, version: u64) -> Result<Answer, Stop> {
        let id = agent.send("initialize", &initialize_params(version));
        agent.answer_to(&id, self.options.limits.start)
    }

    /// The shared process, initialized and idle.
    pub(super) fn agent(&mut self) -> Result<&mut Agent, Stop> {
        let agent = match self.shared.take() {
            Some(agent) => agent,
            None => self.ready()?,
        };
        Ok(self.shared.insert(agent))
    }

    /// The shared process and an idle session in it.
    pub(super) fn session(&mut self) -> Result<(&mut Agent, Session), Stop> {
        let known = self.session.take();
        let options = self.options;
        let agent = self.agent()?;
        let session = match known {
            Some(session) => session,
            None => open(agent, options)?,
        };
        self.session = Some(session.clone());
        // Taken again, as the borrow above ends with the assignment.
        Ok((self.agent()?, session))
    }

    /// Ends the shared process, which is in an unknown state.
    pub(super) fn lose(&mut self) {
        self.shared = None;
        self.session = None;
    }

    /// Opens another session next time.
    pub(super) fn leave_session(&mut self) {
        self.session = None;
    }

    /// Whether `agentCapabilities` has this member set to true.
    pub(super) fn can(&self, capability: &str) -> bool {
        let pointer = format!("/agentCapabilities/{capability}");
        self.initialized.pointer(&pointer) == Some(&Value::Bool(true))
    }

    /// The params of a prompt.
    pub(super) fn prompt(&self, session: &str, text: &str) -> Value {
        let text = text.replace("{cwd}", &self.options.cwd.to_string_lossy());
        json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
    }

    /// One line of the agent's own words, without what is different each time.
    fn shown(&self, detail: &str) -> String {
        let mut line = detail.lines().next().unwrap_or_default().to_owned();
        line = line.replace(&*self.options.cwd.to_string_lossy(), "{cwd}");
        if let Some(told) = &self.told {
            line = line.replace(&told.id, "{session}");
        }
        if let Ok(own) = env::current_dir() {
            // An agent that resolves a relative path does so from where it was started.
            line = line.replace(&format!("{}/", own.display()), "");
        }
        line.chars().take(SHOWN).collect()
    }
}

/// Opens a session. An agent that does not leaves nothing to check.
pub(super) fn open(agent: &mut Agent, options: &Options) -> Result<Session, Stop> {
    let limit = options.limits.start;
    let id = agent.send("session/new", &session_params(options));
    let result = agent.answer_to(&id, limit)?.result;
    let result = result.map_err(|error| no_session(&error))?;
    let id = result.get("sessionId").and_then(Value::as_str);
    let id = id.ok_or_else(|| Stop::NotApplicable("session/new gives no sessionId".to_owned()))?;
    if let Some(mode) = &options.mode {
        let params = json!({"sessionId": id, "modeId": mode});
        let answer = agent.ask("session/set_mode", &params)?;
        answer.result.map_err(|error| {
            Stop::NotApplicable(format!("the mode {mode} is refused: {}", error.message))
        })?;
    }
    Ok(Session { id: id.to_owned() })
}

/// Params for `session/new` that no agent refuses.
pub(super) fn session_params(options: &Options) -> Value {
    json!({"cwd": options.cwd, "mcpServers": []})
}

pub(super) fn initialize_params(version: u64) -> Value {
    json!({
        "protocolVersion": version,
        "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
        "clientInfo": {"name": "acp-conformance", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Whether the agent wants a login, without which nothing can be said about it.
pub(super) fn wants_login(error: &RpcError) -> Option<Stop> {
    (error.code == AUTH_REQUIRED).then(|| {
        let why = format!("the agent wants to be logged in to: {}", error.message);
        Stop::NotApplicable(why)
    })
}

fn no_session(error: &RpcError) -> Stop {
    wants_login(error).unwrap_or_else(|| {
        let why = format!("no session: error {}: {}", error.code, error.message);
        Stop::NotApplicable(why)
    })
}

fn not_runnable(stop: Stop) -> NotRunnable {
    match stop {
        Stop::System(error) => NotRunnable::Start(error),
        Stop::TooLong => NotRunnable::NoAgent(format!("it wrote {}", too_long())),
        Stop::Died(why) | Stop::Timeout(why) | Stop::NotApplicable(why) => {
            NotRunnable::NoAgent(why)
        }
    }
}
