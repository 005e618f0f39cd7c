//! The four columns of a history, and what may stand in them.

use std::str;
use std::time::Duration;

use super::error::Fault;
use crate::supervisor::journal::{format_time, read_time};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// 2000-01-01: what is earlier was stamped by a clock that was never set, or is in another unit.
const EARLIEST: u64 = 946_684_800 * SECOND;
/// The longest latency: what is longer is in another unit.
const LONGEST: u64 = DAY;

/// Up to a second in nanoseconds.
const POWERS_OF_TEN: [u64; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, SECOND];

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `s`
    Seconds,
    /// `ms`
    Millis,
    /// `us`
    Micros,
    /// `ns`
    Nanos,
}

impl Unit {
    /// All of them, the longest first.
    pub const ALL: [Self; 4] = [Self::Seconds, Self::Millis, Self::Micros, Self::Nanos];

    /// Its name: `s`, `ms`, `us` or `ns`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        }
    }

    /// Decimal places down to a nanosecond.
    const fn places(self) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Millis => 6,
            Self::Micros => 3,
            Self::Nanos => 0,
        }
    }

    const fn nanos(self) -> u64 {
        match self {
            Self::Seconds => SECOND,
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
            Self::Nanos => 1,
        }
    }
}

impl str::FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|unit| unit.name() == text);
        found.ok_or_else(|| format!("found {text:?}; expected s, ms, us or ns"))
    }
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Timestamp(Option<Unit>),
    Endpoint,
    Ok,
    Latency(Option<Unit>),
}

impl Column {
    /// The names that a column may have, in words.
    pub(super) const NAMES: &str = "timestamp (or timestamp_s, timestamp_ms, timestamp_us, timestamp_ns), endpoint, ok, \
                                    and latency_s, latency_ms, latency_us or latency_ns";

    /// The column of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "endpoint" => return Some(Self::Endpoint),
            "ok" => return Some(Self::Ok),
            "timestamp" => return Some(Self::Timestamp(None)),
            "latency" => return Some(Self::Latency(None)),
            _ => {}
        }
        let (name, unit) = name.rsplit_once('_')?;
        let unit = unit.parse().ok()?;
        match name {
            "timestamp" => Some(Self::Timestamp(Some(unit))),
            "latency" => Some(Self::Latency(Some(unit))),
            _ => None,
        }
    }
}

/// How the moments of one file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Number,
}

/// Reads the moments of one file, which are all written alike.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    unit: Option<Unit>,
    form: Option<Form>,
    latest: u64,
    /// The last date as text, and its midnight: rows of one day follow each other.
    day: ([u8; 10], u64),
}

impl Moments {
    /// `unit`: of numbers; `now`: the present.
    pub(super) fn new(unit: Option<Unit>, now: u64) -> Self {
        Self { unit, form: None, latest: now.saturating_add(DAY), day: ([0; 10], 0) }
    }

    /// Nanoseconds since 1970.
    #[inline]
    pub(super) fn read(&mut self, text: &[u8]) -> Result<u64, String> {
        // `2026-..`: no number has a hyphen behind four digits.
        let form = if text.get(4) == Some(&b'-') { Form::Text } else { Form::Number };
        match self.form {
            None if form == Form::Text && self.unit.is_some() => return Err(self.no_unit(text)),
            None => self.form = Some(form),
            Some(other) if other == form => {}
            Some(Form::Text) => return Err(mixed(text, "RFC 3339, as in the rows before")),
            Some(Form::Number) => return Err(mixed(text, "a number, as in the rows before")),
        }
        let at = match form {
            Form::Text => self.text(text).ok_or_else(|| {
                format!("found {}; expected RFC 3339 with an offset, such as 2026-11-29T22:13:05.25Z", shown(text))
            })?,
            Form::Number => self.number(text)?,
        };
        if at < EARLIEST || at > self.latest {
            return Err(self.out_of_range(text, at, form));
        }
        Ok(at)
    }

    #[inline]
    fn number(&self, text: &[u8]) -> Result<u64, String> {
        self.unit.and_then(|unit| plain(text, unit)).ok_or_else(|| self.no_number(text))
    }

    #[cold]
    fn no_number(&self, text: &[u8]) -> String {
        let found = shown(text);
        match self.unit {
            Some(unit) => format!("found {found}; expected a number of {} since 1970, zero or more", unit.name()),
            None if plain(text, Unit::Nanos).is_some() => format!(
                "{found} found a number without a unit; expected RFC 3339, a column timestamp_s, timestamp_ms, \
                 timestamp_us or timestamp_ns, or --timestamp-unit"
            ),
            None => {
                format!("{found} expected RFC 3339, such as 2026-11-29T22:13:05.25Z, or a number of a stated unit")
            }
        }
    }

