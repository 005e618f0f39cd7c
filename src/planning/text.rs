//! Numbers as people read and write them.

use std::fmt;
use std::time::Duration;

use super::rate::YEAR;

/// A duration as people say it: `250ms`, `1.5s`, `6m 45s`, `3d 4h`. Rounded to a millisecond, and to a second from an
/// hour on; what is shorter than a millisecond is told exactly.
#[derive(Clone, Copy, Debug)]
pub struct Spoken(pub Duration);

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&spoken(self.0))
    }
}

fn spoken(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    if duration < Duration::from_millis(1) {
        return format!("{duration:?}");
    }
    let grain = if duration < Duration::from_secs(3_600) { 1 } else { 1_000 };
    let millis = (duration.as_nanos() / 1_000 + grain * 500) / (grain * 1_000) * grain;
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    let mut words = Vec::new();
    for (whole, unit) in [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m")] {
        if whole > 0 {
            words.push(format!("{}{unit}", thousands(whole)));
        }
    }
    match (seconds % 60, millis) {
        (0, 0) => {}
        (rest, 0) => words.push(format!("{rest}s")),
        (rest, millis) => words.push(format!("{rest}.{}s", format!("{millis:03}").trim_end_matches('0'))),
    }
    words.join(" ")
}

/// A duration in seconds, for columns: `1,080s`, with the digits that it has down to a millisecond.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = thousands(self.0.as_secs().into());
        f.pad(&match self.0.subsec_millis() {
            0 => format!("{whole}s"),
            millis => format!("{whole}.{}s", format!("{millis:03}").trim_end_matches('0')),
        })
    }
}

/// A count and what is counted: `1 time`, `2 times`, `0 times`.
#[must_use]
pub fn counted(count: impl fmt::Display, one: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {one}{plural}")
}

/// `1234567` as `1,234,567`.
pub(super) fn thousands(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A plain decimal such as `99.99`, in units of 10^-`places`. `None`: anything else, more places, or it does not fit.
pub(super) fn decimal(text: &str, places: u32) -> Option<u64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, number(fraction)?),
        None => (text, 0),
    };
    let given = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let missing = places.checked_sub(u32::try_from(given).ok()?)?;
    let fraction = fraction.checked_mul(10_u64.checked_pow(missing)?)?;
    number(whole)?.checked_mul(10_u64.checked_pow(places)?)?.checked_add(fraction)
}

/// Digits and nothing else.
pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The units of a span in a rate, a trigger or a routing layer, shortest first.
pub(super) const UNITS: [(&str, Duration); 5] = [
    ("s", Duration::from_secs(1)),
    ("m", Duration::from_secs(60)),
    ("h", Duration::from_secs(3_600)),
    ("d", Duration::from_secs(86_400)),
    ("y", YEAR),
];

/// An integer and one unit, such as `60s`.
pub(super) fn span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (count, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    unit.checked_mul(u32::try_from(number(count)?).ok()?)
}

/// `product / divisor`, rounded up, or the largest number if it does not fit.
pub(super) fn divided_up(product: Option<u128>, divisor: u128) -> u64 {
    let quotient = product.and_then(|product| product.checked_add(divisor.checked_sub(1)?)?.checked_div(divisor));
    quotient.and_then(|quotient| u64::try_from(quotient).ok()).unwrap_or(u64::MAX)
}

/// That many nanoseconds, or the longest duration there is.
pub(super) fn nanos(nanos: Option<u128>) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let Some(nanos) = nanos else { return Duration::MAX };
    let (Ok(seconds), Ok(rest)) = (u64::try_from(nanos / SECOND), u32::try_from(nanos % SECOND)) else {
        return Duration::MAX;
    };
    Duration::new(seconds, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_counted_without_an_s() {
        let told = [0, 1, 2, 11].map(|count| counted(count, "time"));
        assert_eq!(told, ["0 times", "1 time", "2 times", "11 times"]);
        assert_eq!(counted(1_f64, "day"), "1 day");
    }

    #[test]
    fn durations_are_told_in_the_units_that_people_use() {
        let cases = [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(1), "1ns"),
            (Duration::from_micros(999), "999µs"),
            (Duration::from_millis(250), "250ms"),
            (Duration::from_millis(1500), "1.5s"),
            (Duration::from_secs(60), "1m"),
            (Duration::from_secs(405), "6m 45s"),
            (Duration::from_millis(259_200), "4m 19.2s"),
            (Duration::from_secs(3_600), "1h"),
            (Duration::from_millis(3_600_499), "1h"),
            (Duration::from_millis(3_600_500), "1h 1s"),
            (Duration::from_secs(86_400 * 1000 + 61), "1,000d 1m 1s"),
        ];
        for (duration, text) in cases {
            assert_eq!(Spoken(duration).to_string(), text);
        }
        let columns = [Duration::from_secs(1_080), Duration::from_millis(2_300)].map(|time| Seconds(time).to_string());
        assert_eq!(columns, ["1,080s", "2.3s"]);
        assert_eq!(format!("{:>8}", Spoken(Duration::from_secs(5))), "      5s");
        assert!(!Spoken(Duration::MAX).to_string().is_empty());
    }

    #[test]
    fn decimals_are_read_exactly_or_not_at_all() {
        for (text, units) in [("0", 0), ("1", 1000), ("1.0", 1000), ("0.125", 125), ("12.5", 12_500), ("3.000", 3000)] {
            assert_eq!(decimal(text, 3), Some(units), "{text}");
        }
        for text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "0.0001", "1.2.3", "1,5", " 1", "18446744073709551615"] {
            assert_eq!(decimal(text, 3), None, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_the_largest_there_is() {
        assert_eq!(divided_up(Some(10), 3), 4);
        assert_eq!(divided_up(Some(9), 3), 3);
        assert_eq!(divided_up(None, 3), u64::MAX);
        assert_eq!(divided_up(Some(1), 0), u64::MAX);
        assert_eq!(divided_up(Some(u128::MAX), 1), u64::MAX);
        assert_eq!(nanos(Some(1_500_000_000)), Duration::from_millis(1500));
        assert_eq!(nanos(Some(u128::MAX)), Duration::MAX);
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
