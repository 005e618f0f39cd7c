//! What is wrong with a history.

use std::fmt;

use thiserror::Error;

/// Where in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// 1-based line of the file.
    pub line: u64,
    /// The column, or the key of an object.
    pub column: Option<String>,
}

/// Why a history cannot be used. Nothing was computed from it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct HistoryError {
    /// The file, or the folder.
    pub file: String,
    /// Where in it.
    pub place: Option<Place>,
    /// What was found, and what was expected.
    pub what: String,
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(Place { line, column }) = &self.place {
            write!(f, ":{line}")?;
            if let Some(column) = column {
                write!(f, ": column {column:?}")?;
            }
        }
        write!(f, ": {}", self.what)
    }
}

/// What is wrong with one row, before it is known which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) column: Option<String>,
    pub(super) what: String,
}

impl Fault {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { column: None, what: what.into() }
    }

    pub(super) fn at(column: &str, what: impl Into<String>) -> Self {
        Self { column: Some(column.to_owned()), what: what.into() }
    }

    pub(super) fn on(self, file: &str, line: u64) -> HistoryError {
        HistoryError { file: file.to_owned(), place: Some(Place { line, column: self.column }), what: self.what }
    }
}
