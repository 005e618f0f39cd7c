//! What is asked of a history.

use std::time::Duration;

use thiserror::Error;

use super::error::HistoryError;
use crate::planning::PlanSettings;
use crate::sim::Rule;

/// The most triggers that are asked about at once.
const MOST_TRIGGERS: usize = 64;

/// What is asked of a history. The defaults are those of the `calibrate` command.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationSettings {
    /// The triggers to ask about. Default 1, 3, 6, 12 failures and windows of 60 s, 300 s and 900 s; 1 to 64 of them.
    pub triggers: Vec<Rule>,
    /// Only these endpoints. Default all.
    pub endpoints: Vec<String>,
    /// A run of failures is an outage if more than this lies between its first failed probe and its last, else a blip.
    /// Default 5 min; above zero.
    pub outage_after: Duration,
    /// From one probe to the next. Default what is usual in the history; above zero.
    pub interval: Option<Duration>,
    /// A longer time between two results is a gap. Default 3 intervals; at least an interval.
    pub max_gap: Option<Duration>,
    /// The owner's limit: at most so many false failovers in a month of 30 days. Without it nothing is recommended.
    pub max_false_per_month: Option<f64>,
    /// The owner's limit: from a fault to the end of the recovery.
    pub rto: Option<Duration>,
    /// What the recovery takes once the fault is detected. Default none.
    pub recovery: Duration,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        Self {
            triggers: PlanSettings::default().triggers.into_iter().map(Rule::Planned).collect(),
            endpoints: Vec::new(),
            outage_after: Duration::from_secs(300),
            interval: None,
            max_gap: None,
            max_false_per_month: None,
            rto: None,
            recovery: Duration::ZERO,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CalibrationError {
    /// A value that is out of bounds.
    #[error("{key} is {found}; expected {expected}")]
    Setting {
        /// Which.
        key: &'static str,
        /// The value.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// The history is at fault.
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl CalibrationSettings {
    /// Checks the values.
    pub(super) fn check(&self) -> Result<(), CalibrationError> {
        let refuse = |key, found: String, expected: String| Err(CalibrationError::Setting { key, found, expected });
        if self.triggers.is_empty() || self.triggers.len() > MOST_TRIGGERS {
            return refuse("trigger", format!("given {} times", self.triggers.len()), format!("1 to {MOST_TRIGGERS}"));
        }
        let spans = [("outage_after", Some(self.outage_after)), ("interval", self.interval), ("max_gap", self.max_gap)];
        for (key, span) in spans {
            if span.is_some_and(|span| span.is_zero() || span > Duration::from_secs(366 * 86_400)) {
                let found = format!("{:?}", span.unwrap_or_default());
                return refuse(key, found, "above zero, and at most a year".to_owned());
            }
        }
        if let (Some(gap), Some(interval)) = (self.max_gap, self.interval) {
            if gap < interval {
                return refuse("max_gap", format!("{gap:?}"), format!("at least the interval, which is {interval:?}"));
            }
        }
        match self.max_false_per_month {
            Some(most) if !most.is_finite() || most <= 0.0 => {
                refuse("max_false_per_month", most.to_string(), "a number above zero".to_owned())
            }
            None if self.rto.is_some() => {
                refuse("rto", "given alone".to_owned(), "max_false_per_month too: fast alone is no policy".to_owned())
            }
            _ => Ok(()),
        }
    }
}
