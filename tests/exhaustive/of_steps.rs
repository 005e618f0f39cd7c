//! Invariants of steps.

use broker_failover::engine::*;

use crate::flow_table::flow_follows_the_table;
use crate::inputs::{Answer, Claim, State, Step};
use crate::sight::{End, Flow, Sight};
use crate::worlds::{World, nanos};

pub(crate) struct Taken<'a> {
    pub(crate) world: &'a World,
    pub(crate) before: &'a State,
    pub(crate) step: Step,
    pub(crate) answer: Answer,
    pub(crate) after: &'a State,
    /// Whether the engine is another one after the step.
    pub(crate) changed: bool,
    /// The answer in the words of the specification.
    pub(crate) verdict: Verdict,
}

impl Taken<'_> {
    fn decision(&self) -> Option<&FailoverDecision> {
        match &self.answer {
            Answer::Decision(decision) => Some(decision),
            _ => None,
        }
    }

    fn switch(&self) -> Option<SwitchEvent> {
        self.decision().and_then(FailoverDecision::event).copied()
    }

    pub(crate) fn place(&self, id: EndpointId) -> usize {
        self.world.place(&self.before.engine, id)
    }

    fn claim(&self) -> Option<Claim> {
        match self.step {
            Step::Failover(claim) | Step::Failback(claim) | Step::Switchover(_, claim) => Some(claim),
            _ => None,
        }
    }
}

