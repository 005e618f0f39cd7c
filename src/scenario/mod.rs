//! Scenario files: everything that an engine was told, in order, as JSON Lines, and what it answers.
//!
//! One format serves hand-written tests, exported journals, bug reports and golden files; the same file gives the
//! same output, byte for byte, on every machine. `references/scenario-format.md` defines it.

mod answer;
mod check;
mod decimal;
mod json;
mod parse;
mod replay;
mod write;

use std::fmt;

use thiserror::Error;

use crate::engine::{Input, RestartKind};

pub use answer::Answer;
pub use check::{Difference, Golden};
#[cfg(feature = "supervisor")]
pub(crate) use decimal::{DURATION, parse_duration};
pub use replay::{Replay, ReplayError, Tally, replay};
pub use write::{config_line, parse_config, restore_line};
#[cfg(feature = "supervisor")]
pub(crate) use write::{parse_seconds, seconds};

/// The longest line, in bytes without its end: 1 MiB.
pub const LONGEST_LINE: usize = 1 << 20;

/// One input line: a time and exactly one verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Nanoseconds since the start of the file.
    pub at: u64,
    /// What happened then.
    pub verb: Verb,
    /// The verb's own value as the output repeats it: compact JSON.
    value: String,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The engine was told or asked something.
    Input(Input),
    /// Print the whole state.
    Status,
    /// The wall clock jumped by so many seconds, as written. The engine never sees it.
    WallStep(String),
    /// Snapshot, drop, restore.
    Restart(RestartKind),
}

impl Verb {
    /// Its key in the file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        use crate::engine::Evaluation::Switchover;
        match self {
            Self::Status => "status",
            Self::WallStep(_) => "wall_step",
            Self::Restart(_) => "restart",
            Self::Input(input) => match input {
                Input::Probe { .. } => "probe",
                Input::Tick => "tick",
                Input::Due { .. } => "due",
                Input::Evaluate(Switchover(_), _) => "switchover",
                Input::Evaluate(..) => "evaluate",
                Input::Assess(..) => "assess",
                Input::FenceStarted(_) => "fence_started",
                Input::SwitchFailed(_) => "switch_failed",
                Input::Rearm => "rearm",
                Input::Reconciled(_) => "reconciled",
                Input::Register(_) => "register",
                Input::Update { .. } => "update",
                Input::Validate => "validate",
                Input::Maintenance { .. } => "maintenance",
                Input::Bar { .. } => "bar",
                Input::Halt(_) => "halt",
                Input::Resume => "resume",
            },
        }
    }
}

/// Why a file is not a scenario. Nothing is evaluated from that line on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Fault {
    /// 1-based line.
    pub line: u64,
    /// 1-based column, in characters.
    pub column: usize,
    /// What was found there.
    pub found: String,
    /// What was expected there.
    pub expected: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, found, expected } = self;
        write!(f, "line {line}, column {column}: found {found}; expected {expected}")
    }
}

impl Fault {
    /// A fault at a byte of `line`; which line it is, the replay fills in.
    fn in_line(line: &str, offset: usize, found: impl Into<String>, expected: impl Into<String>) -> Self {
        let column = line.char_indices().take_while(|(at, _)| *at < offset).count() + 1;
        Self { line: 0, column, found: found.into(), expected: expected.into() }
    }
}
