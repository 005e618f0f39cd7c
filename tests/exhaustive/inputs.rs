//! Inputs: what may be asked in a world, what is answered, and what a trigger must remember of it.

use std::time::Duration;

use broker_failover::engine::*;

use crate::sight::Sight;
use crate::worlds::{EPOCH_OF_NOBODY, MOST, World, nanos};

/// What is said of the fence, or of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    None,
    /// Of the active endpoint in its present epoch.
    Present,
    Older,
    Newer,
    /// Of another endpoint in the present epoch.
    Elsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Probe(usize, bool),
    Tick,
    Due(usize),
    Failover(Claim),
    Failback(Claim),
    Switchover(usize, Claim),
    FenceStarted(Claim),
    SwitchFailed(Claim),
    Reconciled(Claim),
    Rearm,
    HaltOperator,
    HaltCaller,
    Resume,
    Maintenance(usize, bool),
    /// For one cause: what follows does not depend on which, or how many.
    Bar(usize, bool),
    /// Another address: what was known of the health is void.
    Move(usize),
    Wait(u64),
    Restart(RestartKind),
    Register(usize),
    /// Maintenance of an endpoint that nobody knows.
    Strangers,
    ChangeRole,
    Blank,
    SamePriority,
    Validate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Health(HealthChange),
    Heard(Heard),
    Decision(FailoverDecision),
    Flow(OrderFlow),
    Done,
    Refused(&'static str),
}

impl Answer {
    pub(crate) fn of<T>(result: Result<T, EngineError>, accepted: impl FnOnce(T) -> Self) -> Self {
        result.map_or_else(|error| Self::Refused(error.code()), accepted)
    }
}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    pub(crate) sight: Sight,
    pub(crate) trails: [Trail; MOST],
}

/// What the results of an endpoint come to for its trigger, in the words of the test: the engine doesn't show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trail {
    /// Results since it last began anew, up to the number that arms the trigger.
    pub(crate) results: u32,
    /// Age of the last of them.
    pub(crate) last: Option<u64>,
    /// Age of the first failure of those at the end that have no success and no hole between them.
    pub(crate) began: Option<u64>,
    /// The newest results, the last one lowest; 1 is a failure.
    pub(crate) newest: u32,
    pub(crate) failures_in_a_row: u32,
    pub(crate) down: bool,
    /// Age of the result that is awaited.
    pub(crate) due: Option<u64>,
    /// Age of the monitor's last sign of life; the same in all trails.
    pub(crate) sign: Option<u64>,
}

/// Nanoseconds within which results are due.
pub(crate) const DUE_WITHIN: u64 = 2;

impl World {
    pub(crate) fn trigger(&self) -> TriggerRule {
        self.settings.trigger.map_or(TriggerRule::Consecutive(self.settings.failure_threshold), Trigger::rule)
    }

    pub(crate) fn minimum_history(&self) -> u32 {
        let needed = match self.trigger() {
            TriggerRule::Consecutive(failures) | TriggerRule::Failures { failures, .. } => failures,
            TriggerRule::Window(_) => 2,
        };
        self.settings.minimum_history.unwrap_or(needed)
    }

    /// Whether the search tells of the monitor's life.
    pub(crate) fn listens(&self) -> bool {
        self.settings.silence == Silence::Failure
    }

    /// A sign of life; whether the monitor had stopped until now.
    pub(crate) fn hear(trails: &mut [Trail; MOST]) -> bool {
        let awaited = trails.iter().any(|trail| trail.due.is_some());
        let stopped = awaited && trails[0].sign.is_some_and(|age| age >= DUE_WITHIN);
        for trail in trails {
            trail.sign = Some(0);
            if stopped {
                *trail = Trail { results: 0, began: None, newest: 0, due: None, ..*trail };
            }
        }
        stopped
    }

    /// A tick: whether the monitor had stopped, and whose results are missing. They are counted.
    pub(crate) fn tick(&self, trails: &mut [Trail; MOST]) -> (bool, [bool; MOST]) {
        let stopped = Self::hear(trails);
        let missing = trails.map(|trail| trail.due.is_some_and(|age| age >= DUE_WITHIN));
        for (trail, missing) in trails.iter_mut().zip(missing) {
            if missing {
                *trail = Trail { due: None, ..self.trail_with(*trail, true) };
            }
        }
        (stopped, missing)
    }

