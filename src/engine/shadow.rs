//! An engine beside another one: told the same, under another policy, and never asked to decide.

use super::decision::SwitchEvent;
use super::health::{Health, ProbeResult};
use super::policy::Policy;
use super::time::Timestamp;
use super::trigger::Patience;
use super::{EndpointState, Engine, Standing};

/// Results in a row that are judged anew. More than these decide under no policy that anybody writes.
const MOST_JUDGED: u32 = 100_000;

impl Engine {
    /// This engine, as far as it is known, had `policy` been in force. Of an endpoint whose trigger is another one now,
    /// only the results in a row are known, and when the last of them came: what a window remembers is not.
    pub(crate) fn under(&self, policy: Policy) -> Self {
        let mut other = Self { policy, ..self.clone() };
        let observed = other.observer.is_some();
        let known = other.standings.iter_mut().zip(&mut other.patiences);
        for ((_, endpoint), (standing, patience)) in self.roster.iter().zip(known) {
            let judge = Patience::new(&other.policy, endpoint.trigger);
            if !judge.judges_as(patience) {
                *patience = judge;
                *standing = standing.judged(patience, observed, other.policy.max_health_age);
            }
        }
        other.rebuild_targets();
        other
    }

    /// Goes where `leader`, an engine of the same endpoints, is after it `switched`, if it did. What this one's policy
    /// keeps of switches it keeps as if it had made them itself.
    pub(crate) fn follow(&mut self, now: Timestamp, leader: &Self, switched: Option<SwitchEvent>) {
        if let Some(event) = switched {
            self.commit_switch(now, event);
        }
        (self.active, self.flow, self.latest) = (leader.active, leader.flow, leader.latest);
        self.halt.clone_from(&leader.halt);
    }
}

impl Standing {
    /// The same results in a row under another trigger.
    fn judged(&self, patience: &mut Patience, observed: bool, max_health_age: u64) -> Self {
        let mut judged = Self::new(patience, self.maintenance, self.bars).observed(observed);
        let health = &self.health;
        let Some(at) = health.probed_at() else { return judged };
        let (failures, successes) = (health.consecutive_failures(), health.consecutive_successes());
        let error = health.last_probe_error().map(str::to_owned);
        let result = error.clone().map_or(ProbeResult::Success, |text| ProbeResult::Failure(text.into()));
        for _ in 0..failures.max(successes).min(MOST_JUDGED) {
            match judged.plain {
                Some(threshold) => drop(judged.health.record(at, result.clone(), threshold.get())),
                None => {
                    judged.health.record_patiently(at, result.clone(), patience, max_health_age);
                    judged.plain = patience.plain_from_now().filter(|_| !observed);
                }
            }
        }
        let state: EndpointState = judged.health.state();
        judged.health = Health::recalled(state, (failures, successes), at, error);
        judged
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Endpoint, PolicySettings, Trigger, TriggerRule};
    use super::*;

    const S: u64 = 1_000_000_000;

    fn policy(rule: TriggerRule) -> Policy {
        let failure_threshold = if let TriggerRule::Consecutive(failures) = rule { failures } else { 3 };
        let trigger = Trigger::new(rule).ok();
        Policy::new(PolicySettings { failure_threshold, trigger, ..PolicySettings::default() }).unwrap()
    }

    /// An engine whose primary came to these results, one a second.
    fn probed(rule: TriggerRule, results: &str) -> Engine {
        let mut engine = Engine::new(policy(rule));
        let east = engine.register(Endpoint::primary("east", "e", "east")).unwrap();
        engine.register(Endpoint::backup("west", "w", "west", 10)).unwrap();
        for (second, result) in (1..).zip(results.chars()) {
            let result = if result == '+' { ProbeResult::Success } else { ProbeResult::FAILED };
            engine.record_probe(Timestamp::from_nanos(second * S), east, result).unwrap();
        }
        engine
    }

    #[test]
    fn results_in_a_row_are_judged_by_the_other_policy_and_no_others_are_known_to_it() {
        use EndpointState::{Degraded, Down, Healthy, Unknown};
        let consecutive = TriggerRule::Consecutive;
        let (among, window) =
            (TriggerRule::Failures { failures: 3, of: 5 }, TriggerRule::Window(Duration::from_secs(2)));
        let cases = [
            (consecutive(3), "+xx", consecutive(2), Down),
            (consecutive(2), "+xx", consecutive(3), Degraded),
            (consecutive(3), "", consecutive(1), Unknown),
            (consecutive(3), "x+", consecutive(1), Healthy),
            // Those before the run are no longer known.
            (consecutive(3), "x+xx", among, Degraded),
            (consecutive(4), "+xxx", among, Down),
            // Nor is when the run began.
            (consecutive(5), "+xxxx", window, Degraded),
            (among, "xx+x+", consecutive(3), Healthy),
        ];
        for (rule, results, other, expected) in cases {
            let engine = probed(rule, results);
            let east = engine.active().unwrap();
            let shadow = engine.under(policy(other));
            assert_eq!(shadow.health(east).unwrap().state(), expected, "{rule:?} {results} {other:?}");
            let counts = |engine: &Engine| {
                let health = engine.health(east).unwrap();
                (health.consecutive_failures(), health.consecutive_successes(), health.probed_at())
            };
            assert_eq!(counts(&engine), counts(&shadow));
            assert_eq!(engine.order_flow(), shadow.order_flow());
        }
    }

    #[test]
    fn under_its_own_policy_an_engine_is_itself() {
        for rule in [
            TriggerRule::Consecutive(3),
            TriggerRule::Failures { failures: 3, of: 5 },
            TriggerRule::Window(Duration::from_secs(2)),
        ] {
            let engine = probed(rule, "+x+xx");
            assert_eq!(engine.under(engine.policy().clone()), engine);
        }
    }
}
