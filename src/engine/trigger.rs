//! When an endpoint counts as DOWN: what its results must come to, and how many of them there must be first.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::PolicyError;
use super::health::EndpointState;
use super::policy::Policy;
use super::time::{Timestamp, checked_nanos};

/// What makes an endpoint DOWN, before it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerRule {
    /// So many failures in a row; at least 1.
    Consecutive(u32),
    /// Nothing but failures for so long; above zero. The failures must reach back at least as far, and no two of them
    /// may lie further apart than `max_health_age`: a time in which nobody looked proves nothing.
    Window(Duration),
    /// So many failures among the newest results.
    Failures {
        /// At least 1, at most `of`.
        failures: u32,
        /// How many results are looked at; at most [`Trigger::MOST_RESULTS`].
        of: u32,
    },
}

/// A checked [`TriggerRule`].
///
/// It fires with a failure, never with a success. A success ends DOWN, except under
/// [`TriggerRule::Failures`] while its condition still holds.
///
/// ```
/// use broker_failover::engine::{Trigger, TriggerRule};
///
/// assert!(Trigger::new(TriggerRule::Failures { failures: 3, of: 5 }).is_ok());
/// let refused = Trigger::new(TriggerRule::Failures { failures: 5, of: 3 });
/// assert_eq!(refused.unwrap_err().to_string(), "failures is 5; expected at most of, which is 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Trigger(Checked);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    Consecutive(u32),
    /// Nanoseconds.
    Window(u64),
    Failures {
        failures: u32,
        of: u32,
    },
}

impl Trigger {
    /// The most results that [`TriggerRule::Failures`] can look at: one bit of one word each.
    pub const MOST_RESULTS: u32 = u64::BITS;

    /// Checks `rule`.
    ///
    /// # Errors
    /// A count of zero, a span of zero or of more than 2^64 - 1 nanoseconds, more results than
    /// [`MOST_RESULTS`](Self::MOST_RESULTS), more failures than results.
    pub fn new(rule: TriggerRule) -> Result<Self, PolicyError> {
        let count = |key, found| if found == 0 { Err(PolicyError::Count { key, found }) } else { Ok(()) };
        Ok(Self(match rule {
            TriggerRule::Consecutive(failures) => {
                count("consecutive", failures)?;
                Checked::Consecutive(failures)
            }
            TriggerRule::Window(span) => match checked_nanos(span) {
                Some(nanos @ 1..) => Checked::Window(nanos),
                _ => return Err(PolicyError::Span { key: "window", found: span, least: "1ns" }),
            },
            TriggerRule::Failures { failures, of } => {
                count("failures", failures)?;
                if of == 0 || of > Self::MOST_RESULTS {
                    return Err(PolicyError::Range { key: "of", found: of, most: Self::MOST_RESULTS });
                }
                if failures > of {
                    return Err(PolicyError::Mismatch {
                        key: "failures",
                        found: failures.to_string(),
                        expected: format!("at most of, which is {of}"),
                    });
                }
                Checked::Failures { failures, of }
            }
        }))
    }

    /// So many failures in a row, for a number that was checked elsewhere.
    pub(super) const fn consecutive(failures: u32) -> Self {
        Self(Checked::Consecutive(failures))
    }

    /// The rule that was checked.
    #[must_use]
    pub const fn rule(self) -> TriggerRule {
        match self.0 {
            Checked::Consecutive(failures) => TriggerRule::Consecutive(failures),
            Checked::Window(nanos) => TriggerRule::Window(Duration::from_nanos(nanos)),
            Checked::Failures { failures, of } => TriggerRule::Failures { failures, of },
        }
    }

    /// The fewest results that can fire it.
    #[must_use]
    pub const fn needs(self) -> u32 {
        match self.0 {
            Checked::Consecutive(failures) | Checked::Failures { failures, .. } => failures,
            // One at either end.
            Checked::Window(_) => 2,
        }
    }
}