    /// The trails after a step.
    pub(crate) fn follow(&self, mut trails: [Trail; MOST], step: Step, answer: &Answer) -> [Trail; MOST] {
        match (step, answer) {
            (_, Answer::Refused(_)) => {}
            (Step::Probe(place, ok), _) => {
                if self.listens() {
                    Self::hear(&mut trails);
                    trails[place].due = None;
                }
                trails[place] = self.trail_with(trails[place], !ok);
            }
            (Step::Tick, _) => _ = self.tick(&mut trails),
            (Step::Due(place), _) => {
                self.tick(&mut trails);
                trails[place].due.get_or_insert(0);
            }
            (Step::Wait(nanos), _) => {
                for trail in &mut trails {
                    let older = |age: Option<u64>| age.map(|age| age + nanos);
                    let (last, began) = (older(trail.last), older(trail.began));
                    *trail = Trail { last, began, due: older(trail.due), sign: older(trail.sign), ..*trail };
                }
            }
            (Step::Restart(_), _) => trails = [Trail::default(); MOST],
            (Step::Move(place), _) => trails[place] = Trail { sign: trails[place].sign, ..Trail::default() },
            _ => {}
        }
        trails
    }

    fn trail_with(&self, before: Trail, failed: bool) -> Trail {
        let unbroken = before.last.is_some_and(|age| age <= nanos(self.settings.max_health_age));
        let mut after = Trail {
            results: (before.results + 1).min(self.minimum_history()),
            last: Some(0),
            began: failed.then_some(before.began.filter(|_| unbroken).unwrap_or(0)),
            newest: before.newest << 1 | u32::from(failed),
            failures_in_a_row: if failed { before.failures_in_a_row + 1 } else { 0 },
            down: before.down,
            ..before
        };
        let (holds, outlasts_a_success) = match self.trigger() {
            TriggerRule::Consecutive(failures) => (after.failures_in_a_row >= failures, false),
            TriggerRule::Window(span) => (after.began.is_some_and(|age| age >= nanos(span)), false),
            TriggerRule::Failures { failures, of } => {
                after.newest &= (1 << of) - 1;
                (after.newest.count_ones() >= failures, true)
            }
        };
        if failed {
            after.down |= holds && after.results >= self.minimum_history();
        } else {
            after.down &= holds && outlasts_a_success;
        }
        after
    }
}

impl Trail {
    pub(crate) fn state(&self) -> EndpointState {
        match self {
            Self { last: None, .. } => EndpointState::Unknown,
            Self { down: true, .. } => EndpointState::Down,
            Self { failures_in_a_row: 0, .. } => EndpointState::Healthy,
            _ => EndpointState::Degraded,
        }
    }

    /// What of it can decide an answer.
    pub(crate) fn key(&self, world: &World) -> u64 {
        let clipped = |age: Option<u64>, most: u64| age.map_or(0, |age| 1 + age.min(most));
        let health = nanos(world.settings.max_health_age);
        let silence = clipped(self.due, DUE_WITHIN) << 4 | clipped(self.sign, DUE_WITHIN);
        silence << 12
            | match world.trigger() {
                // Without a history to wait for, the counters say it all.
                TriggerRule::Consecutive(failures) if world.minimum_history() <= failures && !world.listens() => 0,
                TriggerRule::Consecutive(_) => u64::from(self.results),
                TriggerRule::Window(span) => {
                    let began = clipped(self.began, nanos(span));
                    (u64::from(self.results) << 4 | began) << 4 | clipped(self.last, health + 1)
                }
                TriggerRule::Failures { .. } => u64::from(self.results) << 8 | u64::from(self.newest),
            }
    }
}

impl World {
    pub(crate) fn id(&self, engine: &Engine, place: usize) -> EndpointId {
        // One that was not registered yet has an id that the engine never gave out.
        engine.id(&self.endpoints[place].name).unwrap_or(EndpointId::from_index(u16::MAX))
    }

    pub(crate) fn fence(claim: Claim, engine: &Engine) -> FenceStatus {
        let present = engine.epoch().map_or(EPOCH_OF_NOBODY, Epoch::get);
        let endpoint = engine.active().unwrap_or(EndpointId::from_index(0));
        let other = EndpointId::from_index(if endpoint.index() == 0 { 1 } else { 0 });
        match claim {
            Claim::None => FenceStatus::Unconfirmed,
            Claim::Present => FenceStatus::Confirmed { endpoint, epoch: present },
            Claim::Older => FenceStatus::Confirmed { endpoint, epoch: present.saturating_sub(1) },
            Claim::Newer => FenceStatus::Confirmed { endpoint, epoch: present + 1 },
            Claim::Elsewhere => FenceStatus::Confirmed { endpoint: other, epoch: present },
        }
    }

    pub(crate) fn epoch(claim: Claim, engine: &Engine) -> u64 {
        let present = engine.epoch().map_or(EPOCH_OF_NOBODY, Epoch::get);
        match claim {
            Claim::None | Claim::Present | Claim::Elsewhere => present,
            Claim::Older => present.saturating_sub(1),
            Claim::Newer => present + 1,
        }
    }

