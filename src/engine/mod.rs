//! The failover engine: a pure state machine that decides which path carries order flow.
//!
//! No I/O, clock, randomness, thread or logging, and no panic. Every input is one method call that takes the time
//! as an argument and returns what changed; a refused input changes nothing. The same inputs give the same answers
//! on every machine, which is what makes replay, audit and simulation one and the same thing.
//!
//! Data flows one way: [`record_probe`](Engine::record_probe) counts evidence,
//! [`evaluate_failover`](Engine::evaluate_failover) and [`evaluate_failback`](Engine::evaluate_failback) decide on
//! it, and [`order_flow`](Engine::order_flow) says what the order path may do. Each evaluation is an `assess_*`
//! (which only reads) followed by a commit, so that what a drill prints is what the evaluation would do.

mod decision;
mod endpoint;
mod error;
mod fence;
mod flap;
mod flow;
mod health;
mod history;
mod input;
mod policy;
#[cfg(feature = "supervisor")]
mod shadow;
mod silence;
mod snapshot;
mod targets;
mod time;
mod trigger;

pub use decision::{FailoverDecision, FailoverOutcome, Note, Notes, Reason, SwitchEvent, SwitchKind};
pub use endpoint::{DEFAULT_BACKUP_PRIORITY, DEFAULT_PRIMARY_PRIORITY, Endpoint, EndpointId, EndpointUpdate};
pub use error::{ConfigurationError, EngineError, Field, PolicyError, RestoreError};
pub use fence::{Epoch, FenceOrder, FenceStatus};
pub use flow::{HaltCode, HaltOrder, HoldReason, OrderAction, OrderFlow};
pub use health::{EndpointState, Health, HealthChange, ProbeResult};
pub use history::HistoryEntry;
pub use input::{Evaluation, FenceClaim, Input, InputError, Output};
pub use policy::{Policy, PolicySettings, ResumeAfterHalt, Silence};
pub use silence::Heard;
pub use snapshot::{RestartKind, Snapshot, SnapshotActive, SnapshotEndpoint, SnapshotFlow, SnapshotSwitch};
pub use time::Timestamp;
#[cfg(feature = "supervisor")]
pub(crate) use trigger::Evidence;
pub use trigger::{Trigger, TriggerRule};

use std::num::NonZeroU32;

use endpoint::Roster;
use flap::FlapLimiter;
use flow::Flow;
use history::History;
use silence::Observer;
use targets::Targets;
use time::Since;
use trigger::Patience;

/// The active path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Active {
    id: EndpointId,
    epoch: Epoch,
    /// A fence was begun on it, or the switch onto it failed: it can't be presumed able to trade.
    spent: bool,
    /// An operator's switchover placed it: only an operator, or its loss, takes flow away again.
    operator_placed: bool,
}

/// What is known of one endpoint beside its registration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    health: Health,
    /// Failures in a row that are DOWN, where nothing else is to be looked at. `None`: ask its [`Patience`].
    plain: Option<NonZeroU32>,
    /// A success changes nothing that its [`Patience`] remembers: it was the last result, and nothing else is in there.
    calm: bool,
    maintenance: bool,
}

/// The failover engine for one broker account. See the [module](self).
///
/// ```
/// use broker_failover::engine::*;
///
/// let mut engine = Engine::new(Policy::default());
/// let east = engine.register(Endpoint::primary("east", "us-east-1", "https://east.example"))?;
/// let west = engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10))?;
/// engine.validate_configuration()?;
///
/// let mut now = Timestamp::ZERO;
/// engine.record_probe(now, west, ProbeResult::Success)?;
/// for second in 1..=3 {
///     now = Timestamp::from_nanos(second * 1_000_000_000);
///     engine.record_probe(now, east, ProbeResult::Failure("ConnectionReset: peer".into()))?;
/// }
/// let decision = engine.evaluate_failover(now, FenceStatus::Unconfirmed)?;
/// let order = decision.fence().expect("a fence is required by default");
/// // ... stop the gateway on `order.endpoint`, and only when that is certain:
/// let decision = engine.evaluate_failover(now, order.confirm())?;
/// assert_eq!(decision.active, west);
/// assert_eq!(decision.epoch.get(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    policy: Policy,
    roster: Roster,
    /// In order of registration.
    standings: Vec<Standing>,
    /// Likewise. Apart from the standings: a probe that needs nothing of them reads nothing of them.
    patiences: Vec<Patience>,
    /// The monitor's signs of life, once there was a tick, or a result due.
    observer: Option<Observer>,
    targets: Targets,
    active: Option<Active>,
    flow: Flow,
    /// The words of a halt that was ordered from outside; present exactly while `flow` is such a halt.
    halt: Option<HaltOrder>,
    last_switch: Option<Since>,
    failbacks: FlapLimiter,
    history: History,
    /// The latest moment given; only for the note that the clock went back.
    latest: Timestamp,
}

