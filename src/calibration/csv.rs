//! Rows of CSV: a header that names the columns, then a result a line.

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::error::{Fault, HistoryError};
use super::field::{Column, shown};
use super::history::HistoryOptions;
use super::input::{CHUNK, Content, Rationed, TOO_LONG, in_words};
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
    reader: Reader<Rationed>,
    record: ByteRecord,
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
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(CHUNK)
            .from_reader(Rationed::new(content));
        let mut header = ByteRecord::new();
        if let Err(error) = reader.read_byte_record(&mut header) {
            return Err(failed(&error, &reader, &file, wrapped, 1));
        }
        let line = header.position().map_or(1, csv::Position::line);
        let (places, fields) = columns(&header, options).map_err(|fault| fault.on(&file, line))?;
        Ok(Self { reader, record: header, places, fields, file, wrapped, rows: 0, ended: false })
    }

    #[inline]
    pub(super) fn next(&mut self, names: &mut Names) -> Option<Result<Sample, HistoryError>> {
        if self.ended {
            return None;
        }
        self.reader.get_mut().refill();
        let line = self.reader.position().line();
        match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => {
                self.rows += 1;
                let sample = sample(&self.record, self.places, &mut self.fields, names);
                Some(sample.map_err(|fault| self.fault(fault)))
            }
            Ok(false) => {
                self.ended = true;
                let nothing = Fault::new("the header is all there is; expected a row for each result of a probe");
                (self.rows == 0).then(|| Err(nothing.on(&self.file, 1)))
            }
            Err(error) => {
                self.ended = true;
                Some(Err(failed(&error, &self.reader, &self.file, self.wrapped, line)))
            }
        }
    }

    #[cold]
    fn fault(&mut self, fault: Fault) -> HistoryError {
        self.ended = true;
        fault.on(&self.file, self.record.position().map_or(0, csv::Position::line))
    }
}

#[inline]
fn sample(record: &ByteRecord, places: Places, fields: &mut Fields, names: &mut Names) -> Result<Sample, Fault> {
    if record.len() != places.all {
        return Err(Fault::new(format!("found {} fields; expected {}, as in the header", record.len(), places.all)));
    }
    let field = |place| record.get(place).unwrap_or_default();
    let latency = places.latency.map(field);
    fields.sample(names, field(places.timestamp), field(places.endpoint), field(places.ok), latency)
}

/// Where the columns of a header stand, and how they are to be read.
fn columns(header: &ByteRecord, options: &HistoryOptions) -> Result<(Places, Fields), Fault> {
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
fn failed(error: &csv::Error, reader: &Reader<Rationed>, file: &str, wrapped: Option<&str>, line: u64) -> HistoryError {
    let what = match error.kind() {
        // An open quote takes in all that follows.
        csv::ErrorKind::Io(_) if reader.get_ref().is_spent() => format!("{TOO_LONG}; is a quote left open?"),
        csv::ErrorKind::Io(error) => in_words(error, wrapped),
        _ => error.to_string(),
    };
    Fault::new(what).on(file, line)
}
