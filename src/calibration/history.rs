//! The samples of one history, in order.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::HistoryError;
use super::field::Unit;
use super::journal::JournalRows;
use super::order::Order;
use super::report::Reading;
use super::rows::Rows;
use super::sample::{Names, Sample};

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
    /// Bytes read so far, as they lie on disk, and how many there are; 0 if nobody knows.
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
    rows: Rows,
    order: Order,
    names: Names,
    reading: Reading,
    meter: Meter,
    ended: bool,
}

impl History {
    /// Opens a history: the folder of a journal, or a file of CSV or JSON Lines, plain, in gzip or in zstd.
    /// [`read`](Self::read) takes what is no file.
    ///
    /// # Errors
    /// It is not there, cannot be read, is none, or its header is not as it should be.
    pub fn open(path: &Path, options: &HistoryOptions) -> Result<Self, HistoryError> {
        let read = Arc::new(AtomicU64::new(0));
        let (rows, compression) = Rows::open(path, options, &read)?;
        let all = match rows {
            Rows::Journal(_) => JournalRows::size(path),
            Rows::Csv(_) | Rows::Json(_) => path.metadata().map_or(0, |file| file.len()),
        };
        Ok(Self::of(rows, compression, Meter { read, all }))
    }

    /// A history of CSV or JSON Lines, plain, in gzip or in zstd, that is read from anywhere, such as standard input; `name`
    /// is what errors call it. How much there is to read, its [`meter`](Self::meter) cannot tell: it says 0.
    ///
    /// # Errors
    /// It cannot be read, is none, or its header is not as it should be.
    pub fn read(
        from: impl Read + Send + 'static,
        name: impl Into<String>,
        options: &HistoryOptions,
    ) -> Result<Self, HistoryError> {
        let read = Arc::new(AtomicU64::new(0));
        let (rows, compression) = Rows::of(Box::new(from), name.into(), options, &read)?;
        Ok(Self::of(rows, compression, Meter { read, all: 0 }))
    }

    fn of(rows: Rows, compression: Option<&'static str>, meter: Meter) -> Self {
        let reading = Reading { format: rows.format(), compression, ..Reading::default() };
        Self { rows, order: Order::default(), names: Names::default(), reading, meter, ended: false }
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

    /// What was read so far; rows that wait for their turn are read, but not used yet.
    #[must_use]
    pub fn reading(&self) -> Reading {
        let mut reading = self.reading.clone();
        reading.clock_steps += self.rows.clock_steps();
        reading
    }

    /// How far the reading is.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    fn released(&mut self, sample: Option<Sample>) -> Option<Sample> {
        self.reading.used += u64::from(sample.is_some());
        sample
    }
}

impl Iterator for History {
    type Item = Result<Sample, HistoryError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.rows.next(&mut self.names) {
                Some(Ok(sample)) => {
                    self.reading.rows += 1;
                    if let Some(oldest) = self.order.push(sample, &mut self.reading) {
                        self.reading.used += 1;
                        return Some(Ok(oldest));
                    }
                }
                Some(Err(error)) => {
                    // Nothing is to be made of the rows before it.
                    (self.ended, self.order) = (true, Order::default());
                    return Some(Err(error));
                }
                None => self.ended = true,
            }
        }
        let oldest = self.order.pop();
        self.released(oldest).map(Ok)
    }
}
