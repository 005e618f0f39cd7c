//! How long it takes from a fault until the path counts as down.

use std::time::Duration;

use super::error::PlanError;
use super::text::nanos;
use super::trigger::Trigger;

/// How often a path is probed, and how long a probe may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    interval: Duration,
    interval_when_failing: Duration,
    timeout: Duration,
}

/// How long it takes from a fault to DOWN, by the settings alone: probes on schedule, phase unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// A fault that answers at once (refused, reset, 500), at best and at worst.
    pub refused: (Duration, Duration),
    /// A path that hangs.
    pub hung: (Duration, Duration),
}

impl Probing {
    /// Probes that start every `interval`, the next ones after a failure every `interval_when_failing`, and that are
    /// given up after `timeout`. Slots do not wait for the answers of earlier ones.
    ///
    /// # Errors
    /// An interval of zero, or an `interval_when_failing` above `interval`.
    pub fn new(interval: Duration, interval_when_failing: Duration, timeout: Duration) -> Result<Self, PlanError> {
        for (key, span) in [("interval", interval), ("interval_when_failing", interval_when_failing)] {
            if span.is_zero() {
                return Err(PlanError::new(key, "0s", "a duration above zero"));
            }
        }
        if interval_when_failing > interval {
            let found = format!("{interval_when_failing:?}");
            return Err(PlanError::new("interval_when_failing", found, format!("at most interval ({interval:?})")));
        }
        Ok(Self { interval, interval_when_failing, timeout })
    }

    /// Probes every `interval`, whatever they find, that answer at once.
    ///
    /// # Errors
    /// An interval of zero.
    pub fn every(interval: Duration) -> Result<Self, PlanError> {
        Self::new(interval, interval, Duration::ZERO)
    }

    /// The nearest legal values: intervals of at least a nanosecond, the one after a failure no longer than the other.
    #[must_use]
    pub fn nearest(interval: Duration, interval_when_failing: Duration, timeout: Duration) -> Self {
        let least = Duration::from_nanos(1);
        let interval = interval.max(least);
        Self { interval, interval_when_failing: interval_when_failing.clamp(least, interval), timeout }
    }

    /// From one probe to the next.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// The same after a failure.
    #[must_use]
    pub const fn interval_when_failing(&self) -> Duration {
        self.interval_when_failing
    }

    /// When a probe is given up.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Detection time bounds: a slot may come up to one interval after the fault; each further failure takes one
    /// `interval_when_failing`; a hang takes the timeout besides, once, since slots do not wait for answers.
    #[must_use]
    pub fn detection(&self, trigger: Trigger) -> Detection {
        let best = trigger.patience(self);
        let worst = best.saturating_add(self.interval);
        let hung = |bound: Duration| bound.saturating_add(self.timeout);
        Detection { refused: (best, worst), hung: (hung(best), hung(worst)) }
    }

    /// The most consecutive failures with which a path that hangs is detected within `limit` at the worst phase. `None`:
    /// not even one.
    #[must_use]
    pub fn most_failures_within(&self, limit: Duration) -> Option<u64> {
        let further = limit.checked_sub(self.interval)?.checked_sub(self.timeout)?.as_nanos();
        // The interval is above zero.
        let further = further.checked_div(self.interval_when_failing.as_nanos())?;
        Some(u64::try_from(further).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// The longest interval (with `interval_when_failing` as the same part of it) with which a path that hangs is
    /// detected within `limit` after `failures` in a row. `None`: there is none.
    #[must_use]
    pub fn longest_interval_within(&self, failures: u64, limit: Duration) -> Option<Duration> {
        let left = limit.checked_sub(self.timeout)?.as_nanos();
        let further = u128::from(failures.max(1) - 1).checked_mul(self.interval_when_failing.as_nanos())?;
        let whole = further.checked_add(self.interval.as_nanos())?;
        Some(nanos(Some(left.checked_mul(self.interval.as_nanos())?.checked_div(whole)?))).filter(|one| !one.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_worst_phase_costs_an_interval_and_a_hang_the_timeout_once() {
        let probing = Probing::new(MS(1000), MS(250), MS(800)).unwrap();
        let Detection { refused, hung } = probing.detection(Trigger::Consecutive(3));
        assert_eq!((refused, hung), ((MS(500), MS(1500)), (MS(1300), MS(2300))));
        let slow = Probing::new(MS(10_000), MS(10_000), MS(5_000)).unwrap();
        assert_eq!(slow.detection(Trigger::Consecutive(3)).hung.1, MS(35_000), "K * I + T");
    }

    #[test]
    fn the_most_failures_are_those_whose_worst_case_just_fits() {
        let probing = Probing::new(MS(1000), MS(250), MS(800)).unwrap();
        for (limit, most) in [(1_799, None), (1_800, Some(1)), (2_049, Some(1)), (2_050, Some(2)), (2_300, Some(3))] {
            assert_eq!(probing.most_failures_within(MS(limit)), most, "{limit}");
            if let Some(most) = most {
                let worst = |failures| probing.detection(Trigger::Consecutive(failures)).hung.1;
                let most = u32::try_from(most).unwrap();
                assert!(worst(most) <= MS(limit) && worst(most + 1) > MS(limit));
            }
        }
    }

    #[test]
    fn the_longest_interval_keeps_the_proportion() {
        let probing = Probing::new(MS(1000), MS(250), MS(800)).unwrap();
        assert_eq!(probing.longest_interval_within(3, MS(2_300)), Some(MS(1000)));
        assert_eq!(probing.longest_interval_within(3, MS(1_550)), Some(MS(500)));
        assert_eq!(probing.longest_interval_within(3, MS(800)), None);
    }

    #[test]
    fn intervals_that_make_no_sense_are_refused() {
        let refused = |interval, failing| Probing::new(MS(interval), MS(failing), MS(1)).unwrap_err().to_string();
        assert_eq!(refused(0, 1), "interval is 0s; expected a duration above zero");
        assert_eq!(refused(1, 0), "interval_when_failing is 0s; expected a duration above zero");
        assert_eq!(refused(1, 2), "interval_when_failing is 2ms; expected at most interval (1ms)");
    }
}
