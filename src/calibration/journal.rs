//! The results of probes that a journal of the supervisor holds.
//!
//! The time of a result is that of the supervisor's monotonic clock, counted from the wall clock at its start: a wall
//! clock that is set meanwhile moves no result. Results of an endpoint in maintenance are left out: they are a gap.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{Fault, HistoryError, Place};
use super::history::HistoryOptions;
use super::rows::index;
use super::sample::{Names, Sample};
use crate::engine::{Input, ProbeResult};
use crate::scenario::Verb;
use crate::supervisor::journal::{Body, Damage, ReadError, Record, Segments};

/// The wall clock was set if it leaves the other one by more than a second.
const STEP: u64 = 1_000_000_000;

/// The rows of a journal. A segment at a time is in memory.
#[derive(Debug)]
pub(super) struct JournalRows {
    segments: Segments,
    read: Arc<AtomicU64>,
    file: String,
    rows: VecDeque<Sample>,
    found: Found,
    ended: bool,
    any: bool,
}

/// What has to be known of the records before.
#[derive(Debug, Default)]
struct Found {
    /// Only this group.
    group: Option<String>,
    /// The wall clock when the monotonic one was zero, in nanoseconds; of this run.
    origin: Option<u64>,
    /// How far the wall clock was ahead of that when it was last looked at.
    ahead: i64,
    clock_steps: u64,
    /// Group and endpoint.
    maintenance: BTreeSet<(String, String)>,
}

impl JournalRows {
    pub(super) fn open(folder: &Path, options: &HistoryOptions, read: Arc<AtomicU64>) -> Result<Self, HistoryError> {
        let file = folder.display().to_string();
        let refuse = |what: String| HistoryError { file: file.clone(), place: None, what };
        let units = [("--timestamp-unit", options.timestamp_unit), ("--latency-unit", options.latency_unit)];
        if let Some((flag, _)) = units.into_iter().find(|(_, unit)| unit.is_some()) {
            return Err(refuse(format!("is a folder; a journal has no columns with a unit ({flag})")));
        }
        let segments = Segments::open(folder).map_err(|error| refuse(error.to_string()))?;
        if segments.left().next().is_none() {
            return Err(refuse("is a folder without a journal; expected its segments, or a file".to_owned()));
        }
        let found = Found { group: options.group.clone(), ..Found::default() };
        Ok(Self { segments, read, file, rows: VecDeque::new(), found, ended: false, any: false })
    }

    /// The size of all segments in bytes.
    pub(super) fn size(folder: &Path) -> u64 {
        let Ok(segments) = Segments::open(folder) else { return 0 };
        segments.left().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum()
    }

    pub(super) const fn clock_steps(&self) -> u64 {
        self.found.clock_steps
    }

    pub(super) fn next(&mut self, names: &mut Names) -> Option<Result<Sample, HistoryError>> {
        loop {
            if let Some(sample) = self.rows.pop_front() {
                return Some(Ok(sample));
            }
            if self.ended {
                return None;
            }
            let size =
                self.segments.left().next().and_then(|file| fs::metadata(file).ok()).map_or(0, |file| file.len());
            let (found, rows) = (&mut self.found, &mut self.rows);
            let read = self.segments.read(|record, in_head| found.take(record, in_head, names, rows));
            self.read.fetch_add(size, Ordering::Relaxed);
            self.any |= !self.rows.is_empty();
            match read {
                Ok(true) => {}
                Ok(false) => {
                    self.ended = true;
                    if !self.any {
                        return Some(Err(self.nothing()));
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(self.damaged(&error)));
                }
            }
        }
    }

    fn nothing(&self) -> HistoryError {
        let what = match &self.found.group {
            Some(group) => format!("holds no result of a probe of group {group:?}"),
            None => "holds no result of a probe".to_owned(),
        };
        HistoryError { file: self.file.clone(), place: None, what }
    }

    fn damaged(&self, error: &ReadError) -> HistoryError {
        match error {
            ReadError::Damaged(Damage { segment, line, what }) => HistoryError {
                file: format!("{}/{segment}", self.file),
                place: Some(Place { line: *line, column: None }),
                what: what.clone(),
            },
            ReadError::Io { .. } => HistoryError { file: self.file.clone(), place: None, what: error.to_string() },
        }
    }
}

impl Found {
    fn take(
        &mut self,
        record: &Record,
        in_head: bool,
        names: &mut Names,
        rows: &mut VecDeque<Sample>,
    ) -> Result<(), String> {
        let at = self.time(record);
        let Some(group) = record.group.as_deref() else { return Ok(()) };
        if self.group.as_deref().is_some_and(|wanted| wanted != group) {
            return Ok(());
        }
        match &record.body {
            Body::Snapshot(checkpoint) => {
                self.maintenance.retain(|(of, _)| of != group);
                let resting = checkpoint.snapshot.endpoints.iter().filter(|one| one.maintenance);
                self.maintenance.extend(resting.map(|one| (group.to_owned(), one.endpoint.name.clone())));
            }
            Body::Input { verb: Verb::Input(Input::Maintenance { endpoint, on }), .. } if !in_head => {
                let key = (group.to_owned(), endpoint.clone());
                if *on {
                    self.maintenance.insert(key);
                } else {
                    self.maintenance.remove(&key);
                }
            }
            Body::Input { verb: Verb::Input(Input::Probe { endpoint, result }), .. } if !in_head => {
                // Mostly nothing rests, and then nothing is looked up.
                let rests =
                    !self.maintenance.is_empty() && self.maintenance.contains(&(group.to_owned(), endpoint.clone()));
                if !rests {
                    let ok = matches!(result, ProbeResult::Success);
                    rows.push_back(self.sample(at, group, endpoint, ok, names).map_err(|fault| fault.what)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn sample(&self, at: u64, group: &str, endpoint: &str, ok: bool, names: &mut Names) -> Result<Sample, Fault> {
        let endpoint = match self.group {
            Some(_) => index(names, endpoint.as_bytes())?,
            None => index(names, format!("{group}/{endpoint}").as_bytes())?,
        };
        Ok(Sample { at, endpoint, ok, latency: None })
    }

    /// When it was, by the monotonic clock.
    fn time(&mut self, record: &Record) -> u64 {
        let (wall, at) = (record.wall.saturating_mul(1_000), record.at.as_nanos());
        let starts = matches!(record.body, Body::Start(_));
        let origin = match self.origin.filter(|_| !starts) {
            Some(origin) => origin,
            None => {
                self.ahead = 0;
                *self.origin.insert(wall.saturating_sub(at))
            }
        };
        let time = origin.saturating_add(at);
        let ahead = i64::try_from(i128::from(wall) - i128::from(time)).unwrap_or(i64::MAX);
        if ahead.abs_diff(self.ahead) > STEP {
            self.clock_steps += 1;
            self.ahead = ahead;
        }
        time
    }
}
