//! A trigger as it is asked for.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::experiment::SimulationError;
use crate::engine::{self, TriggerRule};
use crate::planning::{self, Probing};

/// When a path counts as down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What planning knows a closed form for: failures in a row, or a window.
    Planned(planning::Trigger),
    /// So many failures among so many of the newest results.
    Among {
        /// At least 1.
        failures: u32,
        /// At most [`engine::Trigger::MOST_RESULTS`].
        of: u32,
    },
}

impl Rule {
    /// As the engine takes it.
    ///
    /// # Errors
    /// What no engine can be given.
    pub fn trigger(self) -> Result<engine::Trigger, SimulationError> {
        let rule = match self {
            Self::Planned(planning::Trigger::Consecutive(failures)) => TriggerRule::Consecutive(failures.max(1)),
            Self::Planned(planning::Trigger::Window(window)) => TriggerRule::Window(window),
            Self::Among { failures, of } => TriggerRule::Failures { failures, of },
        };
        engine::Trigger::new(rule).map_err(|error| SimulationError::Trigger { trigger: self, error })
    }

    /// The least number of failures that fire it.
    #[must_use]
    pub fn failures(self, probing: &Probing) -> u64 {
        match self {
            Self::Planned(trigger) => trigger.failures(probing),
            Self::Among { failures, .. } => failures.into(),
        }
    }

    /// From the first failed probe to the last that it takes, if they all fail.
    #[must_use]
    pub fn patience(self, probing: &Probing) -> Duration {
        match self {
            Self::Planned(trigger) => trigger.patience(probing),
            Self::Among { failures, .. } => planning::Trigger::Consecutive(failures).patience(probing),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned(trigger) => trigger.fmt(f),
            Self::Among { failures, of } => f.pad(&format!("{failures} of {of}")),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    /// What planning reads (`3`, `window 60s`), or `3 of 5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "found {text:?}; expected failures in a row such as \"3\", a window such as \"window 60s\", or \"3 of 5\""
            )
        };
        let number = |text: &str| {
            let text = text.trim();
            text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let rule = match text.split_once("of") {
            Some((failures, of)) => {
                let (Some(failures), Some(of)) = (number(failures), number(of)) else { return Err(refused()) };
                Self::Among { failures, of }
            }
            None => Self::Planned(text.parse().map_err(|_| refused())?),
        };
        rule.trigger().map(|_| rule).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_read_and_written_alike_or_refused() {
        for (text, written) in [("3", "3 consecutive"), (" 3 of 5 ", "3 of 5"), ("window 5m", "window 300s")] {
            assert_eq!(text.parse::<Rule>().map(|rule| rule.to_string()), Ok(written.to_owned()));
        }
        for text in ["", "0", "of", "3 of", "of 5", "-3 of 5", "+3 of 5", "3 of 5 of 6", "window 60"] {
            let refusal = text.parse::<Rule>().unwrap_err();
            assert!(refusal.starts_with(&format!("found {text:?}; expected ")), "{refusal}");
        }
        let refused = |text: &str| text.parse::<Rule>().unwrap_err();
        assert_eq!(refused("5 of 3"), "trigger 5 of 3: failures is 5; expected at most of, which is 3");
        assert_eq!(refused("5 of 65"), "trigger 5 of 65: of is 65; expected 1 to 64");
        assert_eq!(refused("0 of 5"), "trigger 0 of 5: failures is 0; expected 1 to 4294967295");
    }
}
