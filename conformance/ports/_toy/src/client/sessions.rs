//! Sessions of before that go on, and what the host wants every session to have.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::history::History;
use super::{Client, Pending};
use crate::mutant::{Mutant, broken};
use crate::turn::{Failure, Reply, fields, invalid, rejected};

/// How long nothing must have come for a session that was loaded.
const REPLAY_WINDOW: Duration = Duration::from_millis(250);
/// How long that is waited for, from the answer on.
const REPLAY_LIMIT: Duration = Duration::from_secs(2);

/// What the agent may still repeat of a session that was loaded.
pub(super) struct Replay {
    pub(super) quiet_at: Instant,
    ends_at: Instant,
}

impl Replay {
    /// Something more has come.
    pub(super) fn go_on(&mut self) {
        self.quiet_at = Instant::now() + REPLAY_WINDOW;
        if !broken(Mutant::ReplayAwaitedForEver) {
            self.quiet_at = self.quiet_at.min(self.ends_at);
        }
    }
}

/// What the agent says that it can do about sessions.
#[derive(Default)]
pub(super) struct Abilities {
    resumes: bool,
    loads: bool,
}

impl Client {
    /// What the agent cannot be given of that which the host wants it to have.
    pub(super) fn unserved(&self, capabilities: &Value) -> Option<Failure> {
        let servers = self.options.mcp_servers.iter();
        let mut kinds = servers.filter_map(|server| server["type"].as_str());
        let transports = &capabilities["mcpCapabilities"];
        let kind = kinds.find(|kind| *kind != "stdio" && transports[*kind] != true);
        let directories = &capabilities["sessionCapabilities"]["additionalDirectories"];
        let message = match kind {
            Some(kind) if !broken(Mutant::ServerTypeNotChecked) => {
                format!("the agent does not take MCP servers of the type {kind}")
            }
            _ if !self.options.directories.is_empty()
                && !directories.is_object()
                && !broken(Mutant::DirectoriesNotChecked) =>
            {
                "the agent does not take additional directories".to_owned()
            }
            _ => return None,
        };
        Some(("invalid_options", fields(json!({"message": message}))))
    }

    pub(super) fn read_abilities(&mut self, capabilities: &Value) {
        self.abilities = Abilities {
            resumes: capabilities["sessionCapabilities"]["resume"].is_object()
                || broken(Mutant::ResumesUnasked),
            loads: capabilities["loadSession"] == true || broken(Mutant::LoadsUnasked),
        };
    }

    /// What a session is opened with, whether it is new or not.
    pub(super) fn session_params(&self) -> Value {
        let first = !self.ready;
        let mut servers = self.options.mcp_servers.as_slice();
        let mut directories = self.options.directories.as_slice();
        if broken(Mutant::ServersNotSent) || broken(Mutant::ServersForFirstSession) && !first {
            servers = &[];
        }
        if broken(Mutant::DirectoriesNotSent)
            || broken(Mutant::DirectoriesForFirstSession) && !first
        {
            directories = &[];
        }
        let mut params = json!({"cwd": self.options.cwd, "mcpServers": servers});
        if broken(Mutant::NoMcpServers) {
            params = json!({"cwd": self.options.cwd});
        }
        if !directories.is_empty() {
            params["additionalDirectories"] = directories.into();
        }
        if broken(Mutant::DirectoriesSent) {
            params["additionalDirectories"] = json!([self.options.cwd]);
        }
        params
    }

    /// Opens the session of a lane: the one of before that the host has named, or a new one.
    pub(super) fn open_session(&mut self, name: &str) {
        let Some(old) = self.resume.clone() else {
            return self.new_session(name);
        };
        if name != "main" && !broken(Mutant::EveryLaneResumed) || broken(Mutant::ResumeIgnored) {
            return self.new_session(name);
        }
        let loads_first = broken(Mutant::LoadPreferred) && self.abilities.loads;
        let method = match &self.abilities {
            can if can.resumes && !loads_first => "session/resume",
            can if can.loads => "session/load",
            _ if old.required && !broken(Mutant::ResumeNeverRequired) => {
                let message = json!({"message": "the agent cannot go on with a session"});
                return self.lane_failed(name, ("invalid_options", fields(message)));
            }
            _ => return self.new_session(name),
        };
        let mut params = self.session_params();
        if broken(Mutant::OldSessionWithoutServers) {
            params = json!({"cwd": self.options.cwd, "mcpServers": []});
        }
        params["sessionId"] = json!(old.session_id);
        if let Some(lane) = self.lanes.get_mut(name) {
            // What the agent repeats is for this lane, and for no turn of it.
            lane.session = Some(old.session_id);
        }
        self.request(method, params, Pending::OldSession(name.to_owned(), method));
    }

    pub(super) fn old_session_answered(&mut self, name: &str, method: &str, reply: Reply) {
        let required = self.resume.as_ref().is_some_and(|old| old.required)
            && !broken(Mutant::ResumeNeverRequired)
            || broken(Mutant::ResumeErrorIsFatal);
        let failure = match reply {
            Reply::Result(Value::Null) if broken(Mutant::OldSessionAnswerMustBeObject) => {
                invalid(method)
            }
            Reply::Result(result) => return self.old_session_open(name, method, result),
            Reply::Error(error) if error["code"] == -32000 => {
                if broken(Mutant::LoginEndsResume) {
                    self.resume = None;
                }
                self.leave_session(name);
                return self.session_refused(name, method, &error);
            }
            Reply::Error(error) => rejected(method, &error, &self.auth_methods),
            Reply::Invalid => invalid(method),
        };
        self.leave_session(name);
        if required {
            return self.lane_failed(name, failure);
        }
        if broken(Mutant::ResumeTriesBoth) && std::mem::take(&mut self.abilities.resumes) {
            return self.open_session(name);
        }
        self.resume = None;
        self.new_session(name);
    }

