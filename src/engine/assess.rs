//! Assessments: what an evaluation would answer. They only read; evaluations commit what they say.

use super::decision::{FailoverDecision, FailoverOutcome, Note, Notes, Reason, SwitchEvent, SwitchKind};
use super::endpoint::EndpointId;
use super::error::EngineError;
use super::fence::{FenceOrder, FenceStatus};
use super::flow::Flow;
use super::health::{EndpointState, Health};
use super::policy::PolicySettings;
use super::time::Timestamp;
use super::{Active, Engine, Standing};

/// What an evaluation looks at, gathered once.
pub(super) struct View<'a> {
    now: Timestamp,
    pub(super) active: Active,
    pub(super) health: &'a Health,
    /// Whether `health` was probed recently enough.
    pub(super) fresh: bool,
    /// Whether the active path is confirmed to be fenced in its present epoch.
    confirmed: bool,
}

impl View<'_> {
    /// The active path is lost: DOWN, or its epoch spent.
    #[inline]
    fn is_lost(&self) -> bool {
        self.health.state() == EndpointState::Down || self.active.spent
    }

    /// HEALTHY and fresh.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.fresh && self.health.state() == EndpointState::Healthy
    }

    /// HEALTHY, fresh and unspent: the active path can be presumed able to trade.
    #[inline]
    pub(super) fn is_proven(&self) -> bool {
        self.is_live() && !self.active.spent
    }
}

/// Assessments: the answer that the evaluation would give, and nothing changes. Dry runs, pauses, drills and shadow
/// policies use only these.
impl Engine {
    /// What [`evaluate_failover`](Self::evaluate_failover) would answer.
    ///
    /// # Errors
    /// As for [`evaluate_failover`](Self::evaluate_failover).
    #[inline]
    pub fn assess_failover(&self, now: Timestamp, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        let view = self.view(now, fence)?;
        if view.is_lost() { self.assess_loss(&view) } else { Ok(self.assess_no_loss(&view)) }
    }

    #[inline]
    pub(super) fn assess_no_loss(&self, view: &View<'_>) -> FailoverDecision {
        let flow = self.flow.after_no_action(view.is_proven(), self.latches_no_target());
        let reason = match view.health.state() {
            EndpointState::Healthy => Reason::ActiveHealthy,
            EndpointState::Degraded => Reason::ActiveDegraded,
            EndpointState::Unknown | EndpointState::Down => Reason::ActiveUnknown,
        };
        self.unmoved(view, FailoverOutcome::NoAction, reason, flow)
    }

    #[inline]
    fn assess_loss(&self, view: &View<'_>) -> Result<FailoverDecision, EngineError> {
        let Some(target) = self.targets_but(view.now, view.active.id).next() else {
            let successes = view.health.consecutive_successes();
            let stable = successes >= self.policy.settings().failback_success_threshold;
            if view.active.spent && stable && view.is_live() && self.bars(view.active.id).is_empty() {
                return self.switched(view, SwitchKind::Rearm, view.active.id, Reason::ActiveProven);
            }
            let flow = self.flow.after_no_target();
            return Ok(self.unmoved(view, FailoverOutcome::NoTargetAvailable, self.why_no_target(view), flow));
        };
        if self.policy.settings().require_fence && !view.confirmed {
            return Ok(self.fence_required(view, target, self.flow.after_losing_the_path()));
        }
        let reason = match view.health.state() {
            EndpointState::Down => Reason::ActiveDown,
            _ => Reason::EpochSpent,
        };
        self.switched(view, SwitchKind::Failover, target, reason)
    }

    /// Whether a bar is all that keeps another endpoint from being a target: then it is the cause to look at.
    fn why_no_target(&self, view: &View<'_>) -> Reason {
        let green = |standing: &Standing| {
            let Standing { health, maintenance, .. } = standing;
            health.state() == EndpointState::Healthy && !maintenance && self.is_fresh(view.now, health)
        };
        let mut others = self.roster.iter().map(|(id, _)| id).filter(|id| *id != view.active.id);
        let only_barred = others.any(|id| self.standings.get(id.index()).is_some_and(green));
        if only_barred { Reason::OnlyBarredTargets } else { Reason::NoEligibleTarget }
    }

    /// What [`evaluate_failback`](Self::evaluate_failback) would answer.
    ///
    /// # Errors
    /// As for [`evaluate_failback`](Self::evaluate_failback).
    pub fn assess_failback(&self, now: Timestamp, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        let view = self.view(now, fence)?;
        let primary = self.roster.primary().ok_or(EngineError::NoActiveEndpoint)?;
        let standing = self.standings.get(primary.index()).ok_or(EngineError::NoActiveEndpoint)?;
        if let Some(reason) = self.no_failback(&view, primary, standing) {
            return Ok(self.unmoved(&view, FailoverOutcome::NoAction, reason, self.flow));
        }
        let settings = self.policy.settings();
        let gated = |outcome, reason| Ok(self.unmoved(&view, outcome, reason, self.flow));
        let (max, window) = (settings.max_failbacks_per_window, self.policy.failback_window);
        let cooldown = (self.policy.cooldown, self.policy.cooldown_max);
        let cools = |switched| self.failbacks.cools_until(now, switched, cooldown, window);
        if let Some(earliest) = self.last_switch.and_then(cools) {
            return gated(FailoverOutcome::CooldownActive { earliest }, Reason::CooldownNotElapsed);
        }
        if standing.health.consecutive_successes() < settings.failback_success_threshold {
            return gated(FailoverOutcome::NotStableYet, Reason::PrimaryNotStable);
        }
        if let Some(earliest) = self.failbacks.suppressed_until(now, max, window) {
            return gated(FailoverOutcome::FlapSuppressed { earliest }, Reason::FailbackBudgetSpent);
        }
        if self.policy.settings().require_fence && !view.confirmed {
            return Ok(self.fence_required(&view, primary, self.flow));
        }
        self.switched(&view, SwitchKind::Failback, primary, Reason::PrimaryRecovered)
    }

