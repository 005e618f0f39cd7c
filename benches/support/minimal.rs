//! The least that a failover engine could be: what ours is compared with.
//!
//! 24-byte endpoints in a `Vec`, `u32` counters, an enum for the state, a threshold, a freshness test and a linear
//! scan for the best target. No names, reasons, notes, order flow, history or refusals; no bound is left unchecked.

/// State of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Healthy,
    Degraded,
    Down,
}

/// 24 bytes.
#[derive(Clone, Copy)]
struct Endpoint {
    probed_at: u64,
    failures: u32,
    successes: u32,
    priority: u32,
    state: State,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing.
    NoAction,
    /// Flow moved there.
    Switched(u32),
    /// Flow would move there once the active endpoint is fenced.
    FenceRequired(u32),
    /// Halt.
    NoTarget,
}

/// The machine.
pub(crate) struct Machine {
    endpoints: Vec<Endpoint>,
    active: u32,
    epoch: u64,
    threshold: u32,
    max_age: u64,
    require_fence: bool,
}

impl Machine {
    /// A machine of `endpoints` that were never probed, the first of them active.
    pub(crate) fn new(endpoints: u32, threshold: u32, max_age: u64, require_fence: bool) -> Self {
        const { assert!(size_of::<Endpoint>() == 24) };
        let endpoint = |priority| Endpoint { probed_at: 0, failures: 0, successes: 0, priority, state: State::Unknown };
        Self {
            endpoints: (0..endpoints).map(endpoint).collect(),
            active: 0,
            epoch: 1,
            threshold,
            max_age,
            require_fence,
        }
    }

    /// The active endpoint.
    pub(crate) fn active(&self) -> u32 {
        self.active
    }

    /// Counts a result; whether that changed the state.
    #[inline]
    pub(crate) fn record_probe(&mut self, now: u64, id: u32, success: bool) -> bool {
        let Some(endpoint) = self.endpoints.get_mut(id as usize) else { return false };
        let from = endpoint.state;
        endpoint.probed_at = now;
        if success {
            endpoint.failures = 0;
            endpoint.successes = endpoint.successes.saturating_add(1);
            endpoint.state = State::Healthy;
        } else {
            endpoint.successes = 0;
            endpoint.failures = endpoint.failures.saturating_add(1);
            endpoint.state = if endpoint.failures >= self.threshold { State::Down } else { State::Degraded };
        }
        endpoint.state != from
    }

    /// Decides, and moves flow.
    #[inline]
    pub(crate) fn evaluate(&mut self, now: u64, fenced: bool) -> Outcome {
        match self.endpoints.get(self.active as usize) {
            Some(active) if active.state == State::Down => {}
            _ => return Outcome::NoAction,
        }
        let mut best: Option<(u32, u32)> = None;
        for (id, endpoint) in (0..).zip(&self.endpoints) {
            let eligible = id != self.active
                && endpoint.state == State::Healthy
                && now.saturating_sub(endpoint.probed_at) <= self.max_age;
            if eligible && best.is_none_or(|(priority, _)| endpoint.priority < priority) {
                best = Some((endpoint.priority, id));
            }
        }
        let Some((_, target)) = best else { return Outcome::NoTarget };
        if self.require_fence && !fenced {
            return Outcome::FenceRequired(target);
        }
        self.active = target;
        self.epoch += 1;
        Outcome::Switched(target)
    }
}
