//! How often a trigger fires though nothing is lost: closed forms.

use std::time::Duration;

use super::detection::Probing;
use super::error::PlanError;
use super::rate::Rate;
use super::share::Share;
use super::text::Spoken;
use super::trigger::Trigger;

/// Short disturbances that pass by themselves: they come at random (a Poisson process), their lengths are exponential,
/// and every probe that starts in one fails at once.
///
/// For a blip of mean length `m`, the interval `I` before and `F` after the first failure, and a trigger of `n` failures:
///
/// ```text
/// P(a blip is seen by n probes or more) = exp(-(n - 1) F / m) * (m / I) * (1 - exp(-I / m))
/// ```
///
/// The first probe falls on a random moment of its interval, and what is left of the blip has the same distribution as the
/// whole. Blips that overlap and the time that a trigger takes to re-arm are left out, so the form lies a little above a
/// simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blips {
    rate: Rate,
    mean: Duration,
}

impl Default for Blips {
    /// 4 an hour, 20 s long on average: an assumption of the worked example. Measure yours.
    fn default() -> Self {
        Self { rate: Rate::per_hour(4), mean: Duration::from_secs(20) }
    }
}

impl Blips {
    /// Blips of this mean length at this rate.
    ///
    /// # Errors
    /// A mean length of zero.
    pub fn new(rate: Rate, mean: Duration) -> Result<Self, PlanError> {
        if mean.is_zero() {
            return Err(PlanError::new("blip_mean", "0s", "a duration above zero"));
        }
        Ok(Self { rate, mean })
    }

    /// How often they come.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Their mean length.
    #[must_use]
    pub const fn mean(&self) -> Duration {
        self.mean
    }

    /// The probability that a blip is seen by as many probes as the trigger takes.
    #[must_use]
    pub fn probability(&self, trigger: Trigger, probing: &Probing) -> f64 {
        let mean = self.mean.as_secs_f64();
        let interval = probing.interval().as_secs_f64() / mean;
        // (1 - exp(-x)) / x, which is 1 where x vanishes.
        let first = if interval > 0.0 { -(-interval).exp_m1() / interval } else { 1.0 };
        let further = trigger.patience(probing).as_secs_f64() / mean;
        first * (-further).exp()
    }

    /// False failovers a day. Zero, at the least; never NaN.
    #[must_use]
    pub fn false_failovers_per_day(&self, trigger: Trigger, probing: &Probing) -> f64 {
        self.rate.per_day() * self.probability(trigger, probing)
    }
}

impl std::fmt::Display for Blips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} long on average", self.rate.spoken(), Spoken(self.mean))
    }
}

/// How often a day a healthy path reaches `failures` failed probes in a row, if each probe fails with probability `each`,
/// independently of the others: `(a day / I) * (1 - q) * q^n`. The optimistic case, because real faults come in bursts.
#[must_use]
pub fn lone_failures_per_day(each: Share, failures: u32, interval: Duration) -> f64 {
    let probes = if interval.is_zero() { return f64::INFINITY } else { 86_400.0 / interval.as_secs_f64() };
    let failures = i32::try_from(failures.max(1)).unwrap_or(i32::MAX);
    probes * each.rest().as_f64() * each.as_f64().powi(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn more_patience_means_fewer_false_failovers_and_longer_blips_more() {
        let probing = Probing::every(S(10)).unwrap();
        let daily = |mean, failures| {
            let blips = Blips::new(Rate::per_hour(4), S(mean)).unwrap();
            blips.false_failovers_per_day(Trigger::Consecutive(failures), &probing)
        };
        for mean in [1, 20, 60, 600] {
            assert!((1..40).all(|failures| daily(mean, failures) > daily(mean, failures + 1)), "mean {mean}");
            assert!((1..40).all(|failures| daily(mean + 1, failures) > daily(mean, failures)), "mean {mean}");
            assert!(daily(mean, 1) < 96.0, "never more than there are blips");
        }
    }

    #[test]
    fn the_extremes_are_numbers() {
        let probing = |interval| Probing::every(interval).unwrap();
        for (mean, interval) in [(Duration::from_nanos(1), Duration::MAX), (Duration::MAX, Duration::from_nanos(1))] {
            let blips = Blips::new(Rate::per_second(u64::MAX), mean).unwrap();
            for trigger in [Trigger::Consecutive(1), Trigger::Consecutive(u32::MAX), Trigger::Window(Duration::MAX)] {
                let probability = blips.probability(trigger, &probing(interval));
                assert!((0.0..=1.0).contains(&probability), "{probability}");
                assert!(blips.false_failovers_per_day(trigger, &probing(interval)).is_finite());
            }
        }
        assert!(Blips::new(Rate::per_hour(4), Duration::ZERO).is_err());
        assert_eq!(lone_failures_per_day(Share::NONE, 3, S(1)), 0.0);
        assert_eq!(lone_failures_per_day(Share::ALL, u32::MAX, S(1)), 0.0);
    }
}
