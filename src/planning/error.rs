//! What cannot be planned with.

use thiserror::Error;

/// A value that no plan can be made of. Nothing was computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key} is {found}; expected {expected}")]
pub struct PlanError {
    /// The setting, by its name in a plan file.
    pub key: &'static str,
    /// Its value.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl PlanError {
    pub(super) fn new(key: &'static str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { key, found: found.into(), expected: expected.into() }
    }
}

/// A text that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("found {found:?}; expected {expected}")]
pub struct TextError {
    /// The text.
    pub found: String,
    /// What would be right.
    pub expected: &'static str,
}

impl TextError {
    pub(super) fn new(found: &str, expected: &'static str) -> Self {
        Self { found: found.to_owned(), expected }
    }
}
