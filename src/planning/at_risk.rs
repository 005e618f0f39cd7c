//! What is lost with a replica that lags.

use std::time::Duration;

use super::rate::Rate;

/// Writes that are acknowledged before the replica has them.
///
/// ```
/// use std::time::Duration;
/// use broker_failover::planning::{Rate, Replication};
///
/// let orders = Replication { writes: Rate::per_second(200), lag: Duration::from_millis(800) };
/// assert_eq!(orders.at_risk(), 160);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// How many are acknowledged.
    pub writes: Rate,
    /// How far the replica is behind.
    pub lag: Duration,
}

impl Replication {
    /// Acknowledged writes that the replica does not have: rate times lag, a started one counted as a whole.
    #[must_use]
    pub fn at_risk(&self) -> u64 {
        self.writes.within(self.lag)
    }

    /// The same after the link has been cut for so long: the lag grows by one second every second.
    #[must_use]
    pub const fn after_cut(&self, cut: Duration) -> Self {
        Self { writes: self.writes, lag: self.lag.saturating_add(cut) }
    }

    /// How long into a cut the lag reaches `bound`; at once if it is there already.
    #[must_use]
    pub const fn cut_that_reaches(&self, bound: Duration) -> Duration {
        bound.saturating_sub(self.lag)
    }
}

/// Writes that were caught in the middle of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    /// The replica does not have them.
    pub lost: u64,
    /// They came back by themselves, under the ids that they had.
    pub returned: u64,
}

impl Caught {
    /// What is left to reconcile.
    #[must_use]
    pub const fn to_reconcile(&self) -> u64 {
        self.lost.saturating_sub(self.returned)
    }
}
