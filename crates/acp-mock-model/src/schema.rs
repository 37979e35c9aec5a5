//! A JSON value that fits a schema, as far as the schemas of tools go.

use serde_json::{Map, Value, json};

use crate::conversation::items;

/// What a tool writes, where its arguments have room for it.
const CONTENT: &str = "mock content\n";

/// The arguments of a call to a tool with this schema: all that it requires, or all there is if it does not
/// say. What is a path becomes `path`, and what is a command one that writes there.
pub(crate) fn arguments(schema: &Value, path: &str) -> Map<String, Value> {
    let properties = &schema["properties"];
    let names: Vec<&str> = match (schema["required"].as_array(), properties.as_object()) {
        (Some(names), _) => names.iter().filter_map(Value::as_str).collect(),
        (None, Some(properties)) => properties.keys().map(String::as_str).collect(),
        (None, None) => Vec::new(),
    };
    let value = |name| argument(name, &properties[name], path);
    names
        .into_iter()
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}

/// A value that fits this schema.
pub(crate) fn value(schema: &Value, path: &str) -> Value {
    argument("", schema, path)
}

fn argument(name: &str, schema: &Value, path: &str) -> Value {
    if let Some(first) = items(&schema["enum"]).first() {
        return first.clone();
    }
    if let Some(first) = ["anyOf", "oneOf"]
        .iter()
        .find_map(|choice| items(&schema[choice]).first())
    {
        return argument(name, first, path);
    }
    // Gemini writes types in capitals; a list of types is a choice.
    let kind = match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    }
    .to_lowercase();
    match kind.as_str() {
        "object" => Value::Object(arguments(schema, path)),
        "integer" | "number" => json!(1),
        "boolean" => json!(false),
        "array" if is_command(name) => json!(["sh", "-c", command(path)]),
        "array" => json!([]),
        _ => json!(text(name, path)),
    }
}

fn text(name: &str, path: &str) -> String {
    let name = name.to_lowercase();
    if is_command(&name) {
        command(path)
    } else if name.contains("path") || matches!(&*name, "file" | "filename") {
        path.to_owned()
    } else if name.contains("content") || matches!(&*name, "text" | "file_text") {
        CONTENT.to_owned()
    } else {
        "mock".to_owned()
    }
}

fn is_command(name: &str) -> bool {
    matches!(name, "command" | "cmd" | "script")
}

fn command(path: &str) -> String {
    format!("echo mock > '{path}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_what_the_schema_requires() {
        let schema = json!({
            "type": "object",
            "properties": {
                "file_path": {"type": "string"},
                "content": {"type": "string"},
                "mode": {"enum": ["a", "b"]},
                "count": {"type": ["integer", "null"]},
                "nested": {"type": "OBJECT", "properties": {"x": {"type": "BOOLEAN"}}},
                "either": {"anyOf": [{"type": "array"}, {"type": "null"}]},
                "optional": {"type": "string"},
            },
            "required": ["file_path", "content", "mode", "count", "nested", "either"],
        });
        let want = json!({
            "file_path": "p", "content": CONTENT, "mode": "a", "count": 1,
            "nested": {"x": false}, "either": [],
        });
        assert_eq!(Value::Object(arguments(&schema, "p")), want);
    }

    #[test]
    fn commands_write_to_the_path() {
        let schema = |kind| json!({"properties": {"command": {"type": kind}}});
        let of = |kind| arguments(&schema(kind), "p")["command"].clone();
        assert_eq!(of("string"), "echo mock > 'p'");
        assert_eq!(of("array"), json!(["sh", "-c", "echo mock > 'p'"]));
    }

    #[test]
    fn a_schema_that_says_nothing_is_fitted_by_anything() {
        assert_eq!(arguments(&Value::Null, "p"), Map::new());
        assert_eq!(value(&json!({"type": "string"}), "p"), "mock");
        assert_eq!(value(&json!(7), "p"), "mock");
    }
}
