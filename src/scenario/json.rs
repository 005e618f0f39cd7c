//! One line of JSON with the place of every value, so that a fault can be pointed at.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::Fault;
use super::decimal;

/// A JSON value and the line that it stands in.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    line: &'a str,
    raw: &'a str,
    /// The key that it stands under, as written.
    key: Option<&'a str>,
}

/// A JSON object whose keys are taken out one by one; what is left over is a fault.
pub(super) struct Object<'a> {
    whole: Value<'a>,
    fields: Vec<Field<'a>>,
    known: Vec<&'static str>,
}

struct Field<'a> {
    name: Cow<'a, str>,
    value: Value<'a>,
}

impl<'a> Value<'a> {
    pub(super) fn line(line: &'a str) -> Self {
        Self { line, raw: line, key: None }
    }

    fn offset(self) -> usize {
        place(self.line, self.raw)
    }

    pub(super) fn raw(self) -> &'a str {
        self.raw
    }

    /// A fault at this value: what was found is the value itself, with its key.
    pub(super) fn unlike(self, expected: impl Into<String>) -> Fault {
        let value = excerpt(self.raw);
        self.fault(self.key.map_or_else(|| value.clone(), |key| format!("{key}:{value}")), expected)
    }

    /// A fault at this value.
    pub(super) fn fault(self, found: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::in_line(self.line, self.offset(), found, expected)
    }

    /// A fault at the key of this value.
    pub(super) fn fault_at_key(self, found: impl Into<String>, expected: impl Into<String>) -> Fault {
        let offset = self.key.map_or_else(|| self.offset(), |key| place(self.line, key));
        Fault::in_line(self.line, offset, found, expected)
    }

    /// The value under `key` of this object, for pointing at; this object itself if there is none.
    pub(super) fn at(self, key: &str) -> Self {
        self.object().ok().and_then(|mut object| object.remove(key)).unwrap_or(self)
    }

    pub(super) fn is_string(self) -> bool {
        self.raw.starts_with('"')
    }

    pub(super) fn string(self) -> Result<String, Fault> {
        let expected = if self.is_string() { "a string of Unicode characters" } else { "a string" };
        serde_json::from_str(self.raw).map_err(|_| self.unlike(expected))
    }

    pub(super) fn bool(self) -> Result<bool, Fault> {
        serde_json::from_str(self.raw).map_err(|_| self.unlike("true or false"))
    }

    /// A flag has one legal value.
    pub(super) fn flag(self) -> Result<(), Fault> {
        if self.raw == "true" { Ok(()) } else { Err(self.unlike("true")) }
    }

    pub(super) fn u32(self) -> Result<u32, Fault> {
        self.raw.parse().map_err(|_| self.unlike("an integer from 0 to 4294967295"))
    }

    pub(super) fn u64(self) -> Result<u64, Fault> {
        self.raw.parse().map_err(|_| self.unlike("an integer from 0 to 18446744073709551615"))
    }

    pub(super) fn seconds(self) -> Result<u64, Fault> {
        decimal::parse_seconds(self.raw).ok_or_else(|| {
            self.unlike("seconds as a plain decimal, at most 9 fraction digits, from 0 to 18446744073.709551615")
        })
    }

    /// Seconds with an optional minus; only checked, since nothing computes with the wall clock.
    pub(super) fn signed_seconds(self) -> Result<&'a str, Fault> {
        match decimal::parse_seconds(self.raw.strip_prefix('-').unwrap_or(self.raw)) {
            Some(_) => Ok(self.raw),
            None => Err(self.unlike("seconds as a plain decimal, at most 9 fraction digits, with an optional minus")),
        }
    }

    pub(super) fn object(self) -> Result<Object<'a>, Fault> {
        if !self.raw.trim_start().starts_with('{') {
            return Err(self.unlike("a JSON object"));
        }
        let Fields(raw) = self.read("a JSON object")?;
        let mut fields: Vec<Field<'a>> = Vec::with_capacity(raw.len());
        for (key, value) in raw {
            let value = Value { raw: value.get(), key: Some(key.get()), ..self };
            let Some(name) = unquoted(key.get()) else {
                return Err(value.fault_at_key(excerpt(key.get()), "a key of Unicode characters"));
            };
            if fields.iter().any(|earlier| earlier.name == name) {
                return Err(value.fault_at_key(format!("the key {name:?} a second time"), "each key once"));
            }
            fields.push(Field { name, value });
        }
        Ok(Object { whole: self, fields, known: Vec::new() })
    }

    pub(super) fn list(self) -> Result<Vec<Value<'a>>, Fault> {
        if !self.raw.starts_with('[') {
            return Err(self.unlike("a JSON array"));
        }
        let items: Vec<&'a RawValue> = self.read("a JSON array")?;
        Ok(items.into_iter().map(|raw| Value { raw: raw.get(), key: None, ..self }).collect())
    }

    /// A value that serde reads as a whole.
    pub(super) fn read<T: Deserialize<'a>>(self, expected: &str) -> Result<T, Fault> {
        serde_json::from_str(self.raw).map_err(|error| self.unreadable(&error, expected))
    }

    /// serde's message as what was found and what was expected, at the place where the offending piece begins.
    fn unreadable(self, error: &serde_json::Error, expected: &str) -> Fault {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        // The column is that of the last byte that was read, counted from 1.
        let last = error.column().saturating_sub(1);
        match error.classify() {
            Category::Data => {
                let (found, expected) = misfit(message, expected);
                Fault::in_line(self.line, self.offset() + start_of_token(self.raw, last), found, expected)
            }
            Category::Eof => {
                let end = self.raw.trim_end().len();
                Fault::in_line(self.line, self.offset() + end, "the end of the line", closing(message))
            }
            Category::Syntax | Category::Io => {
                // A control character is seen before it is read.
                let last = if message.starts_with("control character") { last + 1 } else { last };
                let found = self.raw.get(last..).and_then(|rest| rest.chars().next());
                let found = found.map_or_else(|| "the end of the line".to_owned(), |c| format!("{c:?}"));
                Fault::in_line(self.line, self.offset() + last, found, wanted(message))
            }
        }
    }
}