/// Set-up.
impl Engine {
    /// An engine without endpoints.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            roster: Roster::default(),
            standings: Vec::new(),
            patiences: Vec::new(),
            observer: None,
            targets: Targets::default(),
            active: None,
            flow: Flow::Starting,
            halt: None,
            last_switch: None,
            failbacks: FlapLimiter::default(),
            history: History::default(),
            latest: Timestamp::ZERO,
        }
    }

    /// Adds an endpoint, UNKNOWN until probed. Name, region, url and account are trimmed. The primary becomes active
    /// at epoch 1; that is not a switch.
    ///
    /// # Errors
    /// BLANK_FIELD, DUPLICATE_ENDPOINT (an unchanged one too), SECOND_PRIMARY, in this order, then TOO_MANY_ENDPOINTS
    /// (65,535).
    pub fn register(&mut self, endpoint: Endpoint) -> Result<EndpointId, EngineError> {
        let (primary, trigger) = (endpoint.primary, endpoint.trigger);
        let id = self.roster.register(endpoint)?;
        let patience = Patience::new(&self.policy, trigger);
        self.standings.push(Standing::new(&patience, false).observed(self.observer.is_some()));
        self.patiences.push(patience);
        self.rebuild_targets();
        if primary {
            self.active = Some(Active { id, epoch: Epoch::FIRST, spent: false, operator_placed: false });
        }
        Ok(id)
    }

    /// Changes keys of an endpoint. A changed region, url or account makes its health UNKNOWN; a changed trigger has to
    /// be armed anew; equal values are no change.
    ///
    /// # Errors
    /// UNKNOWN_ENDPOINT, BLANK_FIELD, ROLE_CHANGE, ENDPOINT_IS_ACTIVE (region, url or account of the active endpoint:
    /// a fence would name another address than the one that trades), in this order.
    pub fn update_endpoint(&mut self, name: &str, update: EndpointUpdate) -> Result<(), EngineError> {
        let (id, new) = self.roster.updated(name, update)?;
        let moved = self.roster.get(id).is_some_and(|old| !old.same_address(&new));
        if moved && self.active.is_some_and(|active| active.id == id) {
            return Err(EngineError::EndpointIsActive { endpoint: new.name });
        }
        let trigger = new.trigger;
        self.roster.replace(id, new);
        let known = self.standings.get_mut(id.index()).zip(self.patiences.get_mut(id.index()));
        if let Some((standing, patience)) = known {
            if moved {
                *patience = Patience::new(&self.policy, trigger);
                *standing = Standing::new(patience, standing.maintenance).observed(self.observer.is_some());
            } else if patience.replace(&self.policy, trigger) {
                // There may be failures in a row from before.
                (standing.plain, standing.calm) = (None, false);
            }
        }
        self.rebuild_targets();
        Ok(())
    }

    /// The start-up gate. A configuration with nothing to fail over to never errors later: it silently never acts.
    ///
    /// # Errors
    /// NO_PRIMARY, TOO_FEW_ENDPOINTS, ACCOUNT_MISMATCH, in this order.
    pub fn validate_configuration(&self) -> Result<(), ConfigurationError> {
        self.roster.validate()
    }

    /// What outlives a restart, as of `now`.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        Snapshot::of(self, now)
    }

    /// The engine that `snapshot` describes; `now` may count from another origin. Evaluate nothing before every
    /// endpoint has had one result or one deadline.
    ///
    /// # Errors
    /// A snapshot of another version, or whose parts contradict each other.
    pub fn restore(
        policy: Policy,
        snapshot: Snapshot,
        now: Timestamp,
        kind: RestartKind,
    ) -> Result<Self, RestoreError> {
        snapshot.restore(policy, now, kind)
    }

    fn rebuild_targets(&mut self) {
        let standing_at = |rank| self.roster.at_rank(rank).and_then(|id| self.standings.get(id.index()));
        let candidate = |rank| standing_at(rank).is_some_and(Standing::is_candidate);
        self.targets = Targets::rebuilt((0..self.roster.len()).map(candidate));
    }
}

