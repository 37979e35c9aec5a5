//! What the agent asks.

use std::time::Instant;

use serde_json::{Value, json};

use super::Client;
use crate::mutant::{Mutant, broken};
use crate::permission::{Policy, choose, outcome};

/// A permission that the host thinks about.
pub(super) struct Asked {
    id: Value,
    pub(super) session: Option<String>,
    options: Value,
    since: Instant,
    pub(super) ends_at: Option<Instant>,
}

impl Client {
    /// Every request is answered: in a turn, between turns, and for sessions we do not know.
    pub(super) fn handle_request(&mut self, method: &str, id: &Value, params: &Value) {
        if broken(Mutant::RequestsWaitForSession) && !self.ready {
            return;
        }
        let mut id = id.clone();
        if broken(Mutant::StringIdAsNumber)
            && let Some(number) = id.as_str().and_then(|id| id.parse::<u64>().ok())
        {
            id = json!(number);
        }
        if broken(Mutant::RequestIdNotEchoed) {
            id = json!(self.next_id);
        }
        if broken(Mutant::ZeroIsNoId) && id == 0 {
            return;
        }
        let name = self.lane_of(params["sessionId"].as_str());
        let hooked = method.starts_with('_') || broken(Mutant::AnyRequestHooked);
        let hooked = hooked && !broken(Mutant::RequestHookIgnored);
        let answer = match (method, self.options.request_answers.get(method)) {
            ("session/request_permission", _) => self
                .permission_outcome(&id, params)
                .map(|result| json!({"result": result})),
            (_, Some(result)) if hooked => Some(json!({"result": result})),
            _ if broken(Mutant::UnknownRequestIgnored) => None,
            _ if broken(Mutant::UnknownRequestIsSuccess) => Some(json!({"result": {}})),
            _ => {
                if !broken(Mutant::RefusedNotCounted) {
                    self.count("requests");
                }
                let message = format!("method not found: {method}");
                Some(json!({"error": {"code": -32601, "message": message}}))
            }
        };
        if let Some(answer) = answer {
            self.respond(&id, answer);
        }
        if let Some(name) = name {
            self.restart_idle(&name);
        }
    }

    /// Answers for a host that did not decide in time.
    pub(super) fn answer_overdue(&mut self, now: Instant) {
        let is_due = |asked: &Asked| asked.ends_at.is_some_and(|at| at <= now);
        let (due, open) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition::<Vec<_>, _>(is_due);
        self.asked = open;
        for asked in due {
            let policy = if broken(Mutant::SilentHostAllows) {
                Policy::FirstAllow
            } else {
                Policy::Reject
            };
            let option = choose(policy, self.options.choices, &asked.options);
            self.respond(&asked.id, json!({"result": outcome(option)}));
            if let Some(name) = self.lane_of(asked.session.as_deref()) {
                let since = if broken(Mutant::ThinkingIsSilence) {
                    asked.since
                } else {
                    now
                };
                self.restart_idle_from(&name, since);
            }
        }
    }

    /// Answers what the turn of a lane has asked, now that it is cancelled.
    pub(super) fn cancel_asked(&mut self, name: &str) {
        let Some(lane) = self.lanes.get(name) else {
            return;
        };
        let (own, others) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition::<Vec<_>, _>(|asked| asked.session == lane.session);
        self.asked = others;
        for asked in own {
            self.respond(&asked.id, json!({"result": outcome(None)}));
        }
    }

    /// The result for a permission request, unless the host still thinks about it.
    fn permission_outcome(&mut self, id: &Value, params: &Value) -> Option<Value> {
        let session = params["sessionId"].as_str();
        let lane = self
            .lanes
            .values()
            .find(|lane| lane.session.as_deref() == session);
        let turn = lane.and_then(|lane| lane.running.as_ref());
        let options = &params["options"];
        if broken(Mutant::PermissionNeedsKnownSession) && lane.is_none()
            || broken(Mutant::PermissionNeedsTurn) && turn.is_none()
            || broken(Mutant::NothingOfferedUnanswered) && *options == json!([])
            || broken(Mutant::MalformedPermissionUnanswered) && !options.is_array()
            || broken(Mutant::OnePermissionAtATime) && !self.asked.is_empty()
        {
            return None;
        }
        if broken(Mutant::UnknownOptionKindIsFatal)
            && options
                .as_array()?
                .iter()
                .any(|option| option["kind"].is_null())
        {
            return None;
        }
        let cancelled = turn.is_some_and(|turn| turn.cancel.is_some());
        let given_up = session.is_some_and(|session| self.given_up.contains(session));
        if cancelled && !broken(Mutant::PermissionAfterCancelAllowed)
            || given_up && !broken(Mutant::OldSessionAllowed)
        {
            return Some(outcome(None));
        }
        let with_form = match lane {
            Some(lane) if turn.is_some() => lane.had_form,
            Some(lane) if lane.had_form => !broken(Mutant::NativeToolsBetweenTurns),
            // It may be about any turn that runs.
            _ => {
                let mut lanes = self.lanes.values();
                lanes.any(|lane| lane.had_form && lane.running.is_some())
                    && !broken(Mutant::NativeToolsElsewhere)
            }
        };
        let last_had_form = broken(Mutant::NativeRefusalLasts) && self.had_form;
        let native = self.options.native_tools && !broken(Mutant::NativeToolsIgnored)
            || broken(Mutant::NativeToolsAllowed)
            || broken(Mutant::NativeToolsAskedFor) && self.options.policy == Policy::Ask;
        if (with_form || last_had_form) && !native {
            let option = choose(Policy::Reject, self.options.choices, options);
            return Some(outcome(option));
        }
        let policy = self.options.policy;
        if policy != Policy::Ask || broken(Mutant::PolicyIgnored) {
            return Some(outcome(choose(policy, self.options.choices, options)));
        }
        self.ask_host(id, session, options)
    }

    /// What the host decides, unless it still thinks about it.
    fn ask_host(&mut self, id: &Value, session: Option<&str>, options: &Value) -> Option<Value> {
        let answer = self.options.permission_answers.pop_front();
        let answer = answer.unwrap_or_default();
        let offered = || {
            let mut list = options.as_array().into_iter().flatten();
            list.any(|option| option["optionId"] == answer)
        };
        if answer.is_string() && (offered() || broken(Mutant::HostNamesAnything)) {
            return Some(outcome(Some(answer)));
        }
        if answer["cancelled"] == true && !broken(Mutant::HostCannotCancel) {
            return Some(outcome(None));
        }
        if answer["never"] == true {
            let limit = self.options.permission_timeout;
            let limit = limit.filter(|_| !broken(Mutant::HostMayThinkForever));
            let since = Instant::now();
            self.asked.push(Asked {
                id: id.clone(),
                session: session.map(str::to_owned),
                options: options.clone(),
                since,
                ends_at: limit.map(|limit| since + limit),
            });
            return None;
        }
        if answer["panic"] == true && broken(Mutant::HostPanicUnanswered) {
            return None;
        }
        // It failed, or named something that was not offered.
        let option = choose(Policy::Reject, self.options.choices, options);
        Some(outcome(option))
    }

    pub(super) fn respond(&self, id: &Value, mut answer: Value) {
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = id.clone();
        self.process.send(&answer);
    }
}
