//! How far a switch came, as the journal says it: decided -> fenced -> switched -> reconciled -> open.
//!
//! A stage is read off the state, so that one that a crash kept from being written is written after the restart. It
//! stands in the journal before the hook that it leads to.

use serde::{Deserialize, Serialize};

use crate::engine::{Epoch, HoldReason, OrderFlow, SwitchKind, Timestamp};

use super::super::journal::{FenceProof, Seconds, StageRecord, SwitchStage};
use super::core::{Core, Effect, Entry, Plan};

/// The stage that was written down last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reached {
    /// The stage.
    pub stage: SwitchStage,
    /// Its epoch: the one that is left, or from `switched` on the new one.
    pub epoch: u64,
}

impl Default for Reached {
    /// Of a group at its first start: its path is where it is.
    fn default() -> Self {
        Self { stage: SwitchStage::Open, epoch: Epoch::FIRST.get() }
    }
}

impl Core {
    /// Writes down each stage that was come to since the last time.
    pub(super) fn say_stages(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        while let Some(reached) = self.next_stage(now) {
            let record = self.stage_record(now, reached);
            self.record(Entry::Stage(Box::new(record)), false, effects);
        }
    }

    fn next_stage(&self, now: Timestamp) -> Option<Reached> {
        let epoch = self.engine.epoch()?.get();
        let last = self.memory.stage;
        let next = last.epoch.saturating_add(1);
        let stage = match last.stage {
            // That epoch was left for another before the transport was moved.
            SwitchStage::Decided | SwitchStage::Fenced if next < epoch => {
                return Some(Reached { stage: SwitchStage::Failed, epoch: next });
            }
            SwitchStage::Decided | SwitchStage::Fenced if last.epoch < epoch => self.next_of_arriving(),
            // A switch that needed no fence was decided and done at once.
            _ if last.epoch < epoch => {
                return Some(Reached { stage: SwitchStage::Decided, epoch: epoch.saturating_sub(1) });
            }
            stage if self.engine.is_spent() || self.memory.plan.is_some() => self.next_of_leaving(now, stage),
            stage => self.next_of_staying(stage),
        };
        stage.map(|stage| Reached { stage, epoch })
    }

    /// Flow moved in the engine; whether the transport did is the question.
    fn next_of_arriving(&self) -> Option<SwitchStage> {
        if self.memory.carried || self.config.hooks.switch.is_empty() {
            return Some(SwitchStage::Switched);
        }
        self.engine.is_spent().then_some(SwitchStage::Failed)
    }

    /// The path is to be left.
    fn next_of_leaving(&self, now: Timestamp, last: SwitchStage) -> Option<SwitchStage> {
        match last {
            SwitchStage::Decided => self.is_fenced(now).then_some(SwitchStage::Fenced),
            // The proof held only for a time, and that is over.
            SwitchStage::Fenced => (!self.is_fenced(now)).then_some(SwitchStage::Decided),
            _ => Some(SwitchStage::Decided),
        }
    }

    /// The path is to stay.
    fn next_of_staying(&self, last: SwitchStage) -> Option<SwitchStage> {
        use SwitchStage::{Abandoned, Decided, Failed, Fenced, Open, Reconciled, Switched};
        let flow = self.engine.order_flow();
        let is_open = matches!(flow, OrderFlow::Open { .. });
        let is_starting = matches!(flow, OrderFlow::Hold { reason: HoldReason::Starting });
        match last {
            Decided | Fenced | Failed => Some(Abandoned),
            Switched if self.engine.policy().settings().require_reconciliation => {
                (is_open || is_starting).then_some(Reconciled)
            }
            Switched | Reconciled => is_open.then_some(Open),
            Open | Abandoned => None,
        }
    }

    fn stage_record(&self, now: Timestamp, reached: Reached) -> StageRecord {
        let Reached { stage, epoch } = reached;
        let switch = self.engine.history().last().map(|entry| entry.event);
        let arrived = switch.filter(|event| self.engine.epoch() == Some(event.epoch));
        // Of a switch that is done, what it was; of one that is not, what it is meant to be.
        let done = match stage {
            SwitchStage::Decided | SwitchStage::Fenced => arrived.filter(|event| event.epoch.get() > epoch),
            SwitchStage::Abandoned => None,
            _ => arrived,
        };
        let active = || self.engine.active().map(|id| self.name(id)).unwrap_or_default();
        let (kind, from, to) = match done {
            Some(event) => (Some(event.kind), self.name(event.from), Some(self.name(event.to))),
            None => (self.memory.plan.as_ref().map(Plan::kind), active(), self.plan_target(now)),
        };
        let fence = (stage == SwitchStage::Fenced).then(|| self.fence_proof(&from)).flatten();
        StageRecord { stage, kind, from, to, epoch, fence, detail: None }
    }

    fn fence_proof(&self, endpoint: &str) -> Option<FenceProof> {
        let proof = self.memory.proof.as_ref()?;
        let hook = proof.level.and_then(|level| self.config.hooks.fence.get(level));
        Some(FenceProof {
            endpoint: endpoint.to_owned(),
            epoch: proof.epoch,
            by: proof.level.map_or_else(|| proof.by.clone(), |level| format!("fence hook {level}")),
            proves: hook.and_then(|hook| hook.proves.clone()),
            holds: hook.and_then(|hook| hook.holds).map(|holds| Seconds(Timestamp::from_elapsed(holds).as_nanos())),
        })
    }

    /// Where flow would go from the active path, as things stand.
    pub(super) fn plan_target(&self, now: Timestamp) -> Option<String> {
        let primary = || self.engine.endpoints().find(|(_, endpoint)| endpoint.primary);
        match &self.memory.plan {
            Some(Plan::Switchover(target)) => Some(target.clone()),
            Some(Plan::Failback) => primary().map(|(_, endpoint)| endpoint.name.clone()),
            _ => self.engine.eligible_targets(now).next().map(|id| self.name(id)),
        }
    }
}

impl Plan {
    const fn kind(&self) -> SwitchKind {
        match self {
            Self::Failover => SwitchKind::Failover,
            Self::Failback => SwitchKind::Failback,
            Self::Switchover(_) => SwitchKind::Switchover,
        }
    }
}
