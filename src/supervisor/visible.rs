//! Text from files and far sides, as it may reach a terminal or a picture.

/// Whether a character steers what shows it: a control character, one that turns the direction of the text around it, or
/// one that ends a line where none is seen.
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// Whether a character does not belong into a name: one that [`steers`], or one that nobody sees, so that two names could
/// look the same and be two. Joiners among them: people's own words need these, a name does not.
#[must_use]
pub fn hides(c: char) -> bool {
    steers(c)
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
                | '\u{2800}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The text as one line that cannot steer the terminal: what would is an escape that can be read.
#[must_use]
pub fn visible(text: &str) -> String {
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
#[must_use]
pub fn one_line(text: &str) -> String {
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

    #[test]
    fn what_nobody_sees_does_not_belong_into_a_name_and_letters_of_any_script_do() {
        assert!(
            "\u{1bca0}\u{1d173}\u{2800}\u{202e}\u{2066}\u{200b}\u{200d}\u{2060}\u{ad}\u{feff}\u{e0041}\u{fe0f}\0"
                .chars()
                .all(hides)
        );
        assert!(!"east-1 Zürich 東京 שלום é\u{301} \u{a0}🚀".chars().any(hides));
    }
}
