//! Time as the engine sees it: a number that the host passes in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment on the host's monotonic clock: nanoseconds since an origin that the host picks.
///
/// The engine reads no clock. It compares the moments that it is given, saturating at both ends: a `now` that
/// goes back counts as no time elapsed, and no arithmetic wraps. A `Timestamp` means nothing to another process
/// or after a restart, which is why a [`Snapshot`](super::Snapshot) holds ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// The moment `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The moment `elapsed` after the origin; the latest moment there is if that does not fit.
    #[must_use]
    pub fn from_elapsed(elapsed: Duration) -> Self {
        Self(saturating_nanos(elapsed))
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is the later one.
    #[inline]
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A past event, timed so that its age survives a restart: the age that it already had when this process learnt
/// of it, and when that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    at: Timestamp,
    carried: u64,
}

impl Since {
    pub(super) const fn now(at: Timestamp) -> Self {
        Self { at, carried: 0 }
    }

    /// An event that was `age` nanoseconds old at `at`.
    pub(super) const fn aged(at: Timestamp, age: u64) -> Self {
        Self { at, carried: age }
    }

    /// An event at `now` that comes after this one, even if the clock says otherwise.
    pub(super) fn followed_at(self, now: Timestamp) -> Self {
        Self::now(self.at.max(now))
    }

    pub(super) const fn age(self, now: Timestamp) -> u64 {
        self.carried.saturating_add(now.nanos_since(self.at))
    }

    /// The first moment, not before [`Since::now`]'s, at which the age is at least `age`; `None` if that lies
    /// beyond the end of time.
    pub(super) const fn reaches(self, age: u64) -> Option<Timestamp> {
        match self.at.0.checked_add(age.saturating_sub(self.carried)) {
            Some(nanos) => Some(Timestamp(nanos)),
            None => None,
        }
    }
}

/// `duration` in nanoseconds, or `None` if it is longer than 2^64 - 1 of them (about 584 years).
pub(super) fn checked_nanos(duration: Duration) -> Option<u64> {
    u64::try_from(duration.as_nanos()).ok()
}

fn saturating_nanos(duration: Duration) -> u64 {
    checked_nanos(duration).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_back_counts_as_no_time_elapsed() {
        let since = Since::now(Timestamp::from_nanos(100));
        assert_eq!(since.age(Timestamp::from_nanos(40)), 0);
        assert_eq!(since.age(Timestamp::from_nanos(101)), 1);
    }

    #[test]
    fn a_carried_age_shortens_what_is_left_and_nothing_wraps() {
        let since = Since::aged(Timestamp::from_nanos(10), 30);
        assert_eq!(since.reaches(50), Some(Timestamp::from_nanos(30)));
        assert_eq!(since.reaches(20), Some(Timestamp::from_nanos(10)));
        assert_eq!(Since::now(Timestamp::from_nanos(u64::MAX)).reaches(1), None);
        assert_eq!(Since::aged(Timestamp::ZERO, u64::MAX).age(Timestamp::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(Timestamp::from_elapsed(Duration::MAX), Timestamp::from_nanos(u64::MAX));
    }
}
