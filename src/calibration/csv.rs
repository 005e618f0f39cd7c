//! Rows of CSV: a header that names the columns, then a result a line.

use std::io::{self, Read};

use super::error::{Fault, HistoryError};
use super::field::{Column, shown};
use super::history::HistoryOptions;
use super::input::{Content, TOO_LONG, in_words};
use super::records::{Record, Records};
use super::rows::Fields;
use super::sample::{Names, Sample};

/// Where the columns stand.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    timestamp: usize,
    endpoint: usize,
    ok: usize,
    latency: Option<usize>,
    /// How many there are.
    all: usize,
}

/// The rows of a file of CSV.
pub(super) struct CsvRows {
    records: Records<Box<dyn Read + Send>>,
    places: Places,
    fields: Fields,
    file: String,
    wrapped: Option<&'static str>,
    rows: u64,
    ended: bool,
}

impl std::fmt::Debug for CsvRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvRows").field("file", &self.file).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl CsvRows {
    /// Reads the header.
    pub(super) fn new(
        content: Content,
        file: String,
        wrapped: Option<&'static str>,
        options: &HistoryOptions,
    ) -> Result<Self, HistoryError> {
        let mut records = Records::new(content);
        let header = match records.read() {
            Ok(header) => header.map(|header| columns(header, options)),
            Err(error) => return Err(failed(&error, wrapped).on(&file, 1)),
        };
        let nothing = || Err(Fault::new(format!("found no header; expected {}", Column::NAMES)));
        let (places, fields) = header.unwrap_or_else(nothing).map_err(|fault| fault.on(&file, records.line()))?;
        Ok(Self { records, places, fields, file, wrapped, rows: 0, ended: false })
    }

    #[inline]
    pub(super) fn next(&mut self, names: &mut Names) -> Option<Result<Sample, HistoryError>> {
        if self.ended {
            return None;
        }
        let fault = match self.records.read() {
            Ok(Some(record)) => match sample(record, self.places, &mut self.fields, names) {
                Ok(sample) => {
                    self.rows += 1;
                    return Some(Ok(sample));
                }
                Err(fault) => fault,
            },
            Ok(None) => return self.end(),
            Err(error) => failed(&error, self.wrapped),
        };
        self.ended = true;
        Some(Err(fault.on(&self.file, self.records.line())))
    }

    #[cold]
    fn end(&mut self) -> Option<Result<Sample, HistoryError>> {
        self.ended = true;
        let nothing = Fault::new("the header is all there is; expected a row for each result of a probe");
        (self.rows == 0).then(|| Err(nothing.on(&self.file, 1)))
    }
}

#[inline]
fn sample(record: Record<'_>, places: Places, fields: &mut Fields, names: &mut Names) -> Result<Sample, Fault> {
    if record.len() != places.all {
        return Err(odd(record.len(), places.all));
    }
    let latency = places.latency.map(|place| record.field(place));
    let field = |place| record.field(place);
    fields.sample(names, field(places.timestamp), field(places.endpoint), field(places.ok), latency)
}

#[cold]
fn odd(found: usize, expected: usize) -> Fault {
    Fault::new(format!("found {found} fields; expected {expected}, as in the header"))
}

/// Where the columns of a header stand, and how they are to be read.
fn columns(header: Record<'_>, options: &HistoryOptions) -> Result<(Places, Fields), Fault> {
    let mut found: [Option<(usize, String)>; 4] = Default::default();
    for (place, name) in header.iter().enumerate() {
        // A byte order mark is no part of the first name.
        let name = name.strip_prefix(b"\xef\xbb\xbf").filter(|_| place == 0).unwrap_or(name).trim_ascii();
        let Ok(text) = std::str::from_utf8(name) else {
            return Err(Fault::new(format!("found {} in the header, which is no UTF-8", shown(name))));
        };
        let kind = match Column::of(text) {
            Some(Column::Timestamp(_)) => 0,
            Some(Column::Endpoint) => 1,
            Some(Column::Ok) => 2,
            Some(Column::Latency(_)) => 3,
            None if options.ignore_other_columns => continue,
            None => {
                let expected = format!("expected a header of {} (--ignore-other-columns skips others)", Column::NAMES);
                return Err(Fault::new(format!("found a column {}; {expected}", shown(name))));
            }
        };
        let Some(slot) = found.get_mut(kind) else { continue };
        if let Some((_, other)) = slot {
            return Err(Fault::at(text, format!("found beside column {other:?}; expected one of the two")));
        }
        *slot = Some((place, text.to_owned()));
    }
    let [timestamp, endpoint, ok, latency] = found;
    let missing =
        |name: &str| Fault::new(format!("found no column {name:?} in the header; expected {}", Column::NAMES));
    let (timestamp, timestamp_name) = timestamp.ok_or_else(|| missing("timestamp"))?;
    let (endpoint, _) = endpoint.ok_or_else(|| missing("endpoint"))?;
    let (ok, _) = ok.ok_or_else(|| missing("ok"))?;
    let fields = Fields::new(&timestamp_name, latency.as_ref().map(|(_, name)| name.as_str()), options)?;
    let latency = latency.map(|(place, _)| place);
    Ok((Places { timestamp, endpoint, ok, latency, all: header.len() }, fields))
}

#[cold]
fn failed(error: &io::Error, wrapped: Option<&str>) -> Fault {
    match error.kind() {
        // An open quote takes in all that follows.
        io::ErrorKind::InvalidData if error.to_string() == TOO_LONG => {
            Fault::new(format!("{TOO_LONG}; is a quote left open?"))
        }
        _ => Fault::new(in_words(error, wrapped)),
    }
}
