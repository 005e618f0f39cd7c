//! Text from files and far sides, as it may reach a terminal or a picture.

/// Whether a character steers what shows it: a control character, one that turns the direction of the text around it, or
/// one that ends a line where none is seen.
pub(crate) fn steers(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// The text as one line that cannot steer the terminal: what would is an escape that can be read.
pub(crate) fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut visible, c| {
        if steers(c) {
            visible.extend(c.escape_default());
        } else {
            visible.push(c);
        }
        visible
    })
}

/// The same with a space in its place, for people's own words.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(steers, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_nothing_else_is() {
        assert_eq!(visible("a\u{1b}[31m\u{202e}b\n\u{9b}\u{2066}"), "a\\u{1b}[31m\\u{202e}b\\n\\u{9b}\\u{2066}");
        assert_eq!(visible("Zürich \\ 東京 \"x\""), "Zürich \\ 東京 \"x\"");
        assert_eq!(one_line("a\u{202e}b\nc"), "a b c");
    }
}
