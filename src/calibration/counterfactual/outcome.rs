//! What a replay came to.

use std::time::Duration;

use crate::engine::{Reason, SwitchKind};

use super::Assumptions;

/// What the engine would have done with a history. Moments are nanoseconds since 1970; endpoints are places in
/// [`endpoints`](Self::endpoints).
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The group.
    pub group: String,
    /// Its endpoints, in the order of the configuration.
    pub endpoints: Vec<String>,
    /// The primary, on which flow begins.
    pub primary: usize,
    /// What was assumed.
    pub assumptions: Assumptions,
    /// A longer span without any result is a stop of the monitor: the policy's `max_health_age`.
    pub gap: Duration,
    /// Time of the first result.
    pub first: u64,
    /// Time of the last result.
    pub last: u64,
    /// Results.
    pub samples: u64,
    /// Every switch, in order.
    pub switches: Vec<Switch>,
    /// Outages of the active path that were not left, or left late, in the order of their ends.
    pub outages: Vec<Outage>,
    /// Halts, in order.
    pub halts: Vec<Halt>,
    /// When a failback became possible that is left to a person.
    pub failback_possible: Vec<u64>,
    /// Sums of times.
    pub totals: Totals,
}

/// A switch that the engine would have made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    /// When the path began to be left: its fence was asked for, or without a fence flow moved.
    pub decided: u64,
    /// When it was SWITCHED, after the fence.
    pub switched: u64,
    /// When orders could be sent on the target; `None` if never before the next switch.
    pub opened: Option<u64>,
    /// The path that was left.
    pub from: usize,
    /// The path that was gone to; the same one for a re-arm.
    pub to: usize,
    /// What kind it was.
    pub kind: SwitchKind,
    /// The engine's reason.
    pub reason: Option<Reason>,
    /// The new epoch.
    pub epoch: u64,
    /// Since when the path that was left had been failing, when it was decided.
    pub failing_since: Option<u64>,
    /// What became of the path that was left.
    pub afterwards: Afterwards,
    /// What became of the path that was gone to.
    pub stay: Stay,
}

/// What the history says of the path that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It went on failing after flow was open on the target, for longer than the switch had held flow.
    Saved {
        /// From flow open on the target until the path answered again, or for as long as it was seen to fail.
        time: Duration,
        /// When it answered again; `None` if the history does not show it: then it was at least that time.
        recovered: Option<u64>,
    },
    /// A false failover: it answered again during the switch, or before it had failed for longer than the switch had
    /// held flow. Waiting would have been no worse.
    False {
        /// When it answered again.
        recovered: u64,
    },
    /// Flow never opened on the target before the path answered again, since the target failed too.
    InVain {
        /// When it answered again.
        recovered: u64,
    },
    /// The history does not say: it has no result of the path that tells.
    Unknown,
    /// It was left for the primary, or re-armed: it was not bad.
    Well,
}

/// The time on the path that was gone to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// When it was left in turn; `None` if the history ended first.
    pub until: Option<u64>,
    /// For how long flow was open there while it failed.
    pub failing: Duration,
    /// For how long trading was halted there.
    pub halted: Duration,
}

impl Switch {
    /// For how long flow was held by it; `None` if flow never opened.
    #[must_use]
    pub fn held(&self) -> Option<Duration> {
        self.opened.map(|opened| Duration::from_nanos(opened.saturating_sub(self.decided)))
    }

    /// Whether it was a false failover.
    #[must_use]
    pub fn is_false(&self) -> bool {
        matches!(self.afterwards, Afterwards::False { .. })
    }
}

/// An outage of the active path that was not left, or too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The endpoint.
    pub endpoint: usize,
    /// Its first failed result.
    pub start: u64,
    /// The success that ended it; `None` if the history does not show one.
    pub end: Option<u64>,
    /// Its last failed result.
    pub last_failure: u64,
    /// When the path began to be left, if it was.
    pub left: Option<u64>,
    /// When orders could be sent again, on whichever path; `None` if the history ended first.
    pub flow_back: Option<u64>,
    /// Why it was not left, or late.
    pub why: Why,
}

impl Outage {
    /// From its first failed result to its last.
    #[must_use]
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.last_failure.saturating_sub(self.start))
    }
}

/// Why an outage was not left, or late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The path never was DOWN: its trigger did not fire.
    NotDown,
    /// There was nowhere to go.
    NoTarget,
    /// Nothing could be evaluated: an endpoint had had no result since the start or a stop of the monitor.
    Unheard,
    /// It was left, and flow was not back within the stated time.
    Late,
}

impl Why {
    /// The upper-case name that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotDown => "NOT_DOWN",
            Self::NoTarget => "NO_TARGET",
            Self::Unheard => "UNHEARD",
            Self::Late => "LATE",
        }
    }

    /// In words.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NotDown => "its trigger did not fire",
            Self::NoTarget => "there was nowhere to go",
            Self::Unheard => "another endpoint had had no result yet",
            Self::Late => "it was left, and flow was not back in time",
        }
    }
}

