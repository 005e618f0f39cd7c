//! One input of the engine after the other, each with its record and its publication in the right order.

use crate::engine::{
    Engine, Evaluation, FailoverDecision, FailoverOutcome, HaltOrder, Input, InputError, Output, Reason, Timestamp,
};
use crate::path::Path;
use crate::scenario::Verb;

use super::super::super::journal::Follow;
use super::{Core, Effect, Entry, HALT_BEGINS, Outcome, note};

impl Core {
    /// Writes it down, and remembers it as whoever reads it will.
    pub(in super::super) fn record(&mut self, entry: Entry, durable: bool, effects: &mut Vec<Effect>) {
        // Most records are of probes, and these have nothing to say to the memory.
        if !matches!(entry, Entry::Input { answer: Outcome::Probed { .. }, .. }) {
            self.memory.fold(&entry.to_body());
        }
        effects.push(Effect::Record { entry, durable });
    }

    /// Whether the record would be remembered.
    fn is_news(&self, entry: &Entry) -> bool {
        let mut memory = self.memory.clone();
        memory.fold(&entry.to_body());
        memory != self.memory
    }

    /// The answer to an evaluation that changes nothing and says what the last one said: nearly every result is followed
    /// by two of these, and they leave no trace.
    fn same_answer(&mut self, now: Timestamp, input: &Input) -> Option<FailoverDecision> {
        let Input::Evaluate(evaluation, claim) = input else { return None };
        let last = self.last_answer.get(asks(evaluation))?.as_ref()?;
        let decision = self.engine.assess(now, evaluation, *claim).ok()?;
        let is_idle = self.memory.plan.is_none() && !self.memory.spent;
        let moves = matches!(decision.outcome, FailoverOutcome::Switched(_) | FailoverOutcome::FenceRequired(_));
        let changes = moves || decision.order_flow() != self.engine.order_flow();
        (is_idle && !changes && *last == Outcome::decided(&decision)).then_some(decision)
    }

    /// One input of the engine, with its record and its publication in the right order: what closes order flow is
    /// published at once, what opens it after the record is durable. A new epoch opens something too (a held path may be
    /// asked for its orders), and must not be seen before it is sure: at once only the old one ends.
    pub(in super::super) fn take(
        &mut self,
        now: Timestamp,
        input: Input,
        effects: &mut Vec<Effect>,
    ) -> Result<Output, InputError> {
        if let Some(decision) = self.same_answer(now, &input) {
            return Ok(Output::Decision(decision));
        }
        self.take_as(now, input, |engine, input| engine.apply(now, input.clone()), effects)
    }

    /// The same, by `apply`, which may know the endpoint by more than its name.
    pub(super) fn take_as(
        &mut self,
        now: Timestamp,
        input: Input,
        apply: impl FnOnce(&mut Engine, &Input) -> Result<Output, InputError>,
        effects: &mut Vec<Effect>,
    ) -> Result<Output, InputError> {
        let is_probe = matches!(input, Input::Probe { .. });
        let before = (self.engine.order_flow(), self.engine.epoch(), self.engine.is_spent());
        let halt_before = self.halt_code();
        if self.would_switch(now, &input) {
            self.say_stages(now, effects);
            self.undecided.push(self.engine.clone());
        }
        let asks = match &input {
            Input::Evaluate(evaluation, _) => Some(asks(evaluation)),
            _ => None,
        };
        let result = apply(&mut self.engine, &input);
        self.shadow_hears(now, &input, &result);
        let after = (self.engine.order_flow(), self.engine.epoch(), self.engine.is_spent());
        let answer = Outcome::of(&result);
        let decision = match &result {
            Ok(Output::Decision(decision)) => Some(decision),
            _ => None,
        };
        let reason = decision.map(|decision| decision.reason);
        let changed = before != after;
        // Later answers that move nothing are not what a hook runs for.
        if changed || decision.is_some_and(|decision| decision.fence().is_some()) {
            self.last_reason = reason.unwrap_or(self.last_reason);
        }
        // Asking again and getting the same answer is not news.
        let repeated =
            asks.and_then(|kind| self.last_answer.get(kind)).is_some_and(|last| *last == Some(answer.clone()));
        if let Some(last) = asks.and_then(|kind| self.last_answer.get_mut(kind)) {
            *last = Some(answer.clone());
        }
        let path = Path::of(&self.engine);
        if changed && self.engine.epoch() != before.1 {
            self.publish_path(self.published.closed(), reason, effects);
        } else if changed && path.open().is_none() {
            self.publish_path(path, reason, effects);
        }
        if self.engine.order_flow().is_halt() && self.halt_code() != halt_before {
            self.halt_begins(effects);
        }
        let durable = changed || !is_probe && asks.is_none();
        let entry = Entry::Input { verb: Verb::Input(input), answer };
        if changed || !repeated || is_probe || self.is_news(&entry) {
            self.record(entry, durable, effects);
        }
        if changed {
            self.publish(effects, reason);
            self.mark_hold(now);
            if self.engine.order_flow() != before.0 {
                self.lane.restart_reconciling();
            }
        }
        result
    }

    /// Code of the present halt.
    pub(in super::super) fn halt_code(&self) -> Option<String> {
        let halted = self.engine.order_flow().is_halt();
        halted.then(|| self.engine.halt_order().map_or(HaltOrder::NO_TARGET_AVAILABLE, HaltOrder::code).to_owned())
    }

    /// A halt that no hook was told of yet.
    fn halt_begins(&mut self, effects: &mut Vec<Effect>) {
        self.lane.halted();
        let code = self.halt_code().unwrap_or_default();
        if code == HaltOrder::NO_TARGET_AVAILABLE && self.all_fail() {
            note(
                effects,
                "SUSPECT_OBSERVER",
                "every path fails from here at once: suspect this host, its uplink or the broker".to_owned(),
            );
        }
        self.record(Entry::Note { code: HALT_BEGINS, text: code }, false, effects);
    }

    fn would_switch(&self, now: Timestamp, input: &Input) -> bool {
        let decision = match input {
            Input::Rearm => return true,
            Input::Evaluate(evaluation, claim) => self.engine.assess(now, evaluation, *claim),
            _ => return false,
        };
        decision.is_ok_and(|decision| decision.event().is_some())
    }

    pub(super) fn publish(&mut self, effects: &mut Vec<Effect>, reason: Option<Reason>) {
        self.publish_path(Path::of(&self.engine), reason, effects);
    }

    fn publish_path(&mut self, path: Path, reason: Option<Reason>, effects: &mut Vec<Effect>) {
        if path != self.published {
            self.published = path;
            effects.push(Effect::Publish { path, reason });
        }
    }
}

/// Which of the last answers an evaluation is compared with.
const fn asks(evaluation: &Evaluation) -> usize {
    matches!(evaluation, Evaluation::Failback) as usize
}
