//! From the first message to an open lane.

use serde_json::{Value, json};

use super::history::History;
use super::{Client, Pending};
use crate::mutant::{Mutant, broken};
use crate::options::State;
use crate::turn::{Failure, Reply, fields, invalid, rejected};
use crate::{fail, succeed};

impl Client {
    pub(super) fn initialized(&mut self, reply: Reply) {
        let result = match reply {
            Reply::Result(result) => result,
            Reply::Error(_) if broken(Mutant::InitializeErrorIgnored) => {
                json!({"protocolVersion": 1})
            }
            Reply::Error(error) => return self.finish(rejected("initialize", &error, &[])),
            Reply::Invalid => return self.finish(invalid("initialize")),
        };
        let version = &result["protocolVersion"];
        let is_one = *version == 1
            || broken(Mutant::VersionReadLoosely)
                && (*version == "1" || *version == true || version.is_null());
        if !is_one && !broken(Mutant::AcceptsAnyVersion) {
            let found = fields(json!({"answered": version}));
            return self.finish(("protocol_version", found));
        }
        let capabilities = &result["agentCapabilities"];
        let strict = broken(Mutant::CapabilitiesMustFit);
        if broken(Mutant::CapabilitiesRequired) && result.get("agentCapabilities").is_none()
            || broken(Mutant::NullIsFatal)
                && capabilities.is_null()
                && result.get("agentCapabilities").is_some()
            || strict && capabilities["loadSession"].is_string()
            || broken(Mutant::UnknownFieldIsFatal) && result.get("motd").is_some()
        {
            return self.finish(invalid("initialize"));
        }
        for method in result["authMethods"].as_array().into_iter().flatten() {
            self.auth_methods.push(method["id"].clone());
            // A login at a terminal is another run of the agent's program.
            if method["type"] != "terminal" || broken(Mutant::TerminalLoginTried) {
                self.logins.push(method["id"].clone());
            }
        }
        if let Some(failure) = self.unserved(capabilities) {
            return self.finish(failure);
        }
        self.read_abilities(capabilities);
        self.closes_sessions = capabilities["sessionCapabilities"]["close"].is_object()
            || broken(Mutant::ClosesUnasked);
        self.takes_images = capabilities["promptCapabilities"]["image"] == true;
        self.initialized = true;
        if broken(Mutant::AuthenticatesUnasked)
            && let Some(method) = &self.options.authenticate
        {
            let params = json!({"methodId": method});
            let pending = Pending::Authenticate("main".to_owned());
            return self.request("authenticate", params, pending);
        }
        if broken(Mutant::InitializeNotAwaited) {
            return;
        }
        let names: Vec<String> = self.lanes.keys().cloned().collect();
        for name in names {
            self.open_session(&name);
        }
    }

    pub(super) fn new_session(&mut self, lane: &str) {
        let params = self.session_params();
        self.request("session/new", params, Pending::NewSession(lane.to_owned()));
    }

    pub(super) fn session_opened(&mut self, lane: &str, reply: Reply) {
        let result = match reply {
            Reply::Error(_) if broken(Mutant::SessionNewRetried) && self.next_id < 3 => {
                return self.new_session(lane);
            }
            Reply::Error(error) => return self.session_refused(lane, "session/new", &error),
            Reply::Result(result) => result,
            Reply::Invalid => return self.lane_failed(lane, invalid("session/new")),
        };
        let session = match result["sessionId"].as_str() {
            Some(session) => session.to_owned(),
            None if broken(Mutant::MissingSessionIdIsEmpty) => String::new(),
            None => return self.lane_failed(lane, invalid("session/new")),
        };
        let mut config_options = result["configOptions"].as_array().into_iter().flatten();
        if broken(Mutant::ConfigOptionsMustFit)
            && config_options.any(|one| !one["category"].is_string() || one["type"] != "select")
        {
            return self.lane_failed(lane, invalid("session/new"));
        }
        let known = |other: &super::Lane| other.session.as_ref() == Some(&session);
        let shared = self.lanes.values().any(known)
            && !broken(Mutant::SharedSessionAccepted)
            && !broken(Mutant::SessionEachTurn);
        // The turn that was given up in it may still write.
        let old = self.given_up.contains(&session)
            && !broken(Mutant::OldSessionUsedAgain)
            && !(broken(Mutant::FreshIdTrusted) && self.options.state == State::Fresh);
        if shared || old {
            return self.lane_failed(lane, invalid("session/new"));
        }
        let Some(opened) = self.lanes.get_mut(lane) else {
            // The lane was given up, and nobody waits for this session.
            return;
        };
        let reopened = opened.session.is_none() && self.ready;
        opened.session = Some(session);
        opened.history = Some(History::default());
        opened.offered = result;
        self.set_mode(lane, reopened);
    }

