//! Epochs, and what it takes to believe that a path can no longer submit orders.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::endpoint::EndpointId;

/// One tenure of one active path. Starts at 1, goes up by exactly one with each switch, and never goes down.
///
/// It fits 44 bits, so that endpoint, epoch and order flow share one atomic word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Epoch(u64);

impl TryFrom<u64> for Epoch {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        Self::new(number).ok_or_else(|| format!("epoch {number}; expected {} to {}", Self::FIRST, Self::LAST))
    }
}

impl From<Epoch> for u64 {
    fn from(epoch: Epoch) -> Self {
        epoch.0
    }
}

impl Epoch {
    /// The epoch in which the primary is registered.
    pub const FIRST: Self = Self(1);
    /// The last epoch: 2^44 - 1.
    pub const LAST: Self = Self((1 << 44) - 1);

    /// The epoch `number`, if there is one: 1 to 2^44 - 1.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number >= Self::FIRST.0 && number <= Self::LAST.0 { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(super) const fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What must be fenced before flow moves, and where flow would go.
///
/// The confirmation binds endpoint and epoch, not the target: the best target at the time of the next call is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceOrder {
    /// The path to fence: the active one.
    pub endpoint: EndpointId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Where flow would go if it were fenced now.
    pub target: EndpointId,
}

impl FenceOrder {
    /// The confirmation to pass to the next evaluation, once the path provably cannot submit orders any more.
    #[must_use = "a confirmation moves nothing until it is passed to an evaluation"]
    pub const fn confirm(self) -> FenceStatus {
        FenceStatus::Confirmed { endpoint: self.endpoint, epoch: self.epoch.get() }
    }
}

/// Whether the caller knows the active path to be fenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FenceStatus {
    /// Not known. A fence that timed out, failed or crashed is not known.
    #[default]
    Unconfirmed,
    /// `endpoint`, in its tenure `epoch`, can no longer submit orders. Refused as STALE_FENCE unless that is the
    /// active path in its present epoch.
    Confirmed {
        /// The fenced endpoint.
        endpoint: EndpointId,
        /// The epoch that was fenced.
        epoch: u64,
    },
}
