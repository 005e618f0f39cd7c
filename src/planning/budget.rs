//! What an availability allows in a month, and what an outage uses of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::error::{PlanError, TextError};
use super::share::Share;

/// Which month an error budget is for. The two differ by 1.5 %, so a budget says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Month {
    /// 30 days: 43,200 minutes.
    ThirtyDays,
    /// An average month of 30.44 days: 43,833.6 minutes.
    Average,
}

impl Month {
    /// Its length.
    #[must_use]
    pub const fn length(self) -> Duration {
        match self {
            Self::ThirtyDays => Duration::from_secs(30 * 86_400),
            Self::Average => Duration::from_secs(2_630_016),
        }
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ThirtyDays => "a 30-day month",
            Self::Average => "an average month (30.44 days)",
        })
    }
}

impl FromStr for Month {
    type Err = TextError;

    /// `30d` or `average`.
    fn from_str(text: &str) -> Result<Self, TextError> {
        match text.trim() {
            "30d" => Ok(Self::ThirtyDays),
            "average" => Ok(Self::Average),
            _ => Err(TextError::new(text, "\"30d\" or \"average\" (30.44 days)")),
        }
    }
}

/// What an availability allows in a month.
///
/// ```
/// use std::time::Duration;
/// use broker_failover::planning::{ErrorBudget, Month, Share};
///
/// let budget = ErrorBudget::new("99.99%".parse()?, Month::ThirtyDays)?;
/// assert_eq!(budget.allowed(), Duration::from_millis(259_200));
/// assert_eq!(budget.used(Duration::from_secs(405), Share::percent(40)), 0.625);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorBudget {
    availability: Share,
    month: Month,
}

impl ErrorBudget {
    /// The budget that this availability leaves.
    ///
    /// # Errors
    /// An availability of 100 %: it leaves none.
    pub fn new(availability: Share, month: Month) -> Result<Self, PlanError> {
        if availability == Share::ALL {
            return Err(PlanError::new("availability", "100%", "less: all of the time leaves no budget"));
        }
        Ok(Self { availability, month })
    }

    /// The availability.
    #[must_use]
    pub const fn availability(&self) -> Share {
        self.availability
    }

    /// The month.
    #[must_use]
    pub const fn month(&self) -> Month {
        self.month
    }

    /// The outage that it allows in a month.
    #[must_use]
    pub fn allowed(&self) -> Duration {
        self.availability.rest().of(self.month.length())
    }

    /// What an outage that hits this share uses, in budgets: 1.0 is the whole month's, 2.3 is that of 2.3 months.
    #[must_use]
    pub fn used(&self, outage: Duration, hit: Share) -> f64 {
        // At least a billionth of a month, so above zero.
        hit.of(outage).as_secs_f64() / self.allowed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_nothing_is_refused_and_the_least_one_is_not() {
        assert!(ErrorBudget::new(Share::ALL, Month::Average).is_err());
        let least = ErrorBudget::new(Share::billionths(999_999_999), Month::ThirtyDays).unwrap();
        assert_eq!(least.allowed(), Duration::from_micros(2_592));
        assert!(least.used(Duration::MAX, Share::ALL).is_finite());
    }

    #[test]
    fn the_month_is_stated() {
        for (text, month) in [("30d", Month::ThirtyDays), ("average", Month::Average)] {
            assert_eq!(text.parse(), Ok(month));
        }
        assert!("31d".parse::<Month>().is_err());
    }
}
