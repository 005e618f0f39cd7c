//! The engine for several threads: probes run outside the lock, the order path reads without one.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thiserror::Error as ThisError;
use tracing::{debug, error, info, trace, warn};

use crate::engine::{
    BarCause, ConfigurationError, Endpoint, EndpointId, EndpointState, EndpointUpdate, Engine, EngineError,
    FailoverDecision, FailoverOutcome, FenceStatus, HaltOrder, Health, HealthChange, Heard, OrderAction, OrderFlow,
    Policy, ProbeResult, RestartKind, RestoreError, Snapshot, Timestamp,
};
use crate::path::{self, ActivePath, Path, PathPublisher, PathReader};

/// The longest failure text that is kept, in bytes; a longer one is cut.
pub const LONGEST_ERROR: usize = 1024;

/// How many sources of an error are looked at: a chain may have no end.
const LONGEST_CHAIN: usize = 64;

/// Exercises one endpoint the way orders would use it. Closures `Fn(&Endpoint) -> Result<(), ProbeError>` are probes.
///
/// A probe must bound its own time: the manager cannot interrupt it. It may run on several threads at once.
pub trait Probe: Send + Sync {
    /// `Ok` only for a positive answer from the far side. An error is a failure of the endpoint, and so is a panic.
    ///
    /// # Errors
    /// Why the endpoint did not answer; or [`ProbeAborted`], which is no result at all.
    fn probe(&self, endpoint: &Endpoint) -> Result<(), ProbeError>;
}

impl<F: Fn(&Endpoint) -> Result<(), ProbeError> + Send + Sync> Probe for F {
    fn probe(&self, endpoint: &Endpoint) -> Result<(), ProbeError> {
        self(endpoint)
    }
}

/// The caller broke the probe off (an operator's interrupt, a shutdown). Nothing is counted; it goes back to whoever
/// asked for the probe. A probe may return it, or panic with it as the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[error("the probe was aborted; nothing was counted")]
pub struct ProbeAborted;

/// Why a probe did not succeed. Any error converts into it with `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// A failure of the endpoint, in words.
    Failed(Cow<'static, str>),
    /// No result.
    Aborted,
}

impl ProbeError {
    /// A failure of the endpoint, in words.
    pub fn failed(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(text.into())
    }

    /// What `error` and its sources say, with the kind of each [`std::io::Error`]; [`ProbeError::Aborted`] if one of
    /// them is [`ProbeAborted`]. `?` does this by itself, but for a `Box<dyn Error>`, which is no [`Error`]:
    /// `.map_err(|error| ProbeError::caused_by(&*error))`.
    #[must_use]
    pub fn caused_by(error: &(dyn Error + 'static)) -> Self {
        let mut text = String::new();
        for cause in std::iter::successors(Some(error), |error| (*error).source()).take(LONGEST_CHAIN) {
            let io = cause.downcast_ref::<io::Error>();
            // What an `io::Error` wraps is not among its sources.
            let wraps_abort = io.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<ProbeAborted>());
            if wraps_abort || cause.is::<ProbeAborted>() {
                return Self::Aborted;
            }
            if text.len() > LONGEST_ERROR {
                continue;
            }
            if !text.is_empty() {
                text.push_str(": ");
            }
            if let Some(io) = io {
                // The kind is what an operator looks for; the message may be the platform's.
                text.push_str(&format!("{:?}: ", io.kind()));
            }
            text.push_str(&cause.to_string());
        }
        Self::Failed(Cow::Owned(text))
    }
}

impl<E: Error + 'static> From<E> for ProbeError {
    fn from(error: E) -> Self {
        Self::caused_by(&error)
    }
}

