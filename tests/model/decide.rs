//! The decisions: what each question is answered, and what a switch changes.

use super::output::optional;
use super::*;

struct Answer {
    outcome: &'static str,
    earliest_at: Option<Nanos>,
    event: Option<Switch>,
    fence_target: Option<String>,
}

impl Model {
    /// `evaluate`, `assess`, `switchover` and `rearm`: the checks that all share, the rule asked for, the notes.
    pub(super) fn decide(&mut self, now: Nanos, verb: &str, input: &Json) -> Result<Json, Refusal> {
        let Some(active_before) = self.active_endpoint().cloned() else {
            return Err("NO_ACTIVE_ENDPOINT");
        };
        let fenced_epoch = input.get("fence_epoch");
        if fenced_epoch.is_some_and(|epoch| !self.is_present_epoch(epoch)) {
            return Err("STALE_FENCE");
        }
        let confirmed = fenced_epoch.is_some() || input.bool("fence_confirmed") == Some(true);

        let mut notes = Vec::new();
        if active_before.health.last_probe.is_none() {
            notes.push(Json::text("NEVER_PROBED_ACTIVE"));
        } else if !self.is_fresh(&active_before, now) {
            notes.push(Json::text("STALE_ACTIVE"));
        }

        let argument = input.str(verb).unwrap_or_default();
        let answer = match (verb, argument) {
            ("evaluate" | "assess", "failover") => self.evaluate_failover(now, confirmed),
            ("evaluate" | "assess", "failback") => self.evaluate_failback(now, confirmed),
            ("switchover", target) => self.switchover(now, target, confirmed)?,
            ("assess", "switchover") => self.switchover(now, input.str("target").expect("a target"), confirmed)?,
            ("rearm", _) => self.rearm(now)?,
            (verb, argument) => unreachable!("{verb} {argument}"),
        };

        // A confirmation counts only where FENCE_REQUIRED would have been the answer without it.
        let switched_by_it =
            self.policy.require_fence && answer.event.as_ref().is_some_and(|event| event.kind != "REARM");
        if confirmed && !switched_by_it {
            notes.push(Json::text("FENCE_UNUSED"));
        }

        // A moment that a 64-bit count of nanoseconds can't name is not named.
        let earliest_at = answer.earliest_at.filter(|at| *at <= Nanos::from(u64::MAX));
        let fence = answer.fence_target.map(|target| {
            Json::object([
                ("endpoint", Json::text(active_before.name)),
                ("epoch", Json::number(self.epoch)),
                ("target", Json::text(target)),
            ])
        });
        Ok(Json::object([
            ("outcome", Json::text(answer.outcome)),
            ("active", optional(self.active.as_ref(), Json::text)),
            ("epoch", Json::number(self.epoch)),
            ("requires_trading_halt", Json::Bool(answer.outcome == "NO_TARGET_AVAILABLE")),
            ("notes", Json::List(notes)),
        ])
        .with("earliest_at", earliest_at.map(decimal))
        .with("order_flow", self.order_flow())
        .with("event", answer.event.as_ref().map(Switch::json))
        .with("fence", fence))
    }

    /// Not the active one, HEALTHY, fresh, not in maintenance, not barred; by priority, then by name.
    pub(super) fn eligible_targets(&self, now: Nanos) -> Vec<&Endpoint> {
        let mut targets: Vec<&Endpoint> = self
            .endpoints
            .iter()
            .filter(|endpoint| Some(&endpoint.name) != self.active.as_ref())
            .filter(|endpoint| self.is_healthy_and_fresh(endpoint, now) && !endpoint.maintenance)
            .filter(|endpoint| endpoint.bars.is_empty())
            .collect();
        targets.sort_by_key(|endpoint| (endpoint.priority, endpoint.name.clone()));
        targets
    }

    /// Never gated by cooldown, by the flap limiter, or by an attempt that failed.
    fn evaluate_failover(&mut self, now: Nanos, confirmed: bool) -> Answer {
        let active = self.active_endpoint().expect("checked by decide()").clone();

        // 1. Nothing is wrong with the active path (or not wrong enough).
        if self.state(&active) != "DOWN" && !self.spent {
            self.happened(now, Happening::FailoverSaidNoAction);
            return Answer::plain("NO_ACTION");
        }
        // 2. Nowhere to go: the same path again if it proved itself, otherwise halt.
        let Some(target) = self.eligible_targets(now).first().map(|target| target.name.clone()) else {
            let proved = active.health.successes >= self.policy.failback_success_threshold;
            if self.spent && self.is_healthy_and_fresh(&active, now) && proved && active.bars.is_empty() {
                return self.switch(now, "REARM", &active.name);
            }
            self.happened(now, Happening::NoTarget);
            return Answer::plain("NO_TARGET_AVAILABLE");
        };
        // 3. The path that is left has to be fenced first.
        if self.policy.require_fence && !confirmed {
            self.happened(now, Happening::FailoverNeedsFence);
            return Answer::fence_required(target);
        }
        // 4.
        self.switch(now, "FAILOVER", &target)
    }

