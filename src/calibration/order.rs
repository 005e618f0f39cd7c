//! Rows -> samples in the order of time, each once.

use std::collections::VecDeque;

use super::report::Reading;
use super::sample::Sample;

/// Rows that are held back so that later ones can be put before them.
pub(super) const WINDOW: usize = 4_096;

/// Puts rows in order as far as [`WINDOW`] rows reach.
///
/// A row goes on when so many are held that are not older. A clock that runs ahead for a few rows therefore does no harm:
/// they stay behind until their time has come.
#[derive(Debug, Default)]
pub(super) struct Order {
    held: VecDeque<Sample>,
    endpoints: Vec<Seen>,
}

/// What went on of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The newest that was read.
    newest: u64,
    /// The newest that went on; 0 if none did, which no sample is as old as.
    gone: u64,
    /// The last row was late.
    late: bool,
}

impl Order {
    /// Takes a row. One that may go on, if there is one.
    #[inline]
    pub(super) fn push(&mut self, sample: Sample, reading: &mut Reading) -> Option<Sample> {
        let index = sample.endpoint.0 as usize;
        if index >= self.endpoints.len() {
            self.endpoints.resize(index + 1, Seen::default());
        }
        let seen = self.endpoints.get_mut(index)?;
        if sample.at <= seen.gone {
            if sample.at == seen.gone {
                reading.duplicates += 1;
            } else {
                reading.late += 1;
                reading.clock_steps += u64::from(!seen.late);
                seen.late = true;
            }
            return None;
        }
        seen.late = false;
        if sample.at >= seen.newest {
            let repeats = sample.at == seen.newest;
            seen.newest = sample.at;
            match self.held.back() {
                // The usual case: later than everything.
                Some(last) if last.at >= sample.at => {
                    self.insert(sample, repeats, reading);
                }
                _ => self.held.push_back(sample),
            }
        } else {
            reading.reordered += u64::from(self.insert(sample, true, reading));
        }
        if self.held.len() > WINDOW { self.pop() } else { None }
    }

    /// The oldest that is left, once no more rows come.
    pub(super) fn pop(&mut self) -> Option<Sample> {
        let sample = self.held.pop_front()?;
        if let Some(seen) = self.endpoints.get_mut(sample.endpoint.0 as usize) {
            seen.gone = sample.at;
        }
        Some(sample)
    }

    /// Puts a sample before the first later one, unless it repeats one of the same endpoint and time. Whether
    /// it was put there.
    fn insert(&mut self, sample: Sample, may_repeat: bool, reading: &mut Reading) -> bool {
        let place = self.held.partition_point(|held| held.at <= sample.at);
        if may_repeat {
            let alike = self.held.range_mut(..place).rev().take_while(|held| held.at == sample.at);
            if let Some(held) = alike.into_iter().find(|held| held.endpoint == sample.endpoint) {
                reading.duplicates += 1;
                reading.conflicts += u64::from(*held != sample);
                // What failed once is not made well by a row that says otherwise.
                held.ok &= sample.ok;
                return false;
            }
        }
        self.held.insert(place, sample);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::calibration::EndpointIndex;

    fn sample(at: u64, endpoint: u32, ok: bool) -> Sample {
        Sample { at, endpoint: EndpointIndex(endpoint), ok, latency: None }
    }

    fn ordered(rows: &[Sample]) -> (Vec<Sample>, Reading) {
        let (mut order, mut reading) = (Order::default(), Reading::default());
        let mut out: Vec<_> = rows.iter().filter_map(|row| order.push(*row, &mut reading)).collect();
        out.extend(std::iter::from_fn(|| order.pop()));
        (out, reading)
    }

    #[test]
    fn a_row_that_repeats_another_one_is_left_out_and_a_failure_outlives_it() {
        let rows =
            [sample(5, 0, true), sample(5, 1, true), sample(5, 0, false), sample(5, 1, true), sample(6, 0, true)];
        let (out, reading) = ordered(&rows);
        assert_eq!(out, [sample(5, 0, false), sample(5, 1, true), sample(6, 0, true)]);
        assert_eq!((reading.duplicates, reading.conflicts, reading.reordered), (2, 1, 0));
    }

    #[test]
    fn what_comes_later_than_the_window_reaches_is_left_out_and_said() {
        let far = WINDOW as u64 + 10;
        let mut rows: Vec<_> = (1..=far).map(|at| sample(at, 0, true)).collect();
        // The oldest ten went on; the eleventh is the first that is still held.
        rows.extend([sample(9, 0, false), sample(8, 0, false), sample(11, 0, false), sample(10, 1, true)]);
        let (out, reading) = ordered(&rows);
        assert_eq!((reading.late, reading.clock_steps), (2, 1));
        assert_eq!((reading.duplicates, reading.conflicts), (1, 1));
        assert!(out.contains(&sample(11, 0, false)) && out.contains(&sample(10, 1, true)));
        assert_eq!(out.len() as u64, far + 1);
    }

    #[test]
    fn a_clock_that_runs_ahead_for_a_while_holds_nothing_up() {
        let mut rows: Vec<_> = (1..=WINDOW as u64).map(|at| sample(at * 10, 0, true)).collect();
        rows.extend((0..100).map(|at| sample(1_000_000_000 + at, 0, true)));
        rows.extend((WINDOW as u64 + 1..3 * WINDOW as u64).map(|at| sample(at * 10, 0, true)));
        let (out, reading) = ordered(&rows);
        assert_eq!((reading.late, out.len()), (0, rows.len()));
        assert!(out.windows(2).all(|pair| pair[0].at < pair[1].at));
    }

    proptest! {
        /// Against a plain sort: rows no further from their place than the window are all there, in order, once.
        #[test]
        fn rows_within_the_window_are_sorted(rows in prop::collection::vec((1_u64..300, 0_u32..3, any::<bool>()), 0..600)) {
            let rows: Vec<_> = rows.into_iter().map(|(at, endpoint, ok)| sample(at, endpoint, ok)).collect();
            let (out, reading) = ordered(&rows);
            let mut expected = std::collections::BTreeMap::new();
            for row in &rows {
                *expected.entry((row.at, row.endpoint)).or_insert(true) &= row.ok;
            }
            let found: std::collections::BTreeMap<_, _> =
                out.iter().map(|row| ((row.at, row.endpoint), row.ok)).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(out.len(), expected.len());
            prop_assert_eq!(out.len() as u64 + reading.duplicates, rows.len() as u64);
            prop_assert!(out.windows(2).all(|pair| pair[0].at <= pair[1].at));
        }
    }
}
