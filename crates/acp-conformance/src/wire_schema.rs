//! The official schema as an oracle for every line on the wire, in both directions.
//!
//! The schema is generated from the types of `agent-client-protocol-schema` and used as JSON Schema.
//! Its deserializers would not do: they skip list elements and default members that they cannot
//! read, and take an unknown update for a missing one. As JSON Schema a required member must be
//! there, an enumeration has only its values, and every list element counts; members that the schema
//! does not name are allowed, as they are in the protocol.
//!
//! Checked are the params of requests and notifications, the result of a response by the method of
//! its request, and error objects. The envelope is the player's part. Methods that begin with `_`
//! are nobody's schema, and the bytes of `raw` steps are not messages.

mod fault;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use agent_client_protocol_schema::v1;
use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Who wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The client under test.
    Client,
    /// The scripted agent.
    Agent,
}

/// Checks one line. `answers` is the method of the request that the line answers, if it answers one.
///
/// The error says what is wrong, and where.
pub fn check(sender: Sender, line: &[u8], answers: Option<&str>) -> Result<(), String> {
    let message: Value =
        serde_json::from_slice(line).map_err(|error| format!("it is not JSON: {error}"))?;
    let Value::Object(message) = message else {
        return Err("it is not an object".into());
    };
    schema().check(sender, &message, answers)
}

/// The three messages of a method. Requests and notifications share the shape of their params.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Request,
    Notification,
    Result,
}

struct WireSchema {
    definitions: Map<String, Value>,
    /// The name of the definition of each message.
    names: HashMap<(Sender, Part, String), String>,
    /// Validators by definition, made when first used: there are many, and a run uses few.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

fn schema() -> &'static WireSchema {
    static SCHEMA: OnceLock<WireSchema> = OnceLock::new();
    SCHEMA.get_or_init(WireSchema::generate)
}

impl WireSchema {
    fn generate() -> WireSchema {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        generator.subschema_for::<v1::ClientRequest>();
        generator.subschema_for::<v1::ClientNotification>();
        generator.subschema_for::<v1::ClientResponse>();
        generator.subschema_for::<v1::AgentRequest>();
        generator.subschema_for::<v1::AgentNotification>();
        generator.subschema_for::<v1::AgentResponse>();
        generator.subschema_for::<v1::ProtocolLevelNotification>();
        generator.subschema_for::<v1::Error>();
        let definitions = generator.take_definitions(true);

        // Every message type carries its method and the side that handles the method.
        let mut names = HashMap::new();
        for (name, definition) in &definitions {
            let text = |key| definition.get(key).and_then(Value::as_str);
            let (Some(method), Some(side)) = (text("x-method"), text("x-side")) else {
                continue;
            };
            let part = if name.ends_with("Response") {
                Part::Result
            } else if name.ends_with("Notification") {
                Part::Notification
            } else {
                Part::Request
            };
            let senders: &[Sender] = match (side, part) {
                ("agent", Part::Result) | ("client", Part::Request | Part::Notification) => {
                    &[Sender::Agent]
                }
                ("client", Part::Result) | ("agent", Part::Request | Part::Notification) => {
                    &[Sender::Client]
                }
                _ => &[Sender::Client, Sender::Agent],
            };
            for sender in senders {
                names.insert((*sender, part, method.to_owned()), name.clone());
            }
        }
        WireSchema {
            definitions,
            names,
            validators: Mutex::default(),
        }
    }

    fn check(
        &self,
        sender: Sender,
        message: &Map<String, Value>,
        answers: Option<&str>,
    ) -> Result<(), String> {
        if let Some(method) = message.get("method") {
            let method = method.as_str().ok_or("`method` is not a string")?;
            let part = if message.contains_key("id") {
                Part::Request
            } else {
                Part::Notification
            };
            let params = message.get("params").unwrap_or(&Value::Null);
            return self.check_part(sender, part, method, "params", params);
        }
        if let Some(error) = message.get("error") {
            if message.contains_key("result") {
                return Err("it has both a result and an error".into());
            }
            return self.validate("Error", "error", error);
        }
        if let Some(result) = message.get("result") {
            // A response to nothing has no type. Whether it may be sent is the player's part.
            return match answers {
                Some(method) => self.check_part(sender, Part::Result, method, "result", result),
                None => Ok(()),
            };
        }
        Err("it is neither a request, a notification nor a response".into())
    }