/// Why a probe was not counted.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ProbeFault {
    /// The probe was aborted.
    #[error(transparent)]
    Aborted(#[from] ProbeAborted),
    /// The endpoint got another address while the probe ran: the result tells of the old one.
    #[error("{endpoint:?} got another address while it was probed; nothing was counted")]
    Outdated {
        /// The endpoint.
        endpoint: String,
    },
    /// The engine refused it.
    #[error(transparent)]
    Refused(#[from] EngineError),
}

/// Where the manager gets its time from.
pub trait Clock: Send + Sync {
    /// Now, on a clock that the wall clock cannot move. It is read under the manager's lock.
    fn now(&self) -> Timestamp;
}

/// The operating system's monotonic clock, counted from when this was made.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    origin: Instant,
}

impl Default for MonotonicClock {
    #[allow(clippy::disallowed_methods, reason = "the one place of the library that reads a clock")]
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_elapsed(self.origin.elapsed())
    }
}

/// A shared engine with its probe and its clock.
///
/// There is no default probe, and no way to make a manager without one: a probe that always says yes reports a healthy
/// system for ever.
///
/// ```compile_fail
/// use broker_failover::{engine::*, manager::Manager};
/// let manager = Manager::new(Engine::new(Policy::default())); // a probe is missing
/// ```
///
/// `active()`, `order_flow()`, `must_halt()` and `permits()` are wait-free reads of one atomic word; everything else
/// takes a lock, for as long as one input to the engine takes. Probes run outside it, so a slow or hanging probe
/// delays nobody but its own caller. With `panic = "abort"` in the build profile, a panicking probe ends the process
/// instead of counting as a failure.
pub struct Manager<P, C = MonotonicClock> {
    state: Mutex<State>,
    reader: PathReader,
    probe: P,
    clock: C,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    publisher: PathPublisher,
}

impl<P: Probe> Manager<P> {
    /// A manager on the operating system's monotonic clock.
    pub fn new(engine: Engine, probe: P) -> Self {
        Self::with_clock(engine, probe, MonotonicClock::default())
    }

    /// The manager of the engine that `snapshot` describes. Evaluate nothing before every endpoint has had one result
    /// or one deadline.
    ///
    /// # Errors
    /// Those of [`Engine::restore`].
    pub fn restore(policy: Policy, snapshot: Snapshot, kind: RestartKind, probe: P) -> Result<Self, RestoreError> {
        let clock = MonotonicClock::default();
        let engine = Engine::restore(policy, snapshot, clock.now(), kind)?;
        Ok(Self::with_clock(engine, probe, clock))
    }
}

impl<P: Probe, C: Clock> Manager<P, C> {
    /// A manager on another clock.
    pub fn with_clock(engine: Engine, probe: P, clock: C) -> Self {
        let (publisher, reader) = path::publish(Path::of(&engine), clock.now());
        Self { state: Mutex::new(State { engine, publisher }), reader, probe, clock }
    }

    /// Probes `endpoint` on this thread and counts the result.
    ///
    /// # Errors
    /// The result was not counted: the probe was aborted, the address changed meanwhile, or the endpoint is unknown.
    pub fn probe(&self, endpoint: EndpointId) -> Result<HealthChange, ProbeFault> {
        let Some(probed) = self.peek(|engine| engine.endpoint(endpoint).cloned()) else {
            let refusal = EngineError::UnknownEndpoint { endpoint: format!("#{}", endpoint.index()) };
            report_refusal("probe", About::default(), refusal.code(), &refusal);
            return Err(refusal.into());
        };
        match run(&self.probe, &probed) {
            Ok(result) => self.record(endpoint, result, Some(&probed)),
            Err(aborted) => {
                debug!(endpoint = probed.name, "probe aborted");
                Err(aborted.into())
            }
        }
    }

    /// Counts a result that was had in another way.
    ///
    /// # Errors
    /// [`ProbeFault::Refused`] with UNKNOWN_ENDPOINT.
    pub fn record_probe(&self, endpoint: EndpointId, result: ProbeResult) -> Result<HealthChange, ProbeFault> {
        self.record(endpoint, result, None)
    }

