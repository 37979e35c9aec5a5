//! What a value must look like.

use serde_json::Value;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    _source: Value,
}