    pub(crate) fn take(&self, engine: &mut Engine, now: &mut Timestamp, step: Step) -> Answer {
        let name = |place: usize| self.endpoints[place].name.as_str();
        let first = name(0);
        match step {
            Step::Probe(place, ok) => {
                let id = self.id(engine, place);
                let result = if ok { ProbeResult::Success } else { ProbeResult::FAILED };
                Answer::of(engine.record_probe(*now, id, result), Answer::Health)
            }
            Step::Tick => Answer::Heard(engine.tick(*now)),
            Step::Due(place) => {
                let id = self.id(engine, place);
                Answer::of(engine.due(*now, id, Duration::from_nanos(DUE_WITHIN)), Answer::Heard)
            }
            Step::Failover(claim) => {
                Answer::of(engine.evaluate_failover(*now, Self::fence(claim, engine)), Answer::Decision)
            }
            Step::Failback(claim) => {
                Answer::of(engine.evaluate_failback(*now, Self::fence(claim, engine)), Answer::Decision)
            }
            Step::Switchover(place, claim) => {
                Answer::of(engine.switchover(*now, name(place), Self::fence(claim, engine)), Answer::Decision)
            }
            Step::FenceStarted(claim) => Answer::of(engine.fence_started(Self::epoch(claim, engine)), Answer::Flow),
            Step::SwitchFailed(claim) => Answer::of(engine.switch_failed(Self::epoch(claim, engine)), Answer::Flow),
            Step::Reconciled(claim) => {
                Answer::of(engine.confirm_reconciled(*now, Self::epoch(claim, engine)), Answer::Flow)
            }
            Step::Rearm => Answer::of(engine.rearm(*now), Answer::Decision),
            Step::HaltOperator => Answer::Flow(engine.halt(HaltOrder::operator("desk asked"))),
            Step::HaltCaller => {
                let order = HaltOrder::new("COMPETING_SESSION", "logged in elsewhere").expect("a legal code");
                Answer::Flow(engine.halt(order))
            }
            Step::Resume => Answer::of(engine.resume(), Answer::Flow),
            Step::Maintenance(place, on) => Answer::of(engine.set_maintenance(name(place), on), |()| Answer::Done),
            Step::Move(place) => {
                let (here, there) = (&self.endpoints[place].url, "https://moved.example");
                let id = self.id(engine, place);
                let at_home = engine.endpoint(id).is_some_and(|endpoint| endpoint.url == *here);
                let url = if at_home { there } else { here }.to_owned();
                let update = EndpointUpdate { url: Some(url), ..EndpointUpdate::default() };
                Answer::of(engine.update_endpoint(name(place), update), |()| Answer::Done)
            }
            Step::Wait(nanos) => {
                *now = Timestamp::from_nanos(now.as_nanos() + nanos);
                Answer::Done
            }
            Step::Restart(kind) => {
                let policy = engine.policy().clone();
                let snapshot = engine.snapshot(*now);
                // Another process, another origin of time.
                *now = Timestamp::ZERO;
                *engine = Engine::restore(policy, snapshot, *now, kind).expect("its own snapshot restores");
                Answer::Flow(engine.order_flow())
            }
            Step::Register(place) => Answer::of(engine.register(self.endpoints[place].clone()), |_| Answer::Done),
            Step::Bar(place, on) => Answer::of(engine.set_bar(name(place), BarCause::Depth, on), |()| Answer::Done),
            Step::Strangers => Answer::of(engine.set_maintenance("stranger", true), |()| Answer::Done),
            Step::ChangeRole => {
                let update = EndpointUpdate { primary: Some(false), ..EndpointUpdate::default() };
                Answer::of(engine.update_endpoint(first, update), |()| Answer::Done)
            }
            Step::Blank => Answer::of(engine.register(Endpoint::backup(" ", "nowhere", "-", 1)), |_| Answer::Done),
            Step::SamePriority => {
                let priority = Some(self.endpoints[0].priority);
                let update = EndpointUpdate { priority, ..EndpointUpdate::default() };
                Answer::of(engine.update_endpoint(first, update), |()| Answer::Done)
            }
            Step::Validate => match engine.validate_configuration() {
                Ok(()) => Answer::Done,
                Err(error) => Answer::Refused(error.code()),
            },
        }
    }

    pub(crate) fn assess(&self, state: &State, step: Step) -> Option<Result<FailoverDecision, EngineError>> {
        let State { engine, now, .. } = state;
        Some(match step {
            Step::Failover(claim) => engine.assess_failover(*now, Self::fence(claim, engine)),
            Step::Failback(claim) => engine.assess_failback(*now, Self::fence(claim, engine)),
            Step::Switchover(place, claim) => {
                engine.assess_switchover(*now, &self.endpoints[place].name, Self::fence(claim, engine))
            }
            _ => return None,
        })
    }
}