impl World {
    pub(crate) fn verdict(&self, answer: &Answer, engine: &Engine) -> Verdict {
        match answer {
            Answer::Refused(code) => Verdict::Refused(code),
            Answer::Decision(decision) => match &decision.outcome {
                FailoverOutcome::Switched(event) => Verdict::Switched(event.kind, self.place(engine, event.to)),
                FailoverOutcome::FenceRequired(order) => Verdict::Fence(self.place(engine, order.target)),
                outcome => Verdict::Stays(outcome.name()),
            },
            Answer::Health(_) | Answer::Heard(_) | Answer::Flow(_) | Answer::Done => Verdict::Stays("taken"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stays(&'static str),
    Fence(usize),
    Switched(SwitchKind, usize),
    Refused(&'static str),
}

type OfStep = fn(&Taken) -> bool;

pub(crate) static OF_STEPS: [(&str, OfStep); 24] = [
    ("INV-REFUSED-IS-UNCHANGED", refused_is_unchanged),
    ("INV-EPOCH-COUNTS-SWITCHES", epoch_counts_switches),
    ("INV-HALT-IS-NO-TARGET", halt_is_no_target),
    ("INV-SWITCH-IS-EVIDENCED", switch_is_evidenced),
    ("INV-SWITCH-IS-FENCED", switch_is_fenced),
    ("INV-FAILOVER-IS-NEVER-GATED", failover_is_never_gated),
    ("INV-FAILOVER", failover_as_stated),
    ("INV-FAILBACK", failback_as_stated),
    ("INV-SWITCHOVER", switchover_as_stated),
    ("INV-REARM", rearm_as_stated),
    ("INV-STALE-IS-REFUSED", stale_is_refused),
    ("INV-UNMOVED-CHANGES-FLOW-ONLY", unmoved_changes_flow_only),
    ("INV-IDEMPOTENT", asking_again_changes_nothing),
    ("INV-ASSESS-IS-EVALUATE", assess_is_evaluate),
    ("INV-DECISION-TELLS-THE-STATE", decision_tells_the_state),
    ("INV-NOTES", notes_as_stated),
    ("INV-EARLIEST-IS-EXACT", earliest_is_exact),
    ("INV-SPENT-UNTIL-THE-NEXT-EPOCH", spent_until_the_next_epoch),
    ("INV-PROBES-COUNT", probes_count),
    ("INV-SILENCE-COUNTS", silence_counts),
    ("INV-AGES-GROW-BY-WAITING", ages_grow_by_waiting),
    ("INV-EVERY-INPUT-HAS-ITS-PLACE", every_input_has_its_place),
    ("INV-HISTORY-IS-THE-SWITCHES", history_is_the_switches),
    ("INV-FLOW-TABLE", flow_follows_the_table),
];

/// A refused input leaves the engine equal in everything.
fn refused_is_unchanged(taken: &Taken) -> bool {
    !matches!(taken.answer, Answer::Refused(_)) || !taken.changed
}

/// The epoch goes up by exactly one with each SWITCHED, which names it, and never otherwise.
fn epoch_counts_switches(taken: &Taken) -> bool {
    let (before, after) = (&taken.before.sight, &taken.after.sight);
    match taken.switch() {
        Some(event) => after.epoch == before.epoch + 1 && event.epoch.get() == after.epoch,
        None if before.active.is_none() && after.active.is_some() => after.epoch == 1,
        None => after.epoch == before.epoch,
    }
}

/// Trading must halt exactly for NO_TARGET_AVAILABLE, and then order flow is a halt.
fn halt_is_no_target(taken: &Taken) -> bool {
    taken.decision().is_none_or(|decision| {
        let nowhere = decision.outcome.name() == "NO_TARGET_AVAILABLE";
        decision.requires_trading_halt() == nowhere && (!nowhere || taken.after.sight.flow.is_halt())
    })
}

/// Flow moves only to an endpoint that was HEALTHY, fresh, out of maintenance and not barred; a re-arm only renews a
/// spent epoch of a path that answers and is not barred.
fn switch_is_evidenced(taken: &Taken) -> bool {
    let (world, before) = (taken.world, &taken.before.sight);
    taken.switch().is_none_or(|event| {
        let from_active = Some(taken.place(event.from)) == before.active;
        let target = taken.place(event.to);
        from_active
            && match event.kind {
                SwitchKind::Rearm => {
                    event.from == event.to
                        && before.spent
                        && world.active_end(before).is_some_and(|end| world.is_live(&end) && !end.barred)
                }
                _ => world.is_eligible(before, target),
            }
    })
}

/// Where a fence is required, flow leaves a path only with the confirmation of this path in this epoch.
fn switch_is_fenced(taken: &Taken) -> bool {
    taken.switch().is_none_or(|event| {
        event.kind == SwitchKind::Rearm || !taken.world.settings.require_fence || taken.claim() == Some(Claim::Present)
    })
}

/// With the active path lost and a target to go to, a failover evaluation switches, or asks for the fence only.
fn failover_is_never_gated(taken: &Taken) -> bool {
    let (Step::Failover(claim @ (Claim::None | Claim::Present)), before) = (taken.step, &taken.before.sight) else {
        return true;
    };
    let down = taken.world.active_end(before).is_some_and(|end| end.state == EndpointState::Down);
    if !(down || before.spent) || taken.world.best_target(before).is_none() {
        return true;
    }
    match taken.answer {
        Answer::Decision(FailoverDecision { outcome: FailoverOutcome::Switched(_), .. }) => true,
        Answer::Decision(FailoverDecision { outcome: FailoverOutcome::FenceRequired(_), .. }) => {
            claim == Claim::None && taken.world.settings.require_fence
        }
        _ => false,
    }
}

/// What stands before every outcome: NO_ACTIVE_ENDPOINT, then STALE_FENCE.
fn refusal(taken: &Taken, claim: Claim) -> Option<Verdict> {
    if taken.before.sight.active.is_none() {
        return Some(Verdict::Refused("NO_ACTIVE_ENDPOINT"));
    }
    matches!(claim, Claim::Older | Claim::Newer | Claim::Elsewhere).then_some(Verdict::Refused("STALE_FENCE"))
}

fn unless_fence(taken: &Taken, claim: Claim, target: usize, kind: SwitchKind) -> Verdict {
    let open = !taken.world.settings.require_fence || claim == Claim::Present;
    if open { Verdict::Switched(kind, target) } else { Verdict::Fence(target) }
}

/// evaluate_failover answers as its four rules say.
fn failover_as_stated(taken: &Taken) -> bool {
    let Step::Failover(claim) = taken.step else { return true };
    let (world, before) = (taken.world, &taken.before.sight);
    let rules = || {
        let (place, end) = (before.active?, world.active_end(before)?);
        if end.state != EndpointState::Down && !before.spent {
            return Some(Verdict::Stays("NO_ACTION"));
        }
        if let Some(target) = world.best_target(before) {
            return Some(unless_fence(taken, claim, target, SwitchKind::Failover));
        }
        let stable = end.successes >= world.settings.failback_success_threshold;
        if before.spent && world.is_live(&end) && stable && !end.barred {
            return Some(Verdict::Switched(SwitchKind::Rearm, place));
        }
        Some(Verdict::Stays("NO_TARGET_AVAILABLE"))
    };
    refusal(taken, claim).or_else(rules) == Some(taken.verdict)
}

/// evaluate_failback passes its gates in their order.
fn failback_as_stated(taken: &Taken) -> bool {
    let Step::Failback(claim) = taken.step else { return true };
    let (world, before) = (taken.world, &taken.before.sight);
    let settings = &world.settings;
    let rules = || {
        let primary = world.end(before, 0)?;
        let within = |age: &&u64| **age <= nanos(settings.failback_window);
        let failbacks = before.failbacks.iter().flatten().filter(within).count();
        let doubled = |cooldown: u64| settings.cooldown_max.map_or(cooldown, |most| nanos(most).min(2 * cooldown));
        let cooldown = (0..failbacks).fold(nanos(settings.cooldown), |cooldown, _| doubled(cooldown));
        let can = before.active != Some(0) && world.is_live(&primary) && primary.is_admitted();
        Some(if !can || before.placed {
            Verdict::Stays("NO_ACTION")
        } else if before.switch_age.is_some_and(|age| age < cooldown) {
            Verdict::Stays("COOLDOWN_ACTIVE")
        } else if primary.successes < settings.failback_success_threshold {
            Verdict::Stays("NOT_STABLE_YET")
        } else if failbacks >= usize::try_from(settings.max_failbacks_per_window).expect("a small budget") {
            Verdict::Stays("FLAP_SUPPRESSED")
        } else {
            unless_fence(taken, claim, 0, SwitchKind::Failback)
        })
    };
    refusal(taken, claim).or_else(rules) == Some(taken.verdict)
}

/// switchover goes where it is told, through no gate but the fence, or is refused.
fn switchover_as_stated(taken: &Taken) -> bool {
    let Step::Switchover(target, claim) = taken.step else { return true };
    let (world, before) = (taken.world, &taken.before.sight);
    let rules = || {
        Some(if world.end(before, target).is_none() {
            Verdict::Refused("UNKNOWN_ENDPOINT")
        } else if before.active == Some(target) {
            Verdict::Refused("ALREADY_ACTIVE")
        } else if !world.is_eligible(before, target) {
            Verdict::Refused("TARGET_NOT_ELIGIBLE")
        } else {
            unless_fence(taken, claim, target, SwitchKind::Switchover)
        })
    };
    refusal(taken, claim).or_else(rules) == Some(taken.verdict)
}

/// rearm renews a spent epoch of a path that is HEALTHY and fresh, and is refused otherwise.
fn rearm_as_stated(taken: &Taken) -> bool {
    let (world, before) = (taken.world, &taken.before.sight);
    if taken.step != Step::Rearm {
        return true;
    }
    let stated = match (before.active, world.active_end(before)) {
        (Some(place), Some(end)) if before.spent && world.is_live(&end) && !end.barred => {
            Verdict::Switched(SwitchKind::Rearm, place)
        }
        (Some(_), _) => Verdict::Refused("NOT_REARMABLE"),
        (None, _) => Verdict::Refused("NO_ACTIVE_ENDPOINT"),
    };
    taken.verdict == stated
}

/// What names another epoch than the present one is refused as such.
fn stale_is_refused(taken: &Taken) -> bool {
    let before = &taken.before.sight;
    let fence = |claim: Claim| match (before.active, claim) {
        (None, _) => Verdict::Refused("NO_ACTIVE_ENDPOINT"),
        (Some(_), Claim::Present) => Verdict::Stays("taken"),
        (Some(_), _) => Verdict::Refused("STALE_FENCE"),
    };
    let stated = match taken.step {
        Step::FenceStarted(claim) | Step::SwitchFailed(claim) => fence(claim),
        Step::Reconciled(_) if before.flow != Flow::Reconciling => Verdict::Refused("NOT_RECONCILING"),
        Step::Reconciled(Claim::Present) => Verdict::Stays("taken"),
        Step::Reconciled(_) => Verdict::Refused("STALE_RECONCILE"),
        _ => return true,
    };
    taken.verdict == stated
}

/// An evaluation that does not switch changes order flow at most.
fn unmoved_changes_flow_only(taken: &Taken) -> bool {
    let flow = taken.after.sight.flow;
    taken.decision().is_none() || taken.switch().is_some() || taken.after.sight == Sight { flow, ..taken.before.sight }
}

/// Unless it switched, asking again gives the same answer and changes nothing more.
fn asking_again_changes_nothing(taken: &Taken) -> bool {
    // If the first time changed nothing, the second cannot either: the engine knows nothing but its state.
    if taken.decision().is_none() || taken.switch().is_some() || !taken.changed {
        return true;
    }
    let (mut again, mut now) = (taken.after.engine.clone(), taken.after.now);
    taken.world.take(&mut again, &mut now, taken.step) == taken.answer && again == taken.after.engine
}

/// An assessment gives the answer of the evaluation.
fn assess_is_evaluate(taken: &Taken) -> bool {
    match taken.world.assess(taken.before, taken.step) {
        Some(assessed) => Answer::of(assessed, Answer::Decision) == taken.answer,
        None => true,
    }
}

/// A decision names active, epoch and order flow as they are after it.
fn decision_tells_the_state(taken: &Taken) -> bool {
    let engine = &taken.after.engine;
    let told = match taken.answer {
        Answer::Decision(decision) => {
            Some(decision.active) == engine.active()
                && Some(decision.epoch) == engine.epoch()
                && decision.order_flow() == engine.order_flow()
        }
        Answer::Flow(flow) => flow == engine.order_flow(),
        Answer::Health(change) => change.opened == (taken.before.sight.flow != taken.after.sight.flow),
        Answer::Heard(_) | Answer::Done | Answer::Refused(_) => true,
    };
    let order = taken.decision().and_then(FailoverDecision::fence);
    told && order.is_none_or(|order| Some(order.endpoint) == engine.active() && Some(order.epoch) == engine.epoch())
}

/// The notes: what is stale about the endpoint active before, and a confirmation that moved nothing.
fn notes_as_stated(taken: &Taken) -> bool {
    let (Some(decision), before) = (taken.decision(), &taken.before.sight) else { return true };
    let Some(end) = taken.world.active_end(before) else { return false };
    let used = taken.world.settings.require_fence && taken.switch().is_some_and(|e| e.kind != SwitchKind::Rearm);
    let mut notes = Vec::new();
    match end.age {
        None => notes.push(Note::NeverProbedActive),
        Some(_) if !taken.world.is_fresh(&end) => notes.push(Note::StaleActive),
        Some(_) => {}
    }
    if taken.claim() == Some(Claim::Present) && !used {
        notes.push(Note::FenceUnused);
    }
    decision.notes.iter().eq(notes)
}

/// A gate holds until one nanosecond before the earliest moment that it names, and no longer.
fn earliest_is_exact(taken: &Taken) -> bool {
    let Some(decision) = taken.decision() else { return true };
    let name = decision.outcome.name();
    let gated = matches!(name, "COOLDOWN_ACTIVE" | "FLAP_SUPPRESSED");
    let Some(earliest) = decision.earliest() else { return !gated };
    // Whether the primary's evidence goes stale meanwhile is another matter: it is renewed here.
    let outcome_at = |now: Timestamp| {
        let mut later = taken.before.engine.clone();
        let primary = taken.world.id(&later, 0);
        later.record_probe(now, primary, ProbeResult::Success).expect("the primary is registered");
        later.evaluate_failback(now, FenceStatus::Unconfirmed).map(|decision| decision.outcome.name())
    };
    let just_before = Timestamp::from_nanos(earliest.as_nanos() - 1);
    gated && earliest > taken.before.now && outcome_at(just_before) == Ok(name) && outcome_at(earliest) != Ok(name)
}

/// A spent epoch stays spent: only the next epoch leads out, and it is not spent.
fn spent_until_the_next_epoch(taken: &Taken) -> bool {
    let (before, after) = (&taken.before.sight, &taken.after.sight);
    let begun = matches!(taken.step, Step::FenceStarted(_) | Step::SwitchFailed(_)) && !refused(taken);
    match taken.switch() {
        Some(_) => !after.spent,
        None => after.spent == (before.spent || begun),
    }
}

pub(crate) fn refused(taken: &Taken) -> bool {
    matches!(taken.answer, Answer::Refused(_))
}

/// A result counts for its endpoint, and for nothing else but HOLD STARTING.
fn probes_count(taken: &Taken) -> bool {
    let (Step::Probe(place, ok), Answer::Health(change)) = (taken.step, taken.answer) else { return true };
    let Some(end) = taken.before.sight.ends[place] else { return false };
    let (failures, successes) = if ok { (0, end.successes + 1) } else { (end.failures + 1, 0) };
    let state = taken.after.trails[place].state();
    let mut stated = taken.before.sight;
    stated.ends[place] = Some(End { state, failures, successes, age: Some(0), ..end });
    stated.flow = taken.after.sight.flow;
    taken.after.sight == stated && (change.from, change.to) == (end.state, state)
}

/// A tick, and a result that becomes due, count what is missing, and nothing if the monitor had stopped; whoever finds
/// that says so.
fn silence_counts(taken: &Taken) -> bool {
    let (before, mut trails) = (taken.before, taken.before.trails);
    match (taken.step, &taken.answer) {
        (Step::Tick | Step::Due(_), Answer::Heard(heard)) => {
            let (stopped, missing) = taken.world.tick(&mut trails);
            let mut stated = before.sight;
            for (place, end) in stated.ends.iter_mut().enumerate().filter(|(place, _)| missing[*place]) {
                let counted = |end: End| {
                    let (failures, state) = (end.failures + 1, taken.after.trails[place].state());
                    End { state, failures, successes: 0, age: Some(0), ..end }
                };
                *end = end.map(counted);
            }
            let found = missing.iter().filter(|missing| **missing).count();
            let said = (heard.monitor_stopped, heard.missing as usize) == (stopped, found);
            said && taken.after.sight == stated && (!stopped || found == 0)
        }
        (Step::Probe(..), Answer::Health(change)) => {
            change.monitor_stopped == (taken.world.listens() && World::hear(&mut trails))
        }
        _ => true,
    }
}

/// Waiting changes ages, and only waiting does; a failback leaves the window one nanosecond past it.
fn ages_grow_by_waiting(taken: &Taken) -> bool {
    let Step::Wait(waited) = taken.step else { return true };
    let mut stated = taken.before.sight;
    for end in stated.ends.iter_mut().flatten() {
        end.age = end.age.map(|age| age + waited);
    }
    stated.switch_age = stated.switch_age.map(|age| age + waited);
    let window = nanos(taken.world.settings.failback_window);
    let ages = taken.before.sight.failbacks.iter().flatten().map(|age| age + waited).filter(|age| *age <= window);
    stated.failbacks = [None; 2];
    for (slot, age) in stated.failbacks.iter_mut().zip(ages) {
        *slot = Some(age);
    }
    !taken.changed && taken.after.sight == stated
}

/// Each input changes what it is for: health by probes, a new address and restarts, maintenance and bars by their orders,
/// active and placement by switches, gates by the switches that they count.
fn every_input_has_its_place(taken: &Taken) -> bool {
    let (before, after) = (&taken.before.sight, &taken.after.sight);
    let unknown = |end: End| End { state: EndpointState::Unknown, failures: 0, successes: 0, age: None, ..end };
    let mut stated = Sight { flow: after.flow, epoch: after.epoch, spent: after.spent, ..*before };
    match taken.step {
        // Have invariants of their own.
        Step::Probe(..) | Step::Tick | Step::Due(_) | Step::Wait(_) => return true,
        _ if refused(taken) => {}
        Step::Restart(_) => stated.ends = stated.ends.map(|end| end.map(unknown)),
        Step::Move(place) => stated.ends[place] = stated.ends[place].map(unknown),
        Step::Maintenance(place, on) => {
            stated.ends[place] = stated.ends[place].map(|end| End { maintenance: on, ..end });
        }
        Step::Bar(place, on) => {
            stated.ends[place] = stated.ends[place].map(|end| End { barred: on, ..end });
        }
        Step::Register(place) => {
            let (state, failures, successes) = (EndpointState::Unknown, 0, 0);
            let new = End { state, failures, successes, age: None, maintenance: false, barred: false };
            stated.ends[place] = Some(new);
            stated.active = if place == 0 { Some(0) } else { stated.active };
        }
        _ => {}
    }
    if let Some(event) = taken.switch() {
        stated.active = Some(taken.place(event.to));
        stated.switch_age = Some(0);
        stated.placed = match event.kind {
            SwitchKind::Switchover => stated.active != Some(0),
            SwitchKind::Rearm => before.placed,
            SwitchKind::Failover | SwitchKind::Failback => false,
        };
        if event.kind == SwitchKind::Failback {
            let budget = usize::try_from(taken.world.settings.max_failbacks_per_window).expect("a small budget");
            let mut ages: Vec<_> = before.failbacks.into_iter().flatten().chain([0]).collect();
            ages.drain(..ages.len().saturating_sub(budget));
            stated.failbacks = [None; 2];
            for (slot, age) in stated.failbacks.iter_mut().zip(ages) {
                *slot = Some(age);
            }
        }
    }
    *after == stated
}

/// The newest entry of the history is the newest switch, marked once it was reported to have failed; older ones are
/// counted, and the limit is kept.
fn history_is_the_switches(taken: &Taken) -> bool {
    if !taken.changed {
        return true;
    }
    let (before, after) = (&taken.before.engine, &taken.after.engine);
    let newest = |engine: &Engine| engine.history().last();
    let limit = usize::try_from(taken.world.settings.history_limit).expect("a small limit");
    let stated = match (taken.switch(), taken.step) {
        (Some(event), _) => Some(HistoryEntry { event, applied: true }),
        (None, Step::SwitchFailed(_)) if !refused(taken) => {
            newest(before).map(|entry| HistoryEntry { applied: false, ..entry })
        }
        (None, _) => newest(before),
    };
    let switches = |engine: &Engine| u64::try_from(engine.history().len()).map(|kept| kept + engine.history_dropped());
    newest(after) == stated && after.history().len() <= limit && switches(after) == Ok(taken.after.sight.switches())
}

impl Sight {
    /// Each switch is an epoch, and the first epoch is none.
    fn switches(&self) -> u64 {
        self.epoch.saturating_sub(1)
    }
}
