//! A part of a whole.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::error::TextError;
use super::text::{decimal, nanos};

const BILLION: u32 = 1_000_000_000;

/// A part of a whole, from none of it to all of it, exact to a billionth.
///
/// ```
/// use std::time::Duration;
/// use broker_failover::planning::Share;
///
/// let availability: Share = "99.99%".parse()?;
/// let month = Duration::from_secs(30 * 86_400);
/// assert_eq!(availability.rest().of(month), Duration::from_millis(259_200), "4.32 minutes");
/// # Ok::<(), broker_failover::planning::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(BILLION);

    /// So many hundredths; all of it for 100 or more.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        if percent >= 100 { Self::ALL } else { Self(percent * (BILLION / 100)) }
    }

    /// So many billionths; all of it for a billion or more.
    #[must_use]
    pub const fn billionths(billionths: u32) -> Self {
        if billionths >= BILLION { Self::ALL } else { Self(billionths) }
    }

    /// In billionths.
    #[must_use]
    pub const fn as_billionths(self) -> u32 {
        self.0
    }

    /// From 0 to 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(BILLION)
    }

    /// What is missing to the whole.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(BILLION - self.0)
    }

    /// This part of `whole`, to the nearest nanosecond.
    #[must_use]
    pub fn of(self, whole: Duration) -> Duration {
        let billion = u128::from(BILLION);
        nanos(whole.as_nanos().checked_mul(u128::from(self.0)).map(|product| (product + billion / 2) / billion))
    }
}

impl fmt::Display for Share {
    /// As a percentage: `99.99%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000_000, self.0 % 10_000_000);
        let text = match fraction {
            0 => format!("{whole}%"),
            _ => format!("{whole}.{}%", format!("{fraction:07}").trim_end_matches('0')),
        };
        f.pad(&text)
    }
}

impl FromStr for Share {
    type Err = TextError;

    /// A percentage such as `99.99%` (seven decimals at most), or a number from 0 to 1 such as `0.4`.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let trimmed = text.trim();
        let read = match trimmed.strip_suffix('%') {
            Some(percent) => decimal(percent.trim_end(), 7),
            None => decimal(trimmed, 9),
        };
        read.and_then(|read| u32::try_from(read).ok())
            .filter(|read| *read <= BILLION)
            .map(Self)
            .ok_or_else(|| TextError::new(text, "a share such as \"99.99%\" or \"0.4\", from 0 to all of it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_exactly() {
        for (text, billionths) in
            [("0%", 0), ("100%", BILLION), ("99.99 %", 999_900_000), ("0.4", 400_000_000), ("1", BILLION)]
        {
            assert_eq!(text.parse::<Share>().map(Share::as_billionths), Ok(billionths), "{text}");
        }
        for text in ["", "%", "40", "100.1%", "1.1", "-1%", "1/2", "0.00000001%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!(Share::billionths(999_900_000).to_string(), "99.99%");
        assert_eq!(Share::percent(40).to_string(), "40%");
        assert_eq!(Share::percent(1000), Share::ALL);
    }

    #[test]
    fn a_part_is_rounded_to_the_nearest_nanosecond_and_never_wraps() {
        assert_eq!(Share::percent(50).of(Duration::from_nanos(3)), Duration::from_nanos(2));
        assert_eq!(Share::ALL.of(Duration::MAX), Duration::MAX);
        assert_eq!(Share::NONE.of(Duration::MAX), Duration::ZERO);
    }
}
