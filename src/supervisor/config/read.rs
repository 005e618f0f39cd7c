//! TOML text -> values that fit the table of keys, with the place of each.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::scenario::{DURATION, parse_duration};

use super::findings::Findings;
use super::keys::{Kind, Presence, Shape};

/// A table that fits its shape.
#[derive(Debug)]
pub(super) struct Table {
    /// `group[0].policy`; empty for the file itself.
    pub(super) path: String,
    pub(super) span: Range<usize>,
    /// In the order of the shape. No map: thousands of endpoints have a dozen each.
    entries: Box<[(&'static str, Entry)]>,
    /// Whether nothing in it was refused.
    pub(super) sound: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// Where it stands; `None`: the default.
    pub(super) span: Option<Range<usize>>,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    /// Never shown.
    Secret(String),
    Flag(bool),
    Integer(u64),
    Duration(Duration),
    Share(f64),
    Texts(Vec<String>),
    Integers(Vec<u64>),
    Statuses(Vec<u16>),
    Table(Box<Table>),
    Tables(Vec<Table>),
    TextMap(Vec<(String, String)>),
    /// Of the wrong kind, or missing: it was told, and the keys beside it are judged all the same.
    Refused,
}

impl Table {
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|(name, _)| *name == key).map(|(_, entry)| entry)
    }

    /// Whether its value is of the wrong kind, or missing: there is nothing more to say of it.
    pub(super) fn is_refused(&self, key: &str) -> bool {
        matches!(self.entry(key), Some(Entry { value: Value::Refused, .. }))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&'static str, &Entry)> {
        self.entries.iter().map(|(key, entry)| (*key, entry))
    }

