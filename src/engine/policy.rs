//! Every knob of the engine, with its unit, default and bounds.

use std::time::Duration;

use super::error::PolicyError;
use super::time::checked_nanos;
use super::trigger::{Trigger, TriggerRule};

/// What ends a halt that the engine itself imposed because there was nowhere to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResumeAfterHalt {
    /// A switch, or the active path proving itself, leads from HALT to HOLD RECONCILING.
    #[default]
    Reconcile,
    /// Only [`Engine::resume`](super::Engine::resume) does, as for a halt that a person ordered.
    Operator,
}

/// What the engine makes of a result that was due and did not come, while the monitor itself was alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Silence {
    /// It is told, and counts for nothing.
    #[default]
    Note,
    /// It is a failure of that endpoint.
    Failure,
}

/// The knobs, before they are checked. Start from [`PolicySettings::default`] and set what differs.
///
/// The defaults are calibrated starting points, not facts about your broker: `references/standards.md` says how
/// to derive each from your probe interval and your broker's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// Consecutive failures that make an endpoint DOWN, unless [`trigger`](Self::trigger) says otherwise. Default 3,
    /// at least 1.
    pub failure_threshold: u32,
    /// What makes an endpoint DOWN, if its own trigger does not say. Default: as many failures in a row as
    /// [`failure_threshold`](Self::failure_threshold); a stated [`TriggerRule::Consecutive`](super::TriggerRule) must
    /// be the same number.
    pub trigger: Option<Trigger>,
    /// Results that there must be before a trigger can fire: after the start, a restart, a stop of the monitor, or a
    /// changed address or trigger.
    /// Default, and least: what the trigger needs to fire at all ([`Trigger::needs`]). It never delays a
    /// trigger that is armed.
    pub minimum_history: Option<u32>,
    /// What a result that was [`due`](super::Engine::due) and did not come counts for. Default [`Silence::Note`].
    /// Where the monitor stopped, it counts for nothing either way.
    pub silence: Silence,
    /// Least time between the last switch of any kind and a failback. Default 60 s, may be zero. It never
    /// delays a failover.
    pub cooldown: Duration,
    /// The most that [`cooldown`](Self::cooldown) grows to: each failback inside
    /// [`failback_window`](Self::failback_window) doubles it. It shrinks as they leave the window. Default: it does not
    /// grow. At least `cooldown`, which must be above zero then. It never delays a failover.
    pub cooldown_max: Option<Duration>,
    /// Age up to which (inclusive) a probe result still is evidence of health. Default 30 s, above zero. Keep it
    /// comfortably above probe interval + probe timeout; the engine cannot see your scheduler.
    pub max_health_age: Duration,
    /// Consecutive successes of the primary before a failback, and of the active path before it is re-armed
    /// without an operator. Default 3, at least 1.
    pub failback_success_threshold: u32,
    /// Whether the outgoing path must be fenced before flow moves. Default true. Turn it off only if the broker
    /// provably fences for you.
    pub require_fence: bool,
    /// Failbacks allowed inside [`failback_window`](Self::failback_window). Default 3, at least 1.
    pub max_failbacks_per_window: u32,
    /// Span (inclusive) in which failbacks are counted. Default 1 h, above zero.
    pub failback_window: Duration,
    /// Whether order flow stays held after a switch until [`Engine::confirm_reconciled`](super::Engine). Default
    /// true.
    pub require_reconciliation: bool,
    /// What ends a NO_TARGET_AVAILABLE halt. Default [`ResumeAfterHalt::Reconcile`].
    pub resume_after_halt: ResumeAfterHalt,
    /// Switch events kept in memory. Default 256, may be zero; what was dropped is counted.
    pub history_limit: u32,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            failure_threshold: 3,
            trigger: None,
            minimum_history: None,
            silence: Silence::Note,
            cooldown: Duration::from_secs(60),
            cooldown_max: None,
            max_health_age: Duration::from_secs(30),
            failback_success_threshold: 3,
            require_fence: true,
            max_failbacks_per_window: 3,
            failback_window: Duration::from_secs(3600),
            require_reconciliation: true,
            resume_after_halt: ResumeAfterHalt::Reconcile,
            history_limit: 256,
        }
    }
}