/// Where `part`, a slice of `line`, begins in it.
fn place(line: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize)
}

/// Where the piece of JSON begins whose last byte is at `last`.
fn start_of_token(raw: &str, last: usize) -> usize {
    let read = raw.get(..=last).unwrap_or(raw);
    if let Some(string) = read.strip_suffix('"') {
        // A quotation mark that is not escaped: an even number of backslashes before it.
        let opens = |at: &usize| string[..*at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0;
        return string.rmatch_indices('"').map(|(at, _)| at).find(opens).unwrap_or(last);
    }
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    read.trim_end_matches(part_of_word).len().min(last)
}

/// What was found and what was expected, when JSON of the right form doesn't fit.
fn misfit(message: &str, whole: &str) -> (String, String) {
    let quoted = |text: &str| text.replace('`', "\"");
    let words = |expected: &str| match expected {
        "u32" => "an integer from 0 to 4294967295".to_owned(),
        "u64" => "an integer from 0 to 18446744073709551615".to_owned(),
        other if other.starts_with("struct ") => "a JSON object".to_owned(),
        other => quoted(other),
    };
    if let Some(name) = message.strip_prefix("missing field ") {
        return (format!("no key {} in this object", quoted(name)), "one".to_owned());
    }
    if let Some(name) = message.strip_prefix("duplicate field ") {
        return (format!("the key {} a second time", quoted(name)), "each key once".to_owned());
    }
    match message.split_once(", expected ").or_else(|| message.split_once("; expected ")) {
        Some((found, expected)) => {
            let value = found.strip_prefix("invalid type: ").or_else(|| found.strip_prefix("invalid value: "));
            let name = found.strip_prefix("unknown field ").map(|name| format!("the unknown key {}", quoted(name)));
            let found = name.or_else(|| value.map(|value| value.replace('`', ""))).unwrap_or_else(|| quoted(found));
            (found, words(expected))
        }
        None => (quoted(message), whole.to_owned()),
    }
}

/// What would have had to follow, in the words of a person.
fn closing(message: &str) -> &'static str {
    match message.strip_prefix("EOF while parsing ") {
        Some("a string") => "the closing quotation mark",
        Some("a list") => "\"]\"",
        Some("an object") => "\"}\"",
        _ => "a value",
    }
}

fn wanted(message: &str) -> String {
    match message {
        "key must be a string" => "a key in quotation marks".to_owned(),
        "trailing characters" => "the end of the line".to_owned(),
        "trailing comma" => "another entry after the comma".to_owned(),
        "expected value" | "expected ident" => "a JSON value".to_owned(),
        "invalid number" => "a JSON number".to_owned(),
        "invalid escape" => "an escape of JSON, such as \\n or \\u00e9".to_owned(),
        _ if message.starts_with("control character") => "control characters as escapes, such as \\t".to_owned(),
        _ => match message.strip_prefix("expected ") {
            Some(expected) => expected.replace('`', "\""),
            None => format!("JSON ({message})"),
        },
    }
}

