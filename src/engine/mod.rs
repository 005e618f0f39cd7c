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

mod assess;
mod bar;
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

pub use bar::{BarCause, Bars};
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
    bars: Bars,
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
        self.standings.push(Standing::new(&patience, false, Bars::NONE).observed(self.observer.is_some()));
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
                let Standing { maintenance, bars, .. } = *standing;
                *standing = Standing::new(patience, maintenance, bars).observed(self.observer.is_some());
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
    fn new(patience: &Patience, maintenance: bool, bars: Bars) -> Self {
        Self { health: Health::default(), plain: patience.plain(), calm: false, maintenance, bars }
    }

    fn is_candidate(&self) -> bool {
        self.health.state() == EndpointState::Healthy && !self.maintenance && self.bars.is_empty()
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
    /// NO_ACTIVE_ENDPOINT; NOT_REARMABLE unless the epoch is spent and the active endpoint HEALTHY, fresh and not
    /// barred; then EPOCHS_EXHAUSTED.
    pub fn rearm(&mut self, now: Timestamp) -> Result<FailoverDecision, EngineError> {
        let Some(view) = self.look(now) else { return Err(EngineError::NoActiveEndpoint) };
        let (active, fresh) = (view.active, view.fresh);
        let bars = self.bars(active.id);
        if !(active.spent && view.is_live() && bars.is_empty()) {
            return Err(EngineError::NotRearmable { spent: active.spent, state: view.health.state(), fresh, bars });
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

    /// Bars an endpoint as a target for `cause`, or takes that bar back; other causes stay. Nothing moves for it: on the
    /// active endpoint it bars return, and a new epoch by REARM.
    ///
    /// # Errors
    /// UNKNOWN_ENDPOINT.
    pub fn set_bar(&mut self, name: &str, cause: BarCause, on: bool) -> Result<(), EngineError> {
        let id = self.id(name)?;
        if let Some(standing) = self.standings.get_mut(id.index()) {
            standing.bars = standing.bars.with(cause, on);
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

    /// For which causes `id` is barred.
    #[must_use]
    pub fn bars(&self, id: EndpointId) -> Bars {
        self.standings.get(id.index()).map_or(Bars::NONE, |standing| standing.bars)
    }

    /// Whether `health` was probed within `max_health_age`, inclusive.
    #[inline]
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp, health: &Health) -> bool {
        health.age(now).is_some_and(|age| age <= self.policy.max_health_age)
    }

    /// Where flow could go now, best first: not active, HEALTHY, fresh, not in maintenance, not barred.
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
