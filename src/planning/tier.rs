//! How ready a standby is.

use std::fmt;

/// How ready a standby is: what it still has to do when it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Runs, with its state loaded.
    Hot,
    /// Runs; its state must be loaded.
    Warm,
    /// Does not run: capacity must be found, then state loaded.
    Cold,
}

impl Tier {
    /// All of them, the readiest first.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
