//! A second engine, under a policy that is only tried out: it is told what the group's engine is told, goes where that one
//! goes, and is asked what it would do. Nothing is ever done because of its answers; where they differ, that is said.
//!
//! A difference is said twice: as it begins, and when it is over. It begins where one of the two would move flow, halt it
//! or open it and the other would not, or would move it elsewhere: why both would leave it where it is makes none. One
//! that leaves the path takes the other with it, so from then on only what the other makes of the results of the path that
//! was left can tell whether it would have left it too.

use serde::Serialize;

use crate::engine::{
    EndpointId, EndpointState, Engine, Epoch, Evaluation, FailoverDecision, FailoverOutcome, FenceClaim, Input,
    InputError, OrderAction, OrderFlow, Output, Policy, Timestamp,
};

use super::super::journal::{Seconds, ShadowAnswer, ShadowEnd, ShadowRecord};
use super::core::{Core, Effect, Entry, Plan};

/// The shadow of a group's engine.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    engine: Engine,
    difference: Option<Difference>,
    /// What ended where nothing could be said.
    unsaid: Option<ShadowRecord>,
    counts: ShadowCounts,
}

/// Differences since the supervisor's start, by who would have acted and the other not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShadowCounts {
    /// The shadow would have moved or halted flow, and the group did not.
    pub shadow_first: u64,
    /// The group did, or would have, and the shadow would not.
    pub group_first: u64,
    /// Both, or neither, and not alike: another target, another order flow.
    pub otherwise: u64,
}

/// What the shadow of a group has come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShadowStatus {
    /// Differences since the supervisor's start.
    #[serde(flatten)]
    pub counts: ShadowCounts,
    /// Since when, in seconds, the two differ; null while they do not.
    pub differs_for: Option<f64>,
    /// In what, in words; null while they do not.
    pub differs: Option<String>,
}

#[derive(Clone, Debug)]
struct Difference {
    since: Timestamp,
    path: EndpointId,
    epoch: Option<Epoch>,
    spent: bool,
    /// The group leaves a path that the shadow would have kept.
    is_kept: bool,
    record: ShadowRecord,
}

/// What is asked of both.
struct Question {
    claim: FenceClaim,
    /// Whether the group would ask for a failback now.
    fails_back: bool,
}

impl Shadow {
    /// The shadow of `engine` under `policy`.
    pub(super) fn new(engine: &Engine, policy: Policy) -> Self {
        let (difference, unsaid, counts) = (None, None, ShadowCounts::default());
        Self { engine: engine.under(policy), difference, unsaid, counts }
    }

    /// What is to be said at `now`: what is over, and what begins.
    fn compare(&mut self, now: Timestamp, group: &Engine, question: Option<&Question>) -> Vec<ShadowRecord> {
        let mut said: Vec<_> = self.unsaid.take().into_iter().collect();
        if let Some(how) = self.difference.as_ref().and_then(|difference| difference.left(group, &self.engine)) {
            said.extend(self.end(now, how));
        }
        let decisions = question.and_then(|question| decisions(now, [group, &self.engine], question));
        let Some(decisions) = decisions else { return said };
        let differ = course(&decisions[0]) != course(&decisions[1]);
        let acts = decisions.map(|decision| acts(&decision));
        match (differ, &self.difference) {
            (true, None) => said.extend(self.begin(now, group, decisions, acts)),
            // Of the path that was left, nothing more is asked.
            (true, Some(earlier)) if earlier.is_left(group) => {
                said.extend(self.end(now, ShadowEnd::Moved));
                said.extend(self.begin(now, group, decisions, acts));
            }
            (false, Some(earlier)) if !earlier.is_left(group) => {
                let how = if acts[0] { ShadowEnd::Agreed } else { ShadowEnd::Passed };
                said.extend(self.end(now, how));
            }
            _ => {}
        }
        said
    }

