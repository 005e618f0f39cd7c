//! Why a feed is refused.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file is no feed that may be read, or written. It was left as it was found.
#[derive(Debug, Error)]
pub enum FeedError {
    /// It is not there, or the system refuses it.
    #[error("the feed {path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is something else than expected.
    #[error("the feed {path}: found {found}; expected {expected}; it was left as it was", path = path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
}

impl FeedError {
    pub(super) fn file(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::File { path: path.to_owned(), error: error.into() }
    }

    pub(super) fn refused(path: &Path, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Refused { path: path.to_owned(), found: found.into(), expected: expected.into() }
    }
}
