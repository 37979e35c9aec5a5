//! The handshakes: of the process, and of each session. From `initialize` and `session/new` to a lane
//! that is warm.

use std::time::Instant;

use serde_json::value::RawValue;

use super::{Call, Connection, Event, LaneId, Login, Phase};
use crate::error::{AuthRequired, InvalidResponse, LoadError};
use crate::protocol::{
    AuthenticateRequest, ConfigValue, ErrorObject, PROTOCOL_VERSION, SetConfigOptionRequest,
    SetSessionModeRequest, method, read_error, read_initialize, read_session, read_value,
};
use crate::timer::Timer;
use crate::turn::rejected;
use crate::wire::{Outcome, code};

impl Connection {
    pub(super) fn initialize_answered(&mut self, outcome: Outcome<'_>, now: Instant) {
        self.timers.stop(Timer::Initialize);
        match self.read_outcome(method::INITIALIZE, outcome, read_initialize) {
            Ok((version, agent)) if version == PROTOCOL_VERSION => {
                self.agent = agent;
                self.phase = Phase::Ready;
                self.event(Event::Initialized);
                self.open_waiting_lanes(now);
            }
            Ok((answered, _)) => {
                let answered = self.options.secrets.mask_value(answered);
                self.end(LoadError::ProtocolVersion { answered }, now);
            }
            Err(error) => self.end(error, now),
        }
    }

    pub(super) fn session_answered(&mut self, id: LaneId, outcome: Outcome<'_>, now: Instant) {
        let read = self.read_outcome(method::SESSION_NEW, outcome, read_session);
        if self.opening_lane(id).is_none() {
            return;
        }
        match read {
            // Two conversations in one session would mix.
            Ok(info) if !self.claim_session(&info.session_id) => {
                let detail = format!("its `sessionId` {:?} is in use already", info.session_id);
                let method = method::SESSION_NEW;
                let error = InvalidResponse { method, detail };
                self.opening_failed(id, LoadError::InvalidResponse(Box::new(error)), now);
            }
            Ok(mut info) => {
                for update in self.take_early_updates(&info.session_id) {
                    info.apply(&update);
                }
                let session_id = info.session_id.clone();
                self.lane_of_session.insert(session_id, id);
                if let Some(lane) = self.lanes.get_mut(&id) {
                    lane.session_opened(info);
                }
                self.set_mode(id, now);
            }
            Err(LoadError::AuthRequired(error)) => self.log_in(id, error, now),
            Err(error) => self.opening_failed(id, error, now),
        }
    }

    /// A session has come that nobody waits for any more.
    pub(super) fn abandoned_session_answered(&mut self, outcome: Outcome<'_>, now: Instant) {
        if let Ok(info) = self.read_outcome(method::SESSION_NEW, outcome, read_session)
            && !self.lane_of_session.contains(&info.session_id)
        {
            self.close_session(&info.session_id, now);
        }
    }

    /// Sets the mode that the host asked for, if the agent has it.
    pub(super) fn set_mode(&mut self, id: LaneId, now: Instant) {
        let Some(mode) = self.options.mode.clone() else {
            return self.set_config_option(id, 0, now);
        };
        let Some(lane) = self.opening_lane(id) else {
            return;
        };
        let Some(session) = &lane.session else {
            return;
        };
        // Some agents answer `{}` to a mode they do not have, so what they offer is looked at first.
        if let Some(offered) = session.mode_ids()
            && !offered.contains(&&*mode)
        {
            let why = format!(
                "the agent has no mode `{mode}`; it offers {}",
                offered.join(", ")
            );
            return self.mode_failed(id, LoadError::InvalidOptions(why), now);
        }
        let session_id = session.session_id.clone();
        lane.set_opening(method::SESSION_SET_MODE);
        self.send_request(
            Call::SetMode(id),
            method::SESSION_SET_MODE,
            SetSessionModeRequest {
                session_id: &session_id,
                mode_id: &mode,
            },
        );
    }

    pub(super) fn mode_answered(&mut self, id: LaneId, outcome: Outcome<'_>, now: Instant) {
        // Agents answer `{}` or null; there is nothing to read.
        let read = self.read_outcome(method::SESSION_SET_MODE, outcome, |_| Ok(()));
        if self.opening_lane(id).is_none() {
            return;
        }
        match read {
            Ok(()) => self.set_config_option(id, 0, now),
            Err(error) => self.mode_failed(id, error, now),
        }
    }

    /// A mode may restrict what the agent does, so a session without it is only used if the host said
    /// that the mode is not required.
    fn mode_failed(&mut self, id: LaneId, error: LoadError, now: Instant) {
        if self.options.mode_required {
            return self.opening_failed(id, error, now);
        }
        if let Some(session) = self
            .lanes
            .get_mut(&id)
            .and_then(|lane| lane.session.as_mut())
        {
            session.mode_error = Some(error.to_string());
        }
        self.set_config_option(id, 0, now);
    }

