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
    lines: Lines<'a>,
    list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { lines: Lines::of(text), list: Vec::new() }
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
        let (line, column) = self.lines.position(at.start);
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

/// Where the lines of a text are.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// The line feeds.
    ends: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// 1-based line and column of a byte.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let offset = if self.text.is_char_boundary(offset) { offset } else { self.text.len() };
        let line = self.ends.partition_point(|end| *end < offset);
        let start = line.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |end| end + 1);
        let column = self.text.get(start..offset).unwrap_or_default().chars().count();
        (line + 1, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let text = "a\n\u{e9}\u{e9}b\n\nc";
        let lines = Lines::of(text);
        let all =
            [(0, (1, 1)), (1, (1, 2)), (2, (2, 1)), (4, (2, 2)), (6, (2, 3)), (7, (2, 4)), (8, (3, 1)), (9, (4, 1))];
        for (offset, position) in all {
            assert_eq!(lines.position(offset), position, "{offset}");
        }
        assert_eq!(lines.position(99), (4, 2), "behind the end: at the end");
        assert_eq!(Lines::of("").position(0), (1, 1));
    }
}
