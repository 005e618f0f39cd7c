//! When a path counts as down.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::detection::Probing;
use super::error::TextError;
use super::text::{Spoken, nanos, number, span};

const EXPECTED: &str = "failures in a row such as \"3\", or a window such as \"window 60s\"";
const NO_CLOSED_FORM: &str = "failures in a row such as \"3\", or a window such as \"window 60s\": there is no closed form \
    for the false failovers of failures among the newest results (simulate and calibrate take such a trigger)";

/// When a path counts as down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// After so many failed probes in a row; zero counts as one.
    Consecutive(u32),
    /// Once every probe of so long a span has failed.
    Window(Duration),
}

impl Trigger {
    /// How many failed probes in a row it takes. A window of `W` takes the first failure and as many after it as reach `W`
    /// back: `W / interval_when_failing + 1`, rounded up.
    #[must_use]
    pub fn failures(self, probing: &Probing) -> u64 {
        match self {
            Self::Consecutive(failures) => u64::from(failures.max(1)),
            Self::Window(window) => {
                let further = window.as_nanos().div_ceil(probing.interval_when_failing().as_nanos().max(1));
                u64::try_from(further).unwrap_or(u64::MAX).saturating_add(1)
            }
        }
    }

    /// From the first failed probe to the last one that it takes: the failures after the first, an interval each.
    #[must_use]
    pub fn patience(self, probing: &Probing) -> Duration {
        let further = u128::from(self.failures(probing) - 1);
        nanos(further.checked_mul(probing.interval_when_failing().as_nanos()))
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Consecutive(0 | 1) => "1 failure".to_owned(),
            Self::Consecutive(failures) => format!("{failures} consecutive"),
            Self::Window(window) if window.subsec_nanos() == 0 => format!("window {}s", window.as_secs()),
            Self::Window(window) => format!("window {}", Spoken(*window)),
        };
        f.pad(&text)
    }
}

impl FromStr for Trigger {
    type Err = TextError;

    /// A number of failures from 1 on, `3`, or a window, `window 60s` (an integer and s, m, h or d). `3 of 3`, all of the
    /// newest results, is 3 in a row; no closed form is known for false failovers of any other part of them.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let read = || match text.trim().strip_prefix("window") {
            Some(window) => {
                let window = span(window.trim_start_matches([' ', '=', ':']))?;
                Some(Self::Window(window)).filter(|_| !window.is_zero())
            }
            None => {
                let (failures, of) = text.split_once("of").unwrap_or((text, text));
                let failures = Some(number(failures.trim())?).filter(|failures| Some(*failures) == number(of.trim()));
                u32::try_from(failures?).ok().filter(|n| *n > 0).map(Self::Consecutive)
            }
        };
        let part =
            || text.split_once("of").is_some_and(|(some, of)| [some, of].iter().all(|n| number(n.trim()).is_some()));
        read().ok_or_else(|| TextError::new(text, if part() { NO_CLOSED_FORM } else { EXPECTED }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(seconds: u64) -> Probing {
        Probing::every(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn a_window_behaves_like_as_many_failures_as_reach_its_length_back() {
        let cases = [(9, 2, 10), (10, 2, 10), (19, 3, 20), (20, 3, 20), (60, 7, 60), (300, 31, 300), (900, 91, 900)];
        for (window, failures, patience) in cases {
            let trigger = Trigger::Window(Duration::from_secs(window));
            assert_eq!(trigger.failures(&every(10)), failures, "{window}");
            assert_eq!(trigger.patience(&every(10)), Duration::from_secs(patience), "{window}");
        }
    }

    #[test]
    fn triggers_are_read_or_refused() {
        assert_eq!("3".parse(), Ok(Trigger::Consecutive(3)));
        for text in ["window 60s", "window 1m", "window=60s", "window:60s"] {
            assert_eq!(text.parse(), Ok(Trigger::Window(Duration::from_secs(60))), "{text}");
        }
        for text in ["", "0", "-1", "+3", "window", "window 60", "window 0s", "window -1s", "3.5", "60s", "window 1é"]
        {
            assert!(text.parse::<Trigger>().is_err(), "{text}");
        }
        for text in ["3 of 3", " 3of3 "] {
            assert_eq!(text.parse(), Ok(Trigger::Consecutive(3)), "{text}");
        }
        for text in ["3 of 5", "5 of 3", "0 of 0"] {
            let refused = text.parse::<Trigger>().unwrap_err().to_string();
            assert!(refused.contains("no closed form") && refused.contains("simulate and calibrate"), "{refused}");
        }
        for text in ["of", "3 of", "of 3", "+3 of +3"] {
            assert!(text.parse::<Trigger>().unwrap_err().to_string().ends_with(EXPECTED), "{text}");
        }
        assert_eq!(Trigger::Window(Duration::from_secs(60)).to_string(), "window 60s");
        assert_eq!(Trigger::Consecutive(1).to_string(), "1 failure");
    }

    #[test]
    fn nothing_wraps() {
        let probing = Probing::every(Duration::from_nanos(1)).unwrap();
        assert_eq!(Trigger::Window(Duration::MAX).failures(&probing), u64::MAX);
        assert_eq!(Trigger::Consecutive(0).patience(&every(10)), Duration::ZERO);
        assert_eq!(Trigger::Consecutive(u32::MAX).patience(&Probing::every(Duration::MAX).unwrap()), Duration::MAX);
    }
}