    /// Where `key` stands, or else the table.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.entry(key).and_then(|entry| entry.span.clone()).unwrap_or_else(|| self.span.clone())
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.entry(key)?.value {
            Value::Text(ref text) | Value::Secret(ref text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        matches!(self.entry(key), Some(Entry { value: Value::Flag(true), .. }))
    }

    pub(super) fn integer(&self, key: &str) -> Option<u64> {
        match self.entry(key)?.value {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn u32(&self, key: &str) -> u32 {
        self.integer(key).and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
    }

    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        match self.entry(key)?.value {
            Value::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    pub(super) fn share(&self, key: &str) -> f64 {
        match self.entry(key) {
            Some(Entry { value: Value::Share(share), .. }) => *share,
            _ => 0.0,
        }
    }

    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        match self.entry(key) {
            Some(Entry { value: Value::Texts(texts), .. }) => texts.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn integers(&self, key: &str) -> Vec<u64> {
        match self.entry(key) {
            Some(Entry { value: Value::Integers(integers), .. }) => integers.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn statuses(&self, key: &str) -> Vec<u16> {
        match self.entry(key) {
            Some(Entry { value: Value::Statuses(statuses), .. }) => statuses.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn text_map(&self, key: &str) -> Vec<(String, String)> {
        match self.entry(key) {
            Some(Entry { value: Value::TextMap(map), .. }) => map.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn table(&self, key: &str) -> Option<&Self> {
        match self.entry(key)?.value {
            Value::Table(ref table) => Some(table),
            _ => None,
        }
    }

    pub(super) fn tables(&self, key: &str) -> &[Self] {
        match self.entry(key) {
            Some(Entry { value: Value::Tables(tables), .. }) => tables,
            _ => &[],
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Reads the whole file as `shape`. Every fault is a finding; what could be read is returned all the same.
pub(super) fn file(text: &str, shape: &'static Shape, findings: &mut Findings<'_>) -> Table {
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        findings.error(&error.span().unwrap_or(0..0), "(syntax)", error.message(), "TOML");
    }
    Reader { findings }.table(root.get_ref(), root.span(), shape, String::new())
}

struct Reader<'f, 'a> {
    findings: &'f mut Findings<'a>,
}

impl Reader<'_, '_> {
    fn table(&mut self, table: &DeTable<'_>, span: Range<usize>, shape: &'static Shape, path: String) -> Table {
        let errors = self.findings.errors();
        let known = || shape.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
        for key in table.keys().filter(|key| !shape.keys.iter().any(|known| known.name == key.get_ref().as_ref())) {
            let at = join(&path, key.get_ref());
            self.findings.error(&key.span(), &at, "an unknown key", format!("one of: {}", known()));
        }
        let read = shape.keys.iter().filter_map(|key| {
            let at = join(&path, key.name);
            let given = table.iter().find(|(name, _)| name.get_ref().as_ref() == key.name).map(|(_, value)| value);
            let entry = match (given, key.presence) {
                (Some(value), _) => Some(Entry { value: self.value(value, key.kind, &at), span: Some(value.span()) }),
                (None, Presence::Required) => {
                    self.findings.error(&span, &at, "the key is missing", format!("a value: {}", key.about));
                    Some(Entry { value: Value::Refused, span: None })
                }
                (None, Presence::Default(text)) => self.default(text, key.kind, &at, &span),
                (None, Presence::Optional) => None,
            };
            entry.map(|entry| (key.name, entry))
        });
        let entries = read.collect();
        let sound = self.findings.errors() == errors;
        Table { path, span, entries, sound }
    }

    /// A default is read like any other value, and stands nowhere. What is inside a default table is at the table above.
    fn default(&mut self, text: &'static str, kind: Kind, at: &str, span: &Range<usize>) -> Option<Entry> {
        let value = DeValue::parse(text).ok()?;
        let value = Spanned::new(span.clone(), value.into_inner());
        Some(Entry { value: self.value(&value, kind, at), span: None })
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, kind: Kind, at: &str) -> Value {
        let span = value.span();
        let given = value.get_ref();
        let read = match kind {
            Kind::Text => given.as_str().map(|text| Value::Text(text.to_owned())),
            Kind::Secret => given.as_str().map(|text| Value::Secret(text.to_owned())),
            Kind::Flag => given.as_bool().map(Value::Flag),
            Kind::Integer { least, most } => integer(given, least, most).map(Value::Integer),
            Kind::Duration => given.as_str().and_then(parse_duration).map(Value::Duration),
            Kind::Share => share(given).map(Value::Share),
            Kind::Choice(choices) => {
                given.as_str().filter(|text| choices.contains(text)).map(|text| Value::Text(text.to_owned()))
            }
            Kind::Texts => list(given, |item| item.as_str().map(str::to_owned)).map(Value::Texts),
            Kind::Integers => list(given, |item| integer(item, 0, u64::MAX)).map(Value::Integers),
            Kind::Statuses => list(given, |item| u16::try_from(integer(item, 100, 599)?).ok()).map(Value::Statuses),
            Kind::Table(shape) => given
                .as_table()
                .map(|table| Value::Table(Box::new(self.table(table, span.clone(), shape, at.to_owned())))),
            Kind::Tables(shape) => self.tables(given, shape, at),
            Kind::OneOrMore(shape) => match given.as_table() {
                Some(table) => Some(Value::Tables(vec![self.table(table, span.clone(), shape, at.to_owned())])),
                None => self.tables(given, shape, at),
            },
            Kind::TextMap => given.as_table().and_then(|table| {
                let pair = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                    let key: &std::borrow::Cow<'_, str> = key.get_ref();
                    Some((key.to_string(), value.get_ref().as_str()?.to_owned()))
                };
                table.iter().map(pair).collect::<Option<Vec<_>>>().map(Value::TextMap)
            }),
        };
        read.unwrap_or_else(|| {
            let found = match kind {
                Kind::Secret => format!("a value of type {}", given.type_str()),
                _ => excerpt(given),
            };
            self.findings.error(&span, at, format!("found {found}"), expected(kind));
            Value::Refused
        })
    }

    /// Those of an array that are tables; what else is in it is refused by itself.
    fn tables(&mut self, given: &DeValue<'_>, shape: &'static Shape, at: &str) -> Option<Value> {
        let items = given.as_array()?;
        let read = |(index, item): (usize, &Spanned<DeValue<'_>>)| {
            let at = format!("{at}[{index}]");
            let Some(table) = item.get_ref().as_table() else {
                self.findings.error(&item.span(), &at, format!("found {}", excerpt(item.get_ref())), "a table");
                return None;
            };
            Some(self.table(table, item.span(), shape, at))
        };
        let tables: Vec<_> = items.iter().enumerate().filter_map(read).collect();
        Some(if tables.is_empty() && !items.is_empty() { Value::Refused } else { Value::Tables(tables) })
    }
}

fn integer(value: &DeValue<'_>, least: u64, most: u64) -> Option<u64> {
    let integer = value.as_integer()?;
    let number = u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()?;
    (least..=most).contains(&number).then_some(number)
}

fn share(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(_) => f64::from(u8::try_from(integer(value, 0, 1)?).ok()?),
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    (0.0..=1.0).contains(&number).then_some(number)
}

fn list<T>(value: &DeValue<'_>, read: impl Fn(&DeValue<'_>) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(|item| read(item.get_ref())).collect()
}

fn excerpt(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        other => format!("a value of type {}", other.type_str()),
    }
}

pub(super) fn expected(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::Secret => "a string".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Integer { least, most } => format!("an integer from {least} to {most}"),
        Kind::Duration => DURATION.to_owned(),
        Kind::Share => "a number from 0 to 1".to_owned(),
        Kind::Texts => "an array of strings".to_owned(),
        Kind::Integers => "an array of integers from 0".to_owned(),
        Kind::Statuses => "an array of HTTP status codes (100 to 599)".to_owned(),
        Kind::Choice(choices) => choices.iter().map(|choice| format!("{choice:?}")).collect::<Vec<_>>().join(" or "),
        Kind::Table(_) => "a table".to_owned(),
        Kind::Tables(_) => "an array of tables".to_owned(),
        Kind::OneOrMore(_) => "a table or an array of tables".to_owned(),
        Kind::TextMap => "a table of strings".to_owned(),
    }
}
