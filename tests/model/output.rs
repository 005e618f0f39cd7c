//! What is printed.

use super::*;

impl Model {
    pub(super) fn status(&self, now: Nanos) -> Json {
        let dropped = self.switches.len().saturating_sub(self.policy.history_limit);
        let history = self.switches[dropped..]
            .iter()
            .map(|switch| switch.json().with("applied", Json::Bool(switch.applied)))
            .collect();
        let targets = self.eligible_targets(now);
        let targets = targets.into_iter().map(|target| Json::text(&target.name)).collect();
        let recent = self.recent_failbacks(now);
        let kept = recent.len().saturating_sub(self.policy.max_failbacks_per_window);
        let failback_ages = recent[kept..].iter().map(|at| decimal(now - at)).collect();

        Json::object([
            ("active", optional(self.active.as_ref(), Json::text)),
            ("epoch", optional(self.active.as_ref(), |_| Json::number(self.epoch))),
            ("spent", Json::Bool(self.spent)),
            ("order_flow", self.order_flow()),
            ("eligible_targets", Json::List(targets)),
            ("history", Json::List(history)),
            ("history_dropped", Json::number(dropped)),
            ("operator_placed", Json::Bool(self.operator_placed)),
            ("last_switch_age", optional(self.switches.last(), |last| decimal(now - last.at))),
            ("failback_ages", Json::List(failback_ages)),
            ("endpoints", Json::List(self.endpoints.iter().map(|it| self.endpoint_json(it, now)).collect())),
        ])
    }

    fn endpoint_json(&self, endpoint: &Endpoint, now: Nanos) -> Json {
        let in_order = ["DEPTH", "ACCOUNT_MISMATCH", "SHARED_FATE"].into_iter();
        let bars: Vec<Json> = in_order.filter(|it| endpoint.bars.iter().any(|bar| bar == it)).map(Json::text).collect();
        let age = optional(endpoint.health.last_probe, |last| decimal(now - last));
        Json::object([
            ("name", Json::text(&endpoint.name)),
            ("region", Json::text(&endpoint.region)),
            ("url", Json::text(&endpoint.url)),
        ])
        .with("account", endpoint.account.as_ref().map(Json::text))
        .with("primary", Json::Bool(endpoint.primary))
        .with("priority", Json::number(endpoint.priority))
        .with("trigger", endpoint.trigger.clone())
        .with("maintenance", Json::Bool(endpoint.maintenance))
        .with("bars", (!bars.is_empty()).then_some(Json::List(bars)))
        .and(self.counters(endpoint))
        .with("health_age", age)
        .with("fresh", Json::Bool(self.is_fresh(endpoint, now)))
        .with("last_probe_error", last_probe_error(endpoint))
    }

    pub(super) fn counters(&self, endpoint: &Endpoint) -> Json {
        Json::object([
            ("state", Json::text(self.state(endpoint))),
            ("consecutive_failures", Json::number(endpoint.health.failures)),
            ("consecutive_successes", Json::number(endpoint.health.successes)),
        ])
    }

    pub(super) fn only_order_flow(&self) -> Json {
        Json::object([("order_flow", self.order_flow())])
    }

    pub(super) fn order_flow(&self) -> Json {
        let hold = |reason| Json::object([("state", Json::text("HOLD")), ("reason", Json::text(reason))]);
        match &self.flow {
            Flow::Starting => hold("STARTING"),
            Flow::Switching => hold("SWITCHING"),
            Flow::Reconciling => hold("RECONCILING"),
            Flow::Open { endpoint, epoch } => Json::object([
                ("state", Json::text("OPEN")),
                ("endpoint", Json::text(endpoint)),
                ("epoch", Json::number(epoch)),
            ]),
            Flow::Halt { code } => Json::object([("state", Json::text("HALT")), ("code", Json::text(code))]),
        }
    }
}

impl Switch {
    pub(super) fn json(&self) -> Json {
        Json::object([
            ("kind", Json::text(self.kind)),
            ("from", Json::text(&self.from)),
            ("to", Json::text(&self.to)),
            ("from_state", Json::text(self.from_state)),
            ("epoch", Json::number(self.epoch)),
        ])
    }
}

/// Absent when there is none; what makes a failure is kept until the next success.
pub(super) fn last_probe_error(endpoint: &Endpoint) -> Option<Json> {
    endpoint.health.last_error.as_ref().map(Json::text)
}

pub(super) fn optional<T>(value: Option<T>, json: impl FnOnce(T) -> Json) -> Json {
    value.map_or(Json::Null, json)
}

/// The shortest decimal with at least one place.
pub(crate) fn decimal(nanos: Nanos) -> Json {
    let (whole, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    Json::Number(format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction }))
}