impl Standing {
    /// Where ticks and due results are told, every result is a sign of life that has to be looked at.
    fn observed(self, observed: bool) -> Self {
        Self { plain: self.plain.filter(|_| !observed), calm: self.calm && !observed, ..self }
    }

    /// Nothing is known yet.
    fn new(patience: &Patience, maintenance: bool) -> Self {
        Self { health: Health::default(), plain: patience.plain(), calm: false, maintenance }
    }

    fn is_candidate(&self) -> bool {
        self.health.state() == EndpointState::Healthy && !self.maintenance
    }
}

/// Inputs.
impl Engine {
    /// Counts one probe result. A success of the active path ends HOLD STARTING. Does not allocate.
    ///
    /// # Errors
    /// UNKNOWN_ENDPOINT.
    // Left to itself, the compiler calls it, which costs nearly as much again.
    #[inline(always)]
    pub fn record_probe(
        &mut self,
        now: Timestamp,
        id: EndpointId,
        result: ProbeResult,
    ) -> Result<HealthChange, EngineError> {
        let Some(standing) = self.standings.get_mut(id.index()) else {
            return Err(EngineError::unknown_id(id));
        };
        let Some(threshold) = standing.plain else {
            if let (true, ProbeResult::Success) = (standing.calm, &result) {
                let healthy = standing.health.record(now, ProbeResult::Success, u32::MAX);
                return Ok(self.recorded(now, id, healthy, healthy));
            }
            return self.record_patiently(now, id, result);
        };
        let from = standing.health.state();
        let to = standing.health.record(now, result, threshold.get());
        if (from == EndpointState::Healthy) != (to == EndpointState::Healthy) {
            self.targets.set(self.roster.rank(id), standing.is_candidate());
        }
        Ok(self.recorded(now, id, from, to))
    }

    /// The same for a trigger that looks at more than failures in a row, and where a result is a sign of life.
    #[inline(never)]
    fn record_patiently(
        &mut self,
        now: Timestamp,
        id: EndpointId,
        result: ProbeResult,
    ) -> Result<HealthChange, EngineError> {
        // Only of an endpoint that is there: `record_probe` asked.
        let monitor_stopped = self.hear(now);
        if let Some(patience) = self.patiences.get_mut(id.index()) {
            patience.answered();
        }
        let change = self.count_patiently(now, id, result)?;
        Ok(HealthChange { monitor_stopped, ..change })
    }

    /// A result, or one that is missing and counts as a failure.
    fn count_patiently(
        &mut self,
        now: Timestamp,
        id: EndpointId,
        result: ProbeResult,
    ) -> Result<HealthChange, EngineError> {
        let known = self.standings.get_mut(id.index()).zip(self.patiences.get_mut(id.index()));
        let Some((standing, patience)) = known else { return Err(EngineError::unknown_id(id)) };
        let from = standing.health.state();
        let to = standing.health.record_patiently(now, result, patience, self.policy.max_health_age);
        let unobserved = self.observer.is_none();
        standing.plain = patience.plain_from_now().filter(|_| unobserved);
        standing.calm = unobserved && patience.is_calm();
        if (from == EndpointState::Healthy) != (to == EndpointState::Healthy) {
            self.targets.set(self.roster.rank(id), standing.is_candidate());
        }
        Ok(self.recorded(now, id, from, to))
    }

