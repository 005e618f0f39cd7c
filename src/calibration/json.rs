//! Rows of JSON Lines: an object a line, with the names of the columns as its keys.

use std::borrow::Cow;
use std::io::{self, BufRead as _, Read as _};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{Fault, HistoryError};
use super::field::{Column, shown};
use super::history::HistoryOptions;
use super::input::{Content, LONGEST_ROW, TOO_LONG, in_words};
use super::rows::Fields;
use super::sample::{Names, Sample};

/// The rows of a file of JSON Lines.
pub(super) struct JsonRows {
    content: Content,
    buffer: Vec<u8>,
    options: HistoryOptions,
    /// Known from the first row on.
    fields: Option<Fields>,
    file: String,
    wrapped: Option<&'static str>,
    line: u64,
    ended: bool,
}

impl std::fmt::Debug for JsonRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonRows").field("file", &self.file).field("line", &self.line).finish_non_exhaustive()
    }
}

impl JsonRows {
    pub(super) fn new(content: Content, file: String, wrapped: Option<&'static str>, options: &HistoryOptions) -> Self {
        let options = options.clone();
        Self { content, buffer: Vec::new(), options, fields: None, file, wrapped, line: 0, ended: false }
    }

    pub(super) fn next(&mut self, names: &mut Names) -> Option<Result<Sample, HistoryError>> {
        if self.ended {
            return None;
        }
        loop {
            self.line += 1;
            self.buffer.clear();
            match (&mut self.content).take(LONGEST_ROW as u64).read_until(b'\n', &mut self.buffer) {
                Ok(0) => {
                    self.ended = true;
                    return None;
                }
                Ok(_) => {}
                Err(error) => return Some(Err(self.failed(&error))),
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        Some(self.sample(names).map_err(|fault| {
            self.ended = true;
            fault.on(&self.file, self.line)
        }))
    }

    fn failed(&mut self, error: &io::Error) -> HistoryError {
        self.ended = true;
        Fault::new(in_words(error, self.wrapped)).on(&self.file, self.line)
    }

    fn sample(&mut self, names: &mut Names) -> Result<Sample, Fault> {
        if self.buffer.len() == LONGEST_ROW && !self.buffer.ends_with(b"\n") {
            return Err(Fault::new(TOO_LONG));
        }
        let text = self.buffer.trim_ascii();
        let text = text.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.line == 1).unwrap_or(text);
        if std::str::from_utf8(text).is_err() {
            return Err(Fault::new(format!("found {}, which is no UTF-8", shown(text))));
        }
        let object: Object<'_> = serde_json::from_slice(text).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            Fault::new(format!("at byte {}: {what}; expected an object of {}", error.column(), Column::NAMES))
        })?;
        row(&object, &mut self.fields, &self.options, names)
    }
}

/// The keys of an object and their values as they stand there.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(4);
                while let Some(entry) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    entries.push((entry.0.0, entry.1));
                }
                Ok(Object(entries))
            }
        }

        deserializer.deserialize_map(Keys)
    }
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The sample of one object.
fn row(
    Object(entries): &Object<'_>,
    fields: &mut Option<Fields>,
    options: &HistoryOptions,
    names: &mut Names,
) -> Result<Sample, Fault> {
    let mut found: [Option<(&str, &str)>; 4] = [None; 4];
    for (key, value) in entries {
        let kind = match Column::of(key) {
            Some(Column::Timestamp(_)) => 0,
            Some(Column::Endpoint) => 1,
            Some(Column::Ok) => 2,
            Some(Column::Latency(_)) => 3,
            None if options.ignore_other_columns => continue,
            None => {
                let expected = format!("expected {} (--ignore-other-columns skips others)", Column::NAMES);
                return Err(Fault::new(format!("found a key {}; {expected}", shown(key.as_bytes()))));
            }
        };
        let Some(slot) = found.get_mut(kind) else { continue };
        if let Some((other, _)) = slot {
            return Err(Fault::at(key, format!("found beside key {other:?}; expected one of the two")));
        }
        *slot = Some((key, value.get()));
    }
    let [timestamp, endpoint, ok, latency] = found;
    let missing = |name: &str| Fault::new(format!("found no key {name:?}; expected {}", Column::NAMES));
    let (timestamp_name, timestamp) = timestamp.ok_or_else(|| missing("timestamp"))?;
    let (_, endpoint) = endpoint.ok_or_else(|| missing("endpoint"))?;
    let (_, ok) = ok.ok_or_else(|| missing("ok"))?;
    // A row without a latency says nothing of its unit.
    let latency_name = latency.map(|(name, _)| name);
    let fields = match fields {
        None => fields.insert(Fields::new(timestamp_name, latency_name, options)?),
        Some(fields) => {
            if fields.timestamp != timestamp_name {
                let before = &fields.timestamp;
                return Err(Fault::at(timestamp_name, format!("expected {before:?}, as before: one file, one unit")));
            }
            match (&fields.latency, latency_name) {
                (None, Some(name)) => {
                    let timestamp = fields.timestamp.clone();
                    let with_latency = Fields::new(&timestamp, Some(name), options)?;
                    fields.take_latency(with_latency);
                }
                (Some(before), Some(name)) if before != name => {
                    return Err(Fault::at(name, format!("expected {before:?}, as before: one file, one unit")));
                }
                _ => {}
            }
            fields
        }
    };
    let timestamp = unquoted(timestamp);
    if !endpoint.starts_with('"') {
        return Err(Fault::at("endpoint", format!("found {}; expected a string", shown(endpoint.as_bytes()))));
    }
    if ok.starts_with('"') {
        return Err(Fault::at("ok", format!("found {ok}; expected true, false, 1 or 0, without quotes")));
    }
    let latency = match latency {
        None | Some((_, "null")) => None,
        Some((name, text)) if text.starts_with('"') => {
            return Err(Fault::at(name, format!("found {}; expected a number, or null", shown(text.as_bytes()))));
        }
        Some((_, text)) => Some(text.as_bytes()),
    };
    fields.sample(names, timestamp.as_bytes(), unquoted(endpoint).as_bytes(), ok.as_bytes(), latency)
}

/// What stands between the quotes of a string; anything else as it is.
fn unquoted(text: &str) -> Cow<'_, str> {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Cow::Borrowed(text);
    };
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    serde_json::from_str(text).map_or(Cow::Borrowed(text), Cow::Owned)
}
