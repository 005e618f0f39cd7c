//! What is wrong, or dangerous, in a configuration file.

use std::fmt;
use std::ops::Range;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// Legal but dangerous.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// Where in the file's tree: `group[0].endpoint[1].url`.
    pub key: String,
    /// What is wrong.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, line, column, key, found, expected } = self;
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{line}:{column}: {severity}: {key}: {found}; expected {expected}")
    }
}

/// Gathers findings against one text.
pub(super) struct Findings<'a> {
    text: &'a str,
    list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, list: Vec::new() }
    }

    pub(super) fn error(
        &mut self,
        at: &Range<usize>,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.add(Severity::Error, at, key, found.into(), expected.into());
    }

    pub(super) fn warning(
        &mut self,
        at: &Range<usize>,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.add(Severity::Warning, at, key, found.into(), expected.into());
    }

    fn add(&mut self, severity: Severity, at: &Range<usize>, key: &str, found: String, expected: String) {
        let (line, column) = position(self.text, at.start);
        self.list.push(Finding { severity, line, column, key: key.to_owned(), found, expected });
    }

    pub(super) fn errors(&self) -> usize {
        self.list.iter().filter(|finding| finding.severity == Severity::Error).count()
    }

    /// In the order of the file.
    pub(super) fn sorted(mut self) -> Vec<Finding> {
        self.list.sort_by_key(|finding| (finding.line, finding.column, finding.severity));
        self.list
    }
}

/// 1-based line and column of a byte.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
