//! What the errors carry, shared by both lists.

use std::fmt;

use serde_json::Value;

use crate::protocol::AuthMethod;
use crate::request::Repair;

/// The agent wants the user to log in (`-32000`).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuthRequired {
    /// The request that was refused.
    pub method: &'static str,
    /// What the agent offered in `initialize`.
    pub methods: Vec<AuthMethod>,
    /// The agent's own words.
    pub message: String,
}

impl fmt::Display for AuthRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the agent wants a login before `{}`: {}; ",
            self.method, self.message
        )?;
        if self.methods.is_empty() {
            return f.write_str("it names no method, see its own documentation");
        }
        f.write_str("log in by one of its methods: ")?;
        for (i, method) in self.methods.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", method.id)?;
        }
        Ok(())
    }
}

impl std::error::Error for AuthRequired {}

/// The agent answered a request with an error.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rejected {
    /// The request.
    pub method: &'static str,
    /// JSON-RPC error code; agents also use positive ones. 0 if it was no integer.
    pub code: i64,
    /// The agent's own words; empty if there were none.
    pub message: String,
    /// The agent's own data; null if there was none.
    pub data: Value,
}

impl Rejected {
    /// What it is about, by numbers and names with a fixed meaning only: HTTP status codes and the error
    /// types of model providers, in `code` and in the members of `data` that hold such. Words in a message
    /// are never looked at.
    pub fn class(&self) -> RejectedClass {
        let members = [
            "code",
            "status",
            "statusCode",
            "httpStatus",
            "type",
            "errorKind",
            "kind",
        ];
        let nested = [&self.data, &self.data["error"]];
        let values = nested
            .iter()
            .flat_map(|data| members.iter().filter_map(|member| data.get(member)));
        std::iter::once(&Value::from(self.code))
            .chain(values)
            .map(classify)
            .find(|class| *class != RejectedClass::Other)
            .unwrap_or(RejectedClass::Other)
    }

    /// The part of `data` that says what went wrong, as one short line, in the shapes seen in the
    /// field: a string, an object with `details`, `message` or `reason`, or nested errors.
    pub fn detail(&self) -> Option<String> {
        find_line(&self.data, 0)
    }
}

/// What kind of trouble an error answer is about, as far as that can be told for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectedClass {
    /// Too many requests: waiting helps.
    RateLimited,
    /// A quota is used up, or a bill not paid: waiting does not help.
    QuotaExceeded,
    /// The key or the login is not accepted.
    Unauthenticated,
    /// Anything else.
    Other,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the agent rejected `{}`: ", self.method)?;
        let message = find_line(&Value::from(&*self.message), 0);
        let message = message.unwrap_or_else(|| "no message".to_owned());
        f.write_str(&message)?;
        match self.detail() {
            Some(detail) if !message.contains(&detail) => write!(f, ": {detail}")?,
            _ => {}
        }
        write!(f, " (code {})", self.code)
    }
}

impl std::error::Error for Rejected {}

/// An answer that is not a valid response to its request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InvalidResponse {
    /// The request.
    pub method: &'static str,
    /// What is wrong with the answer.
    pub detail: String,
}

impl fmt::Display for InvalidResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the agent's answer to `{}` is not valid: {}",
            self.method, self.detail
        )
    }
}

impl std::error::Error for InvalidResponse {}

/// How the agent's process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitInfo {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal, if one ended it.
    pub signal: Option<i32>,
}

impl ExitInfo {
    /// A process that exited with this code.
    pub fn code(code: i32) -> Self {
        Self {
            code: Some(code),
            signal: None,
        }
    }

    /// A process that a signal ended.
    pub fn signal(signal: i32) -> Self {
        Self {
            code: None,
            signal: Some(signal),
        }
    }
}

impl fmt::Display for ExitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("closed its output"),
        }
    }
}

/// The agent's process ended, or closed the pipe, before it had answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentExited {
    /// How.
    pub exit: ExitInfo,
    /// The end of what it wrote to standard error, and to standard output if it was no message.
    pub stderr_tail: String,
}

impl fmt::Display for AgentExited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the agent {}{}", self.exit, tail(&self.stderr_tail))
    }
}

impl std::error::Error for AgentExited {}

/// Longest line drawn out of an agent's words, in characters.
const LINE_LIMIT: usize = 300;

fn classify(value: &Value) -> RejectedClass {
    match (value.as_i64(), value.as_str()) {
        (Some(429), _)
        | (
            _,
            Some("rate_limit" | "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED"),
        ) => RejectedClass::RateLimited,
        (Some(402), _) | (_, Some("insufficient_quota" | "quota_exceeded" | "billing_error")) => {
            RejectedClass::QuotaExceeded
        }
        (Some(401), _)
        | (_, Some("authentication_error" | "invalid_api_key" | "UNAUTHENTICATED")) => {
            RejectedClass::Unauthenticated
        }
        _ => RejectedClass::Other,
    }
}

/// The first text that says something, in the shapes agents use.
fn find_line(data: &Value, depth: usize) -> Option<String> {
    // Shapes seen so far are at most four deep.
    if depth > 4 {
        return None;
    }
    match data {
        // Some agents put a provider's whole answer into a string.
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => find_line(&inner, depth + 1),
            _ => (!text.trim().is_empty()).then(|| one_line(text)),
        },
        Value::Array(items) => items.iter().find_map(|item| find_line(item, depth + 1)),
        Value::Object(members) => ["details", "message", "reason", "error", "_errors"]
            .iter()
            .filter_map(|key| members.get(*key))
            .chain(members.values().filter(|value| !value.is_string()))
            .find_map(|value| find_line(value, depth + 1)),
        _ => None,
    }
}

