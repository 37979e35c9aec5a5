//! Tools whose argument types say what they look like.

use std::fmt::Display;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tool::{RunContext, Tool};

impl Tool {
    /// A tool whose parameters are those of the argument type.
    ///
    /// The schema is derived, comments included, so that what the model is told and what is accepted are one
    /// definition. The derive comes from [`acp_core::schemars`](crate::schemars), and finds its crate where that
    /// is imported beside it, or is a dependency of the host's own.
    ///
    /// ```
    /// use acp_core::Tool;
    /// use acp_core::schemars::{self, JsonSchema};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Add {
    ///     /// The first summand.
    ///     a: i64,
    ///     /// The second summand.
    ///     b: i64,
    /// }
    ///
    /// let add = Tool::typed("add", "Adds two numbers.", |Add { a, b }| {
    ///     a.checked_add(b).ok_or("the sum is too large")
    /// });
    /// let parameters = &add.definition()["function"]["parameters"];
    /// assert_eq!(parameters["properties"]["a"]["type"], "integer");
    /// assert_eq!(parameters["properties"]["a"]["description"], "The first summand.");
    /// ```
    ///
    /// # Panics
    ///
    /// If the argument type is no object as JSON, as a number is none: every call would fail. A tool without
    /// parameters takes a struct without fields.
    pub fn typed<A, R, E>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(A) -> Result<R, E> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize,
        E: Display,
    {
        Self::new(name, description, parameters::<A>(), function)
    }

    /// The same for a function that wants to know which run calls it, and whether that has been cancelled.
    ///
    /// # Panics
    ///
    /// As [`Tool::typed`].
    pub fn typed_with<A, R, E>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl Fn(A, &RunContext) -> Result<R, E> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize,
        E: Display,
    {
        Self::new_with(name, description, parameters::<A>(), function)
    }
}

/// The schema of an argument type, in one piece where the type is not recursive, because that is what models
/// read best.
fn parameters<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The name of a Rust type means nothing to the model.
    schema.remove("title");
    if let Some(kind) = schema.get("type") {
        assert!(
            kind == "object",
            "the arguments of a tool are an object, but `{}` is of the type {kind}",
            A::schema_name(),
        );
    }
    schema.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    /// Somewhere.
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Go {
        /// Where to.
        to: Place,
        fast: Option<bool>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Place {
        x: i32,
    }

    #[test]
    fn the_schema_is_one_piece_without_names_of_types() {
        let schema = parameters::<Go>();
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "description": "Somewhere.",
                "properties": {
                    "to": {
                        "description": "Where to.",
                        "type": "object",
                        "properties": {"x": {"type": "integer", "format": "int32"}},
                        "required": ["x"],
                    },
                    "fast": {"type": ["boolean", "null"]},
                },
                "required": ["to"],
            })
        );
    }

    #[test]
    fn a_choice_of_objects_is_an_object() {
        #[derive(Deserialize, JsonSchema)]
        #[serde(tag = "kind")]
        #[expect(dead_code, reason = "only its schema is looked at")]
        enum Choice {
            Go { x: i32 },
            Stay,
        }
        assert!(parameters::<Choice>()["oneOf"].is_array());
    }

    #[test]
    #[should_panic(expected = "the arguments of a tool are an object, but `int64` is of the type")]
    fn a_number_is_no_argument_type() {
        let _ = Tool::typed("n", "", |n: i64| Ok::<_, String>(n));
    }
}
