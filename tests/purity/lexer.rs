//! Just enough of Rust's lexical grammar to tell code from comments, strings and doc comments.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    Number,
    /// A string, byte string, C string or character; its text isn't kept.
    Literal,
    Lifetime,
    /// One character, but `::` is one token.
    Punct,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Whether it belongs to an item under `#[cfg(test)]`.
    pub(crate) test: bool,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Ident | Kind::Punct) && self.text == text
    }
}

/// The tokens of a source file, those of test-only items marked.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0, line: 1, tokens: Vec::new() };
    while lexer.step() {}
    mark_tests(&mut lexer.tokens);
    lexer.tokens
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn bump(&mut self) -> char {
        let c = self.peek(0);
        self.at += 1;
        self.line += usize::from(c == '\n');
        c
    }

    fn push(&mut self, kind: Kind, text: &str, line: usize) {
        self.tokens.push(Token { kind, text: text.to_owned(), line, test: false });
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.at < self.chars.len() && accept(self.peek(0)) {
            self.bump();
        }
        self.chars[start..self.at].iter().collect()
    }

    fn step(&mut self) -> bool {
        if self.at >= self.chars.len() {
            return false;
        }
        let line = self.line;
        match self.peek(0) {
            c if c.is_whitespace() => {
                self.bump();
            }
            '/' if self.peek(1) == '/' => {
                self.take_while(|c| c != '\n');
            }
            '/' if self.peek(1) == '*' => self.block_comment(),
            '"' => self.string(),
            '\'' => self.quote(),
            c if c.is_ascii_digit() => self.number(),
            c if is_ident(c) => self.word(),
            ':' if self.peek(1) == ':' => {
                self.at += 2;
                self.push(Kind::Punct, "::", line);
            }
            c => {
                self.bump();
                self.push(Kind::Punct, &c.to_string(), line);
            }
        }
        true
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => {
                    depth += 1;
                    self.at += 2;
                }
                ('*', '/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => {
                    self.bump();
                }
            }
        }
    }

    fn string(&mut self) {
        let line = self.line;
        self.bump();
        while self.at < self.chars.len() {
            match self.bump() {
                '\\' => {
                    self.bump();
                }
                '"' => break,
                _ => {}
            }
        }
        self.push(Kind::Literal, "", line);
    }

    fn raw_string(&mut self) {
        let line = self.line;
        let hashes = self.take_while(|c| c == '#').len();
        self.bump();
        while self.at < self.chars.len() {
            if self.bump() == '"' && (0..hashes).all(|ahead| self.peek(ahead) == '#') {
                self.at += hashes;
                break;
            }
        }
        self.push(Kind::Literal, "", line);
    }

    /// A character literal or a lifetime.
    fn quote(&mut self) {
        let line = self.line;
        if self.peek(1) != '\\' && self.peek(2) != '\'' {
            self.bump();
            let name = self.take_while(is_ident);
            return self.push(Kind::Lifetime, &name, line);
        }
        self.bump();
        if self.bump() == '\\' {
            self.bump();
        }
        self.take_while(|c| c != '\'');
        self.bump();
        self.push(Kind::Literal, "", line);
    }

    fn number(&mut self) {
        let line = self.line;
        let mut text = self.take_while(is_ident);
        let field = self.tokens.last().is_some_and(|token| token.is("."));
        let decimal = !["0x", "0b", "0o"].iter().any(|prefix| text.starts_with(prefix));
        if !field && decimal && self.peek(0) == '.' && self.peek(1) != '.' && !starts_ident(self.peek(1)) {
            self.bump();
            text = format!("{text}.{}", self.take_while(is_ident));
        }
        let mantissa = text.strip_suffix(['e', 'E']).unwrap_or_default();
        if !mantissa.is_empty() && !mantissa.contains(|c: char| c.is_alphabetic()) && matches!(self.peek(0), '+' | '-')
        {
            self.bump();
            text.push_str(&self.take_while(is_ident));
        }
        self.push(Kind::Number, &text, line);
    }

    fn word(&mut self) {
        let line = self.line;
        let word = self.take_while(is_ident);
        match (word.as_str(), self.peek(0)) {
            ("b" | "c", '"') => self.string(),
            ("b", '\'') => self.quote(),
            ("r" | "br" | "cr", '"') => self.raw_string(),
            ("r" | "br" | "cr", '#') if matches!(self.peek(1), '#' | '"') => self.raw_string(),
            ("r", '#') => {
                self.bump();
                let name = self.take_while(is_ident);
                self.push(Kind::Ident, &name, line);
            }
            _ => self.push(Kind::Ident, &word, line),
        }
    }
}

fn is_ident(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn starts_ident(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

/// Whether a number token is a floating-point literal.
pub(crate) fn is_float(number: &str) -> bool {
    if ["0x", "0b", "0o"].iter().any(|prefix| number.starts_with(prefix)) {
        return false;
    }
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    rest.starts_with(['.', 'e', 'E']) || rest.starts_with("f32") || rest.starts_with("f64")
}

/// The index just past the bracket that closes the one at `open`.
pub(crate) fn past_closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" if token.kind == Kind::Punct => depth += 1,
            ")" | "]" | "}" if token.kind == Kind::Punct => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The index just past the item that starts at `at`: its body, or its semicolon.
pub(crate) fn past_item(tokens: &[Token], mut at: usize) -> usize {
    while at < tokens.len() {
        if tokens[at].is("{") {
            return past_closing(tokens, at);
        } else if tokens[at].is(";") {
            return at + 1;
        } else if tokens[at].is("(") || tokens[at].is("[") {
            at = past_closing(tokens, at);
        } else {
            at += 1;
        }
    }
    at
}

/// The index just past the attribute that starts at `at`, if one does.
pub(crate) fn past_attribute(tokens: &[Token], at: usize) -> Option<usize> {
    let inner = usize::from(tokens.get(at + 1)?.is("!"));
    (tokens[at].is("#") && tokens.get(at + 1 + inner)?.is("[")).then(|| past_closing(tokens, at + 1 + inner))
}

/// Whether `attribute` is `#[cfg(name)]` or `#[cfg(all(name, …))]`, or the same for a whole file.
pub(crate) fn is_cfg(attribute: &[Token], name: &str) -> bool {
    let words: Vec<&str> = attribute.iter().map(|token| token.text.as_str()).filter(|text| *text != "!").collect();
    words == ["#", "[", "cfg", "(", name, ")", "]"] || words.starts_with(&["#", "[", "cfg", "(", "all", "(", name, ","])
}

fn mark_tests(tokens: &mut [Token]) {
    let mut at = 0;
    while at < tokens.len() {
        let Some(mut end) = past_attribute(tokens, at) else {
            at += 1;
            continue;
        };
        if is_cfg(&tokens[at..end], "test") {
            if tokens[at + 1].is("!") {
                end = tokens.len();
            } else {
                while let Some(next) = past_attribute(tokens, end) {
                    end = next;
                }
                end = past_item(tokens, end);
            }
            tokens[at..end].iter_mut().for_each(|token| token.test = true);
        }
        at = end;
    }
}
