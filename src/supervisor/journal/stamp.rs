//! Wall time as RFC 3339 in UTC with microseconds. For audit: nothing decides by it but retention by age.

const MICROS: u64 = 1_000_000;
const DAY: u64 = 86_400;
const FRACTION: [u8; 7] = *b"000000Z";

/// `micros` since 1970, such as `2026-11-29T22:13:05.123456Z`. The year has at least four digits.
#[must_use]
pub fn format(micros: u64) -> String {
    let (seconds, fraction) = (micros / MICROS, micros % MICROS);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    if year > 9_999 {
        return format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z");
    }
    // By hand: each record has one, and `format!` took longer than all else that is written of it.
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    let parts = [(0, 4, year), (5, 2, month), (8, 2, day), (11, 2, hour), (14, 2, minute), (17, 2, second)];
    for (place, width, number) in parts.into_iter().chain([(20, 6, fraction)]) {
        let mut rest = number;
        for digit in text.iter_mut().skip(place).take(width).rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes moments that come close to one another: the text of a second is made once.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments {
    second: u64,
    /// Up to the point.
    text: String,
}

impl Moments {
    /// Appends what [`format()`] gives.
    pub(super) fn write(&mut self, micros: u64, out: &mut Vec<u8>) {
        let (second, mut fraction) = (micros / MICROS, (micros % MICROS) as u32);
        if self.text.is_empty() || second != self.second {
            self.text = format(second * MICROS);
            self.text.truncate(self.text.len().saturating_sub(FRACTION.len()));
            self.second = second;
        }
        let mut text = FRACTION;
        for digit in text.iter_mut().take(6).rev() {
            *digit = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        out.extend_from_slice(self.text.as_bytes());
        out.extend_from_slice(&text);
    }
}

/// The inverse of [`format()`]; `None` for anything that it does not write.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.')?;
    let mut date = date.splitn(3, '-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':').map(number);
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let days = days(year, month, day)?;
    let seconds = days.checked_mul(DAY)?.checked_add(hour * 3600 + minute * 60 + second)?;
    let micros = seconds.checked_mul(MICROS)?.checked_add(number(fraction)?)?;
    // What is written back alike was written by `format`: no 30 February, no 25 o'clock.
    (format(micros) == text).then_some(micros)
}

/// A moment as a person gives it, in microseconds since 1970: RFC 3339, also with a space for the T, and without seconds,
/// without an offset (then it is UTC) or without a time (then it is midnight). `None` for anything else.
#[must_use]
pub fn read(text: &str) -> Option<u64> {
    let (date, rest) = text.trim().split_once(['T', 't', ' ']).unwrap_or((text.trim(), "00:00Z"));
    let (time, offset) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => (rest, "Z"),
    };
    let offset = match offset.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            let (hours, minutes) = (two(hours).filter(|hours| *hours < 24)?, two(minutes)?);
            let seconds = i64::try_from(hours * 3600 + minutes * 60).ok()?;
            if sign == "+" { seconds } else { -seconds }
        }
        _ => return None,
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let micros =
        fraction.get(..fraction.len().min(6)).filter(|_| fraction.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (hour, rest) = time.split_once(':')?;
    let (minute, second) = rest.split_once(':').unwrap_or((rest, "00"));
    let (hour, minute, second) = (two(hour)?, two(minute)?, two(second)?);
    // Read the strict way, so that the calendar is checked in one place.
    let utc = parse(&format!("{date}T{hour:02}:{minute:02}:{second:02}.{micros:0<6}Z"))?;
    utc.checked_add_signed(-offset * MICROS as i64)
}

/// Two digits, below 60.
fn two(digits: &str) -> Option<u64> {
    number(digits).filter(|value| digits.len() == 2 && *value < 60)
}

fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Days since 1970-01-01 -> year, month, day, in the Gregorian calendar (Hinnant's `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months counted from March, so that the leap day comes last.
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The inverse of [`civil`]; `None` before 1970.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era.checked_mul(146_097)?.checked_add(of_era)?.checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments_are_right() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_796_083_199_999_999, "2026-11-30T23:59:59.999999Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "10000-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(format(micros), text);
            assert_eq!(parse(text), Some(micros));
        }
    }

    #[test]
    fn moments_are_written_as_they_are_formatted_whichever_came_before() {
        let mut moments = Moments::default();
        let near = [0, 1, 999_999, 1_000_000, 999_999, 7, 1_796_083_199_999_999, 1_796_083_200_000_000];
        for micros in near.into_iter().chain([253_402_300_799_999_999, 253_402_300_800_000_001, 5]) {
            let mut out = b"before ".to_vec();
            moments.write(micros, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("before {}", format(micros)));
        }
    }

    #[test]
    fn what_is_not_written_so_is_refused() {
        for text in [
            "",
            "2026-02-30T00:00:00.000000Z",
            "2026-11-29T24:00:00.000000Z",
            "2026-11-29T00:00:00.0Z",
            "1969-12-31T23:59:59.000000Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_person_may_leave_out_what_is_not_needed() {
        let moment = parse("2026-11-29T22:13:00.000000Z");
        for text in [
            "2026-11-29T22:13:00.000000Z",
            "2026-11-29T22:13:00Z",
            "2026-11-29 22:13:00.000000",
            "2026-11-29 22:13",
            "2026-11-29T23:43+01:30",
            "2026-11-29t17:13:00.0-05:00",
        ] {
            assert_eq!(read(text), moment, "{text}");
        }
        assert_eq!(read("2026-11-29"), parse("2026-11-29T00:00:00.000000Z"));
        assert_eq!(read("2026-11-29T22:13:00.5Z"), moment.map(|micros| micros + 500_000));
        for text in [
            "",
            "2h",
            "22:13",
            "2026-02-30",
            "2026-11-29T24:00",
            "2026-11-29T22:13:00.x",
            "2026-11-29T22:13+1",
            "1970-01-01T00:00+01:00",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_is_read_back(micros in any::<u64>()) {
            prop_assert_eq!(parse(&format(micros)), Some(micros));
        }
    }
}