    fn begin(
        &mut self,
        now: Timestamp,
        group: &Engine,
        decisions: [FailoverDecision; 2],
        acts: [bool; 2],
    ) -> Option<ShadowRecord> {
        match acts {
            [false, true] => self.counts.shadow_first = self.counts.shadow_first.saturating_add(1),
            [true, false] => self.counts.group_first = self.counts.group_first.saturating_add(1),
            _ => self.counts.otherwise = self.counts.otherwise.saturating_add(1),
        }
        let (path, epoch) = (group.active()?, group.epoch());
        let record = ShadowRecord {
            endpoint: name(group, path),
            epoch: epoch.map_or(0, Epoch::get),
            group: answer(now, group, path, &decisions[0]),
            shadow: answer(now, &self.engine, path, &decisions[1]),
            ended: None,
            lasted: None,
        };
        // A failback leaves a path that is well.
        let is_lost = group.health(path).is_some_and(|health| health.state() == EndpointState::Down);
        let is_kept = acts == [true, false] && is_lost;
        let spent = group.is_spent();
        self.difference = Some(Difference { since: now, path, epoch, spent, is_kept, record: record.clone() });
        Some(record)
    }

    fn end(&mut self, now: Timestamp, how: ShadowEnd) -> Option<ShadowRecord> {
        let Difference { since, record, .. } = self.difference.take()?;
        Some(ShadowRecord { ended: Some(how), lasted: Some(Seconds(now.nanos_since(since))), ..record })
    }
}

impl Difference {
    /// Whether the group has left the path, or begun to.
    fn is_left(&self, group: &Engine) -> bool {
        group.epoch() != self.epoch || self.is_kept && group.is_spent() != self.spent
    }

    /// How it ends for the group having left the path, if it does.
    fn left(&self, group: &Engine, shadow: &Engine) -> Option<ShadowEnd> {
        if !self.is_left(group) {
            return None;
        }
        if !self.is_kept {
            return Some(ShadowEnd::Moved);
        }
        match shadow.health(self.path).map(crate::engine::Health::state) {
            Some(EndpointState::Down) => Some(ShadowEnd::Agreed),
            Some(EndpointState::Healthy) => Some(ShadowEnd::Passed),
            Some(EndpointState::Degraded) => None,
            Some(EndpointState::Unknown) | None => Some(ShadowEnd::Forgotten),
        }
    }
}

/// What each of the two would do, the group's engine first.
fn decisions(now: Timestamp, engines: [&Engine; 2], question: &Question) -> Option<[FailoverDecision; 2]> {
    let ask = |evaluation: Evaluation, claim| {
        let [group, shadow] = engines.map(|engine| engine.assess(now, &evaluation, claim).ok());
        group.zip(shadow).map(|(group, shadow)| [group, shadow])
    };
    let failover = ask(Evaluation::Failover, question.claim)?;
    if !question.fails_back || failover.iter().any(acts) {
        return Some(failover);
    }
    let failback = ask(Evaluation::Failback, FenceClaim::None)?;
    Some(if failback.iter().any(acts) { failback } else { failover })
}

/// Whether flow would be moved or halted.
fn acts(decision: &FailoverDecision) -> bool {
    use FailoverOutcome::{FenceRequired, NoTargetAvailable, Switched};
    matches!(decision.outcome, FenceRequired(_) | NoTargetAvailable | Switched(_))
}

/// All of a decision that matters to order flow.
fn course(decision: &FailoverDecision) -> (Option<&'static str>, Option<EndpointId>, OrderFlow) {
    (acts(decision).then(|| decision.outcome.name()), target(decision), decision.order_flow())
}

fn target(decision: &FailoverDecision) -> Option<EndpointId> {
    decision.fence().map(|order| order.target).or(decision.event().map(|event| event.to))
}

