//! One line of JSON with the place of every value, so that a fault can be pointed at.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Fault;
use super::decimal;

/// A JSON value and the line that it stands in.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    line: &'a str,
    raw: &'a str,
}

/// A JSON object whose keys are taken out one by one; what is left over is a fault.
pub(super) struct Object<'a> {
    whole: Value<'a>,
    fields: Vec<(Cow<'a, str>, Value<'a>)>,
    known: Vec<&'static str>,
}

impl<'a> Value<'a> {
    pub(super) fn line(line: &'a str) -> Self {
        Self { line, raw: line }
    }

    fn offset(self) -> usize {
        // Both are slices of one line, so the difference of their addresses is the place in it.
        (self.raw.as_ptr() as usize).saturating_sub(self.line.as_ptr() as usize)
    }

    pub(super) fn raw(self) -> &'a str {
        self.raw
    }

    /// A fault at this value: what was found is the value itself.
    pub(super) fn unlike(self, expected: impl Into<String>) -> Fault {
        self.fault(excerpt(self.raw), expected)
    }

    pub(super) fn fault(self, found: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault::in_line(self.line, self.offset(), found, expected)
    }

    pub(super) fn is_string(self) -> bool {
        self.raw.starts_with('"')
    }

    pub(super) fn string(self) -> Result<String, Fault> {
        serde_json::from_str(self.raw).map_err(|_| self.unlike("a string"))
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
        let Fields(fields) = self.parse("a JSON object")?;
        let fields: Vec<_> = fields.into_iter().map(|(key, raw)| (key, Value { raw: raw.get(), ..self })).collect();
        for (index, (key, value)) in fields.iter().enumerate() {
            if fields.iter().take(index).any(|(earlier, _)| earlier == key) {
                return Err(value.fault(format!("the key {key:?} a second time"), "each key once"));
            }
        }
        Ok(Object { whole: self, fields, known: Vec::new() })
    }

    pub(super) fn list(self) -> Result<Vec<Value<'a>>, Fault> {
        if !self.raw.starts_with('[') {
            return Err(self.unlike("a JSON array"));
        }
        let items: Vec<&'a RawValue> = self.parse("a JSON array")?;
        Ok(items.into_iter().map(|raw| Value { raw: raw.get(), ..self }).collect())
    }

    /// A value that serde reads as a whole.
    pub(super) fn read<T: Deserialize<'a>>(self, expected: &str) -> Result<T, Fault> {
        self.parse(expected)
    }

    fn parse<T: Deserialize<'a>>(self, expected: &str) -> Result<T, Fault> {
        serde_json::from_str(self.raw).map_err(|error| {
            let message = error.to_string();
            let found = message.split(" at line ").next().unwrap_or_default().to_owned();
            let offset = self.offset() + error.column().saturating_sub(1);
            Fault::in_line(self.line, offset, found, expected)
        })
    }
}

impl<'a> Object<'a> {
    pub(super) fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        let index = self.fields.iter().position(|(name, _)| name == key)?;
        Some(self.fields.remove(index).1)
    }

    pub(super) fn require(&mut self, key: &'static str) -> Result<Value<'a>, Fault> {
        self.take(key).ok_or_else(|| self.whole.fault(format!("no key {key:?}"), format!("the key {key:?}")))
    }

    /// Takes the one key of `keys` that is there.
    pub(super) fn take_one_of(&mut self, keys: &[&'static str]) -> Result<(&'static str, Value<'a>), Fault> {
        let mut present = keys.iter().filter_map(|key| Some((*key, self.take(key)?))).collect::<Vec<_>>().into_iter();
        let list = || format!("exactly one of {}", keys.join(", "));
        match (present.next(), present.next()) {
            (Some(one), None) => Ok(one),
            (Some((one, _)), Some((two, value))) => Err(value.fault(format!("both {one:?} and {two:?}"), list())),
            (None, _) => match self.fields.first() {
                Some((key, value)) => Err(value.fault(format!("the unknown key {key:?}"), list())),
                None => Err(self.whole.fault("no verb", list())),
            },
        }
    }

    /// The end of the object: every key must have been taken.
    pub(super) fn finish(self) -> Result<(), Fault> {
        match self.fields.first() {
            None => Ok(()),
            Some((key, value)) => {
                let known: Vec<_> = self.known.iter().map(|key| format!("{key:?}")).collect();
                Err(value.fault(format!("the unknown key {key:?}"), format!("only {}", known.join(", "))))
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

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

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
                while let Some((Key(key), value)) = map.next_entry()? {
                    fields.push((key, value));
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
    Ok(fields.into_iter().map(|(key, raw)| (key.into_owned(), raw.get())).collect())
}

/// Builds one compact JSON object, keys in the order of the calls.
pub(super) struct Writer {
    out: String,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { out: String::from("{") }
    }

    /// A value that is JSON already.
    pub(super) fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        self.out.push_str(&string(key));
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
    serde_json::Value::from(text).to_string()
}