    /// What follows from a result for order flow.
    #[inline(always)]
    fn recorded(&mut self, now: Timestamp, id: EndpointId, from: EndpointState, to: EndpointState) -> HealthChange {
        self.saw(now);
        let healthy = to == EndpointState::Healthy;
        let opened = healthy && self.flow == Flow::Starting && self.open_if_active(id);
        HealthChange { from, to, opened, monitor_stopped: false }
    }

    /// Decides whether flow must leave the active path, and moves it. Never gated by cooldown, flap limiter or an
    /// earlier failed attempt. Does not allocate.
    ///
    /// # Errors
    /// NO_ACTIVE_ENDPOINT, STALE_FENCE, in this order; then EPOCHS_EXHAUSTED.
    #[inline]
    pub fn evaluate_failover(&mut self, now: Timestamp, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        match (self.look(now), fence) {
            // What nearly every probe is followed by.
            (Some(view), FenceStatus::Unconfirmed) if view.is_proven() => {
                let decision = self.assess_no_loss(&view);
                self.commit(now, &decision);
                Ok(decision)
            }
            _ => self.evaluate_unproven(now, fence),
        }
    }

    #[inline(never)]
    fn evaluate_unproven(&mut self, now: Timestamp, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        let decision = self.assess_failover(now, fence)?;
        self.commit(now, &decision);
        Ok(decision)
    }

    /// Decides whether flow may go back to the primary, and moves it. Ask only after
    /// [`evaluate_failover`](Self::evaluate_failover) said NO_ACTION, or to complete a failback whose fence was begun.
    ///
    /// # Errors
    /// As for [`evaluate_failover`](Self::evaluate_failover).
    pub fn evaluate_failback(&mut self, now: Timestamp, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        let decision = self.assess_failback(now, fence)?;
        self.commit(now, &decision);
        Ok(decision)
    }

    /// Moves flow to `target` because an operator says so: fenced as usual, never gated, legal while the active path
    /// is DOWN.
    ///
    /// # Errors
    /// NO_ACTIVE_ENDPOINT, STALE_FENCE, UNKNOWN_ENDPOINT, ALREADY_ACTIVE, TARGET_NOT_ELIGIBLE, in this order; then
    /// EPOCHS_EXHAUSTED.
    pub fn switchover(
        &mut self,
        now: Timestamp,
        target: &str,
        fence: FenceStatus,
    ) -> Result<FailoverDecision, EngineError> {
        let decision = self.assess_switchover(now, target, fence)?;
        self.commit(now, &decision);
        Ok(decision)
    }

    /// Gives the active path a new epoch because an operator says so: for a fence that could not be completed and a
    /// path that works.
    ///
    /// # Errors
    /// NO_ACTIVE_ENDPOINT; NOT_REARMABLE unless the epoch is spent and the active endpoint HEALTHY and fresh; then
    /// EPOCHS_EXHAUSTED.
    pub fn rearm(&mut self, now: Timestamp) -> Result<FailoverDecision, EngineError> {
        let Some(view) = self.look(now) else { return Err(EngineError::NoActiveEndpoint) };
        let View { active, fresh, .. } = view;
        if !(active.spent && view.is_live()) {
            return Err(EngineError::NotRearmable { spent: active.spent, state: view.health.state(), fresh });
        }
        let decision = self.switched(&view, SwitchKind::Rearm, active.id, Reason::OperatorRearm)?;
        self.commit(now, &decision);
        Ok(decision)
    }

    /// A fence was begun on the active path in `epoch`, which is spent from now on. Repeating it is harmless.
    ///
    /// # Errors
    /// NO_ACTIVE_ENDPOINT; STALE_FENCE unless `epoch` is the present one.
    pub fn fence_started(&mut self, epoch: u64) -> Result<OrderFlow, EngineError> {
        self.spend(epoch)
    }

