//! Comparison with a golden output.

use thiserror::Error;

use super::json;

/// The lines of a golden output, compared one by one with what a replay prints.
///
/// The words for people (`reason`, and the `message` of an error) are not compared; everything else is, the order of
/// keys included.
pub struct Golden<'a> {
    lines: std::str::Lines<'a>,
    line: usize,
}

/// The first line that differs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the expected output differs\n  expected: {expected}\n  found:    {found}")]
pub struct Difference {
    /// 1-based line of the golden output.
    pub line: usize,
    /// What it says.
    pub expected: String,
    /// What the replay printed.
    pub found: String,
}

impl<'a> Golden<'a> {
    /// The golden output `text`. Blank lines at its end are no difference.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { lines: text.trim_end().lines(), line: 0 }
    }

    /// Compares the next line.
    ///
    /// # Errors
    /// It differs.
    pub fn compare(&mut self, found: &str) -> Result<(), Difference> {
        self.line += 1;
        match self.lines.next() {
            Some(expected) if without_prose(expected) == without_prose(found) => Ok(()),
            expected => Err(self.difference(expected, Some(found))),
        }
    }

    /// The replay printed no more lines.
    ///
    /// # Errors
    /// The golden output has more.
    pub fn finish(mut self) -> Result<(), Difference> {
        self.line += 1;
        match self.lines.next() {
            None => Ok(()),
            expected => Err(self.difference(expected, None)),
        }
    }

    fn difference(&self, expected: Option<&str>, found: Option<&str>) -> Difference {
        let text = |side: Option<&str>| side.unwrap_or("nothing more").to_owned();
        Difference { line: self.line, expected: text(expected), found: text(found) }
    }
}

/// The fields of a line, in order and as written, without the words for people.
fn without_prose(line: &str) -> Vec<(String, String)> {
    let Ok(fields) = json::raw_fields(line) else {
        // Not an object: compare it as it stands.
        return vec![(String::new(), line.to_owned())];
    };
    fields
        .into_iter()
        .filter(|(key, _)| key != "reason" && key != "message")
        .map(|(key, raw)| {
            let value = match &*key {
                "error" => format!("{:?}", without_prose(raw)),
                _ => raw.to_owned(),
            };
            (key, value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_not_compared_and_everything_else_is() {
        let golden = r#"{"line":2,"outcome":"NO_ACTION","reason":"one"}"#;
        assert!(Golden::new(golden).compare(r#"{"line":2,"outcome":"NO_ACTION","reason":"two"}"#).is_ok());
        assert!(Golden::new(golden).compare(r#"{"line":3,"outcome":"NO_ACTION","reason":"one"}"#).is_err());
        assert!(Golden::new(golden).compare(r#"{"outcome":"NO_ACTION","line":2,"reason":"one"}"#).is_err());
        let golden = r#"{"error":{"code":"A","message":"one"}}"#;
        assert!(Golden::new(golden).compare(r#"{"error":{"code":"A","message":"two"}}"#).is_ok());
        assert!(Golden::new(golden).compare(r#"{"error":{"code":"B","message":"one"}}"#).is_err());
        // A reason inside order_flow is a code, and is compared.
        let golden = r#"{"order_flow":{"state":"HOLD","reason":"STARTING"}}"#;
        assert!(Golden::new(golden).compare(r#"{"order_flow":{"state":"HOLD","reason":"SWITCHING"}}"#).is_err());
    }

    #[test]
    fn a_missing_and_a_surplus_line_are_differences() {
        let mut golden = Golden::new("{\"line\":1}\n");
        assert!(golden.compare("{\"line\":1}").is_ok());
        assert!(golden.compare("{\"line\":2}").is_err());
        assert_eq!(Golden::new("{\"line\":1}\n").finish().unwrap_err().line, 1);
    }
}