fn answer(now: Timestamp, engine: &Engine, path: EndpointId, decision: &FailoverDecision) -> ShadowAnswer {
    let flow = match decision.order_flow() {
        OrderFlow::Open { endpoint, epoch } => format!("OPEN {} #{epoch}", name(engine, endpoint)),
        OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
        OrderFlow::Halt { .. } => "HALT".to_owned(),
    };
    ShadowAnswer {
        outcome: decision.outcome.name().to_owned(),
        reason: decision.reason.code().to_owned(),
        state: engine.health(path).map_or(EndpointState::Unknown, crate::engine::Health::state).name().to_owned(),
        target: target(decision).map(|target| name(engine, target)),
        flow,
        opens_in: decision.earliest().map(|at| Seconds(at.nanos_since(now))),
    }
}

fn name(engine: &Engine, id: EndpointId) -> String {
    engine.endpoint(id).map_or_else(String::new, |endpoint| endpoint.name.clone())
}

/// Whether every engine judges it for itself; otherwise the shadow follows what the group's engine made of it.
fn is_seen(input: &Input) -> bool {
    match input {
        Input::Probe { .. }
        | Input::Tick
        | Input::Due { .. }
        | Input::Maintenance { .. }
        | Input::Bar { .. }
        | Input::Register(_)
        | Input::Update { .. }
        | Input::Validate => true,
        Input::Evaluate(..)
        | Input::Assess(..)
        | Input::FenceStarted(_)
        | Input::SwitchFailed(_)
        | Input::Rearm
        | Input::Reconciled(_)
        | Input::Halt(_)
        | Input::Resume => false,
    }
}

impl Core {
    /// The group's engine took `input` and answered `result`. What it refused changed nothing.
    pub(super) fn shadow_hears(&mut self, now: Timestamp, input: &Input, result: &Result<Output, InputError>) {
        let (Some(shadow), Ok(output)) = (&mut self.shadow, result) else { return };
        if is_seen(input) {
            let _ = shadow.engine.apply(now, input.clone());
        }
        let switched = if let Output::Decision(decision) = output { decision.event().copied() } else { None };
        shadow.engine.follow(now, &self.engine, switched);
    }

    /// Says where the two differ, and where they no longer do; `decides`: the group would decide now.
    pub(super) fn compare_shadow(&mut self, now: Timestamp, decides: bool, effects: &mut Vec<Effect>) {
        let plan = self.memory.plan.as_ref();
        // What a person asked for, or a failback that is under way, is no question to a policy.
        let question = (decides && plan.is_none_or(|plan| *plan == Plan::Failover)).then(|| Question {
            claim: self.claim(now),
            fails_back: plan.is_none() && self.engine.permits(OrderAction::Submit),
        });
        let Some(shadow) = &mut self.shadow else { return };
        for record in shadow.compare(now, &self.engine, question.as_ref()) {
            effects.push(Effect::Record { entry: Entry::Shadow(Box::new(record)), durable: false });
        }
    }

    /// The group's engine is another one: so is its shadow.
    pub(super) fn begin_shadow_anew(&mut self, now: Timestamp) {
        let before = self.shadow.take();
        self.shadow = self.config.shadow.clone().map(|policy| Shadow::new(&self.engine, policy));
        if let (Some(mut before), Some(shadow)) = (before, &mut self.shadow) {
            shadow.unsaid = before.unsaid.take().or_else(|| before.end(now, ShadowEnd::Forgotten));
            shadow.counts = before.counts;
        }
    }

    /// What the shadow has come to; `None` without one.
    #[must_use]
    pub fn shadow_status(&self, now: Timestamp) -> Option<ShadowStatus> {
        let Shadow { difference, counts, .. } = self.shadow.as_ref()?;
        let seconds = |since| std::time::Duration::from_nanos(now.nanos_since(since)).as_secs_f64();
        Some(ShadowStatus {
            counts: *counts,
            differs_for: difference.as_ref().map(|difference| seconds(difference.since)),
            differs: difference.as_ref().map(|difference| difference.record.to_string()),
        })
    }
}