    fn record(
        &self,
        id: EndpointId,
        result: ProbeResult,
        probed: Option<&Endpoint>,
    ) -> Result<HealthChange, ProbeFault> {
        let result = shortened(result);
        let answer = self.change(|engine, now| {
            let moved = |was: &&Endpoint| engine.endpoint(id).is_some_and(|is| !was.same_address(is));
            if let Some(was) = probed.filter(moved) {
                return Err(ProbeFault::Outdated { endpoint: was.name.clone() });
            }
            let change = engine.record_probe(now, id, result)?;
            Ok((change, StateChange::since(change.from, engine, id)))
        });
        match answer {
            Ok((change, told)) => {
                told.iter().for_each(StateChange::report);
                Ok(change)
            }
            Err(fault) => {
                if let ProbeFault::Refused(refusal) = &fault {
                    report_refusal("probe", About::default(), refusal.code(), refusal);
                } else {
                    debug!(error = %fault, "result dropped");
                }
                Err(fault)
            }
        }
    }

    /// [`Engine::tick`] now.
    pub fn tick(&self) -> Heard {
        let heard = self.listen(|engine, now| Ok(engine.tick(now)));
        heard.unwrap_or_default()
    }

    /// [`Engine::due`] now.
    ///
    /// # Errors
    /// As there.
    pub fn due(&self, endpoint: EndpointId, span: Duration) -> Result<Heard, EngineError> {
        self.listen(|engine, now| engine.due(now, endpoint, span))
    }

    fn listen(
        &self,
        input: impl FnOnce(&mut Engine, Timestamp) -> Result<Heard, EngineError>,
    ) -> Result<Heard, EngineError> {
        let answer = self.change(|engine, now| {
            let state = |engine: &Engine, id| engine.health(id).map(Health::state);
            let before: Vec<_> = engine.awaited().filter_map(|id| Some((id, state(engine, id)?))).collect();
            let heard = input(engine, now)?;
            let told: Vec<_> =
                before.into_iter().filter_map(|(id, from)| StateChange::since(from, engine, id)).collect();
            Ok::<_, EngineError>((heard, told))
        });
        match answer {
            Ok((heard, told)) => {
                if heard.monitor_stopped {
                    warn!("the monitor had stopped; results that were due meanwhile count for nothing");
                }
                told.iter().for_each(StateChange::report);
                Ok(heard)
            }
            Err(refusal) => {
                report_refusal("due", About::default(), refusal.code(), &refusal);
                Err(refusal)
            }
        }
    }

    /// [`Engine::evaluate_failover`] now.
    ///
    /// # Errors
    /// As there.
    pub fn evaluate_failover(&self, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        self.decide("failover", |engine, now| engine.evaluate_failover(now, fence))
    }

    /// [`Engine::evaluate_failback`] now.
    ///
    /// # Errors
    /// As there.
    pub fn evaluate_failback(&self, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        self.decide("failback", |engine, now| engine.evaluate_failback(now, fence))
    }

    /// [`Engine::switchover`] now.
    ///
    /// # Errors
    /// As there.
    pub fn switchover(&self, target: &str, fence: FenceStatus) -> Result<FailoverDecision, EngineError> {
        self.decide("switchover", |engine, now| engine.switchover(now, target, fence))
    }

    /// [`Engine::rearm`] now.
    ///
    /// # Errors
    /// As there.
    pub fn rearm(&self) -> Result<FailoverDecision, EngineError> {
        self.decide("rearm", Engine::rearm)
    }

    /// [`Engine::fence_started`].
    ///
    /// # Errors
    /// As there.
    pub fn fence_started(&self, epoch: u64) -> Result<OrderFlow, EngineError> {
        self.order("fence_started", About::epoch(epoch), |engine, _| engine.fence_started(epoch))
    }

    /// [`Engine::switch_failed`].
    ///
    /// # Errors
    /// As there.
    pub fn switch_failed(&self, epoch: u64) -> Result<OrderFlow, EngineError> {
        self.order("switch_failed", About::epoch(epoch), |engine, _| engine.switch_failed(epoch))
    }

