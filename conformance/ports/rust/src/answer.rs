//! Answers of the driver protocol. Each request gets exactly one, also when its operation panics.

use serde::Serialize;
use serde_json::{Value, json};

/// A request that has no answer yet.
pub struct Seq(pub Value);

impl Seq {
    /// The request's place in a map.
    pub fn key(&self) -> String {
        self.0.to_string()
    }

    /// The library returned.
    pub fn ok(self, value: Value) {
        self.answer("ok", value);
    }

    /// The library reported an error, which says its kind and its fields itself.
    pub fn err(self, error: &impl Serialize) {
        match serde_json::to_value(error) {
            Ok(error) => self.answer("err", error),
            Err(error) => self.crash(&format!("the error cannot be shown: {error}")),
        }
    }

    /// There is no model, which to a caller of this library cannot happen.
    pub fn not_loaded(self) {
        self.answer(
            "err",
            json!({"kind": "closed", "message": "no model is loaded"}),
        );
    }

    /// Something went wrong that the library should have reported.
    pub fn crash(self, what: &str) {
        self.answer("crash", what.into());
    }

    /// The library has no such thing.
    pub fn unsupported(self, what: &str) {
        self.answer("unsupported", what.into());
    }

    fn answer(self, body: &str, value: Value) {
        // `println!` locks, so that lines of several threads do not mix.
        println!("{}", json!({"seq": self.0, body: value}));
    }
}