/// A trigger as a snapshot has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consecutive: Option<u32>,
    /// Nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<u32>,
}

impl From<Trigger> for Written {
    fn from(Trigger(checked): Trigger) -> Self {
        let none = Self { consecutive: None, window: None, failures: None, of: None };
        match checked {
            Checked::Consecutive(failures) => Self { consecutive: Some(failures), ..none },
            Checked::Window(nanos) => Self { window: Some(nanos), ..none },
            Checked::Failures { failures, of } => Self { failures: Some(failures), of: Some(of), ..none },
        }
    }
}

impl TryFrom<Written> for Trigger {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let window = written.window.map(Duration::from_nanos);
        let rule = TriggerRule::from_keys(written.consecutive, window, written.failures, written.of);
        let rule = rule.ok_or_else(|| format!("another combination of keys; expected {}", TriggerRule::KEYS))?;
        Self::new(rule).map_err(|error| error.to_string())
    }
}

impl TriggerRule {
    /// The keys that make a trigger, in words.
    pub const KEYS: &str = "\"consecutive\" alone, \"window\" alone, or \"failures\" with \"of\"";

    /// The rule that these keys of a file make; `None` for any other combination than [`KEYS`](Self::KEYS).
    #[must_use]
    pub const fn from_keys(
        consecutive: Option<u32>,
        window: Option<Duration>,
        failures: Option<u32>,
        of: Option<u32>,
    ) -> Option<Self> {
        match (consecutive, window, failures, of) {
            (Some(failures), None, None, None) => Some(Self::Consecutive(failures)),
            (None, Some(span), None, None) => Some(Self::Window(span)),
            (None, None, Some(failures), Some(of)) => Some(Self::Failures { failures, of }),
            _ => None,
        }
    }
}

/// The trigger of one endpoint, and what it remembers of the results: counters, one moment and one word of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    trigger: Trigger,
    /// Results before the trigger is armed.
    minimum: u32,
    /// Results since it was last disarmed, up to `minimum`.
    results: u32,
    /// When the present run of failures began, for a window.
    failing_since: Option<Timestamp>,
    /// The newest results, the last one lowest, failures set; for failures among the newest results.
    recent: u64,
    /// The result that is awaited: since when, and for how many nanoseconds.
    awaited: Option<(Timestamp, u64)>,
    /// The last tick, or the last that became due, found a result missing.
    missing: bool,
}

/// What a trigger looks at beside its own memory.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) now: Timestamp,
    pub(super) failed: bool,
    /// Failures in a row, this one included.
    pub(super) failures: u32,
    /// Nanoseconds since the result before.
    pub(super) gap: Option<u64>,
    /// The most nanoseconds between two results of one window.
    pub(super) most: u64,
    /// State before this result.
    pub(super) before: EndpointState,
}

impl Patience {
    /// Nothing seen yet; `own`: the endpoint's own trigger.
    pub(super) fn new(policy: &Policy, own: Option<Trigger>) -> Self {
        let trigger = own.unwrap_or_else(|| policy.trigger());
        let minimum = policy.settings().minimum_history.unwrap_or(0).max(trigger.needs());
        Self { trigger, minimum, results: 0, failing_since: None, recent: 0, awaited: None, missing: false }
    }

    /// The failures in a row that are DOWN, if an endpoint of which nothing is known needs nothing else looked at: so
    /// many failures are as many results.
    pub(super) fn plain(&self) -> Option<NonZeroU32> {
        match self.trigger.0 {
            Checked::Consecutive(failures) if self.minimum <= failures => NonZeroU32::new(failures),
            _ => None,
        }
    }

    /// The same once the results counted here are enough.
    pub(super) fn plain_from_now(&self) -> Option<NonZeroU32> {
        match self.trigger.0 {
            Checked::Consecutive(failures) if self.results >= self.minimum => NonZeroU32::new(failures),
            _ => None,
        }
    }