    /// [`Engine::confirm_reconciled`] now.
    ///
    /// # Errors
    /// As there.
    pub fn confirm_reconciled(&self, epoch: u64) -> Result<OrderFlow, EngineError> {
        self.order("reconciled", About::epoch(epoch), |engine, now| engine.confirm_reconciled(now, epoch))
    }

    /// [`Engine::halt`].
    pub fn halt(&self, order: HaltOrder) -> OrderFlow {
        let words = order.clone();
        let flow = self.change(|engine, _| engine.halt(order));
        error!(code = words.code(), text = words.text(), "trading halt ordered");
        flow
    }

    /// [`Engine::resume`].
    ///
    /// # Errors
    /// As there.
    pub fn resume(&self) -> Result<OrderFlow, EngineError> {
        self.order("resume", About::default(), |engine, _| engine.resume())
    }

    /// [`Engine::register`].
    ///
    /// # Errors
    /// As there.
    pub fn register(&self, endpoint: Endpoint) -> Result<EndpointId, EngineError> {
        let name = endpoint.name.clone();
        self.order("register", About::endpoint(&name), |engine, _| engine.register(endpoint))
    }

    /// [`Engine::update_endpoint`].
    ///
    /// # Errors
    /// As there.
    pub fn update_endpoint(&self, name: &str, update: EndpointUpdate) -> Result<(), EngineError> {
        let told = self.order("update", About::endpoint(name), |engine, _| {
            let before = engine.id(name.trim()).ok().and_then(|id| Some((id, engine.health(id)?.state())));
            engine.update_endpoint(name, update)?;
            Ok(before.and_then(|(id, state)| StateChange::since(state, engine, id)))
        })?;
        told.iter().for_each(StateChange::report);
        Ok(())
    }

    /// [`Engine::set_maintenance`].
    ///
    /// # Errors
    /// As there.
    pub fn set_maintenance(&self, name: &str, on: bool) -> Result<(), EngineError> {
        let input = if on { "maintenance on" } else { "maintenance off" };
        self.order(input, About::endpoint(name), |engine, _| engine.set_maintenance(name, on))
    }

    /// [`Engine::set_bar`].
    ///
    /// # Errors
    /// As there.
    pub fn set_bar(&self, name: &str, cause: BarCause, on: bool) -> Result<(), EngineError> {
        let input = if on { "bar" } else { "bar lifted" };
        self.order(input, About::endpoint(name), |engine, _| engine.set_bar(name, cause, on))
    }

    /// [`Engine::validate_configuration`].
    ///
    /// # Errors
    /// As there.
    pub fn validate_configuration(&self) -> Result<(), ConfigurationError> {
        let answer = self.peek(Engine::validate_configuration);
        if let Err(refusal) = &answer {
            report_refusal("validate", About::default(), refusal.code(), refusal);
        }
        answer
    }

    /// [`Engine::snapshot`] now.
    pub fn snapshot(&self) -> Snapshot {
        self.read(Engine::snapshot)
    }

    /// Looks at the engine, at one moment, under the lock: keep it short, and do not call the manager in it.
    pub fn read<T>(&self, look: impl FnOnce(&Engine, Timestamp) -> T) -> T {
        let state = self.state.lock();
        look(&state.engine, self.clock.now())
    }

