//! From when on a new holder of a lease may take over.

use std::time::Duration;

use super::error::PlanError;

/// A lease whose holder stops by its own monotonic clock, and whose taker waits a margin longer.
///
/// Moments are durations since an origin that the caller picks, the same for all of them. The holder sends a renewal and
/// stops `lasts` after sending it; the record says until when, by the holder's wall clock. The taker may claim once that
/// moment plus `margin` has passed on its own wall clock. So the margin must be larger than the two clocks may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    lasts: Duration,
    margin: Duration,
}

impl Lease {
    /// A lease that lasts so long from the moment its renewal was sent.
    ///
    /// # Errors
    /// One that lasts no time.
    pub fn new(lasts: Duration, margin: Duration) -> Result<Self, PlanError> {
        if lasts.is_zero() {
            return Err(PlanError::new("lasts", "0s", "a duration above zero"));
        }
        Ok(Self { lasts, margin })
    }

    /// When the holder stops.
    #[must_use]
    pub const fn holder_stops(&self, renewal_sent: Duration) -> Duration {
        renewal_sent.saturating_add(self.lasts)
    }

    /// When the taker may claim, if both clocks agree.
    #[must_use]
    pub const fn earliest_claim(&self, renewal_sent: Duration) -> Duration {
        self.holder_stops(renewal_sent).saturating_add(self.margin)
    }

    /// When the taker's condition passes, if its clock is `ahead` of the holder's.
    #[must_use]
    pub const fn claim_passes(&self, renewal_sent: Duration, ahead: Duration) -> Duration {
        self.earliest_claim(renewal_sent).saturating_sub(ahead)
    }

    /// When the taker may claim without looking at any wall clock: the record has not changed for so long since the taker
    /// first saw it.
    #[must_use]
    pub const fn claim_without_clocks(&self, first_seen: Duration) -> Duration {
        first_seen.saturating_add(self.lasts).saturating_add(self.margin)
    }

    /// How long two may hold it at once, if the taker's clock is `ahead` of the holder's. Zero: never.
    #[must_use]
    pub const fn overlap(&self, ahead: Duration) -> Duration {
        ahead.saturating_sub(self.margin)
    }

    /// Whether the margin is larger than the worst gap between the two clocks.
    #[must_use]
    pub fn is_safe(&self, worst_gap: Duration) -> bool {
        self.margin > worst_gap
    }

    /// How far off true time one host may be before an alarm: two such hosts differ by twice as much.
    #[must_use]
    pub fn alarm_above(&self) -> Duration {
        self.margin / 2
    }
}