    /// Whether it is armed and remembers no failure, so that a success leaves it as it is. True after no failure.
    pub(super) fn is_calm(&self) -> bool {
        self.results >= self.minimum && self.failing_since.is_none() && self.recent == 0
    }

    /// The trigger is `own` from now on; whether that is another one than before. Its memory is another, so it has to
    /// be armed anew.
    pub(super) fn replace(&mut self, policy: &Policy, own: Option<Trigger>) -> bool {
        let new = Self::new(policy, own);
        let changed = new.trigger != self.trigger;
        if changed {
            *self = Self { awaited: self.awaited, missing: self.missing, ..new };
        }
        changed
    }

    /// What was seen proves nothing any more: the trigger has to be armed anew.
    pub(super) fn refill(&mut self) {
        (self.results, self.failing_since, self.recent) = (0, None, 0);
        self.awaited = None;
    }

    /// Goes on counting results, of which there were enough for failures in a row so far.
    pub(super) fn go_on_armed(&mut self) {
        self.results = self.minimum;
    }

    /// A result is due within `span` nanoseconds. One is awaited at a time.
    pub(super) fn await_result(&mut self, now: Timestamp, span: u64) {
        self.awaited.get_or_insert((now, span));
    }

    /// A result came.
    pub(super) fn answered(&mut self) {
        self.awaited = None;
    }

    /// The span of the result that is awaited.
    pub(super) fn awaited_for(&self) -> Option<u64> {
        self.awaited.map(|(_, span)| span)
    }

    /// When the awaited result is overdue, or the end of time before that.
    pub(super) fn overdue_at(&self) -> Option<Timestamp> {
        self.awaited.map(|(since, span)| Timestamp::from_nanos(since.as_nanos().saturating_add(span)))
    }

    /// Whether the awaited result is missing by now, in which case it is awaited no more.
    pub(super) fn gives_up(&mut self, now: Timestamp) -> bool {
        self.missing = self.awaited.is_some_and(|(since, span)| now.nanos_since(since) >= span);
        if self.missing {
            self.awaited = None;
        }
        self.missing
    }

    /// Whether [`gives_up`](Self::gives_up) said so the last time.
    pub(super) fn is_missing(&self) -> bool {
        self.missing
    }

    /// The state after a result.
    pub(super) fn judge(&mut self, seen: Seen) -> EndpointState {
        self.results = self.results.saturating_add(1).min(self.minimum);
        let armed = self.results >= self.minimum;
        let holds = self.holds(seen);
        match (seen.failed, seen.before) {
            // A failure never makes it better.
            (true, EndpointState::Down) => EndpointState::Down,
            (true, _) if armed && holds => EndpointState::Down,
            (true, _) => EndpointState::Degraded,
            // A success never makes it worse.
            (false, EndpointState::Down) if holds => EndpointState::Down,
            (false, _) => EndpointState::Healthy,
        }
    }

    /// Remembers a result; whether the condition holds with it.
    fn holds(&mut self, Seen { now, failed, failures, gap, most, .. }: Seen) -> bool {
        match self.trigger.0 {
            Checked::Consecutive(threshold) => failures >= threshold,
            Checked::Window(_) if !failed => {
                self.failing_since = None;
                false
            }
            Checked::Window(span) => {
                let unbroken = gap.is_some_and(|gap| gap <= most);
                let since = self.failing_since.filter(|_| unbroken).unwrap_or(now);
                self.failing_since = Some(since);
                now.nanos_since(since) >= span
            }
            Checked::Failures { failures, of } => {
                let looked_at = u64::MAX >> (u64::BITS - of);
                self.recent = (self.recent << 1 | u64::from(failed)) & looked_at;
                self.recent.count_ones() >= failures
            }
        }
    }
}

