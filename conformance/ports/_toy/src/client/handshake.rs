//! From the first message to an open lane.

use serde_json::json;

use super::{Client, Pending};
use crate::mutant::{Mutant, broken};
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
        let capabilities = &result["agentCapabilities"];
        if result["protocolVersion"] != 1 && !broken(Mutant::AcceptsAnyVersion) {
            return self.finish((
                "protocol_version",
                fields(json!({"answered": result["protocolVersion"]})),
            ));
        }
        if broken(Mutant::CapabilitiesRequired) && result.get("agentCapabilities").is_none()
            || broken(Mutant::NullIsFatal)
                && capabilities.is_null()
                && result.get("agentCapabilities").is_some()
            || broken(Mutant::UnknownFieldIsFatal) && result.get("motd").is_some()
        {
            return self.finish(invalid("initialize"));
        }
        let methods = result["authMethods"].as_array().into_iter().flatten();
        self.auth_methods = methods.map(|method| method["id"].clone()).collect();
        self.new_session("main");
    }

    pub(super) fn new_session(&mut self, lane: &str) {
        let mut params = json!({"cwd": self.options.cwd, "mcpServers": []});
        if broken(Mutant::NoMcpServers) {
            params = json!({"cwd": self.options.cwd});
        }
        self.request("session/new", params, Pending::NewSession(lane.to_owned()));
    }

    pub(super) fn session_opened(&mut self, lane: &str, reply: Reply) {
        let session = match reply {
            Reply::Error(_) if broken(Mutant::SessionNewRetried) && self.next_id < 3 => {
                return self.new_session(lane);
            }
            Reply::Error(error) => {
                return self.lane_failed(lane, rejected("session/new", &error, &self.auth_methods));
            }
            Reply::Result(result) => {
                let otherwise = broken(Mutant::MissingSessionIdIsEmpty).then_some("");
                result["sessionId"]
                    .as_str()
                    .or(otherwise)
                    .map(str::to_owned)
            }
            Reply::Invalid => None,
        };
        let Some(session) = session else {
            return self.lane_failed(lane, invalid("session/new"));
        };
        let Some(opened) = self.lanes.get_mut(lane) else {
            // The lane was given up, and nobody waits for this session.
            return;
        };
        opened.session = Some(session.clone());
        match self.options.mode.clone() {
            Some(mode) if !broken(Mutant::ModeNotSent) => {
                let params = json!({"sessionId": session, "modeId": mode});
                self.request(
                    "session/set_mode",
                    params,
                    Pending::SetMode(lane.to_owned()),
                );
            }
            _ => self.lane_opened(lane),
        }
    }

    pub(super) fn lane_opened(&mut self, name: &str) {
        if let Some(lane) = self.lanes.get_mut(name)
            && let Some(opening) = lane.opening.take()
        {
            succeed(&opening.seq, json!({"session_id": lane.session}));
        }
        self.start_waiting();
    }

    /// A first lane that cannot be opened leaves nothing to work with; a later one fails alone.
    pub(super) fn lane_failed(&mut self, name: &str, failure: Failure) {
        if name == "main" || broken(Mutant::LaneErrorIsFatal) {
            return self.finish(failure);
        }
        let Some(lane) = self.lanes.remove(name) else {
            return;
        };
        let turns = lane.waiting.into_iter().map(|turn| turn.seq);
        for seq in lane
            .opening
            .map(|opening| opening.seq)
            .into_iter()
            .chain(turns)
        {
            fail(&seq, failure.clone());
        }
    }
}
