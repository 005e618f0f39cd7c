//! The clock that a feed's moments are on, and the boot that this clock began with.

use std::fs;
use std::io;

use rustix::time::{ClockId, clock_gettime};

use super::layout::name_hash;

/// Now on CLOCK_BOOTTIME, in nanoseconds since the machine booted, suspends included: the clock of every moment in a
/// feed. Linux reads it without a system call.
#[inline]
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Which boot of which machine this is: a feed of another one is on another clock.
pub(super) fn boot() -> io::Result<u64> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(name_hash(id.trim()))
}