    /// The switch to `epoch` was decided and could not be carried out: the epoch is spent, and history says so. The
    /// switch still counts for cooldown, flap budget and operator placement. Repeating it is harmless.
    ///
    /// # Errors
    /// NO_ACTIVE_ENDPOINT; STALE_FENCE unless `epoch` is the present one.
    pub fn switch_failed(&mut self, epoch: u64) -> Result<OrderFlow, EngineError> {
        let flow = self.spend(epoch)?;
        if let Some(epoch) = Epoch::new(epoch) {
            self.history.mark_failed(epoch);
        }
        Ok(flow)
    }

    fn spend(&mut self, epoch: u64) -> Result<OrderFlow, EngineError> {
        let active = self.active.as_mut().ok_or(EngineError::NoActiveEndpoint)?;
        if active.epoch.get() != epoch {
            return Err(EngineError::StaleFence { found: epoch, present: active.epoch });
        }
        active.spent = true;
        self.flow = self.flow.after_losing_the_path();
        Ok(self.order_flow())
    }

    /// Orders in flight are settled against the broker's book for `epoch`.
    ///
    /// # Errors
    /// NOT_RECONCILING outside HOLD RECONCILING, then STALE_RECONCILE unless `epoch` is the present one.
    pub fn confirm_reconciled(&mut self, now: Timestamp, epoch: u64) -> Result<OrderFlow, EngineError> {
        let (Flow::Reconciling, Some(view)) = (self.flow, self.look(now)) else {
            return Err(EngineError::NotReconciling);
        };
        let present = view.active.epoch;
        if present.get() != epoch {
            return Err(EngineError::StaleReconcile { found: epoch, present });
        }
        self.flow = if view.is_proven() { Flow::Open } else { Flow::Starting };
        self.saw(now);
        Ok(self.order_flow())
    }

    /// Puts an endpoint into maintenance or takes it out. It bars the endpoint as a target; on the active one it
    /// changes nothing now and only bars return.
    ///
    /// # Errors
    /// UNKNOWN_ENDPOINT.
    pub fn set_maintenance(&mut self, name: &str, on: bool) -> Result<(), EngineError> {
        let id = self.id(name)?;
        if let Some(standing) = self.standings.get_mut(id.index()) {
            standing.maintenance = on;
            self.targets.set(self.roster.rank(id), standing.is_candidate());
        }
        Ok(())
    }

    /// Halts trading until [`resume`](Self::resume); in a halt already, replaces its code and text.
    pub fn halt(&mut self, order: HaltOrder) -> OrderFlow {
        self.flow = Flow::halted(&order);
        self.halt = Some(order);
        self.order_flow()
    }

    /// Lifts an ordered halt, and, under [`ResumeAfterHalt::Operator`], the engine's own. Flow is still held: the
    /// orders in flight must be reconciled, or a spent epoch left, first.
    ///
    /// # Errors
    /// NOT_HALTED.
    pub fn resume(&mut self) -> Result<OrderFlow, EngineError> {
        let spent = self.active.map(|active| active.spent);
        self.flow = self.flow.after_resume(spent, self.latches_no_target()).ok_or(EngineError::NotHalted)?;
        self.halt = None;
        Ok(self.order_flow())
    }

    #[inline]
    fn saw(&mut self, now: Timestamp) {
        // A branch, not `max`: the next input need not wait for what this one stored.
        if now > self.latest {
            self.latest = now;
        }
    }

    fn open_if_active(&mut self, id: EndpointId) -> bool {
        match self.active {
            Some(active) if active.id == id && !active.spent => {
                self.flow = Flow::Open;
                true
            }
            _ => false,
        }
    }

    /// Makes a decision true. Everything that an evaluation changes, it changes here.
    #[inline]
    fn commit(&mut self, now: Timestamp, decision: &FailoverDecision) {
        self.saw(now);
        self.flow = decision.flow;
        if let FailoverOutcome::Switched(event) = decision.outcome {
            self.commit_switch(now, event);
        }
    }

