//! Tools: functions of the host that a model may call.

use std::any::Any;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::cancel::CancelToken;

/// A function of the host that a model may call.
///
/// Its arguments are whatever can be deserialized, of which a [`Value`] is the most general, and its result
/// whatever can be serialized: text goes to the model as it is, everything else as JSON. This one says itself
/// what its arguments look like; with the feature `schema`, `Tool::typed` has the argument type say it.
///
/// ```
/// use acp_core::Tool;
/// use serde_json::{Value, json};
///
/// let weather = Tool::new(
///     "weather",
///     "What the weather is like in a city.",
///     json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
///     |arguments: Value| match arguments["city"].as_str() {
///         Some("Lima") => Ok("grey, 18 °C"),
///         _ => Err("there are no stations but in Lima"),
///     },
/// );
/// assert_eq!(weather.name(), "weather");
/// ```
///
/// Nothing that goes wrong in a tool ends the run, unless the host wants that
/// ([`InProcessClient::abort_on_tool_error`](crate::InProcessClient::abort_on_tool_error)): arguments that do
/// not fit, with the path of what is wrong, an error, and a panic are each a result that tells the model about
/// it.
#[derive(Clone)]
pub struct Tool {
    name: String,
    description: String,
    parameters: Value,
    serial: bool,
    function: Arc<Function>,
}

type Function = dyn Fn(Value, &RunContext) -> ToolResult + Send + Sync;

impl Tool {
    /// A tool whose parameters this JSON Schema describes to the model; it has to be that of an object.
    pub fn new<A, R, E>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        function: impl Fn(A) -> Result<R, E> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        E: Display,
    {
        Self::new_with(name, description, parameters, move |arguments, _| {
            function(arguments)
        })
    }

    /// The same for a function that wants to know which run calls it, and whether that has been cancelled.
    pub fn new_with<A, R, E>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        function: impl Fn(A, &RunContext) -> Result<R, E> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        E: Display,
    {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            serial: false,
            function: Arc::new(move |arguments, context| {
                match read_arguments(arguments).and_then(|arguments| {
                    function(arguments, context).map_err(|error| error.to_string())
                }) {
                    Ok(result) => ToolResult::from_value(&result),
                    Err(error) => ToolResult::error(error),
                }
            }),
        }
    }

    /// Nothing else runs while this tool does: the calls before it in the model's answer have ended, and those
    /// after it have not begun. Without this the calls of one answer run side by side.
    #[must_use]
    pub fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// What the model calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the model is told about it, as in OpenAI chat completions.
    pub fn definition(&self) -> Value {
        json!({
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        })
    }

    /// Whether [`Tool::serial`] was said.
    pub fn is_serial(&self) -> bool {
        self.serial
    }

    /// Runs the function; a panic in it is a result.
    pub(super) fn call(&self, arguments: Value, context: &RunContext) -> ToolResult {
        catch_unwind(AssertUnwindSafe(|| (self.function)(arguments, context)))
            .unwrap_or_else(|panic| ToolResult::error(describe_panic(&*panic)))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

/// What a call of a tool came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolResult {
    /// What the model is told.
    pub content: String,
    /// Whether it is about something that went wrong. The model then reads `error: ` before it.
    pub is_error: bool,
}

impl ToolResult {
    /// The call did what it was asked to.
    pub fn ok(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: false,
        }
    }

    /// The call failed, for this reason.
    pub fn error(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: true,
        }
    }

    fn from_value(result: &impl Serialize) -> Self {
        match serde_json::to_value(result) {
            Ok(Value::String(text)) => Self::ok(text),
            Ok(value) => Self::ok(value.to_string()),
            Err(error) => Self::error(format!(
                "the tool's result cannot be written as JSON: {error}"
            )),
        }
    }

    /// The content of the message with it.
    pub(super) fn to_text(&self) -> String {
        if self.is_error {
            format!("error: {}", self.content)
        } else {
            self.content.clone()
        }
    }
}

/// The run that a hook or a tool is called by.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunContext {
    /// The name of its conversation.
    pub conversation: Arc<str>,
    /// Which of its turns goes on; the first is 1.
    pub turn: u32,
    /// Whether it has been cancelled, and a way to do it.
    pub cancel: CancelToken,
}

