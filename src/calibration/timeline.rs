//! A history as a picture sees it: how many probes answered and failed in each of a bounded number of spans.

use std::time::Duration;

use super::sample::Sample;

/// The probes of one endpoint in one span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Probes that succeeded.
    pub answered: u32,
    /// Probes that failed.
    pub failed: u32,
}

impl Bin {
    fn with(self, other: Self) -> Self {
        Self {
            answered: self.answered.saturating_add(other.answered),
            failed: self.failed.saturating_add(other.failed),
        }
    }
}

/// The whole history in [`MOST`](Self::MOST) spans of the same length or fewer. The length doubles whenever the history
/// grows beyond them, so memory is bounded and samples may come in any order.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Where the first span begins, in nanoseconds since 1970; `None` before the first sample.
    start: Option<u64>,
    /// Length of a span in nanoseconds.
    width: u64,
    /// By endpoint.
    rows: Vec<Vec<Bin>>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { start: None, width: Self::FINEST, rows: Vec::new() }
    }
}

impl Timeline {
    /// The most spans.
    pub const MOST: usize = 512;
    /// The shortest length of a span: 1 s, in nanoseconds.
    const FINEST: u64 = 1_000_000_000;

    /// Counts a sample.
    pub fn add(&mut self, sample: &Sample) {
        let place = self.place(sample.at);
        let endpoint = usize::try_from(sample.endpoint.0).unwrap_or(usize::MAX);
        if self.rows.len() <= endpoint {
            self.rows.resize_with(endpoint.saturating_add(1), Vec::new);
        }
        let Some(row) = self.rows.get_mut(endpoint) else { return };
        if row.len() <= place {
            row.resize(place.saturating_add(1), Bin::default());
        }
        if let Some(bin) = row.get_mut(place) {
            let count = if sample.ok { &mut bin.answered } else { &mut bin.failed };
            *count = count.saturating_add(1);
        }
    }

    /// The span of a moment, made to be one of [`MOST`](Self::MOST).
    fn place(&mut self, at: u64) -> usize {
        loop {
            let start = *self.start.get_or_insert(at);
            if at < start {
                self.begin_before(at, start);
                continue;
            }
            let place = (at - start) / self.width;
            match usize::try_from(place) {
                Ok(place) if place < Self::MOST => return place,
                _ => self.double(),
            }
        }
    }

    /// Puts empty spans in front, so that `at` is in one of them.
    fn begin_before(&mut self, at: u64, start: u64) {
        let more = (start - at).div_ceil(self.width);
        let used = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        match usize::try_from(more) {
            Ok(empty) if empty.saturating_add(used) <= Self::MOST => {
                // A start before 1970 is moved to it: what lies in the spans stays where it is to within one of them.
                self.start = Some(start.saturating_sub(more.saturating_mul(self.width)));
                for row in self.rows.iter_mut().filter(|row| !row.is_empty()) {
                    row.splice(0..0, std::iter::repeat_n(Bin::default(), empty));
                }
            }
            _ => self.double(),
        }
    }

    fn double(&mut self) {
        self.width = self.width.saturating_mul(2);
        for row in &mut self.rows {
            *row = row.chunks(2).map(|pair| pair.iter().copied().fold(Bin::default(), Bin::with)).collect();
        }
    }

    /// Where the first span begins, in nanoseconds since 1970, and the length of each.
    #[must_use]
    pub fn spans(&self) -> (u64, Duration) {
        (self.start.unwrap_or_default(), Duration::from_nanos(self.width))
    }

    /// How many spans there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// Whether there was no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The spans of an endpoint, by its [index](super::EndpointIndex), from the first of the history to its own last one.
    #[must_use]
    pub fn row(&self, endpoint: usize) -> &[Bin] {
        self.rows.get(endpoint).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::EndpointIndex;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn of(samples: &[(u64, u32, bool)]) -> Timeline {
        let mut timeline = Timeline::default();
        for (at, endpoint, ok) in samples {
            timeline.add(&Sample { at: *at, endpoint: EndpointIndex(*endpoint), ok: *ok, latency: None });
        }
        timeline
    }

    #[test]
    fn a_short_history_has_a_span_a_second() {
        let start = 1_790_000_000 * SECOND;
        let timeline = of(&[(start, 0, true), (start + SECOND - 1, 0, false), (start + SECOND, 0, true)]);
        assert_eq!(timeline.spans(), (start, Duration::from_secs(1)));
        assert_eq!(timeline.row(0), [Bin { answered: 1, failed: 1 }, Bin { answered: 1, failed: 0 }]);
        assert_eq!(timeline.row(1), []);
    }

    #[test]
    fn the_spans_double_when_the_history_grows_beyond_them() {
        let most = Timeline::MOST as u64;
        for (last, width) in [(most * SECOND - 1, 1), (most * SECOND, 2), (2 * most * SECOND, 4)] {
            assert_eq!(of(&[(0, 0, true), (last, 0, true)]).spans(), (0, Duration::from_secs(width)));
        }
    }

    proptest! {
        #[test]
        fn no_sample_is_lost_or_moved_by_a_span_or_more(
            samples in prop::collection::vec((any::<u64>(), 0..3_u32, any::<bool>()), 1..40),
            narrow in 0..64_u32,
        ) {
            let samples: Vec<_> = samples.into_iter().map(|(at, endpoint, ok)| (at >> narrow, endpoint, ok)).collect();
            let timeline = of(&samples);
            prop_assert!(timeline.len() <= Timeline::MOST);
            let (start, width) = timeline.spans();
            for endpoint in 0..3 {
                let row = timeline.row(endpoint as usize);
                let count = |ok| samples.iter().filter(|one| one.1 == endpoint && one.2 == ok).count() as u32;
                prop_assert_eq!(row.iter().map(|bin| bin.answered).sum::<u32>(), count(true));
                prop_assert_eq!(row.iter().map(|bin| bin.failed).sum::<u32>(), count(false));
            }
            for (at, endpoint, _) in samples {
                let place = at.saturating_sub(start) as u128 / width.as_nanos();
                let row = timeline.row(endpoint as usize);
                let near = place.saturating_sub(1)..=place + 1;
                prop_assert!(near.into_iter().any(|one| row.get(one as usize).is_some_and(|bin| bin.answered + bin.failed > 0)));
            }
        }
    }
}