/// Checked [`PolicySettings`]: an invalid policy cannot be constructed.
///
/// ```
/// use broker_failover::engine::{Policy, PolicySettings};
///
/// let policy = Policy::new(PolicySettings { failure_threshold: 2, ..PolicySettings::default() })?;
/// assert_eq!(policy.settings().failure_threshold, 2);
///
/// let refused = Policy::new(PolicySettings { failure_threshold: 0, ..PolicySettings::default() });
/// assert_eq!(refused.unwrap_err().to_string(), "failure_threshold is 0; expected 1 to 4294967295");
/// # Ok::<(), broker_failover::engine::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    settings: PolicySettings,
    // The same durations in the engine's unit, so that no gate converts on every call.
    pub(super) cooldown: u64,
    /// The same as `cooldown` if that does not grow.
    pub(super) cooldown_max: u64,
    pub(super) max_health_age: u64,
    pub(super) failback_window: u64,
}

impl Policy {
    /// Checks `settings`.
    ///
    /// # Errors
    /// The first value out of bounds, in the order of the fields, with the bounds. A duration above
    /// 2^64 - 1 nanoseconds (about 584 years) is out of bounds.
    pub fn new(settings: PolicySettings) -> Result<Self, PolicyError> {
        let count = |key, found: u32| match found {
            0 => Err(PolicyError::Count { key, found }),
            _ => Ok(()),
        };
        let span = |key, found: Duration, zero_is_legal| match checked_nanos(found) {
            Some(nanos) if nanos > 0 || zero_is_legal => Ok(nanos),
            _ => Err(PolicyError::Span { key, found, least: if zero_is_legal { "0ns" } else { "1ns" } }),
        };
        count("failure_threshold", settings.failure_threshold)?;
        refuse_mismatch(&settings)?;
        let cooldown = span("cooldown", settings.cooldown, true)?;
        let cooldown_max = cooldown_max(&settings, cooldown)?;
        let max_health_age = span("max_health_age", settings.max_health_age, false)?;
        count("failback_success_threshold", settings.failback_success_threshold)?;
        count("max_failbacks_per_window", settings.max_failbacks_per_window)?;
        let failback_window = span("failback_window", settings.failback_window, false)?;
        Ok(Self { settings, cooldown, cooldown_max, max_health_age, failback_window })
    }

    /// The settings that were checked.
    #[must_use]
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// The trigger of every endpoint that has none of its own.
    #[must_use]
    pub fn trigger(&self) -> Trigger {
        trigger(&self.settings)
    }
}

fn trigger(settings: &PolicySettings) -> Trigger {
    settings.trigger.unwrap_or(Trigger::consecutive(settings.failure_threshold))
}

fn cooldown_max(settings: &PolicySettings, cooldown: u64) -> Result<u64, PolicyError> {
    let Some(most) = settings.cooldown_max else { return Ok(cooldown) };
    let mismatch = |key, found, expected| Err(PolicyError::Mismatch { key, found: format!("{found:?}"), expected });
    match checked_nanos(most) {
        _ if cooldown == 0 => {
            mismatch("cooldown", settings.cooldown, "above zero with cooldown_max: twice nothing is nothing".to_owned())
        }
        None => Err(PolicyError::Span { key: "cooldown_max", found: most, least: "0ns" }),
        Some(nanos) if nanos < cooldown => {
            mismatch("cooldown_max", most, format!("at least cooldown, which is {:?}", settings.cooldown))
        }
        Some(nanos) => Ok(nanos),
    }
}

/// Values that are legal alone and contradict each other.
fn refuse_mismatch(settings: &PolicySettings) -> Result<(), PolicyError> {
    let failure_threshold = settings.failure_threshold;
    if let Some(TriggerRule::Consecutive(consecutive)) = settings.trigger.map(Trigger::rule) {
        if consecutive != failure_threshold {
            return Err(PolicyError::Mismatch {
                key: "consecutive",
                found: consecutive.to_string(),
                expected: format!("failure_threshold, which is {failure_threshold}"),
            });
        }
    }
    let needed = trigger(settings).needs();
    match settings.minimum_history {
        Some(found) if found < needed => Err(PolicyError::Mismatch {
            key: "minimum_history",
            found: found.to_string(),
            expected: format!("at least {needed}, which the trigger needs to fire at all"),
        }),
        _ => Ok(()),
    }
}