/// The characters of a JSON string; `None` if it holds half a surrogate pair.
fn unquoted(raw: &str) -> Option<Cow<'_, str>> {
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str(raw).ok().map(Cow::Owned),
    }
}

impl<'a> Object<'a> {
    pub(super) fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        self.remove(key)
    }

    /// Takes a key that the message about an unknown one does not offer.
    pub(super) fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let index = self.fields.iter().position(|field| field.name == key)?;
        Some(self.fields.remove(index).value)
    }

    pub(super) fn require(&mut self, key: &'static str) -> Result<Value<'a>, Fault> {
        self.take(key).ok_or_else(|| self.whole.fault(format!("no key {key:?} in this object"), "one"))
    }

    /// Takes the one key of `keys` that is there.
    pub(super) fn take_one_of(&mut self, keys: &[&'static str]) -> Result<(&'static str, Value<'a>), Fault> {
        let mut present: Vec<_> = keys.iter().filter_map(|key| Some((*key, self.remove(key)?))).collect();
        present.sort_by_key(|(_, value)| value.offset());
        match present[..] {
            [(key, value)] => {
                self.known.push(key);
                Ok((key, value))
            }
            [(one, _), (two, value), ..] => {
                Err(value.fault_at_key(format!("{two:?} beside {one:?}"), "one input a line"))
            }
            [] => {
                let expected = format!("one of {}", keys.join(", "));
                Err(match self.fields.first() {
                    Some(Field { name, value }) => value.fault_at_key(format!("the unknown key {name:?}"), expected),
                    None => self.whole.fault("no input in this object", expected),
                })
            }
        }
    }

    /// The end of the object: every key must have been taken.
    pub(super) fn finish(self) -> Result<(), Fault> {
        match self.fields.first() {
            None => Ok(()),
            Some(Field { name, value }) => {
                let known: Vec<_> = self.known.iter().map(|key| format!("{key:?}")).collect();
                Err(value.fault_at_key(format!("the unknown key {name:?}"), format!("only {}", known.join(", "))))
            }
        }
    }
}

/// A short piece of a value for a message.
fn excerpt(raw: &str) -> String {
    const LONGEST: usize = 60;
    match raw.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", raw.get(..end).unwrap_or_default()),
        None => raw.to_owned(),
    }
}

/// The fields of an object, in order, as written.
struct Fields<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// The fields of an object, in order, as raw text.
pub(super) fn raw_fields(text: &str) -> Result<Vec<(String, &str)>, serde_json::Error> {
    let Fields(fields) = serde_json::from_str(text)?;
    let name = |key: &RawValue| unquoted(key.get()).map_or_else(|| key.get().to_owned(), Cow::into_owned);
    Ok(fields.into_iter().map(|(key, raw)| (name(key), raw.get())).collect())
}

/// Builds one compact JSON object, keys in the order of the calls.
pub(super) struct Writer {
    out: String,
}

impl Writer {
    pub(super) fn new() -> Self {
        // Most lines fit.
        let mut out = String::with_capacity(128);
        out.push('{');
        Self { out }
    }

    /// A value that is JSON already.
    pub(super) fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        push_string(&mut self.out, key);
        self.out.push(':');
        self.out.push_str(json);
        self
    }

    pub(super) fn string(&mut self, key: &str, text: &str) -> &mut Self {
        self.raw(key, &string(text))
    }

    pub(super) fn optional_string(&mut self, key: &str, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.string(key, text),
            None => self,
        }
    }

    pub(super) fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, if value { "true" } else { "false" })
    }

    pub(super) fn number(&mut self, key: &str, number: impl Into<u64>) -> &mut Self {
        self.raw(key, &number.into().to_string())
    }

    pub(super) fn list(&mut self, key: &str, items: impl IntoIterator<Item = String>) -> &mut Self {
        let items: Vec<_> = items.into_iter().collect();
        self.raw(key, &format!("[{}]", items.join(",")))
    }

    pub(super) fn end(&mut self) -> String {
        self.out.push('}');
        std::mem::take(&mut self.out)
    }
}

/// `text` as a JSON string; non-ASCII characters stay as they are.
pub(super) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

/// Appends `text` as a JSON string.
fn push_string(out: &mut String, text: &str) {
    // The journal writes each result of a probe so; most texts have nothing to escape.
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}