    /// From a backup back to the primary: only a primary that proved itself, and not too often.
    fn evaluate_failback(&mut self, now: Nanos, confirmed: bool) -> Answer {
        let active = self.active_endpoint().expect("checked by decide()");
        let Some(primary) = self.endpoints.iter().find(|endpoint| endpoint.primary).cloned() else {
            return Answer::plain("NO_ACTION");
        };
        if active.primary || !self.is_healthy_and_fresh(&primary, now) || primary.maintenance {
            return Answer::plain("NO_ACTION");
        }
        if self.operator_placed || !primary.bars.is_empty() {
            return Answer::plain("NO_ACTION");
        }
        // Exactly `cooldown` since the last switch of any kind is enough.
        if let Some(last) = self.switches.last() {
            let over = |then: Nanos| then - last.at >= self.cooldown(then);
            if !over(now) {
                // It changes only when a failback leaves the window; otherwise it simply elapses.
                let leaves = self.recent_failbacks(now).into_iter().map(|at| at + self.policy.failback_window + 1);
                let shorter = leaves.flat_map(|left| [left, last.at + self.cooldown(left)]);
                let ends = shorter.chain([last.at + self.cooldown(now)]);
                let earliest = ends.filter(|then| *then > now && over(*then)).min();
                return Answer::until("COOLDOWN_ACTIVE", earliest.expect("it ends some time"));
            }
        }
        if primary.health.successes < self.policy.failback_success_threshold {
            return Answer::plain("NOT_STABLE_YET");
        }
        // The window includes its edge, so that a place is free one nanosecond after it.
        let recent = self.recent_failbacks(now);
        if recent.len() >= self.policy.max_failbacks_per_window {
            let first_to_leave = recent[recent.len() - self.policy.max_failbacks_per_window];
            let free_at = first_to_leave + self.policy.failback_window + 1;
            return Answer::until("FLAP_SUPPRESSED", free_at);
        }
        if self.policy.require_fence && !confirmed {
            self.happened(now, Happening::PlannedMoveNeedsFence);
            return Answer::fence_required(primary.name);
        }
        self.switch(now, "FAILBACK", &primary.name)
    }

    /// Each failback inside the window doubles it, up to the most.
    pub(crate) fn cooldown(&self, now: Nanos) -> Nanos {
        let Some(most) = self.policy.cooldown_max else { return self.policy.cooldown };
        // Those beyond the flap budget are not remembered.
        let counted = self.recent_failbacks(now).len().min(self.policy.max_failbacks_per_window);
        (0..counted).fold(self.policy.cooldown, |cooldown, _| (2 * cooldown).min(most))
    }

    /// When the failbacks inside the window were, oldest first. Only failbacks spend the flap budget.
    pub(crate) fn recent_failbacks(&self, now: Nanos) -> Vec<Nanos> {
        self.switches
            .iter()
            .filter(|switch| switch.kind == "FAILBACK")
            .map(|switch| switch.at)
            .filter(|at| now - at <= self.policy.failback_window)
            .collect()
    }

    /// An operator's move: fenced like any other, not gated, legal while the active path is DOWN.
    fn switchover(&mut self, now: Nanos, target: &str, confirmed: bool) -> Result<Answer, Refusal> {
        self.endpoint_mut(Some(target))?;
        if self.active.as_deref() == Some(target) {
            return Err("ALREADY_ACTIVE");
        }
        if !self.eligible_targets(now).iter().any(|endpoint| endpoint.name == target) {
            return Err("TARGET_NOT_ELIGIBLE");
        }
        if self.policy.require_fence && !confirmed {
            self.happened(now, Happening::PlannedMoveNeedsFence);
            return Ok(Answer::fence_required(target.to_owned()));
        }
        Ok(self.switch(now, "SWITCHOVER", target))
    }

    /// An operator's word that a spent path works after all: the same path, a new epoch.
    fn rearm(&mut self, now: Nanos) -> Result<Answer, Refusal> {
        let active = self.active_endpoint().expect("checked by decide()").clone();
        if self.spent && self.is_healthy_and_fresh(&active, now) && active.bars.is_empty() {
            Ok(self.switch(now, "REARM", &active.name))
        } else {
            Err("NOT_REARMABLE")
        }
    }

    /// SWITCHED: the one place where the active endpoint and the epoch change.
    fn switch(&mut self, now: Nanos, kind: &'static str, to: &str) -> Answer {
        let from = self.active_endpoint().expect("checked by decide()");
        let event = Switch {
            kind,
            from: from.name.clone(),
            to: to.to_owned(),
            from_state: self.state(from),
            epoch: self.epoch + 1,
            at: now,
            applied: true,
        };
        self.switches.push(event.clone());
        self.active = Some(to.to_owned());
        self.epoch += 1;
        self.spent = false;
        // Only a failover, or the operator's own way back to the primary, ends the operator's placement.
        self.operator_placed = match kind {
            "FAILOVER" => false,
            "SWITCHOVER" => !self.active_endpoint().is_some_and(|endpoint| endpoint.primary),
            _ => self.operator_placed,
        };
        self.happened(now, Happening::Switched);
        Answer { event: Some(event), ..Answer::plain("SWITCHED") }
    }
}

impl Answer {
    fn plain(outcome: &'static str) -> Self {
        Self { outcome, earliest_at: None, event: None, fence_target: None }
    }

    fn until(outcome: &'static str, earliest: Nanos) -> Self {
        Self { earliest_at: Some(earliest), ..Self::plain(outcome) }
    }

    fn fence_required(target: String) -> Self {
        Self { fence_target: Some(target), ..Self::plain("FENCE_REQUIRED") }
    }
}
