//! What came of a simulation.

use std::time::Duration;

use super::rule::Rule;
use crate::engine::Silence;

/// Every trigger under blips of one mean length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The mean length of a blip.
    pub blip_mean: Duration,
    /// One for each trigger, in the order asked for.
    pub rows: Vec<Row>,
}

/// One trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The trigger.
    pub rule: Rule,
    /// The least number of failures that fire it.
    pub failures: u64,
    /// From the first failed probe to the last that it takes.
    pub patience: Duration,
    /// False failovers a day by the closed form of [`Blips`](crate::planning::Blips); `None` where it has none: a
    /// trigger that looks at other than failures in a row, or probes that are lost one by one.
    pub closed_form: Option<f64>,
    /// Calm days in each run.
    pub days: u32,
    /// One for each seed, in order.
    pub runs: Vec<Run>,
}

/// One trigger through the calm days and the outages of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// Failovers on calm days.
    pub false_failovers: u64,
    /// An outage in which every probe fails; `None`: it was missed.
    pub outage: Option<Detected>,
    /// Whether an outage without any probe was detected, with silence as a note: read as health.
    pub silent_as_health: bool,
    /// The same with silence counted as failures.
    pub silent_as_failure: bool,
}

/// How long an outage lasted until it was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    /// Since the first probe of the outage.
    pub from_probe: Duration,
    /// Since the fault.
    pub from_fault: Duration,
}

impl Row {
    /// On all calm days.
    #[must_use]
    pub fn false_failovers(&self) -> u64 {
        self.runs.iter().map(|run| run.false_failovers).sum()
    }

    /// False failovers a calm day.
    #[must_use]
    pub fn false_failovers_per_day(&self) -> f64 {
        self.false_failovers() as f64 / self.all_days()
    }

    /// One standard error of that, if they come independently of each other.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        (self.false_failovers() as f64).sqrt() / self.all_days()
    }

    fn all_days(&self) -> f64 {
        f64::from(self.days) * self.runs.len() as f64
    }

    /// The time, by `measure`, within which so many hundredths of the outages were detected; `None` if fewer were.
    #[must_use]
    pub fn detection(&self, percent: usize, measure: impl Fn(&Detected) -> Duration) -> Option<Duration> {
        let mut times: Vec<_> = self.runs.iter().filter_map(|run| run.outage.as_ref().map(&measure)).collect();
        times.sort_unstable();
        let rank = (self.runs.len() * percent).div_ceil(100).max(1);
        times.get(rank - 1).copied()
    }

    /// Outages that ended before they were detected.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.runs.iter().filter(|run| run.outage.is_none()).count()
    }

    /// Outages without any probe that were detected.
    #[must_use]
    pub fn silent_detected(&self, silence: Silence) -> usize {
        let detected = |run: &&Run| match silence {
            Silence::Note => run.silent_as_health,
            Silence::Failure => run.silent_as_failure,
        };
        self.runs.iter().filter(detected).count()
    }
}
