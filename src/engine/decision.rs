//! What an evaluation answers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::endpoint::EndpointId;
use super::fence::{Epoch, FenceOrder};
use super::flow::{Flow, OrderFlow};
use super::health::EndpointState;
use super::time::Timestamp;

/// What to do. Exhaustive on purpose: each outcome demands its own reaction, and *nothing to do* is never the
/// same answer as *nowhere to go*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "an outcome must be acted on"]
pub enum FailoverOutcome {
    /// Nothing to do.
    NoAction,
    /// Flow moved: active and epoch have changed already. Make it durable, move the transport, reconcile.
    Switched(SwitchEvent),
    /// Flow would move once this path is fenced. Fence it and ask again with the confirmation.
    FenceRequired(FenceOrder),
    /// The active path is lost and there is nowhere to go: halt trading.
    NoTargetAvailable,
    /// Too soon after the last switch for a failback.
    CooldownActive {
        /// When this gate alone no longer holds; `None` if that lies beyond the end of time.
        earliest: Option<Timestamp>,
    },
    /// The primary has not succeeded often enough in a row for a failback.
    NotStableYet,
    /// The primary oscillates: the failbacks allowed inside the window are spent. A person should look at it.
    FlapSuppressed {
        /// When this gate alone no longer holds; `None` if that lies beyond the end of time.
        earliest: Option<Timestamp>,
    },
}

impl FailoverOutcome {
    /// The upper-case name that scenario files and journals use.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoAction => "NO_ACTION",
            Self::Switched(_) => "SWITCHED",
            Self::FenceRequired(_) => "FENCE_REQUIRED",
            Self::NoTargetAvailable => "NO_TARGET_AVAILABLE",
            Self::CooldownActive { .. } => "COOLDOWN_ACTIVE",
            Self::NotStableYet => "NOT_STABLE_YET",
            Self::FlapSuppressed { .. } => "FLAP_SUPPRESSED",
        }
    }
}

/// An outcome with everything that a person or a journal needs to understand it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that is dropped leaves flow on a dead path, or trading unhalted"]
pub struct FailoverDecision {
    /// What to do.
    pub outcome: FailoverOutcome,
    /// Why.
    pub reason: Reason,
    /// What else was seen.
    pub notes: Notes,
    /// The active endpoint after the call.
    pub active: EndpointId,
    /// Its epoch.
    pub epoch: Epoch,
    pub(super) flow: Flow,
}

impl FailoverDecision {
    /// Order flow after the call.
    #[inline]
    pub const fn order_flow(&self) -> OrderFlow {
        self.flow.on(self.active, self.epoch)
    }

    /// Whether trading must halt: exactly for NO_TARGET_AVAILABLE.
    #[inline]
    #[must_use]
    pub const fn requires_trading_halt(&self) -> bool {
        matches!(self.outcome, FailoverOutcome::NoTargetAvailable)
    }

    /// The switch, if flow moved.
    #[must_use]
    pub const fn event(&self) -> Option<&SwitchEvent> {
        match &self.outcome {
            FailoverOutcome::Switched(event) => Some(event),
            _ => None,
        }
    }

    /// What must be fenced, if something must.
    #[must_use]
    pub const fn fence(&self) -> Option<FenceOrder> {
        match self.outcome {
            FailoverOutcome::FenceRequired(order) => Some(order),
            _ => None,
        }
    }

    /// The earliest moment at which the gate that held would no longer hold, where time alone opens it
    /// (COOLDOWN_ACTIVE, FLAP_SUPPRESSED). Evidence going stale is not counted: time never makes a switch likelier
    /// through it.
    #[must_use]
    pub const fn earliest(&self) -> Option<Timestamp> {
        match self.outcome {
            FailoverOutcome::CooldownActive { earliest } | FailoverOutcome::FlapSuppressed { earliest } => earliest,
            _ => None,
        }
    }
}

