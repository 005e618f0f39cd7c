//! What the settings promise: from a fault to DOWN, and until orders flow again.

use std::time::Duration;

use crate::engine::TriggerRule;
use crate::planning::{self, Detection, Stages, Trigger};

use super::build::Builder;
use super::read::Table;
use super::{GroupConfig, Hook, ProbeKind, Probing};

impl GroupConfig {
    /// How its paths are probed, as [`planning`] sees it.
    #[must_use]
    pub fn timing(&self) -> planning::Probing {
        planning::Probing::nearest(self.probing.interval, self.probing.interval_when_failing, self.probing.timeout)
    }

    /// What makes each path DOWN, one of each kind. Of a real outage every result is a failure, so `failures = K, of = N`
    /// takes K in a row.
    #[must_use]
    pub fn triggers(&self) -> Vec<Trigger> {
        let mut triggers = Vec::new();
        for one in &self.endpoints {
            let trigger = match one.endpoint.trigger.unwrap_or(self.policy.trigger()).rule() {
                TriggerRule::Consecutive(failures) | TriggerRule::Failures { failures, .. } => {
                    Trigger::Consecutive(failures)
                }
                TriggerRule::Window(span) => Trigger::Window(span),
            };
            if !triggers.contains(&trigger) {
                triggers.push(trigger);
            }
        }
        triggers
    }

    /// Whether some path is DOWN with failures that need not follow each other, which no closed form of [`planning`] knows.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        let mut rules = self.endpoints.iter().map(|one| one.endpoint.trigger.unwrap_or(self.policy.trigger()).rule());
        rules.any(|rule| matches!(rule, TriggerRule::Failures { failures, of } if failures < of))
    }

    /// Detection time bounds, from a fault to DOWN, over all endpoints.
    #[must_use]
    pub fn detection(&self) -> Detection {
        let bounds = self.triggers().into_iter().map(|trigger| self.timing().detection(trigger));
        let widest = |all: Detection, one: Detection| Detection {
            refused: (all.refused.0.min(one.refused.0), all.refused.1.max(one.refused.1)),
            hung: (all.hung.0.min(one.hung.0), all.hung.1.max(one.hung.1)),
        };
        let mut all = bounds
            .reduce(widest)
            .unwrap_or(Detection { refused: (Duration::ZERO, Duration::ZERO), hung: (Duration::ZERO, Duration::ZERO) });
        all.hung.1 = all.hung.1.saturating_add(self.heartbeats());
        all
    }

    /// For how long, at worst, reports go on saying that a session works on which nothing comes in any more: until its
    /// heartbeat is too old, and until the next report, which comes within `max_silence`.
    fn heartbeats(&self) -> Duration {
        let probes = self.endpoints.iter().flat_map(|one| &one.probes);
        let late = probes.filter_map(|probe| match &probe.kind {
            ProbeKind::Report(report) => Some(report.max_heartbeat_age.saturating_add(report.max_silence)),
            _ => None,
        });
        late.max().unwrap_or_default()
    }

    /// What comes after detection, if the last level of every hook succeeds at its deadline: the flow hook's answer, the
    /// fence, the switch, and the reconciliation. The gate is the flow hook, the promotion the fence, the shift the switch,
    /// and the state load the reconciliation.
    #[must_use]
    pub fn stages(&self) -> Stages {
        let (settings, hooks) = (self.policy.settings(), &self.hooks);
        let fences = if settings.require_fence { &*hooks.fence } else { &[] };
        let told = hooks.flow.first().filter(|_| !fences.is_empty());
        let settled = if settings.require_reconciliation { &*hooks.reconcile } else { &[] };
        Stages {
            gate: deadlines(told),
            promotion: deadlines(fences),
            shift: deadlines(&hooks.switch),
            state_load: deadlines(settled),
            ..Stages::NONE
        }
    }

    /// The hook without which only a person can complete a failover.
    #[must_use]
    pub fn needs_person(&self) -> Option<&'static str> {
        let settings = self.policy.settings();
        if settings.require_fence && self.hooks.fence.is_empty() {
            Some("fence")
        } else if settings.require_reconciliation && self.hooks.reconcile.is_empty() {
            Some("reconcile")
        } else {
            None
        }
    }
}

/// All of them, one after the other, each as long as it may take.
fn deadlines<'a>(hooks: impl IntoIterator<Item = &'a Hook>) -> Duration {
    hooks.into_iter().fold(Duration::ZERO, |sum, hook| sum.saturating_add(hook.timeout))
}

/// A recovery time that is stated must be one that the settings can keep.
pub(super) fn lint(builder: &mut Builder<'_>, table: &Table, group: &GroupConfig) {
    let Some(rto) = group.rto else { return };
    if let Some(hook) = group.needs_person() {
        let found = format!("{rto:?} cannot be met: there is no {hook} hook, so every failover waits for a person");
        return builder.error(table, "rto", found, format!("a {hook} hook, or no rto"));
    }
    let (timing, stages) = (group.timing(), group.stages());
    let hold = stages.downstream();
    if hold > group.max_hold {
        let found = format!(
            "{rto:?} cannot be met: the hooks may take {hold:?}, and max_hold halts after {:?}",
            group.max_hold
        );
        return builder.error(
            table,
            "rto",
            found,
            format!("max_hold of at least {hold:?}, or shorter deadlines of hooks"),
        );
    }
    let detection = group.detection().hung.1;
    let worst = stages.recovery(detection);
    if worst <= rto {
        return;
    }
    let failures = group.triggers().iter().map(|trigger| trigger.failures(&timing)).max().unwrap_or(1);
    let Probing { interval, interval_when_failing, timeout, .. } = group.probing;
    let further = failures.saturating_sub(1);
    let mut found = format!(
        "{rto:?} cannot be met: at worst {worst:?}, of which detection {detection:?} (interval {interval:?} + {further} x \
         interval_when_failing {interval_when_failing:?} + timeout {timeout:?}"
    );
    let late = group.heartbeats();
    if !late.is_zero() {
        found.push_str(&format!(" + max_heartbeat_age and max_silence {late:?}"));
    }
    found.push(')');
    let parts = [
        ("flow", stages.gate),
        ("fence", stages.promotion),
        ("switch", stages.shift),
        ("reconcile", stages.state_load),
    ];
    for (hook, time) in parts.into_iter().filter(|(_, time)| !time.is_zero()) {
        found.push_str(&format!(" + {hook} {time:?}"));
    }
    let mut expected = format!("at least {worst:?}, or shorter deadlines of hooks");
    if let Some(left) = stages.detection_left(rto).and_then(|left| left.checked_sub(late)) {
        if let Some(most) = timing.most_failures_within(left) {
            let plain = group.triggers() == [Trigger::Consecutive(group.policy.settings().failure_threshold)];
            let key = if plain { "failure_threshold at most" } else { "a trigger that takes, in a row, at most" };
            expected.push_str(&format!(", or {key} {most}"));
        }
        if let Some(longest) = timing.longest_interval_within(failures, left) {
            // Rounded down to what people write.
            let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
            let longest = if millis > 0 { Duration::from_millis(millis) } else { longest };
            expected.push_str(&format!(", or interval at most {longest:?} and interval_when_failing in proportion"));
        }
    }
    builder.error(table, "rto", found, expected);
}
