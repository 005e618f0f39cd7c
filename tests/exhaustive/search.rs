//! The search.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::io::Write;
use std::time::Instant;

use broker_failover::engine::*;

use crate::flow_table::Event;
use crate::inputs::{Answer, State, Step};
use crate::of_states::OF_STATES;
use crate::of_steps::{OF_STEPS, Taken};
use crate::sight::Flow;
use crate::worlds::World;

const OUTCOMES: [&str; 7] = [
    "NO_ACTION",
    "SWITCHED",
    "FENCE_REQUIRED",
    "NO_TARGET_AVAILABLE",
    "COOLDOWN_ACTIVE",
    "NOT_STABLE_YET",
    "FLAP_SUPPRESSED",
];
const REFUSALS: [&str; 15] = [
    "UNKNOWN_ENDPOINT",
    "DUPLICATE_ENDPOINT",
    "BLANK_FIELD",
    "NO_ACTIVE_ENDPOINT",
    "NO_PRIMARY",
    "TOO_FEW_ENDPOINTS",
    "STALE_FENCE",
    "STALE_RECONCILE",
    "NOT_RECONCILING",
    "NOT_HALTED",
    "NOT_REARMABLE",
    "TARGET_NOT_ELIGIBLE",
    "ALREADY_ACTIVE",
    "ENDPOINT_IS_ACTIVE",
    "ROLE_CHANGE",
];
const KINDS: [SwitchKind; 4] = [SwitchKind::Failover, SwitchKind::Failback, SwitchKind::Switchover, SwitchKind::Rearm];
/// All but CLOCK_WENT_BACK: time in these worlds never does.
pub(crate) const NOTES: [Note; 3] = [Note::StaleActive, Note::NeverProbedActive, Note::FenceUnused];

/// How often each thing happened that must happen sometimes.
#[derive(Clone, Default)]
pub(crate) struct Sometimes {
    cells: [[u64; Flow::COLUMNS]; Event::ALL.len()],
    reasons: HashMap<Reason, u64>,
    pub(crate) outcomes: HashMap<&'static str, u64>,
    kinds: HashMap<SwitchKind, u64>,
    notes: HashMap<Note, u64>,
    refusals: HashMap<&'static str, u64>,
}

impl Sometimes {
    pub(crate) fn count(&mut self, taken: &Taken) {
        self.cells[Event::of(taken) as usize][taken.before.sight.flow as usize] += 1;
        match &taken.answer {
            Answer::Refused(code) => *self.refusals.entry(code).or_default() += 1,
            Answer::Decision(decision) => {
                *self.reasons.entry(decision.reason).or_default() += 1;
                *self.outcomes.entry(decision.outcome.name()).or_default() += 1;
                for note in decision.notes.iter() {
                    *self.notes.entry(note).or_default() += 1;
                }
                if let Some(event) = decision.event() {
                    *self.kinds.entry(event.kind).or_default() += 1;
                }
            }
            Answer::Health(_) | Answer::Heard(_) | Answer::Flow(_) | Answer::Done => {}
        }
    }