/// Why an outcome is what it is. The codes are stable; the sentences may improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// NO_ACTION: the active endpoint answers.
    ActiveHealthy,
    /// NO_ACTION: the active endpoint fails, and its trigger does not say DOWN.
    ActiveDegraded,
    /// NO_ACTION: nothing is known against the active endpoint, nor for it.
    ActiveUnknown,
    /// SWITCHED: the active endpoint was DOWN.
    ActiveDown,
    /// SWITCHED: the active epoch was spent, whatever the probes said.
    EpochSpent,
    /// SWITCHED: nowhere to go, but the path whose epoch was spent has proved itself (kind REARM).
    ActiveProven,
    /// FENCE_REQUIRED: the active path is not confirmed to be fenced.
    FenceNotConfirmed,
    /// NO_TARGET_AVAILABLE: no other endpoint is HEALTHY, fresh and out of maintenance.
    NoEligibleTarget,
    /// NO_TARGET_AVAILABLE: another endpoint is HEALTHY, fresh and out of maintenance, and each such one is barred.
    OnlyBarredTargets,
    /// NO_ACTION: flow is where it belongs.
    ActiveIsPrimary,
    /// NO_ACTION: the primary is not HEALTHY.
    PrimaryNotHealthy,
    /// NO_ACTION: the primary's last result is too old.
    PrimaryNotFresh,
    /// NO_ACTION: the primary is in maintenance.
    PrimaryInMaintenance,
    /// NO_ACTION: the primary is barred.
    PrimaryBarred,
    /// NO_ACTION: an operator placed flow here.
    OperatorPlaced,
    /// COOLDOWN_ACTIVE.
    CooldownNotElapsed,
    /// NOT_STABLE_YET.
    PrimaryNotStable,
    /// FLAP_SUPPRESSED.
    FailbackBudgetSpent,
    /// SWITCHED: the primary is back and every gate is open.
    PrimaryRecovered,
    /// SWITCHED: an operator chose the target.
    OperatorSwitchover,
    /// SWITCHED: an operator gave the active path a new epoch.
    OperatorRearm,
}

impl Reason {
    /// Every reason, in the order of their declaration.
    pub const ALL: [Self; 21] = [
        Self::ActiveHealthy,
        Self::ActiveDegraded,
        Self::ActiveUnknown,
        Self::ActiveDown,
        Self::EpochSpent,
        Self::ActiveProven,
        Self::FenceNotConfirmed,
        Self::NoEligibleTarget,
        Self::OnlyBarredTargets,
        Self::ActiveIsPrimary,
        Self::PrimaryNotHealthy,
        Self::PrimaryNotFresh,
        Self::PrimaryInMaintenance,
        Self::PrimaryBarred,
        Self::OperatorPlaced,
        Self::CooldownNotElapsed,
        Self::PrimaryNotStable,
        Self::FailbackBudgetSpent,
        Self::PrimaryRecovered,
        Self::OperatorSwitchover,
        Self::OperatorRearm,
    ];

