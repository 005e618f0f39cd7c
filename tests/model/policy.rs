//! The policy, and how times are written in a scenario.

use super::*;

/// What has to be so for an endpoint to become DOWN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trigger {
    InARow(usize),
    AllOf(Nanos),
    Among { failures: usize, of: usize },
}

impl Trigger {
    pub(crate) fn new(json: &Json) -> Self {
        let number = |key| json.u64(key).map(|number| number as usize);
        match (number("consecutive"), json.str("window"), number("failures")) {
            (Some(failures), ..) => Self::InARow(failures),
            (_, Some(window), _) => Self::AllOf(duration(window)),
            (.., failures) => Self::Among {
                failures: failures.expect("failures, if nothing else"),
                of: number("of").expect("of, beside failures"),
            },
        }
    }

    pub(crate) fn needs_of(json: &Json) -> u64 {
        Self::new(json).needs() as u64
    }

    /// It can't possibly be so with fewer results.
    pub(crate) fn needs(self) -> usize {
        match self {
            Self::InARow(failures) | Self::Among { failures, .. } => failures,
            Self::AllOf(_) => 2,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) trigger: Trigger,
    minimum_history: usize,
    pub(crate) silence_is_failure: bool,
    pub(crate) cooldown: Nanos,
    pub(crate) cooldown_max: Option<Nanos>,
    pub(crate) max_health_age: Nanos,
    pub(crate) failback_success_threshold: u64,
    pub(crate) require_fence: bool,
    pub(crate) max_failbacks_per_window: usize,
    pub(crate) failback_window: Nanos,
    pub(crate) require_reconciliation: bool,
    pub(crate) operator_ends_halt: bool,
    pub(crate) history_limit: usize,
}

impl Policy {
    /// Every key is optional, and so is the policy itself.
    pub(super) fn new(policy: Option<&Json>) -> Self {
        let none = Json::object([]);
        let policy = policy.unwrap_or(&none);
        let count = |key, default| policy.u64(key).unwrap_or(default);
        let span = |key, default| duration(policy.str(key).unwrap_or(default));
        let in_a_row = Trigger::InARow(count("failure_threshold", 3) as usize);
        Self {
            trigger: policy.get("trigger").map_or(in_a_row, Trigger::new),
            minimum_history: count("minimum_history", 0) as usize,
            silence_is_failure: policy.str("silence") == Some("failure"),
            cooldown: span("cooldown", "60s"),
            cooldown_max: policy.str("cooldown_max").map(duration),
            max_health_age: span("max_health_age", "30s"),
            failback_success_threshold: count("failback_success_threshold", 3),
            require_fence: policy.bool("require_fence").unwrap_or(true),
            max_failbacks_per_window: count("max_failbacks_per_window", 3) as usize,
            failback_window: span("failback_window", "1h"),
            require_reconciliation: policy.bool("require_reconciliation").unwrap_or(true),
            operator_ends_halt: policy.str("resume_after_halt") == Some("operator"),
            history_limit: count("history_limit", 256) as usize,
        }
    }
}

impl Policy {
    pub(crate) fn trigger_of(&self, endpoint: &Endpoint) -> Trigger {
        endpoint.trigger.as_ref().map_or(self.trigger, Trigger::new)
    }

    /// Whether what the trigger is waiting for is so, with the newest of these results.
    pub(super) fn is_so(&self, trigger: Trigger, results: &[(Nanos, bool)]) -> bool {
        let newest = |count: usize| &results[results.len().saturating_sub(count)..];
        let failures = |results: &[(Nanos, bool)]| results.iter().filter(|(_, failed)| *failed).count();
        match trigger {
            Trigger::InARow(count) => failures(newest(count)) == count,
            Trigger::Among { failures: count, of } => failures(newest(of)) >= count,
            // The newest failures with no success among them, and no hole between them that is longer than a result
            // counts as evidence.
            Trigger::AllOf(window) => {
                let Some((now, _)) = results.last() else { return false };
                let mut began = None;
                let mut next = *now;
                for (at, failed) in results.iter().rev() {
                    if !failed || next - at > self.max_health_age {
                        break;
                    }
                    began = Some(*at);
                    next = *at;
                }
                began.is_some_and(|began| now - began >= window)
            }
        }
    }

    /// How many results there have to be before anything is concluded from them.
    pub(crate) fn minimum_history(&self, trigger: Trigger) -> usize {
        self.minimum_history.max(trigger.needs())
    }
}

/// Seconds as a plain decimal with up to nine places, in nanoseconds.
pub(crate) fn seconds(text: &str) -> Nanos {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{fraction:0<9}").parse().expect("a plain decimal")
}

/// `"1h 30m"`: integers with units, added up.
pub(super) fn duration(text: &str) -> Nanos {
    let compact: String = text.chars().filter(|c| *c != ' ').collect();
    let mut rest = compact.as_str();
    let mut sum = 0;
    while !rest.is_empty() {
        let unit_at = rest.find(char::is_alphabetic).expect("a unit");
        let (number, tail) = rest.split_at(unit_at);
        let (unit, tail) = tail.split_at(tail.find(char::is_numeric).unwrap_or(tail.len()));
        let nanos = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60 * 1_000_000_000,
            "h" => 3_600 * 1_000_000_000,
            "d" => 86_400 * 1_000_000_000,
            other => panic!("the unit {other}"),
        };
        sum += number.parse::<Nanos>().expect("a number") * nanos;
        rest = tail;
    }
    sum
}