    /// Opens a new session instead of one that the agent does not even refuse, where the host will have one.
    pub(super) fn gives_up_old_session(&mut self, name: &str) -> bool {
        let is_old =
            |pending: &Pending| matches!(pending, Pending::OldSession(of, _) if of == name);
        if !self.pending.values().any(is_old) || broken(Mutant::ResumeAwaitedForEver) {
            return false;
        }
        self.pending.retain(|_, pending| !is_old(pending));
        self.leave_session(name);
        if self.resume.take().is_none_or(|old| old.required) {
            return false;
        }
        let limit = self.options.startup_timeout;
        if let Some(opening) = self
            .lanes
            .get_mut(name)
            .and_then(|lane| lane.opening.as_mut())
        {
            opening.ends_at = limit.map(|limit| Instant::now() + limit);
        }
        self.new_session(name);
        true
    }

    fn old_session_open(&mut self, name: &str, method: &str, result: Value) {
        let Some(lane) = self.lanes.get_mut(name) else {
            return;
        };
        lane.history = Some(History::default());
        lane.offered = result;
        // It goes on once: what comes after it is new.
        if !broken(Mutant::EveryLaneResumed) {
            self.resume = None;
        }
        if broken(Mutant::OldSessionNotSetUp) {
            return self.lane_opened(name);
        }
        if method == "session/load" && !broken(Mutant::ReplayNotAwaited) {
            // Some agents go on repeating after their answer.
            let now = Instant::now();
            lane.replay = Some(Replay {
                quiet_at: now + REPLAY_WINDOW,
                ends_at: now + REPLAY_LIMIT,
            });
        } else {
            self.set_mode(name, false);
        }
    }

    /// The agent has repeated all that there was.
    pub(super) fn replay_over(&mut self, name: &str) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.replay = None;
            lane.outside_turn = 0;
            self.set_mode(name, false);
        }
    }

    /// Sets the config option with this number, and those after it.
    pub(super) fn set_config(&mut self, name: &str, number: usize) {
        let Some(lane) = self.lanes.get(name) else {
            return;
        };
        let mut options = self.options.config_options.iter();
        let option = if broken(Mutant::ConfigOptionsReversed) {
            options.rev().nth(number)
        } else {
            options.nth(number)
        };
        let done = broken(Mutant::ConfigOptionsNotSent)
            || broken(Mutant::ConfigOptionsSetOnce) && self.ready;
        let Some(option) = option.filter(|_| !done) else {
            return self.config_set(name);
        };
        let offered = lane.offered["configOptions"].as_array();
        if let Some(offered) = offered
            && !offered.iter().any(|one| one["id"] == option["id"])
            && !broken(Mutant::OfferedConfigIgnored)
        {
            let message = format!("there is no config option {}", option["id"]);
            let failure = ("invalid_options", fields(json!({"message": message})));
            return self.lane_failed(name, failure);
        }
        let listed = offered
            .and_then(|offered| offered.iter().find(|one| one["id"] == option["id"]))
            .and_then(|one| one["options"].as_array());
        if let Some(listed) = listed
            && !has_value(listed, &option["value"])
            && !broken(Mutant::ListedValuesIgnored)
        {
            let message = format!("{} has no value {}", option["id"], option["value"]);
            let failure = ("invalid_options", fields(json!({"message": message})));
            return self.lane_failed(name, failure);
        }
        let mut params = json!({
            "sessionId": lane.session,
            "configId": option["id"],
            "value": option["value"],
        });
        if option["value"].is_boolean() {
            params["type"] = json!("boolean");
        }
        if broken(Mutant::ConfigValueAsText) && option["value"].is_boolean() {
            params["value"] = json!(option["value"].to_string());
            params["type"] = Value::Null;
        }
        let pending = Pending::SetConfig(name.to_owned(), number);
        self.request("session/set_config_option", params, pending);
    }

    pub(super) fn config_answered(&mut self, name: &str, number: usize, reply: Reply) {
        let method = "session/set_config_option";
        match reply {
            Reply::Error(error) if !broken(Mutant::ConfigErrorIgnored) => {
                let failure = rejected(method, &error, &self.auth_methods);
                self.lane_failed(name, failure);
            }
            Reply::Invalid => self.lane_failed(name, invalid(method)),
            Reply::Result(_) | Reply::Error(_) => self.set_config(name, number + 1),
        }
    }

    fn config_set(&mut self, name: &str) {
        if broken(Mutant::ConfigOptionsFirst) && self.options.mode.is_some() {
            self.send_mode(name);
        } else {
            self.lane_opened(name);
        }
    }

    fn leave_session(&mut self, name: &str) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.session = None;
            lane.outside_turn = 0;
        }
    }
}

/// Whether a list of values, in groups or not, has this one.
fn has_value(listed: &[Value], value: &Value) -> bool {
    listed.iter().any(|one| {
        one["value"] == *value
            || one["options"]
                .as_array()
                .is_some_and(|group| has_value(group, value))
    })
}
