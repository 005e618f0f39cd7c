//! An engine with one trigger, told what the probes found.

use std::ops::Range;
use std::time::Duration;

use super::experiment::SimulationError;
use super::rule::Rule;
use super::weather::nanos;
use crate::engine::{
    Endpoint, EndpointId, EndpointState, Engine, EngineError, FailoverOutcome, FenceStatus, Policy, PolicySettings,
    ProbeResult, Silence, Timestamp, TriggerRule,
};

/// The engine of one path and a standby that works, with the policy's defaults but for the trigger and for what
/// silence counts as.
///
/// A failover counts when the engine first asks for a fence of the path, and the next one can come after the engine has
/// found the path to be well again: as if flow had moved there and back.
#[derive(Clone, Debug)]
pub struct Watch {
    engine: Engine,
    path: EndpointId,
    standby: EndpointId,
    /// Nanoseconds.
    interval: u64,
    /// Successes in a row after which one more changes nothing that the trigger looks at. One ends a run of failures and
    /// a window; failures among the newest results are forgotten once so many others have come.
    settled: u64,
    /// Failures in a row between two successes that cannot fire the trigger if they are fewer, and that leave nothing
    /// behind; 1 where failures are remembered beyond a success.
    fewest: u64,
    leaving: bool,
    failovers: u64,
}

impl Watch {
    /// A path that has just succeeded, at slot 0, and is probed every `interval`.
    ///
    /// # Errors
    /// What no engine can be given as a trigger.
    pub fn new(rule: Rule, interval: Duration, silence: Silence) -> Result<Self, SimulationError> {
        let defaults = PolicySettings::default();
        let trigger = rule.trigger()?;
        let failure_threshold = match trigger.rule() {
            TriggerRule::Consecutive(failures) => failures,
            TriggerRule::Window(_) | TriggerRule::Failures { .. } => defaults.failure_threshold,
        };
        let longest = Duration::from_nanos(u64::MAX);
        let settings = PolicySettings {
            failure_threshold,
            trigger: Some(trigger),
            silence,
            // As far above the interval as the default is above a probe every 10 s.
            max_health_age: interval.saturating_mul(3).clamp(Duration::from_nanos(1), longest),
            ..defaults
        };
        let (settled, fewest) = match trigger.rule() {
            TriggerRule::Consecutive(failures) => (1, failures.into()),
            TriggerRule::Window(span) => (1, nanos(span).div_ceil(nanos(interval).max(1)).saturating_add(1)),
            TriggerRule::Failures { of, .. } => (of.into(), 1),
        };
        let policy = Policy::new(settings).map_err(|error| SimulationError::Trigger { trigger: rule, error })?;
        let mut engine = Engine::new(policy);
        let path = engine.register(Endpoint::primary("path", "home", "path"))?;
        let standby = engine.register(Endpoint::backup("standby", "elsewhere", "standby", 10))?;
        let mut watch =
            Self { engine, path, standby, interval: nanos(interval), settled, fewest, leaving: false, failovers: 0 };
        watch.probe(0, false)?;
        Ok(watch)
    }

    /// False failovers so far, as long as nothing was lost.
    #[must_use]
    pub const fn failovers(&self) -> u64 {
        self.failovers
    }

    /// The probe of `slot` came back. Whether the engine wants to leave the path.
    ///
    /// # Errors
    /// None that an engine with both endpoints could have.
    // Left to itself, the compiler calls it, which costs a quarter more.
    #[inline(always)]
    pub fn probe(&mut self, slot: u64, failed: bool) -> Result<bool, EngineError> {
        let now = self.time(slot);
        let result = if failed { ProbeResult::FAILED } else { ProbeResult::Success };
        let change = self.engine.record_probe(now, self.path, result)?;
        if change.to == EndpointState::Down {
            self.standby_works(now)?;
        }
        self.evaluate(now)
    }

    /// The probe of `slot` was due and never came, and half an interval later it is given up. The monitor is alive: the
    /// standby's result came in time. Whether the engine wants to leave the path.
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn missing(&mut self, slot: u64) -> Result<bool, EngineError> {
        let due = self.time(slot);
        let after = |span| Timestamp::from_nanos(due.as_nanos().saturating_add(span));
        let (answered, given_up) = (after(self.interval / 4), after(self.interval / 2));
        let heard = self.engine.due(due, self.path, Duration::from_nanos(self.interval / 2))?;
        self.standby_works(answered)?;
        let later = self.engine.tick(given_up);
        debug_assert!(!heard.monitor_stopped && !later.monitor_stopped, "{heard:?} {later:?}");
        self.evaluate(given_up)
    }

    /// `slots` of weather, of which `failing` fail. What changes nothing is left out: of a long run of successes those
    /// after the first few, and runs of failures that are too short to fire the trigger.
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn live(&mut self, slots: Range<u64>, failing: &[Range<u64>]) -> Result<(), EngineError> {
        let mut next = slots.start;
        let (start, end, fewest) = (slots.start, slots.end, self.fewest);
        // At either end it may be a part of a longer one.
        let is_felt = |run: &&Range<u64>| run.end - run.start >= fewest || run.start == start || run.end == end;
        for run in failing.iter().filter(is_felt) {
            self.calm(next..run.start)?;
            for slot in run.clone() {
                self.probe(slot, true)?;
            }
            next = run.end;
        }
        self.calm(next..slots.end)
    }

    fn calm(&mut self, slots: Range<u64>) -> Result<(), EngineError> {
        let settled = slots.end.min(slots.start.saturating_add(self.settled));
        for slot in slots.start..settled {
            self.probe(slot, false)?;
        }
        Ok(())
    }

    /// It is probed as often, and always succeeds. Only its last result counts, and only while the path is down or
    /// silent, so no others are recorded.
    fn standby_works(&mut self, now: Timestamp) -> Result<(), EngineError> {
        self.engine.record_probe(now, self.standby, ProbeResult::Success).map(|_| ())
    }

    #[inline(always)]
    fn evaluate(&mut self, now: Timestamp) -> Result<bool, EngineError> {
        let decision = self.engine.evaluate_failover(now, FenceStatus::Unconfirmed)?;
        let leaving = matches!(decision.outcome, FailoverOutcome::FenceRequired(_));
        self.failovers += u64::from(leaving && !self.leaving);
        self.leaving = leaving;
        Ok(leaving)
    }

    fn time(&self, slot: u64) -> Timestamp {
        Timestamp::from_nanos(slot.saturating_mul(self.interval))
    }
}