/// What a journal must keep of an endpoint so that its trigger goes on where it was.
#[cfg(feature = "supervisor")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// The state that the trigger came to.
    pub(crate) state: EndpointState,
    /// Results since it was last disarmed, as far as they are counted.
    pub(crate) results: u32,
    /// Whether it counts failures in a row and nothing else by now.
    pub(crate) plain: bool,
    /// When the present run of failures began.
    pub(crate) failing_since: Option<Timestamp>,
    /// The newest results, the last one lowest, failures set.
    pub(crate) recent: u64,
}

#[cfg(feature = "supervisor")]
impl Patience {
    /// What is remembered, if it is more than the counters of `health` say.
    pub(super) fn evidence(&self, state: EndpointState, plain: bool) -> Option<Evidence> {
        let Self { results, failing_since, recent, .. } = *self;
        let untouched = results == 0 && plain == self.plain().is_some();
        (!untouched).then_some(Evidence { state, results, plain, failing_since, recent })
    }

    /// Whether it asks the same of results as `other`.
    pub(super) fn judges_as(&self, other: &Self) -> bool {
        self.trigger == other.trigger && self.minimum == other.minimum
    }

    /// Goes on from there.
    pub(super) fn recall(&mut self, evidence: &Evidence) -> Option<NonZeroU32> {
        self.results = evidence.results.min(self.minimum);
        self.failing_since = evidence.failing_since;
        self.recent = evidence.recent;
        self.plain_from_now().filter(|_| evidence.plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::PolicySettings;

    fn refusal(rule: TriggerRule) -> String {
        Trigger::new(rule).unwrap_err().to_string()
    }

    #[test]
    fn what_could_never_fire_or_never_fit_is_refused_with_the_bounds() {
        assert_eq!(refusal(TriggerRule::Consecutive(0)), "consecutive is 0; expected 1 to 4294967295");
        assert_eq!(
            refusal(TriggerRule::Window(Duration::ZERO)),
            "window is 0ns; expected 1ns to 18446744073709551615ns"
        );
        let failures = |failures, of| refusal(TriggerRule::Failures { failures, of });
        assert_eq!(failures(0, 3), "failures is 0; expected 1 to 4294967295");
        assert_eq!(failures(1, 0), "of is 0; expected 1 to 64");
        assert_eq!(failures(1, 65), "of is 65; expected 1 to 64");
        assert_eq!(failures(4, 3), "failures is 4; expected at most of, which is 3");
        assert!(Trigger::new(TriggerRule::Failures { failures: 64, of: 64 }).is_ok());
    }

    #[test]
    fn all_the_results_that_can_be_looked_at_are() {
        let trigger = Trigger::new(TriggerRule::Failures { failures: 64, of: 64 }).unwrap();
        let mut patience = Patience::new(&Policy::default(), Some(trigger));
        let mut state = EndpointState::Unknown;
        let mut record = |failed| {
            let (now, before) = (Timestamp::ZERO, state);
            state = patience.judge(Seen { now, failed, failures: 0, gap: None, most: 0, before });
            state
        };
        for _ in 0..63 {
            assert_eq!(record(true), EndpointState::Degraded);
        }
        assert_eq!(record(true), EndpointState::Down);
        assert_eq!(record(false), EndpointState::Healthy);
        for _ in 0..63 {
            assert_eq!(record(true), EndpointState::Degraded);
        }
        assert_eq!(record(true), EndpointState::Down);
    }

    #[test]
    fn only_failures_in_a_row_without_a_longer_history_are_plain() {
        let plain = |settings, own| Patience::new(&Policy::new(settings).unwrap(), own).plain().map(NonZeroU32::get);
        let default = PolicySettings::default;
        assert_eq!(plain(default(), None), Some(3));
        assert_eq!(plain(PolicySettings { minimum_history: Some(3), ..default() }, None), Some(3));
        assert_eq!(plain(PolicySettings { minimum_history: Some(4), ..default() }, None), None);
        assert_eq!(plain(default(), Trigger::new(TriggerRule::Consecutive(7)).ok()), Some(7));
        assert_eq!(plain(default(), Trigger::new(TriggerRule::Window(Duration::from_secs(1))).ok()), None);
    }
}
