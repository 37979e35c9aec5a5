//! What an agent says of a session.

use serde_json::Value;
use serde_json::value::RawValue;

use super::{ConfigValue, bounded, read_object, read_value};

/// What the agent has said of a session, when it opened it and since.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The agent's id of the session.
    pub session_id: String,
    /// Its `modes`, as they came; null if there were none. `currentModeId` follows the agent's updates.
    pub modes: Value,
    /// Its `configOptions`, as they came last; null if there were none.
    pub config_options: Value,
    /// Its `availableCommands`, as they came last; null if there were none.
    pub available_commands: Value,
    /// Why the session has not the mode that was asked for, where that is no error.
    pub mode_error: Option<String>,
    /// Whether it is a session of before that goes on.
    pub resumed: bool,
    /// Why it is a new one although another was to go on, where that is no error.
    pub resume_error: Option<String>,
}

impl SessionInfo {
    /// The ids of the configuration options that the agent offers; `None` if it did not say.
    pub fn config_option_ids(&self) -> Option<Vec<&str>> {
        let options = self.config_options.as_array()?;
        Some(
            options
                .iter()
                .filter_map(|option| option["id"].as_str())
                .collect(),
        )
    }

    /// Whether the agent offers this value of a configuration option, as far as it says; if not, what it does.
    pub(crate) fn check_config_option(&self, id: &str, value: &ConfigValue) -> Result<(), String> {
        let Some(offered) = self.config_option_ids() else {
            return Ok(());
        };
        let options = self.config_options.as_array().into_iter().flatten();
        let Some(option) = options.into_iter().find(|option| option["id"] == id) else {
            let offered = offered.join(", ");
            return Err(format!(
                "the agent has no configuration option `{id}`; it offers {offered}"
            ));
        };
        let is_switch = option["type"] == "boolean";
        match value {
            ConfigValue::Bool(_) if !is_switch => Err(format!(
                "the configuration option `{id}` is not one to be switched on or off"
            )),
            ConfigValue::Id(_) if is_switch => Err(format!(
                "the configuration option `{id}` is on or off, and nothing else"
            )),
            ConfigValue::Id(value) => match config_values(&option["options"]) {
                Some(values) if !values.contains(&&**value) => Err(format!(
                    "the configuration option `{id}` has no value `{value}`; the agent offers {}",
                    values.join(", ")
                )),
                _ => Ok(()),
            },
            ConfigValue::Bool(_) => Ok(()),
        }
    }

    /// The ids of the modes that the agent offers; `None` if it did not say.
    pub fn mode_ids(&self) -> Option<Vec<&str>> {
        let modes = self.modes["availableModes"].as_array()?;
        Some(
            modes
                .iter()
                .filter_map(|mode| mode["id"].as_str())
                .collect(),
        )
    }

    /// Takes what an update says of the session itself.
    pub(crate) fn apply(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str() {
            Some("current_mode_update") => {
                let mode = update["currentModeId"].clone();
                if let Some(modes) = self.modes.as_object_mut() {
                    modes.insert("currentModeId".to_owned(), mode);
                }
            }
            Some("config_option_update") => self.config_options = update["configOptions"].clone(),
            Some("available_commands_update") => {
                self.available_commands = update["availableCommands"].clone();
            }
            _ => {}
        }
    }
}

/// Whether an update of this kind changes what is known of its session.
pub(crate) fn is_about_session(kind: &str) -> bool {
    matches!(
        kind,
        "current_mode_update" | "config_option_update" | "available_commands_update"
    )
}

/// The answer to `session/new`.
pub(crate) fn read_session(result: &RawValue) -> Result<SessionInfo, String> {
    let value = read_object(result)?;
    let session_id = value["sessionId"]
        .as_str()
        .ok_or("it has no `sessionId` that is a string")?
        .to_owned();
    Ok(SessionInfo {
        session_id,
        modes: value["modes"].clone(),
        config_options: value["configOptions"].clone(),
        ..SessionInfo::default()
    })
}

/// The answer to `session/load` and `session/resume`, which may be null: the session is known already.
pub(crate) fn read_old_session(result: &RawValue) -> Result<SessionInfo, String> {
    match read_value(result) {
        value @ (Value::Object(_) | Value::Null) => Ok(SessionInfo {
            modes: value["modes"].clone(),
            config_options: value["configOptions"].clone(),
            ..SessionInfo::default()
        }),
        other => Err(format!(
            "it is not an object: {}",
            bounded(other.to_string())
        )),
    }
}

/// The values of a configuration option, in groups or not.
fn config_values(options: &Value) -> Option<Vec<&str>> {
    let mut values = Vec::new();
    for option in options.as_array()? {
        match option["options"].as_array() {
            Some(group) => {
                values.extend(group.iter().filter_map(|option| option["value"].as_str()))
            }
            None => values.extend(option["value"].as_str()),
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_session_tells_its_options_and_changes_them() {
        let text =
            r#"{"sessionId":"s1","configOptions":[{"id":"model"}],"modes":{"currentModeId":"a"}}"#;
        let mut session = read_session(raw(text)).unwrap();
        assert_eq!(session.config_options[0]["id"], "model");
        for update in [
            serde_json::json!({"sessionUpdate": "config_option_update", "configOptions": []}),
            serde_json::json!({"sessionUpdate": "current_mode_update", "currentModeId": "b"}),
            serde_json::json!({"sessionUpdate": "available_commands_update", "availableCommands": [1]}),
            serde_json::json!({"sessionUpdate": "plan", "configOptions": [1]}),
        ] {
            let kind = update["sessionUpdate"].as_str().unwrap();
            assert_eq!(is_about_session(kind), kind != "plan");
            session.apply(&update);
        }
        assert_eq!(session.config_options, serde_json::json!([]));
        assert_eq!(session.modes["currentModeId"], "b");
        assert_eq!(session.available_commands, serde_json::json!([1]));
    }

    #[test]
    fn only_values_that_are_offered_are_set() {
        let options = serde_json::json!([
            {"id": "model", "type": "select", "options": [{"value": "small"}, {"value": "large"}]},
            {"id": "effort", "type": "select", "options": [{"group": "g", "options": [{"value": "low"}]}]},
            {"id": "fast", "type": "boolean", "currentValue": false},
            {"id": "odd", "type": "select"},
        ]);
        let session = SessionInfo {
            config_options: options,
            ..SessionInfo::default()
        };
        let check =
            |id: &str, value: &dyn Fn() -> ConfigValue| session.check_config_option(id, &value());
        for (id, value) in [("model", "large"), ("effort", "low"), ("odd", "anything")] {
            assert_eq!(check(id, &|| value.into()), Ok(()));
        }
        assert_eq!(check("fast", &|| true.into()), Ok(()));
        let huge = check("model", &|| "huge".into()).unwrap_err();
        assert!(huge.contains("small, large"), "{huge}");
        assert!(check("effort", &|| "high".into()).is_err());
        assert!(check("fast", &|| "on".into()).is_err());
        assert!(check("model", &|| true.into()).is_err());
        let unknown = check("colour", &|| "red".into()).unwrap_err();
        assert!(unknown.contains("model, effort, fast, odd"), "{unknown}");
        assert_eq!(
            SessionInfo::default().check_config_option("any", &true.into()),
            Ok(())
        );
    }

    #[test]
    fn half_a_character_does_not_lose_the_rest() {
        let session = read_session(raw(r#"{"sessionId":"s1","modes":{"x":"\ud83d"}}"#)).unwrap();
        assert_eq!(session.session_id, "s1");
        assert_eq!(session.modes["x"], "\u{fffd}");
    }
}
