//! The order-flow table, written down once more.

use broker_failover::engine::*;

use crate::inputs::Step;
use crate::of_steps::{Taken, Verdict};
use crate::sight::Flow;

/// Everything that has a row in the order-flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A success of the active path, which is HEALTHY with it.
    ActiveSuccess,
    /// A failover evaluation says NO_ACTION while the active is HEALTHY, fresh and unspent.
    NoActionProven,
    /// It says NO_ACTION otherwise.
    NoActionUnproven,
    /// A failback evaluation says anything but SWITCHED or FENCE_REQUIRED.
    NoFailback,
    FailoverFence,
    /// FENCE_REQUIRED of a failback or a switchover.
    VoluntaryFence,
    NoTarget,
    Switched,
    /// SWITCHED under a policy without reconciliation.
    SwitchedAtOnce,
    FenceStarted,
    SwitchFailed,
    ReconciledProven,
    ReconciledUnproven,
    HaltOperator,
    HaltCaller,
    ResumeUnspent,
    ResumeSpent,
    /// `resume` without an active endpoint.
    ResumeIdle,
    RestartGateway,
    RestartMonitor,
    /// Either restart without an active endpoint.
    RestartIdle,
    /// Anything else that is taken, and everything that is refused.
    Rest,
}

impl Event {
    pub(crate) const ALL: [Self; 22] = [
        Self::ActiveSuccess,
        Self::NoActionProven,
        Self::NoActionUnproven,
        Self::NoFailback,
        Self::FailoverFence,
        Self::VoluntaryFence,
        Self::NoTarget,
        Self::Switched,
        Self::SwitchedAtOnce,
        Self::FenceStarted,
        Self::SwitchFailed,
        Self::ReconciledProven,
        Self::ReconciledUnproven,
        Self::HaltOperator,
        Self::HaltCaller,
        Self::ResumeUnspent,
        Self::ResumeSpent,
        Self::ResumeIdle,
        Self::RestartGateway,
        Self::RestartMonitor,
        Self::RestartIdle,
        Self::Rest,
    ];

    /// Where each column of [`Flow`] goes: ST OP SW RE, NT (either NO_TARGET_AVAILABLE), HO (operator), HC (caller);
    /// `==` stays, `--` cannot happen.
    pub(crate) const fn row(self) -> [&'static str; Flow::COLUMNS] {
        match self {
            //                         STARTING OPEN SWITCHING RECONCILING NO_TARGET latched OPERATOR CALLER
            Self::ActiveSuccess => ["OP", "==", "==", "==", "==", "==", "==", "=="],
            Self::NoActionProven => ["--", "==", "RE", "==", "RE", "==", "==", "=="],
            Self::NoActionUnproven => ["==", "==", "==", "==", "==", "==", "==", "=="],
            Self::NoFailback => ["==", "==", "==", "==", "==", "==", "==", "=="],
            Self::FailoverFence => ["SW", "SW", "==", "SW", "==", "==", "==", "=="],
            Self::VoluntaryFence => ["==", "==", "==", "==", "==", "==", "==", "=="],
            Self::NoTarget => ["NT", "NT", "NT", "NT", "==", "==", "==", "=="],
            Self::Switched => ["RE", "RE", "RE", "==", "RE", "==", "==", "=="],
            Self::SwitchedAtOnce => ["OP", "OP", "OP", "OP", "RE", "==", "==", "=="],
            Self::FenceStarted => ["SW", "SW", "==", "SW", "==", "==", "==", "=="],
            Self::SwitchFailed => ["SW", "SW", "==", "SW", "==", "==", "==", "=="],
            Self::ReconciledProven => ["--", "--", "--", "OP", "--", "--", "--", "--"],
            Self::ReconciledUnproven => ["--", "--", "--", "ST", "--", "--", "--", "--"],
            Self::HaltOperator => ["HO", "HO", "HO", "HO", "HO", "HO", "==", "HO"],
            Self::HaltCaller => ["HC", "HC", "HC", "HC", "HC", "HC", "HC", "=="],
            Self::ResumeUnspent => ["--", "--", "--", "--", "--", "RE", "RE", "RE"],
            Self::ResumeSpent => ["--", "--", "--", "--", "--", "SW", "SW", "SW"],
            Self::ResumeIdle => ["--", "--", "--", "--", "--", "--", "ST", "ST"],
            Self::RestartGateway => ["RE", "RE", "==", "==", "==", "==", "==", "=="],
            Self::RestartMonitor => ["==", "==", "==", "==", "==", "==", "==", "=="],
            Self::RestartIdle => ["==", "--", "--", "--", "--", "--", "==", "=="],
            Self::Rest => ["==", "==", "==", "==", "==", "==", "==", "=="],
        }
    }

    pub(crate) fn of(taken: &Taken) -> Self {
        let (world, before) = (taken.world, &taken.before.sight);
        let proven = world.is_proven(before);
        let failover = matches!(taken.step, Step::Failover(_));
        let idle = before.active.is_none();
        let well = |place: usize| taken.after.trails[place].state() == EndpointState::Healthy;
        match (taken.verdict, taken.step) {
            (Verdict::Refused(_), _) => Self::Rest,
            (Verdict::Switched(..), _) if !world.settings.require_reconciliation => Self::SwitchedAtOnce,
            (Verdict::Switched(..), _) => Self::Switched,
            (Verdict::Fence(_), _) if failover => Self::FailoverFence,
            (Verdict::Fence(_), _) => Self::VoluntaryFence,
            (Verdict::Stays("NO_TARGET_AVAILABLE"), _) => Self::NoTarget,
            (Verdict::Stays(_), Step::Failover(_)) if proven => Self::NoActionProven,
            (Verdict::Stays(_), Step::Failover(_)) => Self::NoActionUnproven,
            (Verdict::Stays(_), Step::Failback(_)) => Self::NoFailback,
            (_, Step::Probe(place, true)) if before.active == Some(place) && well(place) => Self::ActiveSuccess,
            (_, Step::FenceStarted(_)) => Self::FenceStarted,
            (_, Step::SwitchFailed(_)) => Self::SwitchFailed,
            (_, Step::Reconciled(_)) if proven => Self::ReconciledProven,
            (_, Step::Reconciled(_)) => Self::ReconciledUnproven,
            (_, Step::HaltOperator) => Self::HaltOperator,
            (_, Step::HaltCaller) => Self::HaltCaller,
            (_, Step::Resume) if idle => Self::ResumeIdle,
            (_, Step::Resume) if before.spent => Self::ResumeSpent,
            (_, Step::Resume) => Self::ResumeUnspent,
            (_, Step::Restart(_)) if idle => Self::RestartIdle,
            (_, Step::Restart(RestartKind::Gateway)) => Self::RestartGateway,
            (_, Step::Restart(RestartKind::Monitor)) => Self::RestartMonitor,
            _ => Self::Rest,
        }
    }
}

/// Order flow goes where the table says, cell by cell.
pub(crate) fn flow_follows_the_table(taken: &Taken) -> bool {
    let (before, after) = (taken.before.sight.flow, taken.after.sight.flow);
    match Event::of(taken).row()[before as usize] {
        "==" => after == before,
        "ST" => after == Flow::Starting,
        "OP" => after == Flow::Open,
        "SW" => after == Flow::Switching,
        "RE" => after == Flow::Reconciling,
        "NT" => matches!(after, Flow::NoTarget | Flow::NoTargetLatched),
        "HO" => after == Flow::Operator,
        "HC" => after == Flow::Caller,
        _ => false,
    }
}