    /// Sets the configuration option with this number, and those after it.
    fn set_config_option(&mut self, id: LaneId, number: usize, now: Instant) {
        let Some((config_id, value)) = self.options.config_options.get(number).cloned() else {
            return self.lane_ready(id, now);
        };
        let Some(lane) = self.opening_lane(id) else {
            return;
        };
        let Some(session) = &lane.session else {
            return;
        };
        if let Err(why) = session.check_config_option(&config_id, &value) {
            return self.opening_failed(id, LoadError::InvalidOptions(why), now);
        }
        let session_id = session.session_id.clone();
        lane.set_opening(method::SESSION_SET_CONFIG_OPTION);
        self.send_request(
            Call::SetConfigOption(id, number),
            method::SESSION_SET_CONFIG_OPTION,
            SetConfigOptionRequest {
                session_id: &session_id,
                config_id: &config_id,
                r#type: matches!(value, ConfigValue::Bool(_)).then_some("boolean"),
                value: &value,
            },
        );
    }

    pub(super) fn config_option_answered(
        &mut self,
        id: LaneId,
        number: usize,
        outcome: Outcome<'_>,
        now: Instant,
    ) {
        let read = self.read_outcome(method::SESSION_SET_CONFIG_OPTION, outcome, |result| {
            Ok(read_value(result)["configOptions"].take())
        });
        let Some(lane) = self.opening_lane(id) else {
            return;
        };
        match read {
            Ok(options) => {
                // One option may change what others offer.
                if let Some(session) = lane.session.as_mut().filter(|_| options.is_array()) {
                    session.config_options = options;
                }
                self.set_config_option(id, number + 1, now);
            }
            Err(error) => self.opening_failed(id, error, now),
        }
    }

    /// `session/new` wants a login. If the host has named a method and the agent offers it, it is used,
    /// once for the connection; lanes that meet the same answer meanwhile wait for it. A login at a terminal
    /// is another run of the agent's program, and must not be passed to `authenticate` (ACP v1
    /// authentication, Terminal authentication).
    pub(super) fn log_in(&mut self, id: LaneId, error: Box<AuthRequired>, now: Instant) {
        let configured = self.options.authenticate.clone();
        let offered = configured.filter(|id| {
            let mut methods = error.methods.iter();
            methods.any(|method| method.id == *id && !method.is_terminal)
        });
        match (&mut self.login, offered) {
            (Login::Running(waiting), _) => waiting.push(id),
            (login @ Login::NotTried, Some(method_id)) => {
                *login = Login::Running(vec![id]);
                self.send_request(
                    Call::Authenticate,
                    method::AUTHENTICATE,
                    AuthenticateRequest {
                        method_id: &method_id,
                    },
                );
            }
            _ => return self.opening_failed(id, LoadError::AuthRequired(error), now),
        }
        if let Some(lane) = self.opening_lane(id) {
            lane.set_opening(method::AUTHENTICATE);
        }
    }

    pub(super) fn authenticate_answered(&mut self, outcome: Outcome<'_>, now: Instant) {
        let read = self.read_outcome(method::AUTHENTICATE, outcome, |_| Ok(()));
        let Login::Running(waiting) = std::mem::replace(&mut self.login, Login::Done) else {
            return;
        };
        for id in waiting {
            let Some(lane) = self.opening_lane(id) else {
                continue;
            };
            let first = lane.opens_first();
            match &read {
                Ok(()) => self.open_session(id, first, now),
                Err(error) => self.opening_failed(id, error.clone(), now),
            }
        }
    }

    /// An answer to a request of the handshake, as its value or as the error the host sees.
    pub(super) fn read_outcome<T>(
        &self,
        method: &'static str,
        outcome: Outcome<'_>,
        read: impl FnOnce(&RawValue) -> Result<T, String>,
    ) -> Result<T, LoadError> {
        let result = self.result_of(method, outcome)?;
        read(result).map_err(|detail| self.invalid_response(method, &detail))
    }

    fn result_of<'a>(
        &self,
        method: &'static str,
        outcome: Outcome<'a>,
    ) -> Result<&'a RawValue, LoadError> {
        match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Malformed(why) => Err(self.invalid_response(method, why)),
            Outcome::Error(error) => Err(match read_error(error) {
                Ok(error) => self.refusal(method, error),
                Err(detail) => self.invalid_response(method, &detail),
            }),
        }
    }

    fn invalid_response(&self, method: &'static str, detail: &str) -> LoadError {
        let detail = self.options.secrets.mask(detail).into_owned();
        LoadError::InvalidResponse(Box::new(InvalidResponse { method, detail }))
    }

    /// The agent's own words may hold the key that it did not accept.
    pub(super) fn without_secrets(&self, error: ErrorObject) -> ErrorObject {
        let secrets = &self.options.secrets;
        ErrorObject {
            message: secrets.mask(&error.message).into_owned(),
            data: secrets.mask_value(error.data),
            ..error
        }
    }

    fn refusal(&self, method: &'static str, error: ErrorObject) -> LoadError {
        let error = self.without_secrets(error);
        if error.code == code::AUTH_REQUIRED {
            LoadError::AuthRequired(Box::new(AuthRequired {
                method,
                methods: self.agent.auth_methods.clone(),
                message: error.message,
            }))
        } else {
            LoadError::Rejected(Box::new(rejected(method, error)))
        }
    }
}
