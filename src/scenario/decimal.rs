//! Seconds as plain decimals, exact in nanoseconds, and durations in words.

use std::time::Duration;

const NANOS: u64 = 1_000_000_000;

/// `nanos` in seconds: the shortest decimal with at least one fraction digit.
pub(super) fn seconds(nanos: u64) -> String {
    // By hand, from the last digit on: the journal writes two of these for each record, and `format!` was a good part of
    // what a record cost. 2^64 nanoseconds have eleven digits before the point.
    let mut text = *b"00000000000.000000000";
    let (whole, fraction) = text.split_at_mut(12);
    let mut rest = (nanos % NANOS) as u32;
    for digit in fraction.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut rest = nanos / NANOS;
    for digit in whole.iter_mut().rev().skip(1) {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let leading = text.iter().take(10).take_while(|digit| **digit == b'0').count();
    let trailing = text.iter().rev().take(8).take_while(|digit| **digit == b'0').count();
    std::str::from_utf8(text.get(leading..text.len() - trailing).unwrap_or_default()).unwrap_or_default().to_owned()
}

/// A plain decimal of seconds in nanoseconds. `None`: a sign, an exponent, more than 9 fraction digits, or more than
/// 2^64 - 1 nanoseconds.
pub(super) fn parse_seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(NANOS)?.checked_add(nanos)
}

/// What a duration looks like, for messages.
pub(crate) const DURATION: &str =
    "a duration such as \"250ms\", \"60s\" or \"1h 30m\" (integers with ns, us, ms, s, m, h, d; 584 years at most)";

/// A duration of integers with units, such as `1h 30m`. `None`: anything else, or one that does not fit 2^64 - 1
/// nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim_matches(' ');
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let tail = tail.trim_start_matches(' ');
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len()));
        let scale: u64 = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => NANOS,
            "m" => 60 * NANOS,
            "h" => 3_600 * NANOS,
            "d" => 86_400 * NANOS,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(scale)?)?;
        rest = tail.trim_start_matches(' ');
    }
    (!text.trim_matches(' ').is_empty()).then_some(Duration::from_nanos(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_both_ways() {
        for (text, nanos) in [("0.0", 0), ("1.0", NANOS), ("0.000000001", 1), ("18446744073.709551615", u64::MAX)] {
            assert_eq!(seconds(nanos), text);
            assert_eq!(parse_seconds(text), Some(nanos));
        }
        assert_eq!(parse_seconds("7"), Some(7 * NANOS));
        assert_eq!(seconds(7_250_000_000), "7.25");
        assert_eq!(seconds(10 * NANOS), "10.0");
        assert_eq!(seconds(100 * NANOS + 1_000_000), "100.001");
    }

    #[test]
    fn what_is_not_a_plain_decimal_is_refused() {
        for text in ["-1", "-0", "1e3", "1.0E1", "0.0000000001", "18446744073.709551616", "1.", ".5", "+1", ""] {
            assert_eq!(parse_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn durations_add_up_and_need_units() {
        let cases =
            [("250ms", 250_000_000), ("1h 30m", 5_400 * NANOS), ("1h30m", 5_400 * NANOS), ("2 d", 172_800 * NANOS)];
        for (text, nanos) in cases {
            assert_eq!(parse_duration(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        assert_eq!(parse_duration("0s"), Some(Duration::ZERO));
        for text in ["", " ", "5", "-5s", "1.5s", "1s x", "1 week", "s", "20000000000s", "1S", "1\ts"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
