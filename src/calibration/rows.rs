//! The rows of a file, one after the other, as they stand there.

use std::fs::File;
use std::io::{self, BufRead as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::csv::CsvRows;
use super::error::{Fault, HistoryError};
use super::field::{self, Column, Moments, Unit};
use super::history::HistoryOptions;
use super::input::{self, Raw};
use super::journal::JournalRows;
use super::json::JsonRows;
use super::sample::{EndpointIndex, Names, Sample};

/// Where rows come from.
#[derive(Debug)]
pub(super) enum Rows {
    Csv(CsvRows),
    Json(JsonRows),
    Journal(JournalRows),
}

impl Rows {
    /// Opens a folder or a file; `read` counts its bytes. With what the file was wrapped in.
    pub(super) fn open(
        path: &Path,
        options: &HistoryOptions,
        read: &Arc<AtomicU64>,
    ) -> Result<(Self, Option<&'static str>), HistoryError> {
        let file = path.display().to_string();
        let unread = |error: io::Error| whole(&file, input::in_words(&error, None));
        if path.metadata().map_err(unread)?.is_dir() {
            return Ok((Self::Journal(JournalRows::open(path, options, Arc::clone(read))?), None));
        }
        let raw = File::open(path).map_err(unread)?;
        Self::of(Box::new(raw), file, options, read)
    }

    /// The rows of what `raw` holds, which goes by the name of `file` in errors.
    pub(super) fn of(
        raw: Raw,
        file: String,
        options: &HistoryOptions,
        read: &Arc<AtomicU64>,
    ) -> Result<(Self, Option<&'static str>), HistoryError> {
        if options.group.is_some() {
            return Err(whole(&file, "is a file; only a journal has groups (--group)"));
        }
        let failed = |error: io::Error, wrapped| whole(&file, input::in_words(&error, wrapped));
        let (mut content, wrapped) = input::unwrapped(raw, Arc::clone(read)).map_err(|error| failed(error, None))?;
        let start = content.fill_buf().map_err(|error| failed(error, wrapped))?;
        let rows = match first(start).map_err(|what| whole(&file, what))? {
            Some(b'{') => Self::Json(JsonRows::new(content, file, wrapped, options)),
            _ => Self::Csv(CsvRows::new(content, file, wrapped, options)?),
        };
        Ok((rows, wrapped))
    }

    /// The name of the format.
    pub(super) const fn format(&self) -> &'static str {
        match self {
            Self::Csv(_) => "csv",
            Self::Json(_) => "json_lines",
            Self::Journal(_) => "journal",
        }
    }

    /// The next row.
    #[inline]
    pub(super) fn next(&mut self, names: &mut Names) -> Option<Result<Sample, HistoryError>> {
        match self {
            Self::Csv(rows) => rows.next(names),
            Self::Json(rows) => rows.next(names),
            Self::Journal(rows) => rows.next(names),
        }
    }

    /// How often the clock was seen to be set, if the format tells.
    pub(super) const fn clock_steps(&self) -> u64 {
        match self {
            Self::Journal(rows) => rows.clock_steps(),
            Self::Csv(_) | Self::Json(_) => 0,
        }
    }
}

/// What is wrong with a history as a whole.
fn whole(file: &str, what: impl Into<String>) -> HistoryError {
    HistoryError { file: file.to_owned(), place: None, what: what.into() }
}

/// The first byte of a text that begins like this, by which its format is known; or why it is no text.
fn first(start: &[u8]) -> Result<Option<u8>, String> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Err("is text in UTF-16; expected UTF-8 (iconv -f UTF-16 -t UTF-8 makes it that)".to_owned());
    }
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    if start.is_empty() {
        return Err("is empty; expected a header and rows of CSV, or JSON Lines".to_owned());
    }
    match start.iter().find(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace()) {
        Some(odd) => Err(format!(
            "is binary: there is a byte 0x{odd:02x} near its beginning; expected CSV or JSON Lines, plain, in gzip or in \
             zstd"
        )),
        None => Ok(start.iter().copied().find(|byte| !byte.is_ascii_whitespace())),
    }
}

/// The columns that were found, or keys, and what is to be known to read them.
#[derive(Debug)]
pub(super) struct Fields {
    moments: Moments,
    latency_unit: Unit,
    /// The names of the columns of a moment and of a latency, for errors.
    pub(super) timestamp: String,
    pub(super) latency: Option<String>,
}

impl Fields {
    /// Of a file with these columns.
    pub(super) fn new(timestamp: &str, latency: Option<&str>, options: &HistoryOptions) -> Result<Self, Fault> {
        let unit = |name: &str, stated: Option<Unit>, flag: &str| match Column::of(name) {
            Some(Column::Timestamp(Some(unit)) | Column::Latency(Some(unit))) => match stated {
                Some(stated) => Err(Fault::at(
                    name,
                    format!("says its unit itself; expected no {flag} beside it, found {}", stated.name()),
                )),
                None => Ok(Some(unit)),
            },
            _ => Ok(stated),
        };
        let timestamp_unit = unit(timestamp, options.timestamp_unit, "--timestamp-unit")?;
        let latency_unit = match latency {
            None => None,
            Some(name) => Some(unit(name, options.latency_unit, "--latency-unit")?.ok_or_else(|| {
                Fault::at(name, "has no unit; expected latency_s, latency_ms, latency_us, latency_ns or --latency-unit")
            })?),
        };
        Ok(Self {
            moments: Moments::new(timestamp_unit, options.now),
            latency_unit: latency_unit.unwrap_or(Unit::Seconds),
            timestamp: timestamp.to_owned(),
            latency: latency.map(str::to_owned),
        })
    }

    /// Takes over how latencies are read, which the rows before did not tell.
    pub(super) fn take_latency(&mut self, other: Self) {
        (self.latency, self.latency_unit) = (other.latency, other.latency_unit);
    }

    /// A sample of these texts.
    #[inline]
    pub(super) fn sample(
        &mut self,
        names: &mut Names,
        timestamp: &[u8],
        endpoint: &[u8],
        ok: &[u8],
        latency: Option<&[u8]>,
    ) -> Result<Sample, Fault> {
        let at = self.moments.read(timestamp).map_err(|what| Fault::at(&self.timestamp, what))?;
        let ok = field::ok(ok).map_err(|what| Fault::at("ok", what))?;
        let latency = self.latency(latency)?;
        Ok(Sample { at, endpoint: index(names, endpoint)?, ok, latency })
    }

    #[inline]
    fn latency(&self, text: Option<&[u8]>) -> Result<Option<Duration>, Fault> {
        let Some(text) = text else { return Ok(None) };
        let name = || self.latency.as_deref().unwrap_or_default();
        field::latency(text, self.latency_unit).map_err(|what| Fault::at(name(), what))
    }
}

/// The endpoint of a name, which may be new.
#[inline]
pub(super) fn index(names: &mut Names, name: &[u8]) -> Result<EndpointIndex, Fault> {
    if let Some(known) = names.guess(name) {
        return Ok(known);
    }
    names.index(field::endpoint(name)?).ok_or_else(|| {
        Fault::at("endpoint", format!("found name number {}; expected at most {}", Names::MOST + 1, Names::MOST))
    })
}
