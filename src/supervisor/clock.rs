//! The supervisor's clocks: the only place that reads them.

use rustix::time::{ClockId, clock_gettime};

use crate::engine::Timestamp;
use crate::manager::Clock;

/// CLOCK_BOOTTIME since it was made: it goes on during suspend, so that one clock orders everything.
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    origin: u64,
}

impl Default for BootClock {
    fn default() -> Self {
        Self { origin: nanos(ClockId::Boottime) }
    }
}

impl Clock for BootClock {
    fn now(&self) -> Timestamp {
        self.at(boottime())
    }
}

impl BootClock {
    /// A moment in nanoseconds of CLOCK_BOOTTIME; what was before the clock was made is its beginning.
    #[must_use]
    pub fn at(&self, boottime: u64) -> Timestamp {
        Timestamp::from_nanos(boottime.saturating_sub(self.origin))
    }
}

/// CLOCK_BOOTTIME, in nanoseconds: the same in every process of this machine.
#[must_use]
pub fn boottime() -> u64 {
    nanos(ClockId::Boottime)
}

/// Time spent suspended since boot, in nanoseconds: CLOCK_BOOTTIME less CLOCK_MONOTONIC. It grows only by a suspend.
#[must_use]
pub fn suspended() -> u64 {
    both().1
}

/// CLOCK_BOOTTIME and, by the same reading of it, the time [`suspended`].
pub(super) fn both() -> (u64, u64) {
    let boottime = nanos(ClockId::Boottime);
    (boottime, boottime.saturating_sub(nanos(ClockId::Monotonic)))
}

/// The wall clock, in nanoseconds since 1970: for audit, the age of closed journal segments, certificates and dates that
/// a far side names. No decision is computed with it.
#[must_use]
pub fn wall() -> u64 {
    nanos(ClockId::Realtime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