impl Default for Policy {
    fn default() -> Self {
        let settings = PolicySettings::default();
        // The defaults are within bounds, as a test shows; saturating keeps this free of a panic all the same.
        let nanos = |span| checked_nanos(span).unwrap_or(u64::MAX);
        Self {
            cooldown: nanos(settings.cooldown),
            cooldown_max: nanos(settings.cooldown),
            max_health_age: nanos(settings.max_health_age),
            failback_window: nanos(settings.failback_window),
            settings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut PolicySettings)) -> String {
        let mut settings = PolicySettings::default();
        change(&mut settings);
        Policy::new(settings).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_within_bounds() {
        assert_eq!(Policy::new(PolicySettings::default()).unwrap(), Policy::default());
    }

    #[test]
    fn zero_counts_and_spans_are_refused_with_the_bounds() {
        let counts = "expected 1 to 4294967295";
        assert_eq!(refusal(|s| s.failure_threshold = 0), format!("failure_threshold is 0; {counts}"));
        assert_eq!(refusal(|s| s.failback_success_threshold = 0), format!("failback_success_threshold is 0; {counts}"));
        assert_eq!(refusal(|s| s.max_failbacks_per_window = 0), format!("max_failbacks_per_window is 0; {counts}"));
        let spans = "expected 1ns to 18446744073709551615ns";
        assert_eq!(refusal(|s| s.max_health_age = Duration::ZERO), format!("max_health_age is 0ns; {spans}"));
        assert_eq!(refusal(|s| s.failback_window = Duration::ZERO), format!("failback_window is 0ns; {spans}"));
    }

    #[test]
    fn values_that_contradict_each_other_are_refused_with_what_would_fit() {
        let trigger = |rule| Trigger::new(rule).ok();
        assert_eq!(
            refusal(|s| s.trigger = trigger(TriggerRule::Consecutive(2))),
            "consecutive is 2; expected failure_threshold, which is 3"
        );
        let needed = |needed| format!("expected at least {needed}, which the trigger needs to fire at all");
        assert_eq!(refusal(|s| s.minimum_history = Some(2)), format!("minimum_history is 2; {}", needed(3)));
        assert_eq!(refusal(|s| s.minimum_history = Some(0)), format!("minimum_history is 0; {}", needed(3)));
        let window = |s: &mut PolicySettings| {
            s.trigger = trigger(TriggerRule::Window(Duration::from_secs(60)));
            s.minimum_history = Some(1);
        };
        assert_eq!(refusal(window), format!("minimum_history is 1; {}", needed(2)));
        let longest = |span| move |s: &mut PolicySettings| s.cooldown_max = Some(span);
        assert_eq!(
            refusal(longest(Duration::from_secs(59))),
            "cooldown_max is 59s; expected at least cooldown, which is 60s"
        );
        assert!(
            refusal(longest(Duration::MAX)).starts_with("cooldown_max is 18446744073709551615.999999999s; expected")
        );
        let nothing = |s: &mut PolicySettings| {
            s.cooldown = Duration::ZERO;
            s.cooldown_max = Some(Duration::ZERO);
        };
        assert_eq!(
            refusal(nothing),
            "cooldown is 0ns; expected above zero with cooldown_max: twice nothing is nothing"
        );
        let failures = TriggerRule::Failures { failures: 2, of: 5 };
        let legal = PolicySettings { trigger: trigger(failures), minimum_history: Some(2), ..Default::default() };
        assert!(Policy::new(legal).is_ok());
    }

    #[test]
    fn a_cooldown_of_zero_is_legal_and_an_overflowing_one_is_not() {
        let zero = PolicySettings { cooldown: Duration::ZERO, history_limit: 0, ..PolicySettings::default() };
        assert!(Policy::new(zero).is_ok());
        let longest = PolicySettings { cooldown: Duration::from_nanos(u64::MAX), ..PolicySettings::default() };
        assert!(Policy::new(longest).is_ok());
        let over = Duration::from_nanos(u64::MAX) + Duration::from_nanos(1);
        assert_eq!(
            refusal(|s| s.cooldown = over),
            "cooldown is 18446744073.709551616s; expected 0ns to 18446744073709551615ns"
        );
    }
}