/// Text as one line of bounded length. Of a page of HTML, which proxies send where an answer was wanted,
/// it is what stands before the page, and the page's title.
fn one_line(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let page = ["<!doctype", "<html", "<head", "<body"]
        .iter()
        .filter_map(|tag| lower.find(tag))
        .min();
    if let Some(page) = page {
        let title = lower[page..].split_once("<title>").map(|(before, rest)| {
            let start = page + before.len() + "<title>".len();
            let len = rest.find('<').unwrap_or(rest.len());
            &text[start..start + len]
        });
        return shortened(&format!(
            "{} {}",
            &text[..page],
            title.unwrap_or("(a page of HTML)")
        ));
    }
    shortened(text)
}

fn shortened(text: &str) -> String {
    let mut line = String::new();
    for (i, word) in text.split_whitespace().enumerate() {
        if i > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((cut, _)) = line.char_indices().nth(LINE_LIMIT) {
            line.truncate(cut);
            line.push('…');
            break;
        }
    }
    line
}

/// The stderr tail as the end of a message.
pub(super) fn tail(stderr_tail: &str) -> String {
    match stderr_tail.trim() {
        "" => String::new(),
        text => format!("; the end of what it wrote:\n{text}"),
    }
}

/// A reply that is not in the form that tools or a response format ask for.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the agent's reply is not what was asked for: {fault}")]
#[non_exhaustive]
pub struct MalformedReply {
    /// What is wrong with it.
    pub fault: String,
    /// The replies before it.
    pub repairs: Vec<Repair>,
    /// What the agent reported as usage with it.
    pub usage: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rejected(message: &str, data: Value) -> String {
        Rejected {
            method: "session/prompt",
            code: -32603,
            message: message.into(),
            data,
        }
        .to_string()
    }

    #[test]
    fn the_useful_line_is_found_in_every_shape_of_data() {
        for (data, line) in [
            (json!("No session found"), "No session found"),
            (
                json!({"details": "model is deprecated"}),
                "model is deprecated",
            ),
            (
                json!({"_errors": [], "prompt": {"_errors": ["Required"]}}),
                "Required",
            ),
            (
                json!([{"path": ["x"], "message": "Invalid input"}]),
                "Invalid input",
            ),
            (json!({"error": {"message": "quota"}}), "quota"),
            (
                json!({"message": "{\"error\": {\"message\": \"inner\"}}"}),
                "inner",
            ),
        ] {
            assert_eq!(
                rejected("Internal error", data),
                format!(
                    "the agent rejected `session/prompt`: Internal error: {line} (code -32603)"
                )
            );
        }
        for data in [json!(null), json!(7), json!({}), json!([[[[[["deep"]]]]]])] {
            assert_eq!(
                rejected("Internal error", data),
                "the agent rejected `session/prompt`: Internal error (code -32603)"
            );
        }
    }

    #[test]
    fn json_in_a_message_is_looked_into() {
        let text = rejected(
            r#"{"error":{"code":400,"message":"mock error"}}"#,
            Value::Null,
        );
        assert_eq!(
            text,
            "the agent rejected `session/prompt`: mock error (code -32603)"
        );
    }

    #[test]
    fn lines_are_bounded() {
        let text = rejected(&"word ".repeat(10_000), Value::Null);
        assert!(text.chars().count() < LINE_LIMIT + 80, "{text}");
    }

    #[test]
    fn pages_are_reduced_to_their_title() {
        let page = "403 <!DOCTYPE html><html><head><TITLE>Just a\nmoment...</TITLE><p>sign in, token</html>";
        assert!(rejected(page, Value::Null).ends_with("403 Just a moment... (code -32603)"));
        assert!(rejected("<html>é", Value::Null).contains("(a page of HTML)"));
    }

    #[test]
    fn classes_need_a_number_or_a_name_with_a_fixed_meaning() {
        use RejectedClass::{Other, QuotaExceeded, RateLimited, Unauthenticated};
        for (code, data, class) in [
            (429, json!(null), RateLimited),
            (-32603, json!({"status": 429}), RateLimited),
            (
                -32603,
                json!({"error": {"type": "rate_limit_error"}}),
                RateLimited,
            ),
            (
                -32603,
                json!({"error": {"code": "insufficient_quota"}}),
                QuotaExceeded,
            ),
            (-32603, json!({"statusCode": 401}), Unauthenticated),
            (-32603, json!({"details": "429 rate limit, 401"}), Other),
            (-32603, json!("quota_exceeded"), Other),
            (500, json!([429]), Other),
        ] {
            let error = Rejected {
                method: "session/prompt",
                code,
                message: "rate limit".into(),
                data,
            };
            assert_eq!(error.class(), class, "{error:?}");
        }
    }

    #[test]
    fn a_login_error_names_the_methods() {
        let method = |id: &str| AuthMethod {
            id: id.into(),
            name: String::new(),
            description: String::new(),
            is_terminal: false,
        };
        let mut error = AuthRequired {
            method: "session/new",
            methods: vec![method("oauth"), method("api-key")],
            message: "Authentication required".into(),
        };
        assert!(error.to_string().ends_with("methods: oauth, api-key"));
        error.methods.clear();
        assert!(error.to_string().contains("names no method"));
    }
}
