//! How long blips are: distributions, and what probes see of them.

use super::special::normal;

/// A distribution of lengths, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Length {
    Exponential {
        mean: f64,
    },
    /// Of the logarithm.
    LogNormal {
        mean: f64,
        deviation: f64,
    },
}

/// How probes look at blips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// Seconds from a success to the next probe.
    pub(super) before: f64,
    /// Seconds from a failure to the next probe.
    pub(super) step: f64,
    /// The most failed probes of a blip: more of them are an outage.
    pub(super) most: u64,
}

impl Grid {
    /// Seconds from the first failed probe to the failed probe of this number.
    pub(super) fn span(&self, failures: u64) -> f64 {
        failures.saturating_sub(1) as f64 * self.step
    }
}

impl Length {
    pub(super) fn mean(&self) -> f64 {
        match *self {
            Self::Exponential { mean } => mean,
            Self::LogNormal { mean, deviation } => (mean + deviation * deviation / 2.0).exp(),
        }
    }

    pub(super) fn median(&self) -> f64 {
        match *self {
            Self::Exponential { mean } => mean * std::f64::consts::LN_2,
            Self::LogNormal { mean, .. } => mean.exp(),
        }
    }

    /// E[(L - d)+], the integral of P(L > x) from `d` on: by how much lengths exceed `d` on average.
    fn excess(&self, d: f64) -> f64 {
        if d <= 0.0 {
            return self.mean();
        }
        match *self {
            Self::Exponential { mean } => mean * (-d / mean).exp(),
            Self::LogNormal { mean, deviation } => {
                let z = (d.ln() - mean) / deviation;
                (self.mean() * normal(deviation - z) - d * normal(-z)).max(0.0)
            }
        }
    }

    /// The share of all blips that some probe sees: a blip begins at any moment between two probes alike.
    pub(super) fn seen(&self, grid: &Grid) -> f64 {
        ((self.mean() - self.excess(grid.before)) / grid.before).clamp(0.0, 1.0)
    }

    /// Of the runs of failures that probes see and that are no outage, the share with at least so many failures.
    pub(super) fn blip_reaches(&self, failures: u64, grid: &Grid) -> f64 {
        Probed::new(self, grid).blip_reaches(failures)
    }
}

/// What probes see of lengths, for many numbers of failures: what all of these have in common is computed once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probed<'a> {
    length: &'a Length,
    grid: &'a Grid,
    /// What one probe sees, by which all else is divided.
    first: f64,
    /// The share of runs that are outages.
    outages: f64,
}

impl<'a> Probed<'a> {
    pub(super) fn new(length: &'a Length, grid: &'a Grid) -> Self {
        let first = length.mean() - length.excess(grid.before);
        let unknown = Self { length, grid, first, outages: 0.0 };
        Self { outages: unknown.reaches(grid.most.saturating_add(1)), ..unknown }
    }

    /// Of all runs of failures that probes see, the share with at least so many failures.
    ///
    /// A blip that begins `s` before its first failed probe, `s` anywhere in the interval, is seen by `n` probes if it is
    /// longer than `s + (n - 1) F`: the mean of P(L > s + (n - 1) F) over `s`, divided by the same for one probe.
    fn reaches(&self, failures: u64) -> f64 {
        if self.first <= 0.0 {
            return f64::from(u8::from(failures <= 1));
        }
        let from = self.grid.span(failures);
        ((self.length.excess(from) - self.length.excess(from + self.grid.before)) / self.first).clamp(0.0, 1.0)
    }

    /// See [`Length::blip_reaches`].
    pub(super) fn blip_reaches(&self, failures: u64) -> f64 {
        let blips = 1.0 - self.outages;
        if blips <= 0.0 { 0.0 } else { ((self.reaches(failures) - self.outages) / blips).clamp(0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::{Blips, Probing, Rate, Trigger};
    use std::time::Duration;

    #[test]
    fn exponential_lengths_are_seen_as_planning_says() {
        let (interval, mean) = (Duration::from_secs(10), Duration::from_secs(20));
        let blips = Blips::new(Rate::per_hour(4), mean).unwrap();
        let probing = Probing::new(interval, interval / 4, Duration::ZERO).unwrap();
        let grid = Grid { before: 10.0, step: 2.5, most: 1_000_000 };
        let length = Length::Exponential { mean: 20.0 };
        for failures in [1, 2, 3, 10, 40] {
            let expected = blips.probability(Trigger::Consecutive(failures), &probing);
            let found = length.seen(&grid) * Probed::new(&length, &grid).reaches(failures.into());
            assert!((found - expected).abs() < 1e-12, "{failures}: {found}, {expected}");
        }
    }

    #[test]
    fn log_normal_lengths_are_seen_as_their_integral_says() {
        let grid = Grid { before: 10.0, step: 4.0, most: 1_000 };
        let length = Length::LogNormal { mean: 2.5, deviation: 0.8 };
        let survival = |x: f64| if x <= 0.0 { 1.0 } else { normal(-(x.ln() - 2.5) / 0.8) };
        // Simpson's rule over the phase.
        let over_phase = |from: f64| {
            let point = |k: u32| survival(from + 10.0 * f64::from(k) / 1_000.0);
            let weight = |k: u32| {
                if k == 0 || k == 1_000 {
                    1.0
                } else if k % 2 == 1 {
                    4.0
                } else {
                    2.0
                }
            };
            (0..=1_000).map(|k| weight(k) * point(k)).sum::<f64>() / 3_000.0
        };
        assert!((length.seen(&grid) - over_phase(0.0)).abs() < 1e-9);
        for failures in [1, 2, 5, 20] {
            let expected = over_phase(grid.span(failures)) / over_phase(0.0);
            assert!((Probed::new(&length, &grid).reaches(failures) - expected).abs() < 1e-9, "{failures}");
        }
    }
}
