//! Sums of money, in one currency that the caller names.

use std::fmt;
use std::time::Duration;

use super::text::thousands;

/// A sum of money in hundredths of the currency's unit. Which currency it is, the caller knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many whole units, such as dollars.
    #[must_use]
    pub const fn units(units: u64) -> Self {
        Self(units.saturating_mul(100))
    }

    /// In hundredths.
    #[must_use]
    pub const fn as_hundredths(self) -> u64 {
        self.0
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// How much more this is than `other`; nothing if it is less.
    #[must_use]
    pub const fn above(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many times this.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// What `time` costs where an hour costs this, to the nearest hundredth.
    #[must_use]
    pub fn an_hour_for(self, time: Duration) -> Self {
        const HOUR: u128 = 3_600_000_000_000;
        let cost =
            u128::from(self.0).checked_mul(time.as_nanos()).map(|product| product / HOUR + (product % HOUR * 2) / HOUR);
        Self(cost.and_then(|cost| u64::try_from(cost).ok()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Money {
    /// Whole units from 100 on, hundredths below.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, hundredths) = (u128::from(self.0 / 100), self.0 % 100);
        let text = match (units, hundredths) {
            (100.., 50..) => thousands(units + 1),
            (100.., _) | (_, 0) => thousands(units),
            _ => format!("{units}.{hundredths:02}"),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_money_and_nothing_wraps() {
        assert_eq!(Money::units(22_000).an_hour_for(Duration::from_secs(60)), Money(36_667));
        assert_eq!(Money(1).an_hour_for(Duration::from_secs(1_800)), Money(1), "half a hundredth rounds up");
        assert_eq!(Money(u64::MAX).an_hour_for(Duration::MAX), Money(u64::MAX));
        assert_eq!(Money::units(u64::MAX), Money(u64::MAX));
        assert_eq!(Money::units(1).above(Money::units(2)), Money::ZERO);
    }

    #[test]
    fn sums_are_told_as_exactly_as_they_matter() {
        for (hundredths, text) in
            [(0, "0"), (50, "0.50"), (9_999, "99.99"), (12_222, "122"), (4_920_000_050, "49,200,001")]
        {
            assert_eq!(Money(hundredths).to_string(), text);
        }
    }
}