/// A halt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// The active endpoint when it began.
    pub endpoint: usize,
    /// Its code, such as NO_TARGET_AVAILABLE.
    pub code: String,
    /// When it began.
    pub start: u64,
    /// When it was over; `None` if the history ended first.
    pub end: Option<u64>,
}

/// Sums of times. Spans in which the monitor had stopped are in none but [`stopped`](Self::stopped).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// From the first result to the last one.
    pub observed: Duration,
    /// Stops of the monitor.
    pub stops: u64,
    /// For how long the monitor had stopped.
    pub stopped: Duration,
    /// Flow was open on a path that answered.
    pub well: Duration,
    /// Flow was open on a path that failed.
    pub failing: Duration,
    /// Flow was open on a path without a fresh result.
    pub stale: Duration,
    /// Flow was held.
    pub held: Duration,
    /// Trading was halted.
    pub halted: Duration,
    /// The primary failed: without any failover flow would have been on a path that failed for so long.
    pub primary_failing: Duration,
}

impl Totals {
    /// For how long no order could be sent on a path that answered: open on one that failed, held, or halted.
    #[must_use]
    pub fn lost(&self) -> Duration {
        self.failing.saturating_add(self.held).saturating_add(self.halted)
    }

    /// Seconds by which that is less than without any failover; negative if it is more.
    #[must_use]
    pub fn gained_seconds(&self) -> f64 {
        self.primary_failing.as_secs_f64() - self.lost().as_secs_f64()
    }
}

impl Replayed {
    /// Failovers.
    pub fn failovers(&self) -> impl Iterator<Item = &Switch> {
        self.switches.iter().filter(|switch| switch.kind == SwitchKind::Failover)
    }

    /// False failovers.
    #[must_use]
    pub fn false_failovers(&self) -> usize {
        self.switches.iter().filter(|switch| switch.is_false()).count()
    }

    /// The failback that undid the switch at `place`, if the next one is one.
    #[must_use]
    pub fn failback_after(&self, place: usize) -> Option<&Switch> {
        self.switches.get(place + 1).filter(|next| next.kind == SwitchKind::Failback)
    }

    /// What the switch at `place` cost: flow held by it and, if it was no failback itself, by the failback that undid it,
    /// and the time on its target in which that failed or trading was halted.
    #[must_use]
    pub fn cost(&self, place: usize) -> Duration {
        let Some(switch) = self.switches.get(place) else { return Duration::ZERO };
        let held = switch.held().unwrap_or_default();
        if switch.kind == SwitchKind::Failback {
            return held;
        }
        let failback = self.failback_after(place).and_then(Switch::held).unwrap_or_default();
        held.saturating_add(failback).saturating_add(switch.stay.failing).saturating_add(switch.stay.halted)
    }

    /// What all failovers saved: for how long the paths that were left went on failing while flow was open elsewhere.
    #[must_use]
    pub fn saved(&self) -> Duration {
        let times = self.switches.iter().map(|switch| match switch.afterwards {
            Afterwards::Saved { time, .. } => time,
            _ => Duration::ZERO,
        });
        times.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// What all false failovers cost.
    #[must_use]
    pub fn cost_of_false(&self) -> Duration {
        let places = (0..self.switches.len()).filter(|place| self.switches.get(*place).is_some_and(Switch::is_false));
        places.fold(Duration::ZERO, |sum, place| sum.saturating_add(self.cost(place)))
    }

    /// From nanoseconds since the first result to nanoseconds since 1970.
    pub(super) fn move_to_wall_time(&mut self, first: u64) {
        let wall = |at: &mut u64| *at = at.saturating_add(first);
        for switch in &mut self.switches {
            [&mut switch.decided, &mut switch.switched].into_iter().for_each(wall);
            switch.opened.iter_mut().chain(&mut switch.failing_since).chain(&mut switch.stay.until).for_each(wall);
            match &mut switch.afterwards {
                Afterwards::Saved { recovered, .. } => recovered.iter_mut().for_each(wall),
                Afterwards::False { recovered } | Afterwards::InVain { recovered } => wall(recovered),
                Afterwards::Unknown | Afterwards::Well => {}
            }
        }
        for outage in &mut self.outages {
            [&mut outage.start, &mut outage.last_failure].into_iter().for_each(wall);
            outage.end.iter_mut().chain(&mut outage.left).chain(&mut outage.flow_back).for_each(wall);
        }
        for halt in &mut self.halts {
            wall(&mut halt.start);
            halt.end.iter_mut().for_each(wall);
        }
        self.failback_possible.iter_mut().for_each(wall);
    }
}
