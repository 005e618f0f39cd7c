//! Amounts of data, and how long they take to move.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::error::TextError;
use super::text::{decimal, nanos};

/// Decimal units and binary ones, largest first.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// An amount of data.
///
/// ```
/// use std::time::Duration;
/// use broker_failover::planning::{Bytes, Throughput};
///
/// let (state, speed): (Bytes, Throughput) = ("140GB".parse()?, "1GB/s".parse()?);
/// assert_eq!(state.transfer(speed), Duration::from_secs(140));
/// # Ok::<(), broker_failover::planning::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Data moved in a second; never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Throughput(u64);

impl Bytes {
    /// How long it takes to move this, a started nanosecond counted as a whole.
    #[must_use]
    pub fn transfer(self, throughput: Throughput) -> Duration {
        let product = u128::from(self.0).checked_mul(1_000_000_000);
        nanos(product.map(|product| product.div_ceil(u128::from(throughput.0))))
    }
}

impl Throughput {
    /// One byte a second.
    pub const SLOWEST: Self = Self(1);

    /// So many bytes a second; `None` for none.
    #[must_use]
    pub const fn per_second(bytes: Bytes) -> Option<Self> {
        if bytes.0 == 0 { None } else { Some(Self(bytes.0)) }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Zero is no multiple of anything but the smallest unit, as far as people are concerned.
        let fits = |size: &u64| self.0 > 0 && self.0 % size == 0;
        let (name, size) =
            UNITS.iter().rev().filter(|(_, size)| fits(size)).max_by_key(|(_, size)| *size).unwrap_or(&("B", 1));
        f.pad(&format!("{}{name}", self.0 / size))
    }
}

impl fmt::Display for Throughput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/s", Bytes(self.0)))
    }
}

fn size(text: &str) -> Option<Bytes> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    // Thousandths of a unit are exact enough, and whole bytes.
    let thousandths = u128::from(decimal(number.trim_end(), 3)?);
    u64::try_from(thousandths * u128::from(*scale) / 1000).ok().map(Bytes)
}

impl FromStr for Bytes {
    type Err = TextError;

    /// A number and a unit: `140GB`, `1.5TiB`. Three decimals at most.
    fn from_str(text: &str) -> Result<Self, TextError> {
        size(text).ok_or_else(|| {
            TextError::new(text, "an amount of data such as \"140GB\" (units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)")
        })
    }
}

impl FromStr for Throughput {
    type Err = TextError;

    /// An amount of data a second: `1GB/s`.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let amount = text.trim().strip_suffix("/s").and_then(size).and_then(Self::per_second);
        amount.ok_or_else(|| TextError::new(text, "data a second above zero, such as \"1GB/s\" or \"200MB/s\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_alike() {
        for text in ["140GB", "4TB", "0B", "1B", "512MiB", "3kB"] {
            assert_eq!(text.parse::<Bytes>().map(|bytes| bytes.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("1.5 GB".parse(), Ok(Bytes(1_500_000_000)));
        assert_eq!("200MB/s".parse::<Throughput>().map(|speed| speed.to_string()), Ok("200MB/s".to_owned()));
        for text in ["", "140", "GB", "140gb", "1.2345GB", "-1GB", "99999999999TB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        for text in ["1GB", "0B/s", "1GB/m"] {
            assert!(text.parse::<Throughput>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_transfer_rounds_up_and_never_wraps() {
        let slow = Throughput::per_second(Bytes(3)).unwrap();
        assert_eq!(Bytes(1).transfer(slow), Duration::from_nanos(333_333_334));
        assert_eq!(Bytes(u64::MAX).transfer(Throughput(1)), Duration::from_secs(u64::MAX));
    }
}