    fn assert_everything_happened(&self) {
        let missing = |names: &[&'static str], seen: &HashMap<&'static str, u64>| {
            names.iter().copied().filter(|name| !seen.contains_key(name)).collect::<Vec<_>>()
        };
        let mut never = missing(&OUTCOMES, &self.outcomes);
        never.extend(missing(&REFUSALS, &self.refusals));
        never
            .extend(Reason::ALL.iter().filter(|reason| !self.reasons.contains_key(reason)).map(|reason| reason.code()));
        never.extend(NOTES.iter().filter(|note| !self.notes.contains_key(note)).map(|note| note.code()));
        never.extend(KINDS.iter().filter(|kind| !self.kinds.contains_key(kind)).map(|kind| kind.name()));
        assert!(never.is_empty(), "never happened: {never:?}");
        for event in Event::ALL {
            for (flow, (cell, seen)) in event.row().into_iter().zip(self.cells[event as usize]).enumerate() {
                assert_eq!(cell != "--", seen > 0, "{event:?} in column {flow} of the table, which says {cell}");
            }
        }
    }

    fn add(&mut self, other: Self) {
        fn sum<K: std::hash::Hash + Eq>(into: &mut HashMap<K, u64>, from: HashMap<K, u64>) {
            for (key, count) in from {
                *into.entry(key).or_default() += count;
            }
        }
        for (into, from) in self.cells.iter_mut().flatten().zip(other.cells.iter().flatten()) {
            *into += from;
        }
        sum(&mut self.reasons, other.reasons);
        sum(&mut self.outcomes, other.outcomes);
        sum(&mut self.kinds, other.kinds);
        sum(&mut self.notes, other.notes);
        sum(&mut self.refusals, other.refusals);
    }
}

pub(crate) struct Explored {
    states: usize,
    steps: u64,
    /// Whether every reachable state was found, however deep.
    complete: bool,
    sometimes: Sometimes,
}

pub(crate) struct Search<'a> {
    pub(crate) world: &'a World,
    pub(crate) steps: Vec<Step>,
    pub(crate) known: HashMap<u128, u32>,
    /// How each known state was first reached; `None` at a start.
    pub(crate) reached: Vec<(u32, Option<Step>)>,
    pub(crate) prologue_of: Vec<(u32, Vec<Step>)>,
    pub(crate) sometimes: Sometimes,
    pub(crate) taken: u64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self {
            world,
            steps: world.steps(),
            known: HashMap::new(),
            reached: Vec::new(),
            prologue_of: Vec::new(),
            sometimes: Sometimes::default(),
            taken: 0,
        }
    }

    pub(crate) fn run(mut self, mut revisited: impl FnMut(&Self, u32, &State)) -> Explored {
        let mut frontier = Vec::new();
        for prologue in std::iter::once(Vec::new()).chain(self.world.prologues.clone()) {
            let state = self.world.after(&prologue);
            if let Ok(id) = self.visit(&state, (0, None)) {
                self.prologue_of.push((id, prologue));
                frontier.push((id, state));
            }
        }
        for _ in 0..self.world.depth {
            let mut next = Vec::new();
            for (id, state) in frontier {
                let mut scratch = state.clone();
                for index in 0..self.steps.len() {
                    let step = self.steps[index];
                    let answer = self.world.take(&mut scratch.engine, &mut scratch.now, step);
                    self.taken += 1;
                    let changed = scratch.engine != state.engine;
                    let verdict = self.world.verdict(&answer, &state.engine);
                    if !changed && scratch.now == state.now {
                        self.check(
                            id,
                            Taken { world: self.world, before: &state, step, answer, after: &state, changed, verdict },
                        );
                        continue;
                    }
                    scratch.sight = self.world.sight(&scratch.engine, scratch.now);
                    scratch.trails = self.world.follow(state.trails, step, &answer);
                    self.check(
                        id,
                        Taken { world: self.world, before: &state, step, answer, after: &scratch, changed, verdict },
                    );
                    match self.visit(&scratch, (id, Some(step))) {
                        Ok(new) => next.push((new, std::mem::replace(&mut scratch, state.clone()))),
                        Err(old) => {
                            revisited(&self, old, &scratch);
                            scratch.clone_from(&state);
                        }
                    }
                }
            }
            frontier = next;
            if frontier.is_empty() {
                break;
            }
        }
        Explored {
            states: self.known.len(),
            steps: self.taken,
            complete: frontier.is_empty(),
            sometimes: self.sometimes,
        }
    }

    /// The number of a state that was not known yet, which is then checked, or else of the known one.
    fn visit(&mut self, state: &State, reached: (u32, Option<Step>)) -> Result<u32, u32> {
        let new = u32::try_from(self.reached.len()).expect("a world of fewer states");
        match self.known.entry(state.key(self.world)) {
            Entry::Occupied(known) => return Err(*known.get()),
            Entry::Vacant(slot) => slot.insert(new),
        };
        self.reached.push(reached);
        for (id, holds) in &OF_STATES {
            if !holds(self.world, state) {
                self.fail(id, new, &state.sight);
            }
        }
        Ok(new)
    }

    fn check(&mut self, from: u32, taken: Taken) {
        for (id, holds) in &OF_STEPS {
            if !holds(&taken) {
                let Taken { step, answer, before, after, .. } = taken;
                self.fail(id, from, &(before.sight, step, answer, after.sight));
            }
        }
        self.sometimes.count(&taken);
    }

    pub(crate) fn path(&self, mut id: u32) -> Vec<Step> {
        let mut path = Vec::new();
        while let (from, Some(step)) = self.reached[id as usize] {
            path.push(step);
            id = from;
        }
        if let Some((_, prologue)) = self.prologue_of.iter().find(|(start, _)| *start == id) {
            path.extend(prologue.iter().rev());
        }
        path.reverse();
        path
    }

    pub(crate) fn replay(&self, id: u32) -> State {
        self.world.after(&self.path(id))
    }

    fn fail(&self, invariant: &str, id: u32, what: &dyn Debug) -> ! {
        panic!("{invariant} does not hold in {}\nafter {:?}\n{what:#?}", self.world.name, self.path(id));
    }
}

/// Searches all `worlds`, prints what was found past the capture of the test harness, and shows that nothing held for
/// want of an example.
pub(crate) fn explore(worlds: &[World]) {
    search(worlds).assert_everything_happened();
}

pub(crate) fn search(worlds: &[World]) -> Sometimes {
    let mut sometimes = Sometimes::default();
    for world in worlds {
        let begun = Instant::now();
        let Explored { states, steps, complete, sometimes: seen } = Search::new(world).run(|_, _, _| ());
        let reach = if complete { "to the end".to_owned() } else { format!("{} steps deep", world.depth) };
        let spent = begun.elapsed();
        let line = format!("{}: {states} states, {steps} transitions, {reach}, {spent:.1?}", world.name);
        writeln!(std::io::stderr(), "{line}").expect("standard error takes a line");
        assert!(complete || world.depth < u32::MAX, "there are more states");
        sometimes.add(seen);
    }
    sometimes
}

/// The answer as far as the key determines it: places instead of ids, distances instead of moments and epochs.
pub(crate) fn shape(world: &World, state: &State, step: Step) -> (String, u128) {
    let (mut engine, mut now) = (state.engine.clone(), state.now);
    let answer = world.take(&mut engine, &mut now, step);
    let after = world.state(engine, now, world.follow(state.trails, step, &answer));
    let place = |id: EndpointId| world.place(&after.engine, id);
    let shape = match answer {
        Answer::Decision(decision) => {
            let wait = decision.earliest().map(|earliest| earliest.nanos_since(now));
            let switch = decision.event().map(|e| (e.kind, place(e.from), place(e.to), e.from_state));
            let fence = decision.fence().map(|order| (place(order.endpoint), place(order.target)));
            let (outcome, reason, notes) = (decision.outcome.name(), decision.reason, decision.notes);
            format!("{outcome} {reason:?} {notes:?} {wait:?} {switch:?} {fence:?}")
        }
        Answer::Flow(flow) => format!("{:?}", world.flow(flow)),
        Answer::Health(_) | Answer::Heard(_) | Answer::Done | Answer::Refused(_) => format!("{answer:?}"),
    };
    (shape, after.key(world))
}