    /// What time has no part in.
    fn peek<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        look(&self.state.lock().engine)
    }

    /// The active endpoint and its epoch: one atomic load, never torn.
    #[inline]
    #[must_use]
    pub fn active(&self) -> Option<ActivePath> {
        self.reader.active()
    }

    /// Order flow: one atomic load.
    #[inline]
    pub fn order_flow(&self) -> OrderFlow {
        self.reader.order_flow()
    }

    /// Whether trading must halt: one atomic load.
    #[inline]
    #[must_use]
    pub fn must_halt(&self) -> bool {
        self.reader.must_halt()
    }

    /// Whether `action` is allowed on the active path: one atomic load.
    #[inline]
    #[must_use]
    pub fn permits(&self, action: OrderAction) -> bool {
        self.reader.path().permits(action)
    }

    /// A reader for a thread of the order path. It outlives the manager, and then keeps saying what was last published.
    #[must_use]
    pub fn reader(&self) -> PathReader {
        self.reader.clone()
    }

    /// One input under the lock, published before the lock is released. The time is read under the lock too, so that
    /// inputs reach the engine in the order of their times.
    fn change<T>(&self, input: impl FnOnce(&mut Engine, Timestamp) -> T) -> T {
        self.change_for_reason(|engine, now| (input(engine, now), None))
    }

    fn change_for_reason<T>(
        &self,
        input: impl FnOnce(&mut Engine, Timestamp) -> (T, Option<crate::engine::Reason>),
    ) -> T {
        let (answer, before, after) = {
            let mut state = self.state.lock();
            let State { engine, publisher } = &mut *state;
            let now = self.clock.now();
            let before = engine.order_flow();
            let (answer, reason) = input(engine, now);
            publisher.publish(Path::of(engine), now, reason);
            (answer, before, engine.order_flow())
        };
        // Told outside the lock: a subscriber may be slow, or may call the manager.
        self.report_flow(before, after);
        answer
    }

    fn decide(
        &self,
        evaluation: &'static str,
        input: impl FnOnce(&mut Engine, Timestamp) -> Result<FailoverDecision, EngineError>,
    ) -> Result<FailoverDecision, EngineError> {
        let answer = self.change_for_reason(|engine, now| {
            let answer = input(engine, now);
            let reason = answer.as_ref().ok().map(|decision| decision.reason);
            (answer, reason)
        });
        match &answer {
            Ok(decision) => self.report_decision(evaluation, decision),
            Err(refusal) => report_refusal(evaluation, About::default(), refusal.code(), refusal),
        }
        answer
    }

    fn order<T>(
        &self,
        input: &'static str,
        about: About<'_>,
        take: impl FnOnce(&mut Engine, Timestamp) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let answer = self.change(take);
        match &answer {
            Ok(_) => info!(input, endpoint = about.endpoint, epoch = about.epoch, "taken"),
            Err(refusal) => report_refusal(input, about, refusal.code(), refusal),
        }
        answer
    }

    fn report_decision(&self, evaluation: &'static str, decision: &FailoverDecision) {
        let outcome = decision.outcome.name();
        let (reason, epoch) = (decision.reason.code(), decision.epoch.get());
        match decision.outcome {
            FailoverOutcome::NoAction => trace!(evaluation, outcome, reason, epoch, "evaluated"),
            FailoverOutcome::CooldownActive { .. } | FailoverOutcome::NotStableYet => {
                debug!(evaluation, outcome, reason, epoch, "evaluated");
            }
            FailoverOutcome::FlapSuppressed { .. } => {
                warn!(evaluation, outcome, reason, epoch, "the primary oscillates")
            }
            FailoverOutcome::FenceRequired(order) => {
                let (endpoint, target) = (self.name(order.endpoint), self.name(order.target));
                warn!(evaluation, outcome, reason, endpoint, epoch, target, "fence required");
            }
            FailoverOutcome::Switched(event) => {
                let (from, to) = (self.name(event.from), self.name(event.to));
                let (kind, from_state) = (event.kind.name(), event.from_state.name());
                warn!(evaluation, outcome, reason, kind, from, to, from_state, epoch, "switched");
            }
            FailoverOutcome::NoTargetAvailable => {
                error!(evaluation, outcome, reason, epoch, "the active path is lost and there is nowhere to go");
            }
        }
    }

    fn report_flow(&self, before: OrderFlow, after: OrderFlow) {
        if before == after {
            return;
        }
        match after {
            OrderFlow::Open { endpoint, epoch } => {
                info!(endpoint = self.name(endpoint), epoch = epoch.get(), "order flow OPEN");
            }
            OrderFlow::Hold { reason } => warn!(reason = reason.name(), "order flow HOLD"),
            OrderFlow::Halt { code } => error!(?code, "order flow HALT"),
        }
    }

    fn name(&self, id: EndpointId) -> String {
        // Endpoints are never removed or renamed, so looking later finds the same name.
        self.peek(|engine| engine.endpoint(id).map_or_else(String::new, |endpoint| endpoint.name.clone()))
    }
}

