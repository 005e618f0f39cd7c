//! What a recovery consists of, and how its stages add up.

use std::fmt;
use std::time::Duration;

use super::tier::Tier;

/// One stage of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// From the fault until it counts as one.
    Detection,
    /// Checks and approval.
    Gate,
    /// The standby becomes the one that may write: fence, lease, epoch.
    Promotion,
    /// Machines that have to start first.
    Capacity,
    /// State that has to be loaded first.
    StateLoad,
    /// Traffic moves.
    Shift,
    /// Clients that keep the old address until it expires.
    Ttl,
    /// Clients that wait before they try again.
    Backoff,
}

impl Stage {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Detection => "detection",
            Self::Gate => "gate",
            Self::Promotion => "promotion",
            Self::Capacity => "capacity",
            Self::StateLoad => "state load",
            Self::Shift => "shift",
            Self::Ttl => "TTL",
            Self::Backoff => "backoff",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// When capacity and state load begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// After the promotion: they add up with gate and promotion.
    AfterPromotion,
    /// At detection, beside gate and promotion: only the longer side counts. They must be safe to undo, because nobody
    /// has approved anything yet.
    BesideGate,
}

/// How long each stage after detection takes.
///
/// ```text
/// after the promotion:  detection + gate + promotion + capacity + state load + shift + TTL + backoff
/// beside the gate:      detection + max(gate + promotion, capacity + state load) + shift + TTL + backoff
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Checks and approval.
    pub gate: Duration,
    /// From the fault on, the moment before which the gate does not close, however fast detection and approval are:
    /// [`Lease::earliest_claim`](super::Lease::earliest_claim). Zero: none.
    pub gate_not_before: Duration,
    /// The standby becomes the one that may write.
    pub promotion: Duration,
    /// Machines that have to start.
    pub capacity: Duration,
    /// State that has to be loaded.
    pub state_load: Duration,
    /// When capacity and state load begin.
    pub preparation: Preparation,
    /// Traffic moves.
    pub shift: Duration,
    /// Clients that keep the old address.
    pub ttl: Duration,
    /// Clients that wait before they try again.
    pub backoff: Duration,
}

/// A stage of one recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub stage: Stage,
    /// How long it takes.
    pub length: Duration,
    /// Whether it lengthens the recovery; false for what is hidden behind a longer stage beside it.
    pub counts: bool,
}

impl Stages {
    /// Every stage takes no time.
    pub const NONE: Self = Self {
        gate: Duration::ZERO,
        gate_not_before: Duration::ZERO,
        promotion: Duration::ZERO,
        capacity: Duration::ZERO,
        state_load: Duration::ZERO,
        preparation: Preparation::AfterPromotion,
        shift: Duration::ZERO,
        ttl: Duration::ZERO,
        backoff: Duration::ZERO,
    };

    /// The stages that a standby of this tier needs: a hot one neither capacity nor state load, a warm one no capacity.
    #[must_use]
    pub const fn for_tier(self, tier: Tier) -> Self {
        match tier {
            Tier::Hot => Self { capacity: Duration::ZERO, state_load: Duration::ZERO, ..self },
            Tier::Warm => Self { capacity: Duration::ZERO, ..self },
            Tier::Cold => self,
        }
    }

    /// From the fault until clients are served again.
    #[must_use]
    pub fn recovery(&self, detection: Duration) -> Duration {
        sum(self.steps(detection).into_iter().filter(|step| step.counts).map(|step| step.length))
    }

    /// What comes after detection, if detection is slow enough not to wait for
    /// [`gate_not_before`](Self::gate_not_before).
    #[must_use]
    pub fn downstream(&self) -> Duration {
        Self { gate_not_before: Duration::ZERO, ..*self }.recovery(Duration::ZERO)
    }

    /// The longest detection with which recovery takes at most `rto`. `None`: no detection is fast enough.
    #[must_use]
    pub fn detection_left(&self, rto: Duration) -> Option<Duration> {
        rto.checked_sub(self.downstream()).filter(|_| self.recovery(Duration::ZERO) <= rto)
    }

    /// Every stage, in the order of [`Stage`], with the gate as long as it is after this detection.
    #[must_use]
    pub fn steps(&self, detection: Duration) -> [Step; 8] {
        let gate = self.gate.max(self.gate_not_before.saturating_sub(detection));
        let decided = gate.saturating_add(self.promotion);
        let prepared = self.capacity.saturating_add(self.state_load);
        let (decision, preparation) = match self.preparation {
            Preparation::AfterPromotion => (true, true),
            Preparation::BesideGate => (decided >= prepared, decided < prepared),
        };
        let step = |stage, length, counts| Step { stage, length, counts };
        [
            step(Stage::Detection, detection, true),
            step(Stage::Gate, gate, decision),
            step(Stage::Promotion, self.promotion, decision),
            step(Stage::Capacity, self.capacity, preparation),
            step(Stage::StateLoad, self.state_load, preparation),
            step(Stage::Shift, self.shift, true),
            step(Stage::Ttl, self.ttl, true),
            step(Stage::Backoff, self.backoff, true),
        ]
    }
}

/// The sum, or the longest duration there is.
pub(super) fn sum(durations: impl IntoIterator<Item = Duration>) -> Duration {
    durations.into_iter().fold(Duration::ZERO, Duration::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn what_runs_beside_the_gate_costs_only_what_is_longer() {
        let beside = Stages { gate: S(10), promotion: S(20), preparation: Preparation::BesideGate, ..Stages::NONE };
        for (capacity, recovery) in [(0, 35), (29, 35), (30, 35), (31, 36), (100, 105)] {
            let stages = Stages { capacity: S(capacity), ..beside };
            assert_eq!(stages.recovery(S(5)), S(recovery), "capacity {capacity}");
        }
        let hidden = |capacity| {
            let steps = Stages { capacity: S(capacity), ..beside }.steps(S(5));
            steps.into_iter().filter(|step| !step.counts).map(|step| step.stage).collect::<Vec<_>>()
        };
        assert_eq!(hidden(30), [Stage::Capacity, Stage::StateLoad]);
        assert_eq!(hidden(31), [Stage::Gate, Stage::Promotion]);
    }

    #[test]
    fn the_gate_waits_for_the_lease_only_if_detection_is_fast() {
        let stages = Stages { gate: S(2), gate_not_before: S(15), promotion: S(1), ..Stages::NONE };
        for (detection, recovery) in [(0, 16), (12, 16), (13, 16), (14, 17), (60, 63)] {
            assert_eq!(stages.recovery(S(detection)), S(recovery), "detection {detection}");
        }
        assert_eq!(stages.detection_left(S(63)), Some(S(60)));
        assert_eq!(stages.detection_left(S(16)), Some(S(13)));
        assert_eq!(stages.detection_left(S(15)), None, "the lease alone takes longer");
    }

    #[test]
    fn both_sides_of_the_budget() {
        let stages = Stages { promotion: S(60), shift: S(120), ..Stages::NONE };
        assert_eq!(stages.detection_left(S(180)), Some(Duration::ZERO));
        assert_eq!(stages.detection_left(S(180) - Duration::from_nanos(1)), None);
    }

    #[test]
    fn nothing_wraps() {
        let stages = Stages { gate: Duration::MAX, promotion: Duration::MAX, backoff: Duration::MAX, ..Stages::NONE };
        assert_eq!(stages.recovery(Duration::MAX), Duration::MAX);
        assert_eq!(stages.detection_left(Duration::MAX), Some(Duration::ZERO));
    }
}
