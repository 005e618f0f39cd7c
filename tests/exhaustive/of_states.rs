//! Invariants of states.

use broker_failover::engine::*;

use crate::inputs::{Claim, State, Step};
use crate::sight::Flow;
use crate::worlds::{World, nanos};

type OfState = fn(&World, &State) -> bool;

pub(crate) static OF_STATES: [(&str, OfState); 10] = [
    ("INV-OPEN-IS-THE-ACTIVE-EPOCH", open_is_the_active_epoch),
    ("INV-SPENT-NEVER-TRADES", spent_never_trades),
    ("INV-HALT-HAS-WORDS", halt_has_words),
    ("INV-PRIMARY-MAKES-ACTIVE", primary_makes_active),
    ("INV-HEALTH-IS-ITS-COUNTERS", health_is_its_counters),
    ("INV-TARGETS-ARE-ELIGIBLE", targets_are_eligible),
    ("INV-PERMITS", permits_as_stated),
    ("INV-PLACED-IS-NOT-HOME", placed_is_not_home),
    ("INV-SNAPSHOT-IS-LOSSLESS", snapshot_is_lossless),
    ("INV-EXIT", every_live_path_leads_out),
];

/// OPEN names the active endpoint in its present epoch, which is not spent.
fn open_is_the_active_epoch(_: &World, State { engine, .. }: &State) -> bool {
    let OrderFlow::Open { endpoint, epoch } = engine.order_flow() else { return true };
    Some(endpoint) == engine.active() && Some(epoch) == engine.epoch() && !engine.is_spent()
}

/// A spent epoch is HOLD SWITCHING or a halt.
fn spent_never_trades(_: &World, State { sight, .. }: &State) -> bool {
    !sight.spent || sight.flow == Flow::Switching || sight.flow.is_halt()
}

/// A halt that was ordered has the words of the order; nothing else has.
fn halt_has_words(_: &World, State { engine, sight, .. }: &State) -> bool {
    match engine.halt_order() {
        None => !sight.flow.has_code(),
        Some(order) => sight.flow == if order.code() == HaltOrder::OPERATOR { Flow::Operator } else { Flow::Caller },
    }
}

/// There is an active endpoint and an epoch exactly when a primary was registered; without one, flow is STARTING or
/// an ordered halt.
fn primary_makes_active(_: &World, State { engine, sight, .. }: &State) -> bool {
    let primary = sight.ends[0].is_some();
    let idle = !sight.spent && !sight.placed && (sight.flow == Flow::Starting || sight.flow.has_code());
    engine.active().is_some() == primary && engine.epoch().is_some() == primary && (primary || idle)
}

/// A state of health says what its counters and its trigger say, and a failure has its error.
fn health_is_its_counters(world: &World, State { engine, trails, .. }: &State) -> bool {
    engine.endpoints().all(|(id, _)| {
        let health = engine.health(id).expect("each endpoint has a health");
        let (failures, successes) = (health.consecutive_failures(), health.consecutive_successes());
        let down = trails[world.place(engine, id)].down;
        let state = match (failures, successes) {
            (0, 0) => EndpointState::Unknown,
            (_, 0) | (0, _) if down => EndpointState::Down,
            (0, _) => EndpointState::Healthy,
            (_, 0) => EndpointState::Degraded,
            _ => return false,
        };
        // Failures in a row with no history to wait for are the oldest rule, and said without the trail here.
        let in_a_row = match world.trigger() {
            TriggerRule::Consecutive(threshold) if world.minimum_history() <= threshold && !world.listens() => {
                down == (failures >= threshold)
            }
            _ => true,
        };
        in_a_row
            && health.state() == state
            && health.probed_at().is_some() == (state != EndpointState::Unknown)
            && match health.last_probe_error() {
                Some(error) => failures > 0 && (error == "failed" || error == "no result when it was due"),
                None => failures == 0,
            }
    })
}

/// Eligible targets are those that are not active, HEALTHY, fresh, out of maintenance and not barred, by priority, then name.
fn targets_are_eligible(world: &World, State { engine, now, sight, .. }: &State) -> bool {
    let mut targets: Vec<_> = (0..world.endpoints.len()).filter(|place| world.is_eligible(sight, *place)).collect();
    targets.sort_by_key(|place| (world.endpoints[*place].priority, &world.endpoints[*place].name));
    engine.eligible_targets(*now).map(|id| world.place(engine, id)).eq(targets)
}

/// What each state of order flow permits.
fn permits_as_stated(world: &World, State { engine, sight, .. }: &State) -> bool {
    let can_trade = !sight.spent && world.active_end(sight).is_some_and(|end| end.state == EndpointState::Healthy);
    let (submit, cancel, query) = match sight.flow {
        Flow::Open => (true, true, true),
        Flow::Reconciling => (false, true, true),
        Flow::NoTarget | Flow::NoTargetLatched | Flow::Operator | Flow::Caller => (false, can_trade, false),
        Flow::Starting | Flow::Switching => (false, false, false),
    };
    engine.permits(OrderAction::Submit) == submit
        && engine.permits(OrderAction::Cancel) == cancel
        && engine.permits(OrderAction::Query) == query
}

/// Flow that an operator placed is not on the primary.
fn placed_is_not_home(_: &World, State { sight, .. }: &State) -> bool {
    !sight.placed || sight.active != Some(0)
}

/// A snapshot restores to an engine whose snapshot is the same, whatever the origin of time.
fn snapshot_is_lossless(_: &World, State { engine, now, .. }: &State) -> bool {
    let snapshot = engine.snapshot(*now);
    let later = Timestamp::from_nanos(1_000);
    let restored = Engine::restore(engine.policy().clone(), snapshot.clone(), later, RestartKind::Monitor);
    restored.is_ok_and(|restored| restored.snapshot(later) == snapshot)
}

/// One path that answers is a way out to OPEN, unless it is in maintenance or barred; an ordered halt needs `resume`
/// besides, and nothing else needs an operator.
fn every_live_path_leads_out(world: &World, state: &State) -> bool {
    let Some(active) = state.sight.active else { return true };
    let alive = |place: usize| {
        let end = world.end(&state.sight, place);
        // Maintenance never hinders the path that is active; a bar forbids it a new epoch.
        end.is_some_and(|end| if place == active { !(end.barred && state.sight.spent) } else { end.is_admitted() })
    };
    (0..world.endpoints.len()).filter(|place| alive(*place)).all(|alive| leads_out(world, state.clone(), alive))
}

fn leads_out(world: &World, State { mut engine, mut now, sight, .. }: State, alive: usize) -> bool {
    let mut take = |step| world.take(&mut engine, &mut now, step);
    if sight.flow.has_code() || sight.flow == Flow::NoTargetLatched {
        take(Step::Resume);
    }
    let failures = world.minimum_history();
    for place in (0..world.endpoints.len()).filter(|place| *place != alive) {
        for _ in 0..failures {
            take(Step::Probe(place, false));
        }
        if let TriggerRule::Window(span) = world.trigger() {
            // In steps that leave no hole.
            for _ in 0..nanos(span) {
                take(Step::Wait(1));
                take(Step::Probe(place, false));
            }
        }
    }
    let forgetting = match world.trigger() {
        TriggerRule::Failures { of, .. } => of,
        _ => 0,
    };
    for _ in 0..world.settings.failback_success_threshold + forgetting {
        take(Step::Probe(alive, true));
    }
    take(Step::Failover(Claim::None));
    take(Step::Failover(Claim::Present));
    take(Step::Reconciled(Claim::Present));
    world.flow(engine.order_flow()) == Flow::Open
}
