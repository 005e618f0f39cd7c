//! The failback limiter.

use std::collections::VecDeque;

use super::time::{Since, Timestamp};

/// The failbacks that still count. Failovers, switchovers and re-arms never spend this budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FlapLimiter {
    /// Oldest first, at most `max` of them: an older one could not matter any more.
    failbacks: VecDeque<Since>,
}

impl FlapLimiter {
    pub(super) fn restored(now: Timestamp, ages: &[u64]) -> Self {
        Self { failbacks: ages.iter().map(|age| Since::aged(now, *age)).collect() }
    }

    pub(super) fn spend(&mut self, now: Timestamp, max: u32, window: u64) {
        // If the clock went back, no time has elapsed since the failback before; so the oldest stays the first one.
        let before = self.failbacks.back().copied();
        self.failbacks.push_back(before.map_or(Since::now(now), |before| before.followed_at(now)));
        while self.failbacks.len() > to_len(max) || self.failbacks.front().is_some_and(|f| f.age(now) > window) {
            self.failbacks.pop_front();
        }
    }

    /// Whether `max` failbacks lie inside the window (inclusive), and if so, when the budget is free again: when the
    /// oldest of the newest `max` has left it. `Some(None)` if that lies beyond the end of time.
    pub(super) fn suppressed_until(&self, now: Timestamp, max: u32, window: u64) -> Option<Option<Timestamp>> {
        let decisive = self.failbacks.len().checked_sub(to_len(max)).and_then(|i| self.failbacks.get(i))?;
        if decisive.age(now) > window {
            return None;
        }
        Some(window.checked_add(1).and_then(|out| decisive.reaches(out)))
    }

    /// Whether `cooldown`, doubled up to `most` by each failback inside the window, is still to elapse since `switched`;
    /// and if so, when it has: as failbacks leave the window it shrinks. `Some(None)` if that lies beyond the end of time.
    pub(super) fn cools_until(
        &self,
        now: Timestamp,
        switched: Since,
        (cooldown, most): (u64, u64),
        window: u64,
    ) -> Option<Option<Timestamp>> {
        let inside = || self.failbacks.iter().filter(|failback| failback.age(now) <= window);
        let grown = |failbacks: usize| {
            let times = u32::try_from(failbacks).ok().and_then(|failbacks| 1_u64.checked_shl(failbacks));
            cooldown.saturating_mul(times.unwrap_or(u64::MAX)).min(most)
        };
        let failbacks = inside().count();
        if switched.age(now) >= grown(failbacks) {
            return None;
        }
        // With all of them, or with so many fewer once the oldest of those have left. The oldest leaves first.
        let with_all = switched.reaches(grown(failbacks));
        let out = |failback: &Since| window.checked_add(1).and_then(|age| failback.reaches(age));
        let with_fewer = inside().zip(1..).filter_map(|(oldest, gone)| {
            let left = out(oldest)?;
            Some(switched.reaches(grown(failbacks.saturating_sub(gone)))?.max(left))
        });
        Some(with_all.into_iter().chain(with_fewer).min())
    }

    /// Ages of the failbacks inside the window, oldest first.
    pub(super) fn ages(&self, now: Timestamp, window: u64) -> impl Iterator<Item = u64> {
        self.failbacks.iter().map(move |f| f.age(now)).filter(move |age| *age <= window)
    }
}

fn to_len(max: u32) -> usize {
    usize::try_from(max).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn the_window_is_inclusive_and_the_budget_frees_one_nanosecond_after_it() {
        let mut limiter = FlapLimiter::default();
        limiter.spend(at(0), 2, 100);
        assert_eq!(limiter.suppressed_until(at(0), 2, 100), None);
        limiter.spend(at(10), 2, 100);
        assert_eq!(limiter.suppressed_until(at(100), 2, 100), Some(Some(at(101))));
        assert_eq!(limiter.suppressed_until(at(101), 2, 100), None);
        assert_eq!(limiter.ages(at(101), 100).collect::<Vec<_>>(), [91]);
    }

    #[test]
    fn a_failback_after_the_clock_went_back_is_never_older_than_the_one_before() {
        let mut limiter = FlapLimiter::restored(at(1_000), &[5]);
        limiter.spend(at(40), 3, 10_000);
        limiter.spend(at(70), 3, 10_000);
        assert_eq!(limiter.ages(at(70), 10_000).collect::<Vec<_>>(), [5, 0, 0]);
        assert_eq!(limiter.ages(at(1_100), 10_000).collect::<Vec<_>>(), [105, 100, 100]);
        assert_eq!(limiter.suppressed_until(at(1_100), 3, 100), None);
    }

    #[test]
    fn what_can_no_longer_matter_is_forgotten() {
        let mut limiter = FlapLimiter::default();
        for nanos in 0..1000 {
            limiter.spend(at(nanos), 3, u64::MAX);
        }
        assert_eq!(limiter.failbacks.len(), 3);
        assert_eq!(limiter.suppressed_until(at(1000), 3, u64::MAX), Some(None));
    }
}