    #[inline]
    fn commit_switch(&mut self, now: Timestamp, event: SwitchEvent) {
        let settings = self.policy.settings();
        let operator_placed = match event.kind {
            SwitchKind::Switchover => Some(event.to) != self.roster.primary(),
            SwitchKind::Rearm => self.active.is_some_and(|active| active.operator_placed),
            SwitchKind::Failover | SwitchKind::Failback => false,
        };
        if event.kind == SwitchKind::Failback {
            self.failbacks.spend(now, settings.max_failbacks_per_window, self.policy.failback_window);
        }
        self.history.push(event, settings.history_limit);
        self.last_switch = Some(Since::now(now));
        self.active = Some(Active { id: event.to, epoch: event.epoch, spent: false, operator_placed });
    }
}

/// What an evaluation looks at, gathered once.
struct View<'a> {
    now: Timestamp,
    active: Active,
    health: &'a Health,
    /// Whether `health` was probed recently enough.
    fresh: bool,
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
    fn is_live(&self) -> bool {
        self.fresh && self.health.state() == EndpointState::Healthy
    }

    /// HEALTHY, fresh and unspent: the active path can be presumed able to trade.
    #[inline]
    fn is_proven(&self) -> bool {
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
    fn assess_no_loss(&self, view: &View<'_>) -> FailoverDecision {
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
            if view.active.spent && stable && view.is_live() {
                return self.switched(view, SwitchKind::Rearm, view.active.id, Reason::ActiveProven);
            }
            let flow = self.flow.after_no_target();
            return Ok(self.unmoved(view, FailoverOutcome::NoTargetAvailable, Reason::NoEligibleTarget, flow));
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
            let (target, maintenance) = (target.to_owned(), standing.maintenance);
            return Err(EngineError::TargetNotEligible { target, state, fresh, maintenance });
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
    fn look(&self, now: Timestamp) -> Option<View<'_>> {
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

    fn switched(
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

/// What a journal keeps beside a snapshot, to go on from the middle of a run.
#[cfg(feature = "supervisor")]
impl Engine {
    /// What the trigger of `id` remembers, where that is more than the counters of its health say.
    pub(crate) fn evidence(&self, id: EndpointId) -> Option<Evidence> {
        let (standing, patience) = self.standings.get(id.index()).zip(self.patiences.get(id.index()))?;
        patience.evidence(standing.health.state(), standing.plain.is_some())
    }

    /// Goes on with this health of `id`, and with what its trigger remembers. Order flow stays.
    pub(crate) fn recall(&mut self, id: EndpointId, health: Health, evidence: &Evidence) {
        let known = self.standings.get_mut(id.index()).zip(self.patiences.get_mut(id.index()));
        if let Some((standing, patience)) = known {
            standing.plain = patience.recall(evidence);
            standing.calm = self.observer.is_none() && patience.is_calm();
            standing.health = health;
            self.targets.set(self.roster.rank(id), standing.is_candidate());
        }
    }

    /// The trigger of `id`: its own, or that of the policy.
    pub(crate) fn trigger(&self, id: EndpointId) -> Trigger {
        self.endpoint(id).and_then(|endpoint| endpoint.trigger).unwrap_or(self.policy.trigger())
    }
}

/// Reads.
impl Engine {
    /// What the order path may do now.
    pub fn order_flow(&self) -> OrderFlow {
        match (self.flow, self.active) {
            (flow, Some(active)) => flow.on(active.id, active.epoch),
            (Flow::HaltOperator, None) => OrderFlow::Halt { code: HaltCode::Operator },
            (Flow::HaltCaller, None) => OrderFlow::Halt { code: HaltCode::Caller },
            (_, None) => OrderFlow::Hold { reason: HoldReason::Starting },
        }
    }

    /// Whether `action` is allowed on the active path now.
    #[must_use]
    pub fn permits(&self, action: OrderAction) -> bool {
        self.order_flow().permits(action, self.active_can_trade())
    }

    /// Whether the active endpoint is HEALTHY in an epoch that is not spent.
    #[inline]
    pub(crate) fn active_can_trade(&self) -> bool {
        self.active.is_some_and(|active| {
            !active.spent && self.health(active.id).is_some_and(|health| health.state() == EndpointState::Healthy)
        })
    }

    /// The words of a halt that was ordered from outside, while it lasts.
    #[must_use]
    pub fn halt_order(&self) -> Option<&HaltOrder> {
        self.halt.as_ref()
    }

    /// The active endpoint, once a primary was registered.
    #[must_use]
    pub fn active(&self) -> Option<EndpointId> {
        self.active.map(|active| active.id)
    }

    /// The present epoch, once a primary was registered.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.active.map(|active| active.epoch)
    }

    /// Whether the present epoch is spent: a fence was begun on it, or the switch to it failed. It never opens again.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.active.is_some_and(|active| active.spent)
    }

    /// Whether an operator's switchover placed flow where it is.
    #[must_use]
    pub fn is_operator_placed(&self) -> bool {
        self.active.is_some_and(|active| active.operator_placed)
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The endpoints in order of registration.
    pub fn endpoints(&self) -> impl ExactSizeIterator<Item = (EndpointId, &Endpoint)> {
        self.roster.iter()
    }

    /// The endpoint `id`.
    #[must_use]
    pub fn endpoint(&self, id: EndpointId) -> Option<&Endpoint> {
        self.roster.get(id)
    }

    /// The endpoint called exactly `name`.
    ///
    /// # Errors
    /// UNKNOWN_ENDPOINT.
    pub fn id(&self, name: &str) -> Result<EndpointId, EngineError> {
        self.roster.find(name).ok_or_else(|| EngineError::UnknownEndpoint { endpoint: name.to_owned() })
    }

    /// What the probes said of `id`.
    #[must_use]
    pub fn health(&self, id: EndpointId) -> Option<&Health> {
        self.standings.get(id.index()).map(|standing| &standing.health)
    }

    /// Whether `id` is in maintenance.
    #[must_use]
    pub fn in_maintenance(&self, id: EndpointId) -> bool {
        self.standings.get(id.index()).is_some_and(|standing| standing.maintenance)
    }

    /// Whether `health` was probed within `max_health_age`, inclusive.
    #[inline]
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp, health: &Health) -> bool {
        health.age(now).is_some_and(|age| age <= self.policy.max_health_age)
    }

    /// Where flow could go now, best first: not active, HEALTHY, fresh, not in maintenance.
    pub fn eligible_targets(&self, now: Timestamp) -> impl Iterator<Item = EndpointId> {
        let active = self.active();
        self.fresh_candidates(now).filter(move |id| Some(*id) != active)
    }

    /// The switches still remembered, oldest first.
    pub fn history(&self) -> impl ExactSizeIterator<Item = HistoryEntry> {
        self.history.iter()
    }

    /// How many switches were dropped from the history.
    #[must_use]
    pub fn history_dropped(&self) -> u64 {
        self.history.dropped()
    }

    /// Nanoseconds since the last switch of any kind.
    #[must_use]
    pub fn last_switch_age(&self, now: Timestamp) -> Option<u64> {
        self.last_switch.map(|since| since.age(now))
    }

    /// Nanoseconds since each failback inside the window, oldest first.
    pub fn failback_ages(&self, now: Timestamp) -> impl Iterator<Item = u64> {
        self.failbacks.ages(now, self.policy.failback_window)
    }

    fn targets_but(&self, now: Timestamp, active: EndpointId) -> impl Iterator<Item = EndpointId> {
        self.fresh_candidates(now).filter(move |id| *id != active)
    }

    fn fresh_candidates(&self, now: Timestamp) -> impl Iterator<Item = EndpointId> {
        self.targets
            .ranks()
            .filter_map(|rank| self.roster.at_rank(rank))
            .filter(move |id| self.health(*id).is_some_and(|health| self.is_fresh(now, health)))
    }

    #[inline]
    fn latches_no_target(&self) -> bool {
        self.policy.settings().resume_after_halt == ResumeAfterHalt::Operator
    }
}