    #[cold]
    fn no_unit(&self, text: &[u8]) -> String {
        let unit = self.unit.map_or("a unit", Unit::name);
        format!(
            "found {}, which is RFC 3339 and has no unit; expected a number of {unit} since 1970, as is stated",
            shown(text)
        )
    }

    #[cold]
    fn out_of_range(&self, text: &[u8], at: u64, form: Form) -> String {
        let others = Unit::ALL.into_iter().filter(|unit| form == Form::Number && Some(*unit) != self.unit);
        let mut meant = others.filter_map(|unit| Some((unit, plain(text, unit)?)));
        let meant = meant.rfind(|(_, at)| (EARLIEST..=self.latest).contains(at));
        let hint =
            meant.map_or_else(String::new, |(unit, at)| format!("; in {} it would be {}", unit.name(), written(at)));
        let when = if at == u64::MAX { "beyond 2554".to_owned() } else { written(at) };
        match at < EARLIEST {
            true => format!("found {}, which is {when}; expected a moment since 2000{hint}", shown(text)),
            false => format!("found {}, which is {when}; expected no future date{hint}", shown(text)),
        }
    }

    fn text(&mut self, text: &[u8]) -> Option<u64> {
        let (date, rest) = text.split_first_chunk::<10>()?;
        if self.day.0 != *date {
            self.day = (*date, read_time(str::from_utf8(date).ok()?)?.saturating_mul(1_000));
        }
        let (&[b'T' | b't' | b' ', h1, h2, b':', m1, m2, b':', s1, s2], mut rest) = rest.split_first_chunk::<9>()?
        else {
            return None;
        };
        let (hour, minute, second) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut fraction = 0;
        if let Some((b'.', digits)) = rest.split_first() {
            let (mut count, mut scale) = (0, SECOND / 10);
            while let Some(digit) = digits.get(count).filter(|byte| byte.is_ascii_digit()) {
                fraction += u64::from(digit - b'0') * scale;
                (count, scale) = (count + 1, scale / 10);
            }
            rest = digits.get(count..).filter(|_| count > 0)?;
        }
        let local = self.day.1.saturating_add((hour * 3_600 + minute * 60 + second) * SECOND + fraction);
        match *rest {
            [b'Z' | b'z'] => Some(local),
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
                let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
                let offset = (hours * 3_600 + minutes * 60) * SECOND;
                let valid = hours < 24 && minutes < 60;
                valid.then(|| if sign == b'+' { local.saturating_sub(offset) } else { local.saturating_add(offset) })
            }
            _ => None,
        }
    }
}

fn mixed(text: &[u8], expected: &str) -> String {
    format!("found {}; expected {expected}: one file, one unit", shown(text))
}

fn two(tens: u8, ones: u8) -> Option<u64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| u64::from(tens - b'0') * 10 + u64::from(ones - b'0'))
}

/// A moment in RFC 3339, to a microsecond.
pub(super) fn written(at: u64) -> String {
    format_time(at / 1_000)
}

/// Whether a probe succeeded.
#[inline]
pub(super) fn ok(text: &[u8]) -> Result<bool, String> {
    match text {
        b"true" | b"1" | b"True" | b"TRUE" => Ok(true),
        b"false" | b"0" | b"False" | b"FALSE" => Ok(false),
        _ => Err(format!("found {}; expected true, false, 1 or 0", shown(text))),
    }
}

/// How long a probe took; nothing at all is no latency.
#[inline]
pub(super) fn latency(text: &[u8], unit: Unit) -> Result<Option<Duration>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match plain(text, unit).or_else(|| scientific(text, unit)) {
        Some(nanos) if nanos <= LONGEST => Ok(Some(Duration::from_nanos(nanos))),
        nanos => Err(no_latency(text, unit, nanos)),
    }
}

#[cold]
fn no_latency(text: &[u8], unit: Unit, nanos: Option<u64>) -> String {
    let (found, name) = (shown(text), unit.name());
    match nanos {
        Some(_) => format!("found {found}; expected at most a day, in {name}"),
        None => format!("found {found}; expected a number of {name}, zero or more, or nothing"),
    }
}

