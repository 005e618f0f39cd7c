//! What is asked of the engine after each event, and what follows from its answer.

use crate::engine::{
    EngineError, Evaluation, FailoverDecision, FailoverOutcome, FenceClaim, FenceStatus, Input, InputError,
    OrderAction, Output, SwitchEvent, Timestamp,
};

use super::super::super::config::FailbackMode;
use super::{Core, Effect, Outcome, Plan, note};

impl Core {
    pub(super) fn evaluate(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let claim = self.claim(now);
        if claim != FenceClaim::None && self.complete(now, claim, effects) {
            return;
        }
        let Ok(decision) = self.decide(now, Evaluation::Failover, claim, effects) else { return };
        match decision.outcome {
            FailoverOutcome::FenceRequired(_) => self.leave(now, effects),
            FailoverOutcome::NoAction if self.is_to_be_begun() => {
                // A crash came between the decision and the fence.
                let plan = self.memory.plan.as_ref().map_or(Evaluation::Failover, Plan::evaluation);
                self.start(now, plan, effects);
            }
            FailoverOutcome::NoAction if self.engine.permits(OrderAction::Submit) => {
                self.fail_back(now, effects);
            }
            _ => {}
        }
    }

    /// Whether a move that is not forced was decided, and the hook that must fence the path was not begun.
    fn is_to_be_begun(&self) -> bool {
        let is_planned = self.memory.plan.as_ref().is_some_and(|plan| *plan != Plan::Failover);
        is_planned && !self.engine.is_spent() && !self.config.hooks.fence.is_empty()
    }

    /// A fence of the present epoch is confirmed: complete what it was begun for. False if that cannot be done.
    fn complete(&mut self, now: Timestamp, claim: FenceClaim, effects: &mut Vec<Effect>) -> bool {
        let evaluation = match &self.memory.plan {
            Some(Plan::Failover) | None => return false,
            Some(plan) => plan.evaluation(),
        };
        // If the target was lost meanwhile, the plan is a failover from now on: the spent epoch must be left all the same.
        self.decide(now, evaluation, claim, effects).is_ok_and(|decision| decision.event().is_some())
    }

    fn fail_back(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let unfenced = FenceStatus::Unconfirmed;
        let Ok(possible) = self.engine.assess_failback(now, unfenced) else { return };
        let warranted = matches!(possible.outcome, FailoverOutcome::FenceRequired(_) | FailoverOutcome::Switched(_));
        let was_possible = std::mem::replace(&mut self.failback_possible, warranted);
        let by_hand = self.config.failback == FailbackMode::Manual || self.cannot_fence();
        if !(warranted && by_hand) {
            self.start(now, Evaluation::Failback, effects);
        } else if !was_possible {
            note(effects, "FAILBACK_POSSIBLE", "the primary is stable; a person may fail back".to_owned());
        }
    }

    /// Whether a fence is required and only a person could make one.
    fn cannot_fence(&self) -> bool {
        self.engine.policy().settings().require_fence && self.config.hooks.fence.is_empty()
    }

    /// Starts a move that is not forced.
    fn start(&mut self, now: Timestamp, evaluation: Evaluation, effects: &mut Vec<Effect>) {
        let decided = self.decide(now, evaluation, FenceClaim::None, effects);
        if decided.is_ok_and(|decision| decision.fence().is_some()) {
            self.leave(now, effects);
        }
    }

    /// The active path must be fenced: its epoch is spent from now on, if there is a hook to begin with.
    pub(super) fn leave(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.engine.is_spent() {
            return;
        }
        self.lane.start_fence();
        if let Some(epoch) = self.engine.epoch().filter(|_| !self.config.hooks.fence.is_empty()) {
            let _ = self.take(now, Input::FenceStarted(epoch.get()), effects);
        }
    }

    fn decide(
        &mut self,
        now: Timestamp,
        evaluation: Evaluation,
        claim: FenceClaim,
        effects: &mut Vec<Effect>,
    ) -> Result<FailoverDecision, InputError> {
        match self.take(now, Input::Evaluate(evaluation, claim), effects)? {
            Output::Decision(decision) => {
                if let Some(event) = decision.event() {
                    self.switched(event);
                }
                Ok(decision)
            }
            _ => Err(EngineError::NoActiveEndpoint.into()),
        }
    }

    /// Flow moved in the engine; the transport is next.
    pub(in super::super) fn switched(&mut self, event: &SwitchEvent) {
        self.left = Some(event.from);
        self.failback_possible = false;
        self.lane.start_switch();
    }

    /// What a pause would do, said once per change.
    pub(super) fn assess(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let unfenced = FenceStatus::Unconfirmed;
        let Ok(decision) = self.engine.assess_failover(now, unfenced) else { return };
        let answer = Outcome::decided(&decision);
        let Some(last) = self.last_answer.first_mut() else { return };
        if *last != Some(answer.clone()) {
            *last = Some(answer);
            note(effects, "PAUSED_ANSWER", format!("{}: {}", decision.outcome.name(), decision.reason));
        }
    }
}