    fn check_part(
        &self,
        sender: Sender,
        part: Part,
        method: &str,
        member: &str,
        value: &Value,
    ) -> Result<(), String> {
        if method.starts_with('_') {
            return Ok(());
        }
        match self.names.get(&(sender, part, method.to_owned())) {
            Some(name) => self.validate(name, member, value),
            None => Err(format!(
                "the {} sends no {} of {method}",
                match sender {
                    Sender::Client => "client",
                    Sender::Agent => "agent",
                },
                match part {
                    Part::Request => "request",
                    Part::Notification => "notification",
                    Part::Result => "result",
                },
            )),
        }
    }

    fn validate(&self, name: &str, member: &str, value: &Value) -> Result<(), String> {
        let validator = self.validator(name)?;
        match validator.iter_errors(value).next() {
            None => Ok(()),
            Some(error) => {
                let (at, what) = fault::describe(&error);
                Err(format!("{member}{at} of {name}: {what}"))
            }
        }
    }

    fn validator(&self, name: &str) -> Result<Arc<Validator>, String> {
        let mut validators = self
            .validators
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = validators.get(name) {
            return Ok(Arc::clone(validator));
        }
        let document = json!({"$ref": format!("#/$defs/{name}"), "$defs": self.definitions});
        let validator = jsonschema::draft202012::new(&document)
            .map(Arc::new)
            .map_err(|error| format!("the schema of {name} cannot be used: {error}"))?;
        validators.insert(name.to_owned(), Arc::clone(&validator));
        Ok(validator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(sender: Sender, line: &Value, answers: Option<&str>) -> Option<String> {
        check(sender, line.to_string().as_bytes(), answers).err()
    }

    #[test]
    fn every_method_of_both_sides_is_known() {
        let names = &schema().names;
        for method in [
            "initialize",
            "session/new",
            "session/prompt",
            "session/set_mode",
        ] {
            assert!(names.contains_key(&(Sender::Client, Part::Request, method.into())));
            assert!(names.contains_key(&(Sender::Agent, Part::Result, method.into())));
        }
        for method in ["session/request_permission", "fs/read_text_file"] {
            assert!(names.contains_key(&(Sender::Agent, Part::Request, method.into())));
            assert!(names.contains_key(&(Sender::Client, Part::Result, method.into())));
        }
        let note = |sender, method: &str| (sender, Part::Notification, method.to_owned());
        assert!(names.contains_key(&note(Sender::Client, "session/cancel")));
        assert!(names.contains_key(&note(Sender::Agent, "session/update")));
        assert!(!names.contains_key(&note(Sender::Client, "session/update")));
    }

    #[test]
    fn valid_lines_of_the_client_pass() {
        let lines = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
                "params": {"cwd": "/", "mcpServers": [], "unknown": 1}}),
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "m"}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "_own", "params": 7}),
        ];
        for line in lines {
            assert_eq!(fault(Sender::Client, &line, None), None, "{line}");
        }
        let answer = json!({"jsonrpc": "2.0", "id": 0,
            "result": {"outcome": {"outcome": "selected", "optionId": "a"}}});
        let method = Some("session/request_permission");
        assert_eq!(fault(Sender::Client, &answer, method), None);
    }

    #[test]
    fn what_the_deserializers_let_pass_is_found() {
        let update = |update: Value| {
            json!({"jsonrpc": "2.0", "method": "session/update",
                "params": {"sessionId": "s", "update": update}})
        };
        let text = json!({"type": "text", "text": "t"});
        let cases = [
            (
                Sender::Agent,
                update(json!({"sessionUpdate": "from_the_future"})),
                None,
            ),
            (
                Sender::Agent,
                update(json!({"sessionUpdate": "agent_message_chunk"})),
                None,
            ),
            (
                Sender::Agent,
                update(
                    json!({"sessionUpdate": "agent_message_chunk", "content": text,
                "messageId": 7}),
                ),
                None,
            ),
            (
                Sender::Agent,
                json!({"id": 1, "result": {"stopReason": "tired"}}),
                Some("session/prompt"),
            ),
            (
                Sender::Agent,
                json!({"id": 1, "result": null}),
                Some("session/prompt"),
            ),
            (
                Sender::Agent,
                json!({"id": 1, "result": null}),
                Some("session/set_mode"),
            ),
            (
                Sender::Agent,
                json!({"id": 1, "result": {"protocolVersion": "1"}}),
                Some("initialize"),
            ),
            (
                Sender::Agent,
                json!({"id": 1, "result": {"protocolVersion": 1,
                "authMethods": [{"name": "no id"}]}}),
                Some("initialize"),
            ),
            (
                Sender::Agent,
                json!({"id": 1, "result": {"stopReason": "end_turn"},
                "error": {"code": 1, "message": "m"}}),
                Some("session/prompt"),
            ),
            (Sender::Agent, json!({"id": 1}), Some("session/prompt")),
            (
                Sender::Client,
                json!({"id": 1, "method": "session/new", "params": {"cwd": "/"}}),
                None,
            ),
            (
                Sender::Client,
                json!({"id": 1, "method": "session/new",
                "params": {"cwd": "/", "mcpServers": [{"name": "no command"}]}}),
                None,
            ),
            (
                Sender::Client,
                json!({"id": 1, "method": "session/cancel",
                "params": {"sessionId": "s"}}),
                None,
            ),
            (
                Sender::Client,
                json!({"id": 1, "method": "session/update", "params": {}}),
                None,
            ),
            (
                Sender::Client,
                json!({"id": 1, "method": "session/nwe", "params": {}}),
                None,
            ),
            (
                Sender::Client,
                json!({"id": 1, "error": {"code": "x", "message": "m"}}),
                None,
            ),
            (
                Sender::Client,
                json!({"id": 1, "result": {"outcome": "allowed"}}),
                Some("session/request_permission"),
            ),
            (Sender::Client, json!({"id": 1}), None),
            (Sender::Client, json!([1]), None),
        ];
        for (sender, line, answers) in cases {
            assert!(fault(sender, &line, answers).is_some(), "{line}");
        }
    }

    #[test]
    fn a_fault_says_where() {
        let line =
            json!({"id": 1, "method": "session/new", "params": {"cwd": 1, "mcpServers": []}});
        let fault = fault(Sender::Client, &line, None).unwrap();
        assert!(
            fault.starts_with("params/cwd of NewSessionRequest: "),
            "{fault}"
        );
    }

    #[test]
    fn of_a_union_the_branch_that_is_meant_says_what_is_wrong() {
        let update = |update: Value| json!({"method": "session/update", "params": {"sessionId": "s", "update": update}});
        let agent = |line: Value, answers| fault(Sender::Agent, &line, answers).unwrap();
        for (wrong, want) in [
            (
                json!({"sessionUpdate": "agent_message_chunk"}),
                r#"params/update of SessionNotification: the member "content" is missing"#,
            ),
            (
                json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}),
                r#"params/update/content of SessionNotification: the member "text" is missing"#,
            ),
            (
                json!({"sessionUpdate": "agent_message_chunk", "content": {"text": "t"}}),
                r#"params/update/content of SessionNotification: the member "type" is missing"#,
            ),
            (
                json!({"content": {"type": "text", "text": "t"}}),
                r#"params/update of SessionNotification: the member "sessionUpdate" is missing"#,
            ),
            (
                json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": 7}),
                r#"params/update/title of SessionNotification: 7 is not of type "string""#,
            ),
        ] {
            assert_eq!(agent(update(wrong), None), want);
        }
        let future = agent(update(json!({"sessionUpdate": "from_the_future"})), None);
        let want = r#"params/update/sessionUpdate of SessionNotification: "from_the_future" is none of "user_message_chunk", "#;
        assert!(future.starts_with(want), "{future}");

        let answer = json!({"result": {"outcome": {"outcome": "selected"}}});
        assert_eq!(
            fault(Sender::Client, &answer, Some("session/request_permission")).unwrap(),
            r#"result/outcome of RequestPermissionResponse: the member "optionId" is missing"#
        );
        // A server without a `type` is one of standard input and output.
        let params = json!({"cwd": "/", "mcpServers": [{"name": "n"}]});
        let line = json!({"id": 1, "method": "session/new", "params": params});
        assert_eq!(
            fault(Sender::Client, &line, None).unwrap(),
            r#"params/mcpServers/0 of NewSessionRequest: the member "command" is missing"#
        );
    }
}
