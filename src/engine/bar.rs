//! Bars: causes, other than its probes and its maintenance, for which an endpoint is no target.
//!
//! The engine does not judge them. Whoever measures the depth of the evidence, the account behind a path or a fate that
//! paths share says so here; what follows is the same for each cause. An endpoint that is barred is neither switched
//! to, nor returned to, nor re-armed, however green. A bar moves no flow: it says where flow must not go next.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an endpoint is barred. Causes are independent: each is taken back by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum BarCause {
    /// What its probes prove is less deep than what is required of a target.
    Depth,
    /// It was found to front another account than the stated one: positions do not net across accounts.
    AccountMismatch,
    /// It shares the fate (a quota, an address, an uplink) for which the active path fails: to go there is to stay.
    SharedFate,
}

impl BarCause {
    /// Every cause, in the order in which they are listed.
    pub const ALL: [Self; 3] = [Self::Depth, Self::AccountMismatch, Self::SharedFate];

    /// The upper-case code that scenario files and journals use.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Depth => "DEPTH",
            Self::AccountMismatch => "ACCOUNT_MISMATCH",
            Self::SharedFate => "SHARED_FATE",
        }
    }

    /// The cause with this code.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.code() == code)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The causes for which one endpoint is barred, always in the order of [`BarCause::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<BarCause>", into = "Vec<BarCause>")]
pub struct Bars(u8);

impl Bars {
    /// Not barred.
    pub const NONE: Self = Self(0);

    /// The same, with or without `cause`.
    #[must_use]
    pub const fn with(self, cause: BarCause, on: bool) -> Self {
        Self(if on { self.0 | cause.bit() } else { self.0 & !cause.bit() })
    }

    /// Whether there is no cause.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `cause` is among them.
    #[must_use]
    pub const fn contains(self, cause: BarCause) -> bool {
        self.0 & cause.bit() != 0
    }

    /// The causes, in order.
    pub fn iter(self) -> impl Iterator<Item = BarCause> {
        BarCause::ALL.into_iter().filter(move |cause| self.contains(*cause))
    }
}

impl From<Vec<BarCause>> for Bars {
    fn from(causes: Vec<BarCause>) -> Self {
        causes.into_iter().fold(Self::NONE, |bars, cause| bars.with(cause, true))
    }
}

impl From<Bars> for Vec<BarCause> {
    fn from(bars: Bars) -> Self {
        bars.iter().collect()
    }
}

/// `DEPTH and SHARED_FATE`; `no` if there is none.
impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no");
        }
        for (place, cause) in self.iter().enumerate() {
            let and = if place > 0 { " and " } else { "" };
            write!(f, "{and}{}", cause.code())?;
        }
        Ok(())
    }
}