    /// Sets what the host wants a session that is open to be set to.
    pub(super) fn set_mode(&mut self, name: &str, reopened: bool) {
        let Some(lane) = self.lanes.get(name) else {
            return;
        };
        let skipped = broken(Mutant::ModeNotSent)
            || broken(Mutant::ModeSetOnce) && reopened
            || broken(Mutant::ConfigOptionsFirst);
        let Some(mode) = self.options.mode.clone().filter(|_| !skipped) else {
            return self.set_config(name, 0);
        };
        if let Some(offered) = lane.offered["modes"]["availableModes"].as_array()
            && !broken(Mutant::OfferedModesIgnored)
            && !offered.iter().any(|one| one["id"] == *mode)
        {
            let failure = mode_not_offered(&mode, offered);
            return if self.is_mode_required() {
                self.lane_failed(name, failure)
            } else {
                self.set_config(name, 0)
            };
        }
        self.send_mode(name);
    }

    pub(super) fn send_mode(&mut self, name: &str) {
        let session = self.lanes.get(name).and_then(|lane| lane.session.clone());
        let params = json!({"sessionId": session, "modeId": self.options.mode});
        let pending = Pending::SetMode(name.to_owned());
        self.request("session/set_mode", params, pending);
    }

    /// The lane has waited long enough. A session that still opens is for nobody.
    pub(super) fn opening_overdue(&mut self, lane: &str) {
        for pending in self.pending.values_mut() {
            if matches!(pending, Pending::NewSession(name) if name == lane) {
                *pending = Pending::LateSession;
            }
        }
        if self.gives_up_old_session(lane) {
            return;
        }
        let tail = self.last_words(&self.process.stderr_tail());
        let failure = ("startup_timeout", fields(json!({"stderr_tail": tail})));
        self.lane_failed(lane, failure);
    }

    /// Gives a session back that nobody waited for.
    pub(super) fn late_session_opened(&mut self, reply: Reply) {
        if let Reply::Result(result) = reply
            && let Some(session) = result["sessionId"].as_str()
            && self.closes_sessions
            && self.lane_of(Some(session)).is_none()
            && !broken(Mutant::LateSessionKept)
        {
            self.close_session(session.to_owned());
        }
    }

    /// Logs in once, if the host said how and the agent offers it.
    pub(super) fn session_refused(&mut self, lane: &str, refused: &str, error: &Value) {
        let offered = |method: &&String| {
            self.logins.iter().any(|one| *one == ***method)
                || broken(Mutant::LoginNotOfferedIsTried)
        };
        let method = self.options.authenticate.as_ref().filter(offered).cloned();
        match method {
            Some(method)
                if error["code"] == -32000
                    && (!self.authenticated || broken(Mutant::AuthenticatesAgain))
                    && !broken(Mutant::NeverAuthenticates) =>
            {
                self.authenticated = true;
                let params = json!({"methodId": method});
                let pending = Pending::Authenticate(lane.to_owned());
                self.request("authenticate", params, pending);
            }
            _ => {
                let failure = rejected(refused, error, &self.auth_methods);
                self.lane_failed(lane, failure);
            }
        }
    }

    pub(super) fn authenticate_answered(&mut self, lane: &str, reply: Reply) {
        match reply {
            Reply::Error(error) if !broken(Mutant::LoginErrorIgnored) => {
                let failure = rejected("authenticate", &error, &self.auth_methods);
                self.lane_failed(lane, failure);
            }
            Reply::Invalid => self.lane_failed(lane, invalid("authenticate")),
            Reply::Result(_) | Reply::Error(_) => self.open_session(lane),
        }
    }

    pub(super) fn is_mode_required(&self) -> bool {
        (self.options.mode_required || broken(Mutant::ModeAlwaysRequired))
            && !broken(Mutant::ModeErrorIgnored)
    }

    pub(super) fn lane_opened(&mut self, name: &str) {
        self.ready = true;
        if let Some(lane) = self.lanes.get_mut(name)
            && let Some(opening) = lane.opening.take()
            && let Some(seq) = opening.seq
        {
            succeed(&seq, json!({"session_id": lane.session}));
        }
        self.start_waiting();
    }

    /// A first lane that cannot be opened leaves nothing to work with; a later one fails alone. Where a
    /// turn wanted the session, that turn fails.
    pub(super) fn lane_failed(&mut self, name: &str, failure: Failure) {
        if !self.ready || broken(Mutant::LaneErrorIsFatal) {
            return self.finish(failure);
        }
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        lane.session = None;
        match lane.opening.take().and_then(|opening| opening.seq) {
            None if !broken(Mutant::ReopeningEndsLane) => {
                if let Some(turn) = lane.waiting.pop_front() {
                    fail(&turn.seq, failure);
                }
                self.start_waiting();
            }
            seq => {
                let turns = std::mem::take(&mut lane.waiting);
                self.lanes.remove(name);
                for seq in seq
                    .into_iter()
                    .chain(turns.into_iter().map(|turn| turn.seq))
                {
                    fail(&seq, failure.clone());
                }
            }
        }
    }
}

fn mode_not_offered(mode: &str, offered: &[Value]) -> Failure {
    let ids: Vec<&str> = offered
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    let message = format!("there is no mode {mode}; offered are {}", ids.join(", "));
    ("invalid_options", fields(json!({"message": message})))
}
