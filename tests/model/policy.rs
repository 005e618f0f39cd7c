//! The policy, and how times are written in a scenario.

use super::*;

#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) failure_threshold: u64,
    pub(crate) cooldown: Nanos,
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
        Self {
            failure_threshold: count("failure_threshold", 3),
            cooldown: span("cooldown", "60s"),
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

/// Seconds as a plain decimal with up to nine places, in nanoseconds.
pub(crate) fn seconds(text: &str) -> Nanos {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{fraction:0<9}").parse().expect("a plain decimal")
}

/// `"1h 30m"`: integers with units, added up.
fn duration(text: &str) -> Nanos {
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