/// Digits with a point at most, in nanoseconds, exact and rounded down; the largest number if they do not fit. `None` for
/// anything else.
#[inline]
fn plain(text: &[u8], unit: Unit) -> Option<u64> {
    let (whole, rest) = digits(text);
    if rest.len() == text.len() {
        return None;
    }
    let nanos = whole.saturating_mul(unit.nanos());
    let [b'.', fraction @ ..] = rest else { return rest.is_empty().then_some(nanos) };
    let (kept, cut) = fraction.split_at_checked(unit.places()).unwrap_or((fraction, &[]));
    let (part, rest) = digits(kept);
    if fraction.is_empty() || !rest.is_empty() || !cut.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let scale = POWERS_OF_TEN.get(unit.places() - kept.len())?;
    Some(nanos.saturating_add(part * scale))
}

/// The number that a text begins with, the largest if it does not fit, and what stands behind it.
#[inline]
fn digits(text: &[u8]) -> (u64, &[u8]) {
    /// So many digits always fit, and nothing has to be asked at each of them.
    const FIT: usize = u64::MAX.ilog10() as usize;
    let (mut number, mut rest) = (0_u64, text);
    if text.len() > FIT {
        return many_digits(text);
    }
    while let Some((eight, behind)) = rest.split_first_chunk() {
        let Some(value) = eight_digits(*eight) else { break };
        (number, rest) = (number * 100_000_000 + value, behind);
    }
    let mut count = 0;
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        (number, count) = (number * 10 + u64::from(digit), count + 1);
    }
    (number, rest.get(count..).unwrap_or_default())
}

/// The number of eight digits, if all are digits: added up as pairs, these as fours, and these.
#[inline]
const fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const EACH: u64 = u64::MAX / 255;
    let digits = u64::from_le_bytes(text) ^ (EACH * b'0' as u64);
    // With 118 more, whatever is above 9 has its top bit set.
    if (digits | digits.wrapping_add(EACH * 118)) & (EACH * 0x80) != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

#[cold]
fn many_digits(text: &[u8]) -> (u64, &[u8]) {
    let (number, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    (number.iter().fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))), rest)
}

/// The same with an exponent, as programs write small numbers.
fn scientific(text: &[u8], unit: Unit) -> Option<u64> {
    let text = str::from_utf8(text).ok().filter(|text| text.contains(['e', 'E']))?;
    let nanos = text.parse::<f64>().ok()? * unit.nanos() as f64;
    // What is no number is not in any range.
    (0.0..1e18).contains(&nanos).then_some(nanos as u64)
}

/// The name of an endpoint, for one that has not been seen yet.
pub(super) fn endpoint(text: &[u8]) -> Result<&str, Fault> {
    let refuse = |what: String| Err(Fault::at("endpoint", what));
    let Ok(name) = str::from_utf8(text) else { return refuse(format!("found {}, which is no UTF-8", shown(text))) };
    if name.trim().is_empty() {
        return refuse("found no name; expected that of an endpoint".to_owned());
    }
    if name.len() > 256 || name.contains(char::is_control) {
        let expected = "expected at most 256 bytes without control characters";
        return refuse(format!("found {}; {expected}", shown(text)));
    }
    Ok(name)
}

