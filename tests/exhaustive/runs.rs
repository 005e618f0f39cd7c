//! The searches that are run.

use std::time::Duration;

use broker_failover::engine::*;

use crate::search::{Search, explore, search, shape};
use crate::worlds::Depth::{Steps, ToTheEnd};
use crate::worlds::{Depth, World, world};

/// The same for any number of endpoints; `depths`: of the worlds of this list, in order.
fn worlds(endpoints: usize, depths: [Depth; 8]) -> [World; 8] {
    let [shortest, distinct, latched, latched_open, unfenced, budget, registration, barred] = depths;
    let operator = |settings: &mut PolicySettings| settings.resume_after_halt = ResumeAfterHalt::Operator;
    [
        world(endpoints, (1, 1), (1, 1, 1), shortest).starting_afar(),
        world(endpoints, (2, 2), (2, 1, 3), distinct).with_preferred_backups().starting_afar(),
        world(endpoints, (2, 1), (1, 1, 3), latched).with(operator).starting_afar(),
        world(endpoints, (1, 1), (1, 1, 1), latched_open).with(|settings| {
            settings.require_reconciliation = false;
            operator(settings);
        }),
        world(endpoints, (1, 2), (1, 2, 1), unfenced)
            .with(|settings| {
                settings.require_fence = false;
                settings.require_reconciliation = false;
            })
            .starting_afar(),
        world(endpoints, (1, 1), (0, 1, 2), budget)
            .with(|settings| settings.max_failbacks_per_window = 2)
            .starting_afar(),
        world(endpoints, (1, 1), (1, 1, 1), registration).unregistered(),
        world(endpoints, (1, 1), (0, 1, 1), barred).barring().starting_afar(),
    ]
}

#[test]
fn every_invariant_holds_in_every_reachable_state_of_two_endpoints() {
    explore(&worlds(2, [ToTheEnd, Steps(5), Steps(4), Steps(6), Steps(4), Steps(4), Steps(7), Steps(5)]));
}

#[test]
fn every_invariant_holds_in_every_reachable_state_of_three_endpoints() {
    explore(&worlds(3, [Steps(4), Steps(4), Steps(4), Steps(5), Steps(3), Steps(3), Steps(6), Steps(3)]));
}

/// Triggers that wait for more than failures in a row. What they share with the worlds above is shown there, so that
/// these need not go as deep, nor through everything that could happen.
fn patient_worlds(depths: [Depth; 7]) -> [World; 7] {
    let [window, hole, among, history, silence, silent_window, cooldown] = depths;
    let rule = |rule| Trigger::new(rule).expect("a legal trigger");
    let in_time = |nanos| rule(TriggerRule::Window(Duration::from_nanos(nanos)));
    [
        world(2, (1, 1), (0, 3, 1), window).with(|settings| settings.trigger = Some(in_time(2))),
        // Longer than a result is evidence: it takes three.
        world(2, (1, 1), (0, 1, 1), hole).with(|settings| settings.trigger = Some(in_time(2))),
        world(2, (1, 1), (0, 1, 1), among).with(|settings| {
            settings.trigger = Some(rule(TriggerRule::Failures { failures: 2, of: 3 }));
            settings.minimum_history = Some(3);
        }),
        world(2, (1, 1), (0, 1, 1), history).with(|settings| settings.minimum_history = Some(2)),
        world(2, (2, 1), (0, 1, 1), silence).with(|settings| settings.silence = Silence::Failure),
        world(2, (1, 1), (0, 3, 1), silent_window).with(|settings| {
            settings.trigger = Some(in_time(2));
            settings.silence = Silence::Failure;
        }),
        world(2, (1, 1), (1, 1, 3), cooldown)
            .with(|settings| {
                settings.cooldown_max = Some(Duration::from_nanos(3));
                settings.max_failbacks_per_window = 2;
            })
            .starting_afar(),
    ]
}

#[test]
fn every_invariant_holds_in_every_reachable_state_of_patient_worlds() {
    let found = search(&patient_worlds([Steps(5), Steps(6), Steps(6), Steps(6), Steps(6), Steps(5), Steps(5)]));
    assert!(found.outcomes.contains_key("SWITCHED") && found.outcomes.contains_key("NO_TARGET_AVAILABLE"));
}

#[test]
fn what_the_key_leaves_out_changes_no_answer_of_patient_worlds() {
    for world in patient_worlds([Steps(5), Steps(5), Steps(5), Steps(5), Steps(5), Steps(5), Steps(4)]) {
        show_that_the_key_is_enough(&world);
    }
}

#[test]
fn what_the_key_leaves_out_changes_no_answer() {
    let [_, world, ..] = worlds(2, [ToTheEnd, Steps(5), Steps(0), Steps(0), Steps(0), Steps(0), Steps(0), Steps(0)]);
    show_that_the_key_is_enough(&world);
}

fn show_that_the_key_is_enough(world: &World) {
    let (mut met, mut compared) = (0_u32, 0_u32);
    Search::new(world).run(|search, known, state| {
        met += 1;
        // The same state again tells nothing; another one under the same key does. A sample of them is enough.
        if met % 16 != 0 {
            return;
        }
        let first = search.replay(known);
        if first.engine == state.engine && first.now == state.now {
            return;
        }
        compared += 1;
        for step in &search.steps {
            let (one, other) = (shape(world, &first, *step), shape(world, state, *step));
            assert_eq!(one, other, "{step:?} after {:?}\nand in {:?}", search.path(known), state.sight);
        }
    });
    println!("{compared} states met again");
    assert!(compared > 300, "{compared} states met again in another guise");
}
