//! What is wrong, or dangerous, in a configuration file.

use std::fmt;
use std::ops::Range;

use crate::supervisor::visible::visible;

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
    places: Places<'a>,
    list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { places: Places::new(text), list: Vec::new() }
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

    /// An error in the words of what refused it, which may say itself what it expected.
    pub(super) fn told(&mut self, at: &Range<usize>, key: &str, said: &str, expected: &str) {
        // Of a file that is checked, nothing could have been changed.
        let said = said.strip_suffix("; nothing was changed").unwrap_or(said);
        let (found, expected) = said.rsplit_once("; expected ").unwrap_or((said, expected));
        self.error(at, key, found, expected);
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
        let (line, column) = self.places.line_and_column(at.start);
        // A file that is refused may hold any name and key, and people are told of it on terminals.
        let (key, found, expected) = (visible(key), visible(&found), visible(&expected));
        self.list.push(Finding { severity, line, column, key, found, expected });
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

/// Where the lines of a text begin, found once: a file of many endpoints has many values to place.
pub(super) struct Places<'a> {
    text: &'a str,
    begins: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let begins = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, begins }
    }

    /// 1-based line of a byte.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.begins.partition_point(|begin| *begin <= offset)
    }

    /// 1-based line and column, in characters, of a byte.
    pub(super) fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let line = self.line(offset);
        let begin = self.begins.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(begin..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_expected_itself_is_not_said_twice() {
        let mut findings = Findings::new("a = 1\n");
        for said in [
            "none of 2 endpoints is primary; expected exactly one",
            "region of endpoint \"east\" is blank; expected text; nothing was changed",
            "an endpoint called \"east\" is already registered; nothing was changed",
        ] {
            findings.told(&(0..1), "group[0]", said, "an endpoint that can be registered");
        }
        let told: Vec<_> = findings.sorted().iter().map(ToString::to_string).collect();
        let told: Vec<_> = told.iter().map(|one| one.trim_start_matches("1:1: error: group[0]: ")).collect();
        assert_eq!(
            told,
            [
                "none of 2 endpoints is primary; expected exactly one",
                "region of endpoint \"east\" is blank; expected text",
                "an endpoint called \"east\" is already registered; expected an endpoint that can be registered",
            ]
        );
    }

    #[test]
    fn a_byte_is_placed_by_lines_and_characters() {
        let places = Places::new("ä = 1\n\nb\n");
        for (offset, place) in
            [(0, (1, 1)), (2, (1, 2)), (6, (1, 6)), (7, (2, 1)), (8, (3, 1)), (9, (3, 2)), (10, (4, 1))]
        {
            assert_eq!(places.line_and_column(offset), place, "{offset}");
        }
        assert_eq!(Places::new("").line_and_column(0), (1, 1));
    }
}