/// Arguments as the tool wants them, or what is wrong with them and where. None at all, which models send for
/// tools without parameters, are an empty object.
fn read_arguments<A: DeserializeOwned>(arguments: Value) -> Result<A, String> {
    let arguments = match arguments {
        Value::Null => Value::Object(Map::new()),
        arguments => arguments,
    };
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        match path.as_str() {
            "." => format!("the arguments do not fit: {error}"),
            path => format!("the arguments do not fit: at `{path}`: {error}"),
        }
    })
}

fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let text = match panic.downcast_ref::<&str>() {
        Some(text) => Some(*text),
        None => panic.downcast_ref::<String>().map(String::as_str),
    };
    match text {
        Some(text) => format!("the tool panicked: {text}"),
        None => "the tool panicked".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Deserialize)]
    struct Move {
        path: Vec<Point>,
    }

    #[derive(Deserialize)]
    struct Point {
        x: i32,
    }

    fn context() -> RunContext {
        RunContext {
            conversation: "test".into(),
            turn: 1,
            cancel: CancelToken::new(),
        }
    }

    fn result_of<R: Serialize>(
        arguments: Value,
        function: impl Fn(Move) -> Result<R, String> + Send + Sync + 'static,
    ) -> ToolResult {
        Tool::new("move", "Moves.", json!({"type": "object"}), function).call(arguments, &context())
    }

    #[test]
    fn text_is_a_result_as_it_is_and_everything_else_as_json() {
        let to = |x| json!({"path": [{"x": 1}, {"x": x}]});
        let last = |m: &Move| m.path.last().map(|point| point.x);
        let text = result_of(to(2), move |m| Ok(format!("at {:?}", last(&m).unwrap())));
        assert_eq!(text, ToolResult::ok("at 2"));
        let number = result_of(to(3), move |m| Ok(last(&m)));
        assert_eq!(number, ToolResult::ok("3"));
        let error = result_of(to(4), |_| Err::<(), _>("a wall".to_owned()));
        assert_eq!(error, ToolResult::error("a wall"));
        assert_eq!(error.to_text(), "error: a wall");
        assert_eq!(number.to_text(), "3");
        let unwritable = result_of(to(5), |_| Ok(BTreeMap::from([((), 1)])));
        assert!(unwritable.is_error, "{unwritable:?}");
        assert!(unwritable.content.contains("JSON"), "{unwritable:?}");
    }

    #[test]
    fn arguments_that_do_not_fit_say_where() {
        let fault = |arguments| {
            let result = result_of(arguments, |_| Ok(()));
            assert!(result.is_error, "{result:?}");
            result.content
        };
        assert_eq!(
            fault(json!({"path": [{"x": 1}, {"x": "2"}]})),
            "the arguments do not fit: at `path[1].x`: invalid type: string \"2\", expected i32"
        );
        assert_eq!(
            fault(json!({})),
            "the arguments do not fit: missing field `path`"
        );
        assert_eq!(
            fault(json!("{\"path\": [")),
            "the arguments do not fit: invalid type: string \"{\\\"path\\\": [\", expected struct Move"
        );
    }

    #[test]
    fn no_arguments_are_none() {
        let tool = Tool::new("n", "", json!({}), |all: Map<String, Value>| {
            Ok::<_, String>(all.len())
        });
        assert_eq!(tool.call(Value::Null, &context()), ToolResult::ok("0"));
    }

    #[test]
    fn a_panic_is_a_result() {
        let to = json!({"path": []});
        let text = result_of(to.clone(), |m| -> Result<(), _> {
            panic!("{} points", m.path.len())
        });
        assert_eq!(text, ToolResult::error("the tool panicked: 0 points"));
        let constant = result_of(to.clone(), |_| -> Result<(), _> { panic!("no") });
        assert_eq!(constant, ToolResult::error("the tool panicked: no"));
        let other = result_of(to, |_| -> Result<(), _> { std::panic::panic_any(7) });
        assert_eq!(other, ToolResult::error("the tool panicked"));
    }
}
