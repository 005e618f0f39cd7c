//! JSON that keeps what a byte-for-byte comparison needs: the order of keys, and every number as the text it was.
//!
//! `serde_json::Value` keeps neither (keys are sorted, and nanoseconds since the epoch don't fit an `f64`).

use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(Key, Json)>),
}

/// Borrowed where it is written in a source file, which is most of the time.
pub(crate) type Key = Cow<'static, str>;

impl Json {
    /// Reads one JSON text. Lenient where leniency can't hide anything: whoever needs to know that `text` was strict
    /// and compact compares it with the `Display` of the result.
    pub(crate) fn parse(text: &str) -> Self {
        let mut reader = Reader { text, at: 0 };
        let json = reader.value();
        reader.blanks();
        assert_eq!(reader.at, text.len(), "trailing text in {text}");
        json
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn number(number: impl fmt::Display) -> Self {
        Self::Number(number.to_string())
    }

    /// An object from pairs in the order in which they shall be printed.
    pub(crate) fn object<const N: usize>(pairs: [(&'static str, Json); N]) -> Self {
        Self::Object(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// One key more, or none where there is no value.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Option<Json>>) -> Self {
        if let (Self::Object(pairs), Some(value)) = (&mut self, value.into()) {
            pairs.push((key.into(), value));
        }
        self
    }

    /// The keys of `self`, then those of `other`.
    pub(crate) fn and(mut self, other: Json) -> Self {
        if let (Self::Object(pairs), Self::Object(more)) = (&mut self, other) {
            pairs.extend(more);
        }
        self
    }

    /// The keys of an object with their values; nothing else has any.
    pub(crate) fn pairs(&self) -> &[(Key, Json)] {
        match self {
            Self::Object(pairs) => pairs,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        self.pairs().iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text),
            _ => None,
        }
    }

    /// The text (or the digits) under `key`.
    pub(crate) fn str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn u64(&self, key: &str) -> Option<u64> {
        self.str(key)?.parse().ok()
    }

    pub(crate) fn list(&self, key: &str) -> &[Json] {
        match self.get(key) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }

    /// The same object without these keys of its own (not of what lies inside it).
    pub(crate) fn without(&self, keys: &[&str]) -> Self {
        Self::Object(self.pairs().iter().filter(|(key, _)| !keys.contains(&key.as_ref())).cloned().collect())
    }

    /// Whether both are the same without these keys.
    pub(crate) fn same_without(&self, keys: &[&str], other: &Self) -> bool {
        let kept = |(key, _): &&(Key, Json)| !keys.contains(&key.as_ref());
        self.pairs().iter().filter(kept).eq(other.pairs().iter().filter(kept))
    }
}

/// Compact, as the output format prints it: no spaces, non-ASCII characters as they are.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => quoted(f, text),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Object(pairs) => {
                f.write_str("{")?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    quoted(f, key)?;
                    f.write_str(":")?;
                    value.fmt(f)?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Escapes only where there is something to escape: most strings here are plain words.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        write!(f, "\"{text}\"")
    } else {
        f.write_str(&serde_json::to_string(text).expect("a string is always JSON"))
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        *self.text.as_bytes().get(self.at).unwrap_or_else(|| panic!("unfinished JSON: {}", self.text))
    }

    fn blanks(&mut self) {
        while self.text.as_bytes().get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Takes `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) {
        assert!(self.take(byte), "no {:?} at byte {} of {}", byte as char, self.at, self.text);
    }

    fn value(&mut self) -> Json {
        self.blanks();
        match self.peek() {
            b'{' => {
                let mut pairs = Vec::with_capacity(16);
                self.items(b'}', |reader| {
                    let key = reader.string();
                    reader.expect(b':');
                    pairs.push((Cow::Owned(key), reader.value()));
                });
                Json::Object(pairs)
            }
            b'[' => {
                let mut items = Vec::new();
                self.items(b']', |reader| items.push(reader.value()));
                Json::List(items)
            }
            b'"' => Json::Text(self.string()),
            _ => {
                let start = self.at;
                while self.text.as_bytes().get(self.at).is_some_and(|b| !b",]} \t\r\n".contains(b)) {
                    self.at += 1;
                }
                match &self.text[start..self.at] {
                    "null" => Json::Null,
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    digits => Json::number(digits),
                }
            }
        }
    }

    /// The opening bracket, then `item`s parted by commas, then `close`.
    fn items(&mut self, close: u8, mut item: impl FnMut(&mut Self)) {
        self.at += 1;
        if self.take(close) {
            return;
        }
        loop {
            self.blanks();
            item(self);
            if !self.take(b',') {
                return self.expect(close);
            }
        }
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.expect(b'"');
        let mut escaped = false;
        while self.peek() != b'"' {
            let step = if self.peek() == b'\\' { 2 } else { 1 };
            escaped |= step == 2;
            self.at += step;
        }
        self.at += 1;
        if escaped {
            serde_json::from_str(&self.text[start..self.at]).expect("a JSON string")
        } else {
            self.text[start + 1..self.at - 1].to_owned()
        }
    }
}