    /// Why a failback is out of the question, before any gate is asked.
    fn no_failback(&self, view: &View<'_>, primary: EndpointId, standing: &Standing) -> Option<Reason> {
        if view.active.id == primary {
            Some(Reason::ActiveIsPrimary)
        } else if standing.health.state() != EndpointState::Healthy {
            Some(Reason::PrimaryNotHealthy)
        } else if !self.is_fresh(view.now, &standing.health) {
            Some(Reason::PrimaryNotFresh)
        } else if standing.maintenance {
            Some(Reason::PrimaryInMaintenance)
        } else if !standing.bars.is_empty() {
            Some(Reason::PrimaryBarred)
        } else if view.active.operator_placed {
            Some(Reason::OperatorPlaced)
        } else {
            None
        }
    }

    /// What [`switchover`](Self::switchover) would answer.
    ///
    /// # Errors
    /// As for [`switchover`](Self::switchover).
    pub fn assess_switchover(
        &self,
        now: Timestamp,
        target: &str,
        fence: FenceStatus,
    ) -> Result<FailoverDecision, EngineError> {
        let view = self.view(now, fence)?;
        let id = self.id(target)?;
        let standing = self.standings.get(id.index()).ok_or_else(|| EngineError::unknown_id(id))?;
        if id == view.active.id {
            return Err(EngineError::AlreadyActive { target: target.to_owned() });
        }
        let (state, fresh) = (standing.health.state(), self.is_fresh(now, &standing.health));
        if !(standing.is_candidate() && fresh) {
            let (target, maintenance, bars) = (target.to_owned(), standing.maintenance, standing.bars);
            return Err(EngineError::TargetNotEligible { target, state, fresh, maintenance, bars });
        }
        if self.policy.settings().require_fence && !view.confirmed {
            return Ok(self.fence_required(&view, id, self.flow));
        }
        self.switched(&view, SwitchKind::Switchover, id, Reason::OperatorSwitchover)
    }

    #[inline]
    fn view(&self, now: Timestamp, fence: FenceStatus) -> Result<View<'_>, EngineError> {
        let Some(view) = self.look(now) else { return Err(EngineError::NoActiveEndpoint) };
        let Active { id, epoch: present, .. } = view.active;
        match fence {
            FenceStatus::Unconfirmed => Ok(view),
            FenceStatus::Confirmed { endpoint, epoch } if endpoint == id && epoch == present.get() => {
                Ok(View { confirmed: true, ..view })
            }
            FenceStatus::Confirmed { epoch, .. } => Err(EngineError::StaleFence { found: epoch, present }),
        }
    }

    /// The active path as it stands, with no fence confirmed; `None` before a primary was registered.
    #[inline]
    pub(super) fn look(&self, now: Timestamp) -> Option<View<'_>> {
        let active = self.active?;
        let health = self.health(active.id)?;
        Some(View { now, active, health, fresh: self.is_fresh(now, health), confirmed: false })
    }

    /// Active and epoch stay.
    #[inline]
    fn unmoved(&self, view: &View<'_>, outcome: FailoverOutcome, reason: Reason, flow: Flow) -> FailoverDecision {
        let notes = self.notes(view, view.confirmed);
        let Active { id: active, epoch, .. } = view.active;
        FailoverDecision { outcome, reason, notes, active, epoch, flow }
    }

    fn fence_required(&self, view: &View<'_>, target: EndpointId, flow: Flow) -> FailoverDecision {
        let order = FenceOrder { endpoint: view.active.id, epoch: view.active.epoch, target };
        self.unmoved(view, FailoverOutcome::FenceRequired(order), Reason::FenceNotConfirmed, flow)
    }

    pub(super) fn switched(
        &self,
        view: &View<'_>,
        kind: SwitchKind,
        to: EndpointId,
        reason: Reason,
    ) -> Result<FailoverDecision, EngineError> {
        let Active { id: from, epoch: present, .. } = view.active;
        let Some(epoch) = present.next() else { return Err(EngineError::EpochsExhausted { present }) };
        let event = SwitchEvent { kind, from, to, from_state: view.health.state(), epoch };
        let PolicySettings { require_fence, require_reconciliation, .. } = self.policy.settings();
        // The same path under a new epoch is nobody's to fence.
        let needs_fence = *require_fence && kind != SwitchKind::Rearm;
        let flow = self.flow.after_switch(!require_reconciliation, self.latches_no_target());
        Ok(FailoverDecision {
            outcome: FailoverOutcome::Switched(event),
            reason,
            notes: self.notes(view, view.confirmed && !needs_fence),
            active: to,
            epoch,
            flow,
        })
    }

    #[inline]
    fn notes(&self, view: &View<'_>, fence_unused: bool) -> Notes {
        let never_probed = view.health.probed_at().is_none();
        Notes::default()
            .with(Note::StaleActive, !never_probed && !view.fresh)
            .with(Note::NeverProbedActive, never_probed)
            .with(Note::FenceUnused, fence_unused)
            .with(Note::ClockWentBack, view.now < self.latest)
    }
}