impl<P, C> fmt::Debug for Manager<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("path", &self.reader.path()).finish_non_exhaustive()
    }
}

/// What an input is about, for whoever reads the events.
#[derive(Clone, Copy, Debug, Default)]
struct About<'a> {
    endpoint: Option<&'a str>,
    epoch: Option<u64>,
}

impl<'a> About<'a> {
    fn endpoint(name: &'a str) -> Self {
        Self { endpoint: Some(name), epoch: None }
    }

    fn epoch(epoch: u64) -> Self {
        Self { endpoint: None, epoch: Some(epoch) }
    }
}

/// A change of an endpoint's state in full, put together under the lock: a moment later, its error may be another's.
#[derive(Debug)]
struct StateChange {
    endpoint: String,
    from: EndpointState,
    to: EndpointState,
    error: Option<String>,
}

impl StateChange {
    fn since(from: EndpointState, engine: &Engine, id: EndpointId) -> Option<Self> {
        let health = engine.health(id).filter(|health| health.state() != from)?;
        let endpoint = engine.endpoint(id)?.name.clone();
        Some(Self { endpoint, from, to: health.state(), error: health.last_probe_error().map(str::to_owned) })
    }

    fn report(&self) {
        let Self { endpoint, from, to, error } = self;
        let (from, to) = (from.name(), to.name());
        match self.to {
            EndpointState::Down => warn!(endpoint, from, to, error, "endpoint state changed"),
            _ => info!(endpoint, from, to, error, "endpoint state changed"),
        }
    }
}

fn report_refusal(input: &'static str, about: About<'_>, code: &'static str, refusal: &dyn fmt::Display) {
    warn!(input, endpoint = about.endpoint, epoch = about.epoch, code, error = %refusal, "refused");
}

/// Runs a probe so that whatever it does ends as a result, unless it was aborted.
fn run(probe: &impl Probe, endpoint: &Endpoint) -> Result<ProbeResult, ProbeAborted> {
    // The probe's own state may be torn by its panic; the engine's is not reachable from it.
    match catch_unwind(AssertUnwindSafe(|| probe.probe(endpoint))) {
        Ok(Ok(())) => Ok(ProbeResult::Success),
        Ok(Err(ProbeError::Failed(text))) => Ok(ProbeResult::Failure(text)),
        Ok(Err(ProbeError::Aborted)) => Err(ProbeAborted),
        Err(payload) if payload.is::<ProbeAborted>() => Err(ProbeAborted),
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let result = ProbeResult::panicked(text.unwrap_or("not a text"));
            // Dropping a payload may panic again; that panic is the probe's too.
            let Err(next) = catch_unwind(AssertUnwindSafe(move || drop(payload))) else { return Ok(result) };
            // And so may dropping what it panicked with then, without end: the second one is leaked.
            std::mem::forget(next);
            Ok(ProbeResult::panicked("its payload panicked when dropped"))
        }
    }
}

/// `result` with a text of at most [`LONGEST_ERROR`] bytes.
fn shortened(result: ProbeResult) -> ProbeResult {
    const CUT: &str = "...";
    match result {
        ProbeResult::Failure(text) if text.len() > LONGEST_ERROR => {
            let end = (0..=LONGEST_ERROR - CUT.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            ProbeResult::Failure(Cow::Owned(format!("{}{CUT}", text.get(..end).unwrap_or_default())))
        }
        short => short,
    }
}