    const fn code_and_sentence(self) -> (&'static str, &'static str) {
        match self {
            Self::ActiveHealthy => ("ACTIVE_HEALTHY", "the active path answers"),
            Self::ActiveDegraded => {
                ("ACTIVE_DEGRADED", "the active path fails, but not often enough in a row to leave it")
            }
            Self::ActiveUnknown => {
                ("ACTIVE_UNKNOWN", "the active path was not probed yet, which is no reason to leave it")
            }
            Self::ActiveDown => ("ACTIVE_DOWN", "the active path is DOWN"),
            Self::EpochSpent => ("EPOCH_SPENT", "the active epoch is spent: a fence was begun or its switch failed"),
            Self::ActiveProven => {
                ("ACTIVE_PROVEN", "there is no other target, and the path whose epoch was spent has proved itself")
            }
            Self::FenceNotConfirmed => {
                ("FENCE_NOT_CONFIRMED", "the active path may still submit orders: fence it, then ask again")
            }
            Self::NoEligibleTarget => {
                ("NO_ELIGIBLE_TARGET", "no other endpoint is HEALTHY, freshly probed and out of maintenance")
            }
            Self::OnlyBarredTargets => (
                "ONLY_BARRED_TARGETS",
                "every other endpoint that is HEALTHY and freshly probed is barred: see its bars",
            ),
            Self::ActiveIsPrimary => ("ACTIVE_IS_PRIMARY", "the primary is active already"),
            Self::PrimaryNotHealthy => ("PRIMARY_NOT_HEALTHY", "the primary is not HEALTHY"),
            Self::PrimaryNotFresh => ("PRIMARY_NOT_FRESH", "the last probe of the primary is too old"),
            Self::PrimaryInMaintenance => ("PRIMARY_IN_MAINTENANCE", "the primary is in maintenance"),
            Self::PrimaryBarred => ("PRIMARY_BARRED", "the primary is barred: see its bars"),
            Self::OperatorPlaced => ("OPERATOR_PLACED", "an operator placed flow here; only an operator takes it back"),
            Self::CooldownNotElapsed => ("COOLDOWN_NOT_ELAPSED", "the last switch is too recent for a failback"),
            Self::PrimaryNotStable => ("PRIMARY_NOT_STABLE", "the primary has not succeeded often enough in a row"),
            Self::FailbackBudgetSpent => {
                ("FAILBACK_BUDGET_SPENT", "the primary oscillates: the failbacks allowed in the window are spent")
            }
            Self::PrimaryRecovered => ("PRIMARY_RECOVERED", "the primary is stable again"),
            Self::OperatorSwitchover => ("OPERATOR_SWITCHOVER", "an operator chose this path"),
            Self::OperatorRearm => ("OPERATOR_REARM", "an operator gave the active path a new epoch"),
        }
    }

    /// The upper-case code that scenario files and journals use.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.code_and_sentence().0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code_and_sentence().1)
    }
}

/// Something that an evaluation saw and did not act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Note {
    /// The active endpoint's last result is older than `max_health_age`. Never acted on by itself: a monitor that
    /// died is not an endpoint that died.
    StaleActive,
    /// The active endpoint has no result yet.
    NeverProbedActive,
    /// A fence confirmation was given that this outcome did not need; it had no effect.
    FenceUnused,
    /// `now` lies before the latest moment that the engine was given; elapsed time counts as zero.
    ClockWentBack,
}

impl Note {
    /// Every note, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::StaleActive, Self::NeverProbedActive, Self::FenceUnused, Self::ClockWentBack];

    /// The upper-case code that scenario files and journals use.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::StaleActive => "STALE_ACTIVE",
            Self::NeverProbedActive => "NEVER_PROBED_ACTIVE",
            Self::FenceUnused => "FENCE_UNUSED",
            Self::ClockWentBack => "CLOCK_WENT_BACK",
        }
    }
}

/// The notes of one decision, always in the order of [`Note::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Notes(u8);

impl Notes {
    pub(super) const fn with(self, note: Note, present: bool) -> Self {
        if present { Self(self.0 | (1 << note as u8)) } else { self }
    }

    /// Whether `note` is among them.
    #[must_use]
    pub const fn contains(self, note: Note) -> bool {
        self.0 & (1 << note as u8) != 0
    }

    /// The notes, in order.
    pub fn iter(self) -> impl Iterator<Item = Note> {
        Note::ALL.into_iter().filter(move |note| self.contains(*note))
    }
}

/// What kind of switch it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SwitchKind {
    /// Involuntary: the active path was lost.
    Failover,
    /// Back to the primary, through every gate.
    Failback,
    /// An operator chose the target.
    Switchover,
    /// The same path under a new epoch.
    Rearm,
}

impl SwitchKind {
    /// The upper-case name that scenario files and journals use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failover => "FAILOVER",
            Self::Failback => "FAILBACK",
            Self::Switchover => "SWITCHOVER",
            Self::Rearm => "REARM",
        }
    }
}

/// One switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchEvent {
    /// What kind it was.
    pub kind: SwitchKind,
    /// The path that was left.
    pub from: EndpointId,
    /// The path that is active now; the same one for [`SwitchKind::Rearm`].
    pub to: EndpointId,
    /// State of the path that was left, when it was left.
    pub from_state: EndpointState,
    /// The new epoch.
    pub epoch: Epoch,
}
