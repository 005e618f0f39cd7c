//! So many in so long.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::error::TextError;
use super::text::{Spoken, UNITS, divided_up, nanos, number, span};

/// A year of 365.25 days.
pub const YEAR: Duration = Duration::from_secs(31_557_600);

/// So many events in so long, kept as both numbers, so that "1 in 3 years" stays exact.
///
/// ```
/// use std::time::Duration;
/// use broker_failover::planning::Rate;
///
/// let orders: Rate = "200/s".parse()?;
/// assert_eq!(orders.within(Duration::from_millis(800)), 160);
/// # Ok::<(), broker_failover::planning::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    per: Duration,
}

impl Rate {
    /// `count` in every `per`; `None` if `per` is zero.
    #[must_use]
    pub const fn new(count: u64, per: Duration) -> Option<Self> {
        if per.is_zero() { None } else { Some(Self { count, per }) }
    }

    /// So many a second.
    #[must_use]
    pub const fn per_second(count: u64) -> Self {
        Self { count, per: Duration::from_secs(1) }
    }

    /// So many an hour.
    #[must_use]
    pub const fn per_hour(count: u64) -> Self {
        Self { count, per: Duration::from_secs(3_600) }
    }

    /// So many in so many years of 365.25 days; for no year at all, in one.
    #[must_use]
    pub const fn in_years(count: u64, years: u32) -> Self {
        Self { count, per: YEAR.saturating_mul(if years == 0 { 1 } else { years }) }
    }

    /// How many in `span`, a started one counted as a whole.
    #[must_use]
    pub fn within(self, span: Duration) -> u64 {
        divided_up(u128::from(self.count).checked_mul(span.as_nanos()), self.per.as_nanos())
    }

    /// How many a day, on average.
    #[must_use]
    pub fn per_day(self) -> f64 {
        self.count as f64 * 86_400.0 / self.per.as_secs_f64()
    }

    /// From one to the next, on average; `None` if there is none.
    #[must_use]
    pub fn gap(self) -> Option<Duration> {
        self.per.as_nanos().checked_div(u128::from(self.count)).map(|gap| nanos(Some(gap)))
    }

    /// How long all of them take in a year, if each takes `each`.
    #[must_use]
    pub fn a_year_of(self, each: Duration) -> Duration {
        let sum = each.as_nanos().checked_mul(u128::from(self.count));
        nanos(sum.and_then(|sum| sum.checked_mul(YEAR.as_nanos())).and_then(|sum| sum.checked_div(self.per.as_nanos())))
    }
}

impl Rate {
    /// As people say it: `4 an hour`, `1 in 3 years`.
    #[must_use]
    pub fn spoken(self) -> String {
        let Some((many, name)) = self.units() else { return format!("{} in {}", self.count, Spoken(self.per)) };
        let unit = match name {
            "s" => "second",
            "m" => "minute",
            "h" => "hour",
            "d" => "day",
            _ => "year",
        };
        match many {
            1 => format!("{} {} {unit}", self.count, if unit == "hour" { "an" } else { "a" }),
            _ => format!("{} in {many} {unit}s", self.count),
        }
    }

    /// The span as a number of the longest unit that it is a multiple of.
    fn units(self) -> Option<(u128, &'static str)> {
        let fits = |unit: &Duration| self.per.as_nanos() % unit.as_nanos() == 0;
        let (name, unit) = UNITS.iter().rev().find(|(_, unit)| fits(unit))?;
        Some((self.per.as_nanos() / unit.as_nanos(), name))
    }
}

impl fmt::Display for Rate {
    /// `4/h`, `1/3y`, or with another span `1/1d 12h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.units() {
            Some((1, name)) => format!("{}/{name}", self.count),
            Some((many, name)) => format!("{}/{many}{name}", self.count),
            None => format!("{}/{}", self.count, Spoken(self.per)),
        };
        f.pad(&text)
    }
}

impl FromStr for Rate {
    type Err = TextError;

    /// Two integers and a unit: `200/s`, `4/h`, `1/3y`. The units are s, m, h, d and y (365.25 days).
    fn from_str(text: &str) -> Result<Self, TextError> {
        let read = || {
            let (count, per) = text.split_once('/')?;
            let per = per.trim();
            // The number may be left out: `4/h`.
            let per = if per.starts_with(|c: char| c.is_ascii_digit()) { span(per) } else { span(&format!("1{per}")) };
            Self::new(number(count.trim())?, per?)
        };
        read()
            .ok_or_else(|| TextError::new(text, "a rate such as \"200/s\", \"4/h\" or \"1/3y\" (units s, m, h, d, y)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written_alike() {
        for text in ["200/s", "4/h", "1/3y", "0/d", "7/30m"] {
            assert_eq!(text.parse::<Rate>().map(|rate| rate.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(" 4 / 60 m ".parse(), Ok(Rate::per_hour(4)));
        for text in ["", "4", "4/", "/h", "4/0h", "-4/h", "4/w", "4/1.5h", "+4/h", "4/h x", "99999999999999999999/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert!(Rate::new(1, Duration::ZERO).is_none());
        for (text, spoken) in [("4/h", "4 an hour"), ("1/3y", "1 in 3 years"), ("200/s", "200 a second")] {
            assert_eq!(text.parse::<Rate>().map(Rate::spoken), Ok(spoken.to_owned()));
        }
    }

    #[test]
    fn counts_round_up_and_saturate() {
        assert_eq!(Rate::per_second(200).within(Duration::from_nanos(1)), 1);
        assert_eq!(Rate::per_second(u64::MAX).within(Duration::MAX), u64::MAX);
        assert_eq!(Rate::per_second(u64::MAX).a_year_of(Duration::MAX), Duration::MAX);
        assert_eq!(Rate::in_years(1, 3).a_year_of(Duration::from_secs(60)), Duration::from_secs(20));
        assert_eq!(Rate::in_years(3, 0), Rate::in_years(3, 1));
        assert!((Rate::per_hour(4).per_day() - 96.0).abs() < 1e-9);
        assert_eq!(Rate::per_hour(4).gap(), Some(Duration::from_secs(900)));
        assert_eq!(Rate::per_hour(0).gap(), None);
    }
}
