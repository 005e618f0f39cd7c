//! What the test sees of an engine, in its own words.

use broker_failover::engine::*;

use crate::inputs::State;
use crate::worlds::{EPOCH_OF_NOBODY, MOST, World, nanos};

/// Order flow, one value for each column of [`Event::row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flow {
    Starting,
    Open,
    Switching,
    Reconciling,
    /// HALT NO_TARGET_AVAILABLE
    NoTarget,
    /// The same under a policy in which only `resume` lifts it.
    NoTargetLatched,
    Operator,
    Caller,
}

impl Flow {
    pub(crate) const COLUMNS: usize = 8;

    pub(crate) fn is_halt(self) -> bool {
        matches!(self, Self::NoTarget | Self::NoTargetLatched | Self::Operator | Self::Caller)
    }

    pub(crate) fn has_code(self) -> bool {
        matches!(self, Self::Operator | Self::Caller)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct End {
    pub(crate) state: EndpointState,
    pub(crate) failures: u32,
    pub(crate) successes: u32,
    pub(crate) age: Option<u64>,
    pub(crate) maintenance: bool,
    pub(crate) barred: bool,
}

/// Endpoints by their place in [`World::endpoints`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sight {
    pub(crate) flow: Flow,
    pub(crate) active: Option<usize>,
    pub(crate) epoch: u64,
    pub(crate) spent: bool,
    pub(crate) placed: bool,
    pub(crate) ends: [Option<End>; MOST],
    pub(crate) switch_age: Option<u64>,
    pub(crate) failbacks: [Option<u64>; 2],
}

impl End {
    /// Neither in maintenance nor barred.
    pub(crate) fn is_admitted(&self) -> bool {
        !self.maintenance && !self.barred
    }
}

impl World {
    pub(crate) fn place(&self, engine: &Engine, id: EndpointId) -> usize {
        let name = &engine.endpoint(id).expect("an endpoint that the engine named").name;
        self.endpoints.iter().position(|endpoint| endpoint.name == *name).expect("an endpoint of this world")
    }

    pub(crate) fn flow(&self, flow: OrderFlow) -> Flow {
        match flow {
            OrderFlow::Open { .. } => Flow::Open,
            OrderFlow::Hold { reason: HoldReason::Starting } => Flow::Starting,
            OrderFlow::Hold { reason: HoldReason::Switching } => Flow::Switching,
            OrderFlow::Hold { reason: HoldReason::Reconciling } => Flow::Reconciling,
            OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => match self.settings.resume_after_halt {
                ResumeAfterHalt::Reconcile => Flow::NoTarget,
                ResumeAfterHalt::Operator => Flow::NoTargetLatched,
            },
            OrderFlow::Halt { code: HaltCode::Operator } => Flow::Operator,
            OrderFlow::Halt { code: HaltCode::Caller } => Flow::Caller,
        }
    }

    pub(crate) fn sight(&self, engine: &Engine, now: Timestamp) -> Sight {
        let mut sight = Sight {
            flow: self.flow(engine.order_flow()),
            active: engine.active().map(|id| self.place(engine, id)),
            epoch: engine.epoch().map_or(EPOCH_OF_NOBODY, Epoch::get),
            spent: engine.is_spent(),
            placed: engine.is_operator_placed(),
            ends: [None; MOST],
            switch_age: engine.last_switch_age(now),
            failbacks: [None; 2],
        };
        for (id, _) in engine.endpoints() {
            let health = engine.health(id).expect("each endpoint has a health");
            sight.ends[self.place(engine, id)] = Some(End {
                state: health.state(),
                failures: health.consecutive_failures(),
                successes: health.consecutive_successes(),
                age: health.age(now),
                maintenance: engine.in_maintenance(id),
                barred: !engine.bars(id).is_empty(),
            });
        }
        for (slot, age) in sight.failbacks.iter_mut().zip(engine.failback_ages(now)) {
            *slot = Some(age);
        }
        sight
    }

    pub(crate) fn end(&self, sight: &Sight, place: usize) -> Option<End> {
        sight.ends.get(place).copied().flatten()
    }

    pub(crate) fn is_fresh(&self, end: &End) -> bool {
        end.age.is_some_and(|age| age <= nanos(self.settings.max_health_age))
    }

    pub(crate) fn is_live(&self, end: &End) -> bool {
        end.state == EndpointState::Healthy && self.is_fresh(end)
    }

    pub(crate) fn active_end(&self, sight: &Sight) -> Option<End> {
        self.end(sight, sight.active?)
    }

    pub(crate) fn is_proven(&self, sight: &Sight) -> bool {
        !sight.spent && self.active_end(sight).is_some_and(|end| self.is_live(&end))
    }

    pub(crate) fn is_eligible(&self, sight: &Sight, place: usize) -> bool {
        Some(place) != sight.active && self.end(sight, place).is_some_and(|end| self.is_live(&end) && end.is_admitted())
    }

    pub(crate) fn best_target(&self, sight: &Sight) -> Option<usize> {
        let preference = |place: &usize| (self.endpoints[*place].priority, &self.endpoints[*place].name);
        (0..self.endpoints.len()).filter(|place| self.is_eligible(sight, *place)).min_by_key(preference)
    }
}

impl State {
    /// What decides every further answer, in one number. See the head of this file.
    pub(crate) fn key(&self, world: &World) -> u128 {
        let key = self.trails.iter().fold(0, |key, trail| key << 20 | u128::from(trail.key(world)));
        key << 64 | u128::from(self.sight.key(world))
    }
}

impl Sight {
    pub(crate) fn key(&self, world: &World) -> u64 {
        let settings = &world.settings;
        let mut key = 0;
        let mut push = |digit: u64| {
            assert!(digit < 16, "spans of these worlds are short");
            key = key << 4 | digit;
        };
        let clipped = |age: Option<u64>, most: u64| age.map_or(0, |age| 1 + age.min(most));
        push(self.flow as u64);
        push(self.active.map_or(0, |place| 1 + place as u64));
        push(u64::from(self.spent) << 1 | u64::from(self.placed));
        push(self.ends.iter().fold(0, |bits, end| bits << 1 | u64::from(end.is_some_and(|end| end.barred))));
        let longest = settings.cooldown_max.unwrap_or(settings.cooldown);
        push(clipped(self.switch_age.filter(|age| *age < nanos(longest)), u64::MAX - 1));
        for age in self.failbacks {
            push(clipped(age, u64::MAX - 1));
        }
        for (place, end) in self.ends.iter().enumerate() {
            let Some(end) = end else {
                push(15);
                continue;
            };
            push((end.state as u64) << 1 | u64::from(end.maintenance));
            let (failures, successes) = (settings.failure_threshold, settings.failback_success_threshold);
            push(u64::from(end.failures.min(failures) << 2 | end.successes.min(successes)));
            let matters = end.state == EndpointState::Healthy || Some(place) == self.active;
            push(clipped(end.age, if matters { nanos(settings.max_health_age) + 1 } else { 0 }));
        }
        key
    }
}