/// What was found, quoted, and cut where it is long.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let cut: String = text.chars().take(60).collect();
    if cut.len() < text.len() { format!("{cut:?}..") } else { format!("{cut:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_796_083_200 * SECOND;

    fn moments(unit: Option<Unit>) -> Moments {
        Moments::new(unit, NOW)
    }

    #[test]
    fn rfc_3339_is_read_to_a_nanosecond_in_any_offset() {
        let moment = 1_764_454_385 * SECOND;
        for (text, nanos) in [
            ("2025-11-29T22:13:05Z", 0),
            ("2025-11-29t22:13:05z", 0),
            ("2025-11-29 22:13:05+00:00", 0),
            ("2025-11-30T00:13:05.25+02:00", 250_000_000),
            ("2025-11-29T16:43:05.000000001-05:30", 1),
            ("2025-11-29T22:13:05.1234567899Z", 123_456_789),
        ] {
            assert_eq!(moments(None).read(text.as_bytes()), Ok(moment + nanos), "{text}");
        }
        for text in [
            "2025-11-29T22:13:05",
            "2025-11-29T22:13Z",
            "2025-11-29",
            "2025-02-30T00:00:00Z",
            "2025-11-29T24:00:00Z",
            "2025-11-29T22:13:05.Z",
            "2025-11-29T22:13:05+1",
            "2025-11-29T22:13:05+25:00",
            "2025-11-29T22:13:05Z ",
        ] {
            let refusal = moments(None).read(text.as_bytes()).unwrap_err();
            assert!(refusal.starts_with(&format!("found {text:?}; expected RFC 3339 with an offset")), "{refusal}");
        }
    }

    #[test]
    fn numbers_are_exact_in_their_unit() {
        let cases = [
            (Unit::Seconds, "1764454385.25", 250_000_000),
            (Unit::Millis, "1764454385250", 250_000_000),
            (Unit::Micros, "1764454385250000.5", 250_000_500),
            (Unit::Nanos, "1764454385000000001", 1),
        ];
        for (unit, text, nanos) in cases {
            assert_eq!(moments(Some(unit)).read(text.as_bytes()), Ok(1_764_454_385 * SECOND + nanos), "{text}");
        }
        for (text, read) in [
            ("0000000000000000001764454385", Some(1_764_454_385 * SECOND)),
            ("1764454385.1234567899", Some(1_764_454_385_123_456_789)),
            ("18446744073.709551615", Some(u64::MAX)),
            ("18446744074", Some(u64::MAX)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("17644543850.123456789x", None),
        ] {
            assert_eq!(plain(text.as_bytes(), Unit::Seconds), read, "{text}");
        }
        for text in ["", "NaN", "-1", "+1", "1e9", "1.", ".5", "inf", "1,5"] {
            let refusal = moments(Some(Unit::Seconds)).read(text.as_bytes()).unwrap_err();
            assert!(refusal.starts_with(&format!("found {text:?}; expected a number of s since 1970")), "{refusal}");
        }
    }

    #[test]
    fn eight_digits_are_a_number_and_anything_else_among_them_is_none() {
        for number in [0, 1, 9, 12_345_678, 87_654_321, 90_000_009, 99_999_999] {
            assert_eq!(eight_digits(*format!("{number:08}").as_bytes().first_chunk().unwrap()), Some(number));
        }
        for place in 0..8 {
            for odd in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
                for others in [b'0', b'9'] {
                    let mut text = [others; 8];
                    text[place] = odd;
                    assert_eq!(eight_digits(text), None, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn the_wrong_unit_is_told_with_the_right_one() {
        let read = |unit, text: &str| moments(Some(unit)).read(text.as_bytes()).unwrap_err();
        assert_eq!(
            read(Unit::Millis, "1764454385"),
            "found \"1764454385\", which is 1970-01-21T10:07:34.385000Z; expected a moment since 2000; in s it would be \
             2025-11-29T22:13:05.000000Z"
        );
        assert!(read(Unit::Seconds, "4102444800").contains("expected no future date"));
        let overflowing = read(Unit::Seconds, "1764454385000");
        assert!(overflowing.contains("which is beyond 2554; expected no future date; in ms it would be 2025-11-29"));
        let (last, after) = (NOW + DAY, NOW + DAY + 1);
        assert_eq!(moments(Some(Unit::Nanos)).read(last.to_string().as_bytes()), Ok(last));
        assert!(moments(Some(Unit::Nanos)).read(after.to_string().as_bytes()).is_err());
    }

    #[test]
    fn one_file_has_one_unit() {
        let mut both = moments(Some(Unit::Seconds));
        both.read(b"1764454385").unwrap();
        assert!(both.read(b"2025-11-29T22:13:05Z").unwrap_err().contains("one file, one unit"));
        let mut both = moments(None);
        both.read(b"2025-11-29T22:13:05Z").unwrap();
        assert!(both.read(b"1764454385").unwrap_err().contains("one file, one unit"));
        let refusal = moments(Some(Unit::Millis)).read(b"2025-11-29T22:13:05Z").unwrap_err();
        assert!(refusal.ends_with("is RFC 3339 and has no unit; expected a number of ms since 1970, as is stated"));
        assert!(moments(None).read(b"1764454385").unwrap_err().contains("a number without a unit"));
    }

    #[test]
    fn latencies_are_zero_or_more() {
        let read = |text: &str| latency(text.as_bytes(), Unit::Millis);
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("1.5"), Ok(Some(Duration::from_micros(1_500))));
        assert_eq!(read("1.5e-1"), Ok(Some(Duration::from_micros(150))));
        for text in ["NaN", "-1", "-0.5", "inf", "1e400", "x", "1 ", "86400001"] {
            assert!(read(text).unwrap_err().starts_with(&format!("found {text:?}; expected ")), "{text}");
        }
    }
}
