//! Probe results -> counters -> state, per endpoint.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::time::Timestamp;
use super::trigger::{Patience, Seen};

/// What is known of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EndpointState {
    /// Never probed since registration, restart or a change of address. Not HEALTHY.
    #[default]
    Unknown,
    /// The last result was a success, and the trigger does not say DOWN.
    Healthy,
    /// The last result was a failure, and the trigger does not say DOWN.
    Degraded,
    /// What the [`Trigger`](super::Trigger) says; by default at least `failure_threshold` failures in a row.
    Down,
}

impl EndpointState {
    /// The upper-case name that scenario files and journals use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Healthy => "HEALTHY",
            Self::Degraded => "DEGRADED",
            Self::Down => "DOWN",
        }
    }
}

impl fmt::Display for EndpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The result of one probe. There is no third kind: an error, a time-out and a panic are failures, and a probe
/// that was aborted has no result to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The far side gave a positive answer.
    Success,
    /// Anything else, in words. The engine keeps the text; it is moved in, so recording does not allocate.
    Failure(Cow<'static, str>),
}

impl ProbeResult {
    /// A failure of which nothing more is known.
    pub const FAILED: Self = Self::Failure(Cow::Borrowed("failed"));

    /// What a result that was due and did not come counts for under [`Silence::Failure`](super::Silence).
    pub const MISSING: Self = Self::Failure(Cow::Borrowed("no result when it was due"));

    /// A failure with the panic's message.
    #[must_use]
    pub fn panicked(message: &str) -> Self {
        Self::Failure(Cow::Owned(format!("panic: {message}")))
    }
}

/// How a probe result changed its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthChange {
    /// State before the result.
    pub from: EndpointState,
    /// State after it.
    pub to: EndpointState,
    /// Whether it opened order flow (HOLD STARTING ends with a success of the active path).
    pub opened: bool,
    /// Whether the monitor had stopped until now (see [`Heard`](super::Heard)).
    pub monitor_stopped: bool,
}

/// Counters and state of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    state: EndpointState,
    consecutive_failures: u32,
    consecutive_successes: u32,
    /// Nothing before the first result, which is what UNKNOWN says.
    probed_at: Timestamp,
    last_probe_error: Option<Cow<'static, str>>,
}

impl Health {
    /// The state after `result`.
    #[inline]
    pub(super) fn record(&mut self, now: Timestamp, result: ProbeResult, failure_threshold: u32) -> EndpointState {
        self.probed_at = now;
        match result {
            ProbeResult::Success => {
                self.state = EndpointState::Healthy;
                self.consecutive_failures = 0;
                self.consecutive_successes = self.consecutive_successes.saturating_add(1);
                self.last_probe_error = None;
            }
            ProbeResult::Failure(error) => {
                self.consecutive_successes = 0;
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                self.state = if self.consecutive_failures >= failure_threshold {
                    EndpointState::Down
                } else {
                    EndpointState::Degraded
                };
                self.last_probe_error = Some(error);
            }
        }
        self.state
    }

    /// The state after `result`, for a trigger that looks at more than failures in a row. The counters are the same.
    #[inline(never)]
    pub(super) fn record_patiently(
        &mut self,
        now: Timestamp,
        result: ProbeResult,
        patience: &mut Patience,
        most: u64,
    ) -> EndpointState {
        let (gap, before) = (self.age(now), self.state);
        let failed = matches!(result, ProbeResult::Failure(_));
        self.record(now, result, u32::MAX);
        self.state = patience.judge(Seen { now, failed, failures: self.consecutive_failures, gap, most, before });
        self.state
    }

    /// As a journal kept it.
    #[cfg(feature = "supervisor")]
    pub(crate) fn recalled(
        state: EndpointState,
        (consecutive_failures, consecutive_successes): (u32, u32),
        probed_at: Timestamp,
        error: Option<String>,
    ) -> Self {
        let last_probe_error = error.map(Cow::Owned);
        Self { state, consecutive_failures, consecutive_successes, probed_at, last_probe_error }
    }

    /// UNKNOWN, HEALTHY, DEGRADED or DOWN.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> EndpointState {
        self.state
    }

    /// Failures since the last success.
    #[must_use]
    pub const fn consecutive_failures(&self) -> u32 {
        self.consecutive_failures
    }

    /// Successes since the last failure.
    #[inline]
    #[must_use]
    pub const fn consecutive_successes(&self) -> u32 {
        self.consecutive_successes
    }

    /// When the last result was recorded.
    #[inline]
    #[must_use]
    pub const fn probed_at(&self) -> Option<Timestamp> {
        match self.state {
            EndpointState::Unknown => None,
            _ => Some(self.probed_at),
        }
    }

    /// Nanoseconds since the last result, if there was one.
    #[inline]
    #[must_use]
    pub fn age(&self, now: Timestamp) -> Option<u64> {
        self.probed_at().map(|at| now.nanos_since(at))
    }

    /// Why the last result was a failure; `None` after a success.
    #[must_use]
    pub fn last_probe_error(&self) -> Option<&str> {
        self.last_probe_error.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(results: &[bool], threshold: u32) -> Vec<EndpointState> {
        let mut health = Health::default();
        let record = |ok: &bool| {
            health.record(Timestamp::ZERO, if *ok { ProbeResult::Success } else { ProbeResult::FAILED }, threshold);
            health.state()
        };
        results.iter().map(record).collect()
    }

    #[test]
    fn one_success_is_healthy_and_the_threshold_makes_down() {
        use EndpointState::{Degraded, Down, Healthy};
        assert_eq!(states(&[false, false, true, false], 2), [Degraded, Down, Healthy, Degraded]);
        assert_eq!(states(&[true, false], 1), [Healthy, Down]);
    }

    #[test]
    fn counters_stop_at_their_end_instead_of_wrapping() {
        let mut health = Health { consecutive_failures: u32::MAX, state: EndpointState::Down, ..Health::default() };
        health.record(Timestamp::ZERO, ProbeResult::FAILED, u32::MAX);
        assert_eq!((health.consecutive_failures(), health.state()), (u32::MAX, EndpointState::Down));
    }
}
