//! When probes fail though nothing is lost.

use std::ops::Range;
use std::time::Duration;

use super::dice::Dice;
use crate::planning::{Blips, Share};

/// Blips and lost probes on a path that works, slot by slot: slot `k` is the probe that is due `k` intervals after the
/// start, and a probe that is due in a blip fails at once.
#[derive(Clone, Debug)]
pub struct Weather {
    blips: Dice,
    losses: Dice,
    /// Nanoseconds between the starts of two blips, on average; `None`: there are none.
    gap: Option<u64>,
    mean: u64,
    interval: u64,
    /// A draw below this is a probe that is lost; 2^64 is all of them.
    lost_below: u128,
    /// When the next blip begins, in nanoseconds from the start.
    next: u64,
    /// The first slot after the blips so far.
    over: u64,
}

impl Weather {
    /// The weather of `seed`: these blips, a probe every `interval` (at least a nanosecond), and so many of the others
    /// lost one by one.
    #[must_use]
    pub fn new(seed: u64, blips: &Blips, loss: Share, interval: Duration) -> Self {
        let [first, second] = Dice::of(seed);
        Self::of(first, second, blips, loss, interval)
    }

    pub(super) fn of(mut blips: Dice, losses: Dice, kind: &Blips, loss: Share, interval: Duration) -> Self {
        let gap = kind.rate().gap().map(nanos);
        let next = gap.map_or(u64::MAX, |gap| blips.exponential(gap));
        let lost_below = (u128::from(loss.as_billionths()) << 64) / u128::from(Share::ALL.as_billionths());
        Self {
            blips,
            losses,
            gap,
            mean: nanos(kind.mean()),
            interval: nanos(interval).max(1),
            lost_below,
            next,
            over: 0,
        }
    }

    /// The runs of failed probes among `slots`, which follow on those asked for before, in order and apart.
    pub fn failing(&mut self, slots: Range<u64>, runs: &mut Vec<Range<u64>>) {
        runs.clear();
        add(runs, slots.start..self.over.min(slots.end));
        let end = slots.end.saturating_mul(self.interval);
        while let Some(gap) = self.gap.filter(|_| self.next < end) {
            let start = self.next;
            let stop = start.saturating_add(self.blips.exponential(self.mean));
            self.next = start.saturating_add(self.blips.exponential(gap).max(1));
            let (first, over) = (start.div_ceil(self.interval).max(slots.start), stop.div_ceil(self.interval));
            if first < over {
                self.over = self.over.max(over);
                add(runs, first..over.min(slots.end));
            }
        }
        if self.lost_below > 0 {
            self.lose(slots, runs);
        }
    }

    /// Adds the probes that are lost. One draw for each slot, whatever the blips are.
    fn lose(&mut self, slots: Range<u64>, runs: &mut Vec<Range<u64>>) {
        let blips = std::mem::take(runs);
        let mut ahead = blips.into_iter().peekable();
        for slot in slots {
            let lost = u128::from(self.losses.number()) < self.lost_below;
            while ahead.next_if(|run| run.end <= slot).is_some() {}
            if lost || ahead.peek().is_some_and(|run| run.start <= slot) {
                add(runs, slot..slot + 1);
            }
        }
    }
}

/// Appends a run, or lengthens the last one if they touch.
fn add(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    if run.is_empty() {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
        _ => runs.push(run),
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::Rate;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn runs(weather: &mut Weather, slots: Range<u64>) -> Vec<Range<u64>> {
        let mut runs = Vec::new();
        weather.failing(slots, &mut runs);
        runs
    }

    #[test]
    fn runs_are_in_order_apart_and_the_same_however_they_are_asked_for() {
        for loss in [Share::NONE, Share::percent(3)] {
            let weather = Weather::new(5, &Blips::new(Rate::per_hour(60), S(40)).unwrap(), loss, S(10));
            let whole = runs(&mut weather.clone(), 1..20_001);
            assert!(whole.len() > 1_000);
            assert!(whole.iter().all(|run| 1 <= run.start && run.start < run.end && run.end <= 20_001));
            assert!(whole.windows(2).all(|pair| pair[0].end < pair[1].start));
            for step in [1, 7, 1_000] {
                let mut again = weather.clone();
                let mut pieces = Vec::new();
                for start in (1..20_001).step_by(step) {
                    let end = 20_001.min(start + step as u64);
                    runs(&mut again, start..end).into_iter().for_each(|run| add(&mut pieces, run));
                }
                assert_eq!(pieces, whole, "{step} at a time");
            }
        }
    }

    #[test]
    fn without_blips_and_losses_nothing_fails_and_with_all_lost_everything_does() {
        let none = Blips::new(Rate::per_hour(0), S(20)).unwrap();
        assert_eq!(runs(&mut Weather::new(1, &none, Share::NONE, S(10)), 1..100_000), []);
        let all = runs(&mut Weather::new(1, &none, Share::ALL, S(10)), 1..100);
        assert_eq!((all.len(), all.first()), (1, Some(&(1..100))));
        let half = runs(&mut Weather::new(1, &none, Share::percent(50), S(10)), 1..100_001);
        let failed: u64 = half.iter().map(|run| run.end - run.start).sum();
        assert!(failed.abs_diff(50_000) < 4 * 158, "{failed}");
    }

    #[test]
    fn losses_move_no_blip() {
        let weather = |loss| runs(&mut Weather::new(9, &Blips::default(), loss, S(10)), 1..8_641);
        let (without, with) = (weather(Share::NONE), weather(Share::percent(1)));
        let covered = |run: &Range<u64>| with.iter().any(|wider| wider.start <= run.start && run.end <= wider.end);
        assert!(without.iter().all(covered) && with.len() > without.len());
    }

    #[test]
    fn extremes_end() {
        let longest = Duration::from_nanos(u64::MAX);
        let cases = [(1, 1, 1), (1, u64::MAX, 1), (u64::MAX, 1, 1_000_000), (u64::MAX, u64::MAX, 1_000_000)];
        for (interval, mean, parts) in cases {
            // At most a million blips in as long as there is.
            let blips = Blips::new(Rate::new(1, longest / parts).unwrap(), Duration::from_nanos(mean)).unwrap();
            runs(&mut Weather::new(1, &blips, Share::percent(1), Duration::from_nanos(interval)), 1..1_000);
        }
    }
}
