//! The samples of one history, in order.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::HistoryError;
use super::report::Reading;
use super::sample::{Names, Sample};

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `s`
    Seconds,
    /// `ms`
    Millis,
    /// `us`
    Micros,
    /// `ns`
    Nanos,
}

/// How a history is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryOptions {
    /// The unit of numbers in a column `timestamp` without a suffix.
    pub timestamp_unit: Option<Unit>,
    /// The same of a column `latency`.
    pub latency_unit: Option<Unit>,
    /// Columns that have no meaning here are ignored instead of refused.
    pub ignore_other_columns: bool,
    /// Of a journal: only this group. Its endpoints then go by their plain names, else as `group/endpoint`.
    pub group: Option<String>,
    /// The present in nanoseconds since 1970: what is more than a day later is refused.
    pub now: u64,
}

/// How far the reading is; can be asked from elsewhere while it goes on.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    read: Arc<AtomicU64>,
    all: u64,
}

impl Meter {
    /// Bytes read so far, as they lie on disk, and how many there are.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.all)
    }
}

/// The samples of one history: an iterator, in the order of time for each endpoint.
///
/// Rows that come late are put in their place as far as a window of rows reaches; rows that come later still, and rows
/// that repeat another one, are left out and counted. Across endpoints the order is that of time as far as the window
/// reaches, so a file that holds one endpoint after the other is fine for each of them.
#[derive(Debug)]
pub struct History {
    names: Names,
    reading: Reading,
    meter: Meter,
}

impl History {
    /// Opens a history: the folder of a journal, or a file of CSV or JSON Lines, plain, in gzip or in zstd.
    ///
    /// # Errors
    /// It is not there, cannot be read, or is none.
    pub fn open(path: &Path, options: HistoryOptions) -> Result<Self, HistoryError> {
        let _ = (path, options);
        Ok(Self { names: Names::default(), reading: Reading::default(), meter: Meter::default() })
    }

    /// The samples that are left: this iterator itself.
    pub fn samples(&mut self) -> impl Iterator<Item = Result<Sample, HistoryError>> {
        self
    }

    /// The endpoints that have appeared so far.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// What was read so far.
    #[must_use]
    pub const fn reading(&self) -> &Reading {
        &self.reading
    }

    /// How far the reading is.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }
}

impl Iterator for History {
    type Item = Result<Sample, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}
