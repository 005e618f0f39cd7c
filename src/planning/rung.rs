//! The ladder's rungs, with what each usually comes to.

use std::fmt;

/// How a standby is kept. Each rung buys a shorter recovery for a multiple of the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Nothing runs; backups are copied away.
    BackupAndRestore,
    /// Data is replicated; nothing else runs.
    PilotLight,
    /// A smaller copy runs.
    WarmStandby,
    /// Every region serves reads, one takes the writes: no conflicts.
    OneWriter,
    /// Every region serves everything.
    ActiveActive,
}

impl Rung {
    /// All of them, the cheapest first.
    pub const ALL: [Self; 5] =
        [Self::BackupAndRestore, Self::PilotLight, Self::WarmStandby, Self::OneWriter, Self::ActiveActive];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BackupAndRestore => "backup and restore",
            Self::PilotLight => "pilot light",
            Self::WarmStandby => "warm standby",
            Self::OneWriter => "active-active reads, one writer",
            Self::ActiveActive => "active-active",
        }
    }

    /// Its name in a plan file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::BackupAndRestore => "backup-and-restore",
            Self::PilotLight => "pilot-light",
            Self::WarmStandby => "warm-standby",
            Self::OneWriter => "one-writer",
            Self::ActiveActive => "active-active",
        }
    }

    /// How long a recovery usually takes.
    #[must_use]
    pub const fn usual_rto(self) -> &'static str {
        match self {
            Self::BackupAndRestore => "hours",
            Self::PilotLight => "tens of minutes to hours",
            Self::WarmStandby => "minutes",
            Self::OneWriter => "seconds for reads, minutes for writes",
            Self::ActiveActive => "seconds to zero",
        }
    }

    /// How much is usually lost.
    #[must_use]
    pub const fn usual_rpo(self) -> &'static str {
        match self {
            Self::BackupAndRestore => "hours",
            Self::PilotLight => "seconds to minutes",
            Self::WarmStandby | Self::OneWriter => "seconds",
            Self::ActiveActive => "near zero",
        }
    }

    /// What it usually costs besides production, in percent of it, from and to; `None`: no upper bound, or not known.
    #[must_use]
    pub const fn usual_cost(self) -> Option<(u32, Option<u32>)> {
        match self {
            Self::BackupAndRestore => Some((2, Some(5))),
            Self::PilotLight => Some((10, Some(20))),
            Self::WarmStandby => Some((30, Some(50))),
            Self::OneWriter => None,
            Self::ActiveActive => Some((200, None)),
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
